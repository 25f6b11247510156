// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <unordered_map>

#include "roce/cm/connection.h"
#include "roce/cm/counters.h"
#include "roce/cm/event.h"
#include "roce/cm/lookup.h"
#include "roce/gsi.h"
#include "roce/random.h"
#include "stack/timing_wheel.h"

namespace rockhopper::roce::cm {

/// Nanoseconds of a timeout code of connection manager messages: 4.096 us * 2^code.
[[nodiscard]] constexpr std::uint64_t timeout_ns(std::uint8_t code) {
  return std::uint64_t{4096} << (code & 0x1f);
}
/// Timeouts that a peer asks for are cut to this one, 69 s.
inline constexpr std::uint8_t kTimeoutCodeMax = 24;

/// A QPN that a connected queue pair can have.
[[nodiscard]] constexpr bool is_peer_qpn(wire::Qpn qpn) {
  return qpn > wire::kGsiQpn && qpn != wire::kMulticastQpn;
}

struct ConnectionManagerConfig {
  Engine* engine = nullptr;  ///< not owned; must outlive the manager
  Random* random = nullptr;  ///< not owned; communication IDs
  std::uint32_t max_connections = 32'768;
  std::uint32_t max_lookups = 4096;
  /// For an answer, before a message is repeated: 4.096 us * 2^n. Told to peers for theirs too.
  std::uint8_t response_timeout = 18;  ///< 0 to 31
  std::uint8_t max_retries = 15;       ///< 0 to 15
  /// What a MRA asks a peer to wait for an application that has not decided yet.
  std::uint8_t service_timeout = 20;  ///< 0 to 31
};

/// The connection manager (IBTA vol. 1, chapter 12): connects queue pairs of RC and UC with those
/// of any standard peer and resolves services of UD, by messages over queue pair 1. It moves queue
/// pairs through their states as librdmacm does. It does no I/O and reads no clock: the application
/// calls poll() after the engine has been served, and poll_event() for what happened. Belongs to
/// the engine's thread. Calls do not wait; what comes of them is an event.
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
  /// Answers a connect_request: moves `qp`, in RESET or INIT, to RTS. Post its receives before.
  /// Events: established, unreachable, rejected. On an error the request still waits.
  /// `private_data`: up to 196 bytes.
  [[nodiscard]] Expected<void> accept(Connection& connection, QueuePair& qp,
                                      const QpParameters& parameters,
                                      std::span<const std::uint8_t> private_data = {});
  /// Answers a connect_request with a REJ. `private_data`: up to 148 bytes.
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

  [[nodiscard]] std::size_t connection_count() const { return connections_.size(); }
  [[nodiscard]] const Counters& counters() const { return counters_; }
  /// Calls `visit` for every counter of the manager and of its queue pair 1. Any thread.
  void visit_counters(void (*visit)(void* context, const char* name, std::uint64_t value),
                      void* context) const;
  /// Calls `visit` with the name of each counter and what it counts, in one line. Any thread.
  static void describe_counters(void (*visit)(void* context, const char* name, const char* text),
                                void* context);

 private:
  struct Listener {
    std::uint32_t backlog = 0;
    std::uint32_t waiting = 0;  ///< requests that the application has not answered
    Capabilities offer = kNoCapabilities;
  };
  /// Something of a peer: its communication ID, its request ID or its QPN.
  struct PeerKey {
    stack::IpAddress address;
    std::uint32_t number = 0;
    // clang-tidy 14 takes the 0 of a defaulted <=> for a pointer.
    // NOLINTNEXTLINE(modernize-use-nullptr)
    friend auto operator<=>(const PeerKey&, const PeerKey&) = default;
  };

  ConnectionManager(const ConnectionManagerConfig& config, std::unique_ptr<Gsi> gsi);

  // connection_manager.cc: messages in and out
  void on_mad(const ReceivedMad& mad);
  template <typename Message>
  Mad send(const MadPath& to, std::uint64_t transaction_id, const Message& message);
  void repeat(const MadPath& to, const Mad& mad);
  Mad send_reject(const MadPath& to, std::uint64_t transaction_id, wire::cm::Rej rej);
  void tell(const Event& event);
  /// The application has answered, or need not: a connection or a lookup.
  template <typename Request>
  void stop_waiting(Request& request);
  [[nodiscard]] std::uint32_t new_id();

