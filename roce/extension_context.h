// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>
#include <optional>

#include "roce/counters.h"
#include "roce/extension_qp.h"
#include "roce/rx_packet.h"
#include "roce/types.h"
#include "stack/error.h"
#include "stack/timing_wheel.h"
#include "stack/udp_datagram.h"

namespace rockhopper::roce {

class AddressHandle;
struct EngineConfig;

/// All that an extension may ask of its engine beside what everybody may.
/// Engine::attach_extension() gives it; it lives as long as the engine. On the engine's thread.
class ExtensionContext {
 public:
  ExtensionContext() = default;
  ExtensionContext(const ExtensionContext&) = delete;
  ExtensionContext& operator=(const ExtensionContext&) = delete;
  virtual ~ExtensionContext() = default;

  [[nodiscard]] virtual const EngineConfig& config() const = 0;
  /// The engine's: they expire while it transmits.
  [[nodiscard]] virtual stack::TimingWheel& timers() = 0;
  /// Returns the time of the engine's call that is under way, or was the last.
  [[nodiscard]] virtual std::uint64_t now_ns() const = 0;
  /// Returns null if it is gone.
  [[nodiscard]] virtual AddressHandle* find_ah(std::uint64_t id) const = 0;

  /// Makes a queue pair in RESET. Fails as Engine::create_qp().
  [[nodiscard]] virtual Expected<ExtensionQp*> create_qp(
      wire::Qpn number, const QpInit& init, const ExtensionQp::MakeTransport& make_transport) = 0;
  virtual void destroy_qp(ExtensionQp* qp) = 0;

  /// Hands `qp` a packet as if the engine had found it by its number. Returns why the packet is
  /// dropped; nothing if it is not.
  [[nodiscard]] virtual std::optional<DropReason> deliver(ExtensionQp& qp,
                                                          const stack::UdpDatagram& datagram,
                                                          const RxPacket& packet,
                                                          std::uint64_t now_ns) = 0;
  /// Returns false if the packet is of a partition that `qp` is not in.
  [[nodiscard]] virtual bool admits(const ExtensionQp& qp, const RxPacket& packet) const = 0;
  /// A congestion notification is for `qp`. Returns false if that has no use for it.
  [[nodiscard]] virtual bool obey_cnp(ExtensionQp& qp, std::uint64_t now_ns) = 0;
  /// To be called once for each notification.
  virtual void count_cnp(bool obeyed) = 0;

  /// Fails unless these can serve what an extension makes beside queue pairs.
  [[nodiscard]] virtual Expected<void> check_receive_side(ProtectionDomain pd,
                                                          const SharedReceiveQueue* srq,
                                                          const CompletionQueue* cq) const = 0;
  /// `change` more objects use them, or fewer.
  virtual void use_receive_side(SharedReceiveQueue* srq, CompletionQueue* cq, int change) = 0;
};

}  // namespace rockhopper::roce
