// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <array>
#include <cstdint>

#include <rte_mbuf.h>

#include "dc/message.h"
#include "roce/extension_qp.h"
#include "roce/packet_builder.h"

namespace rockhopper::dc {

/// A packet of opcode 0xD8, with the builder that `make(headers, payload_length)` returns; null: no
/// mbuf. It has the default P_Key unless `make` changes that.
template <typename Make>
[[nodiscard]] rte_mbuf* build_message(const Message& message, wire::Qpn destination, Make&& make) {
  std::array<std::uint8_t, kMessageMax> bytes;
  const auto length = static_cast<std::uint32_t>(emit_message(message, bytes));
  wire::Headers headers;
  headers.bth.opcode = static_cast<std::uint8_t>(wire::Opcode::dc_control);
  headers.bth.mig_req = true;
  headers.bth.destination = destination;
  roce::PacketBuilder builder = make(headers, length);
  if (!builder.ok() || !builder.append(reinterpret_cast<const std::byte*>(bytes.data()), length)) {
    return nullptr;
  }
  return builder.finish();
}

/// The same to the peer of `qp`, whose flow is ready.
[[nodiscard]] inline rte_mbuf* build_message(roce::ExtensionQp& qp, const Message& message) {
  return build_message(message, qp.attributes().dest_qp_num,
                       [&qp](wire::Headers& headers, std::uint32_t length) {
                         return qp.start_packet(headers, length);
                       });
}

}  // namespace rockhopper::dc
