// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstddef>
#include <cstdint>

#include "roce/wire/bth.h"
#include "roce/wire/opcode.h"
#include "roce/wire/psn.h"

namespace rockhopper::roce {

/// A received packet as nearly all of small messages are: SEND or WRITE of RC in one short
/// packet, READ or atomic, or an acknowledgement or such a response. All that an RxPacket has
/// passed has been checked, and it is in one piece. It has no flags but these.
struct PlainPacket {
  std::uint32_t first;          ///< four bytes of the BTH: opcode, flags, P_Key
  std::uint32_t third;          ///< four bytes of the BTH: A, PSN
  const std::uint8_t* headers;  ///< behind the BTH
  const std::byte* payload;
  std::uint32_t length;  ///< of the payload

  [[nodiscard]] wire::Opcode opcode() const { return static_cast<wire::Opcode>(first >> 24); }
  [[nodiscard]] bool solicited() const { return (first >> 23 & 1) != 0; }
  [[nodiscard]] bool ack_request() const { return third >> 31 != 0; }
  [[nodiscard]] wire::Psn psn() const { return wire::Psn{third & wire::kMask24}; }
};

/// Returns the first word of the BTH of a packet that is plain, without padding, solicited event
/// and P_Key. MigReq is as it is in all packets of ours.
[[nodiscard]] constexpr std::uint32_t plain_first_word(wire::Opcode opcode) {
  return std::uint32_t{static_cast<std::uint8_t>(opcode)} << 24 | 1u << 22;
}

/// Returns the bytes of the BTH and all headers behind it of a packet that can be plain; 0 of
/// others.
[[nodiscard]] constexpr std::uint32_t plain_header_bytes(std::uint8_t opcode) {
  switch (static_cast<wire::Opcode>(opcode)) {
    case wire::Opcode::rc_send_only:
    case wire::Opcode::rc_rdma_write_only:
    case wire::Opcode::rc_rdma_read_request:
    case wire::Opcode::rc_rdma_read_response_only:
    case wire::Opcode::rc_acknowledge:
    case wire::Opcode::rc_compare_swap:
    case wire::Opcode::rc_fetch_add:
    case wire::Opcode::rc_atomic_acknowledge:
      return static_cast<std::uint32_t>(wire::Bth::kSize) + wire::info(opcode).header_bytes;
    default:
      return 0;
  }
}

}  // namespace rockhopper::roce
