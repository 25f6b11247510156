// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include <rte_mbuf.h>

#include "stack/application.h"
#include "stack/clock.h"
#include "stack/counter.h"
#include "stack/error.h"
#include "stack/idle.h"
#include "stack/link.h"
#include "stack/protocol.h"

namespace rockhopper::stack {

struct WorkerConfig {
  IdlePolicy idle = IdlePolicy::poll;  ///< of run(); a due deadline ends a sleep early
};

struct WorkerCounters {
  Counter polls;
  Counter idle_polls;  ///< neither received nor sent
  Counter rests;       ///< of run(), as the idle policy says
  Counter rx_bursts;   ///< with at least one packet
  Counter rx_packets;
  Counter tx_bursts;
  Counter tx_packets;
  Counter tx_backpressure;  ///< bursts of which the link left some
  Counter tx_discarded;     ///< left over at the stop, freed
};

/// The run-to-completion loop of one link and one protocol. Packets that the link refuses are kept
/// and offered again before any others: none is lost or overtaken, and the protocol is asked for no
/// more than there is room for. Link, protocol and clock are not owned.
class Worker {
 public:
  static constexpr std::uint16_t kBurst = 32;

  Worker(Link& link, Protocol& protocol, const Clock& clock, const WorkerConfig& config = {});
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;
  /// Stops, joins and frees what is left over.
  ~Worker();

  /// One turn: send, receive, handle. True if any packet moved. What arrived is answered in the
  /// next turn, together with what the application says to it; but after a pause (the thread was
  /// asleep, or had no processor) what has arrived comes first. For programs with a loop of their
  /// own, and for virtual time.
  bool poll_once();
  /// Sends what waits, without waiting for the next turn; what has arrived is left to that, but
  /// after a pause. True if any packet moved.
  bool send_now();

  /// The halves of a turn, for a caller that has something to do between them. The number of
  /// packets that moved.
  std::uint16_t receive(std::uint64_t now_ns);
  std::uint16_t transmit(std::uint64_t now_ns);
  /// Packets wait that the link has refused.
  [[nodiscard]] bool backlogged() const { return tx_count_ > 0; }

  /// Polls in the calling thread until stop(), then frees what is left over. Needs a clock that
  /// runs by itself. `application`, which may be null, has its turn after each poll.
  void run(Application* application = nullptr);

  /// run() on a waiting lcore of the EAL, not the main one. join() waits for its end. The
  /// application is not owned.
  [[nodiscard]] Expected<void> launch(unsigned lcore_id, Application* application = nullptr);
  void join();
  /// Launched and not joined. Of the thread that does both.
  [[nodiscard]] bool launched() const { return lcore_id_ != UINT32_MAX; }

  /// Makes run() return after the current turn; a run() that comes later returns at once. Any
  /// thread, also from a signal handler.
  void stop() noexcept { stop_.store(true, std::memory_order_relaxed); }

  /// When poll_once() has work again if nothing arrives: the protocol's or the link's deadline, or
  /// now while packets wait for the link.
  [[nodiscard]] std::uint64_t next_deadline_ns() const;
  [[nodiscard]] const WorkerCounters& counters() const { return counters_; }

 private:
  bool poll(std::uint64_t now_ns);
  [[nodiscard]] std::uint16_t receive_unseen(std::uint64_t now_ns);
  void discard_leftover();

  Link& link_;
  Protocol& protocol_;
  const Clock& clock_;
  Idler idler_;
  std::array<rte_mbuf*, kBurst> tx_{};
  std::uint16_t tx_count_ = 0;
  bool is_held_ = false;  ///< the link has left what is in tx_
  std::uint64_t last_poll_ns_ = 0;
  unsigned unseen_bursts_ = 0;  ///< that it may still receive before a timer runs
  unsigned lcore_id_ = UINT32_MAX;
  Application* application_ = nullptr;  ///< of what has been launched
  std::atomic<bool> stop_{false};
  WorkerCounters counters_;
};

}  // namespace rockhopper::stack
