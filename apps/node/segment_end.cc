// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/node/segment_end.h"

#include <algorithm>
#include <cstdlib>
#include <string_view>
#include <utility>

#include "roce/packet_builder.h"
#include "stack/segment/directory.h"

namespace rockhopper {

namespace {

using stack::segment::Membership;
using stack::segment::WayOut;

/// The same for the same addresses in any order (FNV-1a of 64 bits).
std::uint64_t digest_of(std::vector<stack::InterfaceAddress> addresses) {
  std::ranges::sort(addresses, {}, &stack::InterfaceAddress::address);
  std::uint64_t digest = 0xcbf29ce484222325;
  const auto add = [&digest](std::uint8_t byte) { digest = (digest ^ byte) * 0x100000001b3; };
  for (const stack::InterfaceAddress& own : addresses) {
    std::ranges::for_each(own.address.bytes, add);
    add(own.prefix_length);
  }
  return digest;
}

/// The largest IP packet that leaves by another member.
Expected<std::uint16_t> find_way_out(const Membership& membership, const SegmentEndConfig& config) {
  const std::uint16_t mtu = membership.gateway_mtu();
  if (mtu == 0) {
    return fail(ErrorCode::not_found,
                "no rh-switch has the segment in {} as a port: start one first, with --segment",
                membership.directory());
  }
  if (membership.gateway_addresses() != digest_of(config.addresses)) {
    return fail(ErrorCode::invalid_state,
                "the rh-switch at the segment in {} has other addresses: give the same to both",
                membership.directory());
  }
  return std::min(config.mtu, mtu);
}

/// Packets have an ICRC though nobody looks at them, as the environment says.
Expected<bool> icrc_is_forced() {
  const char* text = std::getenv("ROCKHOPPER_ICRC");
  const std::string_view value = text != nullptr ? text : "";
  if (value.empty() || value == "auto") return false;
  if (value == "always") return true;
  return fail(ErrorCode::invalid_argument, "ROCKHOPPER_ICRC is '{}': auto or always", value);
}

}  // namespace

SegmentEnd::SegmentEnd(std::unique_ptr<Membership> membership, const SegmentEndConfig& config)
    : shares_(config.find_receiver != nullptr),
      omits_icrc_(!config.wants_icrc),
      membership_(std::move(membership)),
      link_({.membership = membership_.get(),
             .pool = config.pool,
             .mtu = config.mtu,
             .find_receiver = config.find_receiver,
             .way_out = config.way_out,
             .add_icrc = omits_icrc_ ? nullptr : &roce::add_icrc}) {
  static_assert(stack::segment::kSharedNumber == wire::kGsiQpn.value);
}

Expected<std::unique_ptr<SegmentEnd>> SegmentEnd::open(SegmentEndConfig config) {
  if (config.directory.empty()) {
    ROCKHOPPER_TRY(config.directory, stack::segment::directory());
  }
  ROCKHOPPER_TRY(const bool forced, icrc_is_forced());
  config.wants_icrc = config.wants_icrc || forced || config.way_out == WayOut::self;
  ROCKHOPPER_TRY(auto membership, Membership::join(std::move(config.directory)));
  if (config.way_out == WayOut::gateway) {
    ROCKHOPPER_TRY(config.mtu, find_way_out(*membership, config));
  }
  std::unique_ptr<SegmentEnd> end(new SegmentEnd(std::move(membership), config));
  if (config.way_out == WayOut::self) {
    ROCKHOPPER_TRY(end->membership_->become_gateway(config.mtu, digest_of(config.addresses)));
  }
  return end;
}

std::uint16_t SegmentEnd::pass_on(rte_mbuf** packets, std::uint16_t count, std::uint64_t now_ns) {
  std::uint16_t refused = 0;
  for (;;) {
    const std::uint16_t passed = link_.tx_burst(packets, count, now_ns);
    if (passed == count) return refused;
    ++refused;
    rte_pktmbuf_free(packets[passed]);
    packets += passed + 1;
    count = static_cast<std::uint16_t>(count - passed - 1);
  }
}

}  // namespace rockhopper
