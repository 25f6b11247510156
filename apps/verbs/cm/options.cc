// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/verbs/cm/options.h"

#include <cerrno>
#include <cstring>

namespace rockhopper::verbs::cm {
namespace {

/// A value of exactly that size.
template <typename Value>
bool load(std::span<const std::byte> from, Value& to) {
  if (from.size() != sizeof to) return false;
  std::memcpy(&to, from.data(), sizeof to);
  return true;
}

int set_identifiers_option(Identifier& identifier, std::uint32_t name,
                           std::span<const std::byte> value) {
  std::uint8_t byte = 0;
  int number = 0;
  switch (name) {
    case RDMA_OPTION_ID_TOS:
      if (!load(value, byte)) return EINVAL;
      identifier.type_of_service = byte;
      return 0;
    case RDMA_OPTION_ID_REUSEADDR:
      if (!load(value, number)) return EINVAL;
      identifier.reuses_address = number != 0;
      return 0;
    case RDMA_OPTION_ID_AFONLY:
      if (!load(value, number) || identifier.state != IdentifierState::idle) return EINVAL;
      identifier.is_ipv6_only = number != 0;
      return 0;
    case RDMA_OPTION_ID_ACK_TIMEOUT:
      if (!load(value, byte) || identifier.is_datagram()) return EINVAL;
      identifier.ack_timeout = byte;
      return 0;
    default:
      return ENOSYS;
  }
}

}  // namespace

int set_option_of(Agent& agent, Identifier& identifier, std::uint32_t level, std::uint32_t name,
                  std::span<const std::byte> value) {
  if (level == RDMA_OPTION_ID) return set_identifiers_option(identifier, name, value);
  if (level != RDMA_OPTION_IB || name != RDMA_OPTION_IB_PATH) return ENOSYS;
  // There is one path to a peer here, whatever records somebody has for it.
  if (value.empty() || value.size() % sizeof(ib_path_rec_data) != 0) return EINVAL;
  if (identifier.state != IdentifierState::address_resolved) return EINVAL;
  agent.tell_route(identifier);
  return 0;
}

}  // namespace rockhopper::verbs::cm
