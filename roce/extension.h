// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>
#include <optional>

#include <rte_mbuf.h>

#include "roce/counters.h"
#include "roce/rx_packet.h"
#include "roce/transmit_result.h"
#include "roce/types.h"
#include "roce/wire/opcode.h"
#include "stack/udp_datagram.h"

namespace rockhopper::roce {

/// A transport that stands on an engine: it gets the packets of dynamic connections, sends packets
/// of its own, and makes queue pairs whose requesters and responders are its own and whose numbers
/// it gives (ExtensionContext). Called on the engine's thread. See Engine::attach_extension().
class Extension {
 public:
  Extension() = default;
  Extension(const Extension&) = delete;
  Extension& operator=(const Extension&) = delete;
  virtual ~Extension() = default;

  /// Takes a packet that belongs_to_extension(), or a congestion notification for a number that no
  /// queue pair of the engine has. Framing and ICRC are right, nothing else has been looked at.
  /// Returns why the packet is dropped; nothing if it is not. The packet stays the engine's.
  [[nodiscard]] virtual std::optional<DropReason> accept(const stack::UdpDatagram& datagram,
                                                         const RxPacket& packet,
                                                         std::uint64_t now_ns) = 0;
  /// It has packets of its own to send, which are of no queue pair.
  [[nodiscard]] virtual bool has_packets() const = 0;
  /// What the engine does not own itself needs that protection domain.
  [[nodiscard]] virtual bool uses(ProtectionDomain pd) const = 0;
  /// Writes up to `count` packets of its own; fewer: it has no more, or cannot send them.
  [[nodiscard]] virtual TransmitResult transmit(rte_mbuf** packets, std::uint16_t count,
                                                std::uint64_t now_ns) = 0;
};

/// Packets with `opcode` are the extension's, whatever number they are for.
[[nodiscard]] constexpr bool belongs_to_extension(const wire::OpcodeInfo& opcode) {
  return opcode.service == wire::ServiceClass::manufacturer_6 &&
         (opcode.is_dc() || opcode.operation == wire::Operation::dc_control);
}

}  // namespace rockhopper::roce
