// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "dc/dct.h"
#include "dc/message.h"
#include "dc/responder.h"
#include "dc/session_table.h"
#include "roce/counters.h"
#include "roce/extension_qp.h"
#include "roce/rx_packet.h"
#include "stack/timing_wheel.h"
#include "stack/udp_datagram.h"

namespace rockhopper::dc {

struct EndpointContext;
class SessionPrefix;

/// The target side of an endpoint: opens, serves and closes the sessions of its DCTs, each with a
/// responder context of one pool (DC-15).
class Targets {
 public:
  Targets(EndpointContext& endpoint, const SessionTable::Config& config);
  ~Targets();
  Targets(const Targets&) = delete;
  Targets& operator=(const Targets&) = delete;

  /// Makes the pool.
  [[nodiscard]] Expected<void> make_contexts();

  [[nodiscard]] std::optional<roce::DropReason> on_connect(const Connect& message, Dct* dct,
                                                           const stack::UdpDatagram& datagram,
                                                           const roce::RxPacket& packet,
                                                           std::uint64_t now_ns);
  /// A connect that carries the first request of its session, which is executed if that is open
  /// then.
  [[nodiscard]] std::optional<roce::DropReason> on_connect_data(const Connect& message, Dct* dct,
                                                                const stack::UdpDatagram& datagram,
                                                                const roce::RxPacket& packet,
                                                                std::uint64_t now_ns);
  [[nodiscard]] std::optional<roce::DropReason> on_disconnect(const Disconnect& message,
                                                              const stack::UdpDatagram& datagram,
                                                              std::uint64_t now_ns);
  [[nodiscard]] std::optional<roce::DropReason> on_keepalive(const KeepAlive& message,
                                                             const stack::UdpDatagram& datagram,
                                                             std::uint64_t now_ns);
  /// A request with a DCSH.
  [[nodiscard]] std::optional<roce::DropReason> on_request(const stack::UdpDatagram& datagram,
                                                           const roce::RxPacket& packet,
                                                           std::uint64_t now_ns);
  /// The session's queue pair is in ERR, and has said why.
  void on_failed(Session& session);
  /// The target goes: its sessions are closed.
  void close_all(const Dct& dct);

  [[nodiscard]] std::size_t open_count() const { return table_.open_count(); }

 private:
  struct Context {
    roce::ExtensionQp* qp;
    Responder* responder;
    SessionPrefix* prefix;  ///< both are the queue pair's
  };

  [[nodiscard]] Context& context(const Session& session) {
    return contexts_[context_index(session.id)];
  }
  [[nodiscard]] Session* find_open(const stack::UdpDatagram& datagram, const wire::Dcsh& dcsh,
                                   wire::Qpn target);
  [[nodiscard]] std::optional<roce::DropReason> refuse_stale(const wire::Dcsh& dcsh,
                                                             const stack::UdpDatagram& datagram,
                                                             const roce::RxPacket& packet,
                                                             std::uint64_t now_ns);
  void refuse(CnakReason reason, const Connect& message, const stack::UdpDatagram& datagram,
              const roce::RxPacket& packet, std::uint64_t now_ns);
  void evict_one(std::uint64_t now_ns);
  [[nodiscard]] bool make_room(const Peer& peer, const Connect& message,
                               const stack::UdpDatagram& datagram, const roce::RxPacket& packet,
                               std::uint64_t now_ns);
  void open(const Peer& peer, const Connect& message, Dct& dct, const stack::UdpDatagram& datagram,
            std::uint64_t now_ns);
  void close(Session& session, std::uint64_t now_ns);
  void on_lease_timer(std::uint64_t now_ns);
  void watch_leases();

  EndpointContext& endpoint_;
  SessionTable table_;
  std::uint32_t context_count_;
  std::vector<Context> contexts_;
  stack::Timer lease_timer_;
};

}  // namespace rockhopper::dc
