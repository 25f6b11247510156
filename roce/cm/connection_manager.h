// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "roce/cm/connection.h"
#include "roce/cm/counters.h"
#include "roce/cm/event.h"
#include "roce/cm/lookup.h"
#include "roce/cm/manager_config.h"
#include "roce/gsi.h"

namespace rockhopper::roce::cm {

struct ManagerParts;
class Connections;  // NOLINT(cppcoreguidelines-virtual-class-destructor)
class ActiveSide;
class PassiveSide;
class Release;
class Resolver;

/// The connection manager (IBTA vol. 1, chapter 12): connects queue pairs of RC and UC with those
/// of any standard peer and resolves services of UD, by messages over queue pair 1. It moves queue
/// pairs through their states as librdmacm does. It does no I/O and reads no clock: the application
/// calls poll() after the engine has been served, and poll_event() for what happened. Belongs to
/// the engine's thread. Calls do not wait; what comes of them is an event. What they ask of a peer
/// is repeated after times that count from the last poll(): who has not polled for long, or not
/// yet, does so before the call.
///
/// This class leads calls and messages to its parts: ActiveSide and PassiveSide connect, Release
/// ends connections, Connections has what they share, and Resolver serves datagrams.
class ConnectionManager {
 public:
  [[nodiscard]] static Expected<std::unique_ptr<ConnectionManager>> create(
      const ConnectionManagerConfig& config);
  /// Says nothing to peers: disconnect first.
  ~ConnectionManager();
  ConnectionManager(const ConnectionManager&) = delete;
  ConnectionManager& operator=(const ConnectionManager&) = delete;

  /// Takes what has arrived and repeats what has not been answered.
  void poll(std::uint64_t now_ns);
  /// When poll() has work again besides what arrives; kNever: not by itself.
  [[nodiscard]] std::uint64_t next_deadline_ns() const;
  /// The oldest event not yet taken.
  [[nodiscard]] std::optional<Event> poll_event();

  /// Requests for `service_id` become events, of connections and of lookups; at most `backlog` at a
  /// time wait for the application's answer, more are refused. `offer`: as in ConnectParameters;
  /// where the peer offers something too, the reply has room for 188 bytes of private data.
  [[nodiscard]] Expected<void> listen(std::uint64_t service_id, std::uint32_t backlog = 128,
                                      Capabilities offer = kNoCapabilities);
  void stop_listening(std::uint64_t service_id);

  /// Connects `qp`, RC or UC, in RESET or INIT and without another connection. Events: established,
  /// rejected, unreachable, connect_error.
  [[nodiscard]] Expected<Connection*> connect(QueuePair& qp, const ConnectParameters& parameters);
  /// The same for a queue pair that the application moves: to INIT now, and at the event
  /// connect_response, which comes in place of established, to RTS. Then confirm() or reject().
  [[nodiscard]] Expected<Connection*> connect(const ExternalQp& qp,
                                              const ConnectParameters& parameters);
  /// Answers a connect_request: moves `qp`, in RESET or INIT, to RTS. Post its receives before.
  /// Events: established, unreachable, rejected. On an error the request still waits.
  /// `private_data`: up to 196 bytes.
  [[nodiscard]] Expected<void> accept(Connection& connection, QueuePair& qp,
                                      const QpParameters& parameters,
                                      std::span<const std::uint8_t> private_data = {});
  /// The same for a queue pair that the application has moved to RTS, or at least to RTR.
  [[nodiscard]] Expected<void> accept(Connection& connection, const ExternalQp& qp,
                                      const QpParameters& parameters,
                                      std::span<const std::uint8_t> private_data = {});
  /// What a queue pair is to have on its way through INIT and RTR to RTS, which the application
  /// moves; qp_state says nothing. From connect_request or connect_response on.
  [[nodiscard]] static Expected<QpAttributes> qp_attributes(const Connection& connection);
  /// Answers a connect_response: both ends may send from now on.
  [[nodiscard]] Expected<void> confirm(Connection& connection);
  /// A packet of the peer's has come to the queue pair, so its RTU need not come any more (IBTA
  /// vol. 1, 12.9.7). Event: established, unless it has come already.
  [[nodiscard]] Expected<void> establish(Connection& connection);
  /// Answers a connect_request or a connect_response with a REJ. `private_data`: up to 148 bytes.
  [[nodiscard]] Expected<void> reject(
      Connection& connection, std::span<const std::uint8_t> private_data = {},
      wire::cm::RejectReason reason = wire::cm::RejectReason::consumer);
  /// Ends an established connection: its queue pair goes to ERR at once. Event: disconnected, then
  /// timewait_exit. No effect on one that is being ended already.
  [[nodiscard]] Expected<void> disconnect(Connection& connection);
  /// The application is done with it: no more events, the pointer is invalid from now on. One that
  /// is not over is ended first.
  void release(Connection& connection);

  /// Asks for the queue pair that serves datagrams. Events: resolved, lookup_failed.
  [[nodiscard]] Expected<Lookup*> resolve(const ResolveParameters& parameters);
  /// Answers a lookup_request, and with that releases it. `private_data`: up to 136 bytes.
  [[nodiscard]] Expected<void> answer(Lookup& lookup, wire::Qpn qpn, std::uint32_t qkey,
                                      std::span<const std::uint8_t> private_data = {});
  [[nodiscard]] Expected<void> refuse(Lookup& lookup,
                                      wire::cm::SidrStatus status = wire::cm::SidrStatus::rejected,
                                      std::span<const std::uint8_t> private_data = {});
  /// The application is done with it: no more events, the pointer is invalid from now on. A request
  /// that has not been answered is refused.
  void release(Lookup& lookup);

  [[nodiscard]] std::size_t connection_count() const;
  [[nodiscard]] const Counters& counters() const { return counters_; }
  /// Calls `visit` for every counter of the manager and of its queue pair 1. Any thread.
  void visit_counters(stack::CounterVisitor visit, void* context) const;
  /// Calls `visit` with the name of each counter and what it counts, in one line. Any thread.
  static void describe_counters(stack::CounterTextVisitor visit, void* context);

 private:
  ConnectionManager(const ConnectionManagerConfig& config, std::unique_ptr<Gsi> gsi);
  void on_message(const ReceivedMad& mad, const wire::MadHeader& header, wire::cm::Body body);

  ConnectionManagerConfig config_;
  Counters counters_;
  std::unique_ptr<ManagerParts> parts_;
  std::unique_ptr<Connections> connections_;
  std::unique_ptr<ActiveSide> active_;
  std::unique_ptr<PassiveSide> passive_;
  std::unique_ptr<Release> release_;
  std::unique_ptr<Resolver> resolver_;
};

}  // namespace rockhopper::roce::cm