  // connections.cc
  [[nodiscard]] Expected<Connection*> make_connection(bool active);
  /// The connection that a message names, if it is not over and comes from the right place.
  [[nodiscard]] Connection* find(const ReceivedMad& mad, std::uint32_t local_id,
                                 std::uint32_t remote_id);
  [[nodiscard]] Expected<void> to_init(QueuePair& qp, const QpParameters& parameters,
                                       std::uint16_t pkey_index) const;
  [[nodiscard]] static Expected<void> to_rts(QueuePair& qp, const Connection& connection);
  /// Null: it is destroyed, or another connection has it.
  [[nodiscard]] QueuePair* own_qp(const Connection& connection) const;
  void fail_qp(const Connection& connection);
  /// Keeps `request` and arms the timer that repeats it.
  void await_answer(Connection& connection, std::uint8_t timeout, std::uint8_t retries,
                    const Mad& request);
  /// The callback of timers: a connection's or a lookup's.
  template <typename Owner>
  static void on_time(void* owner, std::uint64_t /*now_ns*/) {
    auto& one = *static_cast<Owner*>(owner);
    one.manager_.on_timer(one);
  }
  void on_timer(Connection& connection);
  void on_no_answer(Connection& connection);
  void enter_timewait(Connection& connection, EventType event);
  /// `last_word`: what a repeated REQ is answered with.
  void close(Connection& connection, const Mad& last_word = {});
  /// Both queue pairs are free for another connection.
  void detach(const Connection& connection);
  void forget(Connection& connection);

  // active.cc
  void send_req(Connection& connection, std::span<const std::uint8_t> private_data);
  void on_rep(const ReceivedMad& mad, std::uint64_t transaction_id, const wire::cm::Rep& rep);
  /// Why the reply is of no use, if so.
  [[nodiscard]] std::optional<wire::cm::RejectReason> take_reply(Connection& connection,
                                                                 const wire::cm::Rep& rep);
  void send_rtu(Connection& connection);
  void on_mra(const ReceivedMad& mad, const wire::cm::Mra& mra);

  // passive.cc
  void on_req(const ReceivedMad& mad, std::uint64_t transaction_id, const wire::cm::Req& req);
  [[nodiscard]] MadPath path_of(const ReceivedMad& mad, const wire::cm::Req& req) const;
  struct Refusal {
    wire::cm::RejectReason reason{};
    Connection* stale = nullptr;                  ///< an old one of the peer's queue pair: over
    stack::Counter Counters::*counter = nullptr;  ///< of such refusals; may be null
  };
  /// Returns why a new request cannot become a connection, if so.
  [[nodiscard]] std::optional<Refusal> refusal(const ReceivedMad& mad,
                                               const wire::cm::Req& req) const;
  void on_stale(Connection& connection);
  void on_duplicate_req(Connection& connection);
  void send_rep(Connection& connection, std::uint8_t rnr_retry,
                std::span<const std::uint8_t> private_data);
  void on_rtu(const ReceivedMad& mad, const wire::cm::Rtu& rtu);

  // release.cc
  void on_dreq(const ReceivedMad& mad, std::uint64_t transaction_id, const wire::cm::Dreq& dreq);
  void on_drep(const ReceivedMad& mad, const wire::cm::Drep& drep);
  void on_rej(const ReceivedMad& mad, const wire::cm::Rej& rej);

  // sidr.cc
  void on_sidr_req(const ReceivedMad& mad, std::uint64_t transaction_id,
                   const wire::cm::SidrReq& req);
  void on_sidr_rep(const ReceivedMad& mad, const wire::cm::SidrRep& rep);
  [[nodiscard]] Expected<void> send_sidr_reply(Lookup& lookup, wire::cm::SidrRep reply,
                                               std::span<const std::uint8_t> private_data);
  void on_timer(Lookup& lookup);
  void forget(Lookup& lookup);

  ConnectionManagerConfig config_;
  std::unique_ptr<Gsi> gsi_;
  stack::TimingWheel timers_;
  std::uint64_t now_ns_ = 0;
  std::uint64_t ca_guid_;  ///< unlike any other's: peers tell connections apart by it
  std::map<std::uint64_t, Listener> listeners_;
  std::unordered_map<std::uint32_t, std::unique_ptr<Connection>> connections_;  ///< by local ID
  std::map<PeerKey, Connection*> by_remote_id_;                                 ///< passive ones
  std::map<PeerKey, Connection*> by_remote_qpn_;                       ///< connected or about to be
  std::unordered_map<std::uint32_t, const Connection*> by_local_qpn_;  ///< the same
  std::unordered_map<std::uint32_t, std::unique_ptr<Lookup>> lookups_;  ///< ours, by request ID
  std::map<PeerKey, std::unique_ptr<Lookup>> peer_lookups_;
  std::deque<Event> events_;
  Counters counters_;
};

}  // namespace rockhopper::roce::cm
