// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/node/segment_management.h"

#include <array>

#include "roce/cm/ip_service.h"
#include "roce/wire/bth.h"
#include "roce/wire/cm_addressee.h"
#include "roce/wire/deth.h"
#include "stack/mbuf_read.h"
#include "stack/roce_locator.h"
#include "stack/segment/segment_link.h"

namespace rockhopper {
namespace {

constexpr std::uint32_t kPorts = 1u << 16;

}  // namespace

std::optional<std::uint32_t> service_name(std::uint64_t service_id) {
  using roce::cm::PortSpace;
  const std::uint16_t port = roce::cm::port_of(service_id);
  for (const PortSpace space : {PortSpace::tcp, PortSpace::ib}) {
    if (roce::cm::ip_service_id(space, port) == service_id) return port;
  }
  for (const PortSpace space : {PortSpace::udp, PortSpace::ipoib}) {
    if (roce::cm::ip_service_id(space, port) == service_id) return kPorts + port;
  }
  return std::nullopt;
}

std::optional<std::uint16_t> find_manager(const rte_mbuf* frame,
                                          const stack::segment::Membership& members) {
  const auto bth_at = stack::find_bth(frame);
  if (!bth_at) return std::nullopt;
  const auto mad = stack::read_at<std::array<std::uint8_t, wire::cm::kAddresseeBytes>>(
      frame, *bth_at + static_cast<std::uint32_t>(wire::Bth::kSize + wire::Deth::kSize));
  const auto addressee = mad ? wire::cm::addressee_of(*mad) : std::nullopt;
  if (!addressee) return std::nullopt;
  if (addressee->is_request) {
    const auto name = service_name(addressee->service_id);
    if (!name) return std::nullopt;
    return members.server_of(*name).value_or(stack::segment::kNobodyYet);
  }
  const auto prefix = static_cast<std::uint8_t>(addressee->receiver_id >> 24);
  if (prefix == 0) return std::nullopt;
  return static_cast<std::uint16_t>(prefix - 1);
}

}  // namespace rockhopper
