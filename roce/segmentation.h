// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>

#include "roce/wire/opcode.h"
#include "roce/work_request.h"

namespace rockhopper::roce {

/// Packets that a message of `length` bytes takes; an empty one takes one.
[[nodiscard]] constexpr std::uint32_t packets_of(std::uint32_t length, std::uint32_t mtu) {
  return length <= mtu ? 1 : (length - 1) / mtu + 1;
}

/// The request takes one of the peer's receive requests.
[[nodiscard]] constexpr bool takes_receive(WrOpcode opcode) {
  return opcode == WrOpcode::send || opcode == WrOpcode::send_with_imm ||
         opcode == WrOpcode::send_with_inv || opcode == WrOpcode::rdma_write_with_imm;
}

namespace detail {

/// The opcodes of a message by the place of a packet in it.
struct OpcodeSet {
  wire::Opcode first, middle, last, only;
};

/// A request of one packet, which may stand for many PSNs.
[[nodiscard]] constexpr OpcodeSet only(wire::Opcode opcode) {
  return {opcode, opcode, opcode, opcode};
}

[[nodiscard]] constexpr OpcodeSet opcodes_of(WrOpcode opcode) {
  using wire::Opcode;
  switch (opcode) {
    case WrOpcode::send:
      return {Opcode::rc_send_first, Opcode::rc_send_middle, Opcode::rc_send_last,
              Opcode::rc_send_only};
    case WrOpcode::send_with_imm:
      return {Opcode::rc_send_first, Opcode::rc_send_middle, Opcode::rc_send_last_with_immediate,
              Opcode::rc_send_only_with_immediate};
    case WrOpcode::send_with_inv:
      return {Opcode::rc_send_first, Opcode::rc_send_middle, Opcode::rc_send_last_with_invalidate,
              Opcode::rc_send_only_with_invalidate};
    case WrOpcode::rdma_write:
      return {Opcode::rc_rdma_write_first, Opcode::rc_rdma_write_middle, Opcode::rc_rdma_write_last,
              Opcode::rc_rdma_write_only};
    case WrOpcode::rdma_write_with_imm:
      return {Opcode::rc_rdma_write_first, Opcode::rc_rdma_write_middle,
              Opcode::rc_rdma_write_last_with_immediate, Opcode::rc_rdma_write_only_with_immediate};
    case WrOpcode::rdma_read:
      return only(Opcode::rc_rdma_read_request);
    case WrOpcode::atomic_cmp_and_swp:
      return only(Opcode::rc_compare_swap);
    case WrOpcode::atomic_fetch_and_add:
      return only(Opcode::rc_fetch_add);
    case WrOpcode::flush:
      return only(Opcode::rc_flush);
    case WrOpcode::atomic_write:
      return only(Opcode::rc_atomic_write);
    case WrOpcode::masked_atomic_cmp_and_swp:
    case WrOpcode::masked_atomic_fetch_and_add:
      return only(Opcode::extended_atomic);
    case WrOpcode::lock_acquire:
    case WrOpcode::lock_release:
    case WrOpcode::lock_cancel:
      return only(Opcode::lock_request);
    case WrOpcode::local_inv:
    case WrOpcode::bind_mw:
    case WrOpcode::reg_mr:
      break;  // no packet
  }
  return {};
}

}  // namespace detail

/// The RC opcode of packet `packet` of the `count` packets of a message. Other services have the
/// same operations behind their own three bits: see of_service().
[[nodiscard]] constexpr wire::Opcode opcode_of(WrOpcode opcode, std::uint32_t packet,
                                               std::uint32_t count) {
  const detail::OpcodeSet set = detail::opcodes_of(opcode);
  if (count == 1) return set.only;
  if (packet == 0) return set.first;
  return packet + 1 == count ? set.last : set.middle;
}

/// The same operation of another service.
[[nodiscard]] constexpr wire::Opcode of_service(wire::ServiceClass service, wire::Opcode opcode) {
  return static_cast<wire::Opcode>(static_cast<unsigned>(service) << 5 |
                                   (static_cast<unsigned>(opcode) & 0x1f));
}

}  // namespace rockhopper::roce
