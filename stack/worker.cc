// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "stack/worker.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include <rte_launch.h>
#include <rte_lcore.h>

namespace rockhopper::stack {
namespace {

/// A thread that has not polled for so long looks at what has arrived before anything else. It is
/// longer than a turn with full bursts, and shorter than a timeout of any use.
constexpr std::uint64_t kPauseNs = 50'000;
/// The thread receives so many bursts at most before it sends again: a link that always has a full
/// one must not keep the protocol from sending.
constexpr unsigned kUnseenBursts = 64;

/// What one thread has done before it calls this is seen by another one that calls it later. The
/// EAL, which starts and awaits lcores, sees to that too, but ThreadSanitizer cannot look into it.
void hand_over() {
  static std::atomic<unsigned> handovers;
  handovers.fetch_add(1, std::memory_order_acq_rel);
}

}  // namespace

Worker::Worker(Link& link, Protocol& protocol, const Clock& clock, const WorkerConfig& config)
    : link_(link), protocol_(protocol), clock_(clock), idler_(config.idle) {}

Worker::~Worker() {
  stop();
  join();
  discard_leftover();
}

std::uint16_t Worker::receive(std::uint64_t now_ns) {
  std::array<rte_mbuf*, kBurst> packets;
  const std::uint16_t count = link_.rx_burst(packets.data(), kBurst, now_ns);
  if (count == 0) return 0;
  counters_.rx_bursts.add();
  counters_.rx_packets.add(count);
  protocol_.receive(packets.data(), count, now_ns);
  return count;
}

std::uint16_t Worker::transmit(std::uint64_t now_ns) {
  // Also with no room left: the protocol's timers run in transmit().
  const auto room = static_cast<std::uint16_t>(kBurst - tx_count_);
  tx_count_ = static_cast<std::uint16_t>(tx_count_ +
                                         protocol_.transmit(tx_.data() + tx_count_, room, now_ns));
  if (tx_count_ == 0) return 0;
  const std::uint16_t sent = link_.tx_burst(tx_.data(), tx_count_, now_ns);
  if (sent > 0) {
    counters_.tx_bursts.add();
    counters_.tx_packets.add(sent);
  }
  if (sent < tx_count_) {
    // What waits for a link that takes nothing, as before a peer is there, is one burst.
    if (sent > 0 || !is_held_) counters_.tx_backpressure.add();
    std::copy(tx_.begin() + sent, tx_.begin() + tx_count_, tx_.begin());
  }
  tx_count_ = static_cast<std::uint16_t>(tx_count_ - sent);
  is_held_ = tx_count_ > 0;
  return sent;
}

bool Worker::poll_once() { return poll(clock_.now_ns()); }

bool Worker::send_now() {
  const std::uint64_t now_ns = clock_.now_ns();
  const std::uint16_t received = receive_unseen(now_ns);
  if (unseen_bursts_ > 0) return true;
  return transmit(now_ns) + received > 0;
}

/// After a pause a burst of what has arrived: the protocol's timers, which run when it sends, would
/// take this thread's pause for silence of the peers. More is unseen while unseen_bursts_ says so.
inline std::uint16_t Worker::receive_unseen(std::uint64_t now_ns) {
  if (now_ns - std::exchange(last_poll_ns_, now_ns) >= kPauseNs) unseen_bursts_ = kUnseenBursts;
  if (unseen_bursts_ == 0) return 0;
  const std::uint16_t received = receive(now_ns);
  unseen_bursts_ = received == kBurst ? unseen_bursts_ - 1 : 0;
  return received;
}

bool Worker::poll(std::uint64_t now_ns) {
  counters_.polls.add();
  std::uint16_t received = receive_unseen(now_ns);
  if (unseen_bursts_ > 0) return true;
  const std::uint16_t sent = transmit(now_ns);
  if (received == 0) received = receive(now_ns);
  const bool worked = received + sent > 0;
  if (!worked) counters_.idle_polls.add();
  return worked;
}

std::uint64_t Worker::next_deadline_ns() const {
  if (tx_count_ > 0) return clock_.now_ns();
  return std::min(protocol_.next_deadline_ns(), link_.next_deadline_ns());
}

void Worker::run(Application* application) {
  while (!stop_.load(std::memory_order_relaxed)) {
    const std::uint64_t now_ns = clock_.now_ns();
    const bool moved = poll(now_ns);
    std::uint64_t wanted_ns = kNever;
    if (application != nullptr) wanted_ns = application->turn(now_ns);
    if (!idler_.is_time(moved)) continue;
    counters_.rests.add();
    // A signal ends a sleep early: the caller then sees its stop flag at once.
    idler_.rest_until(std::min(wanted_ns, next_deadline_ns()), clock_.now_ns());
  }
  discard_leftover();
}

Expected<void> Worker::launch(unsigned lcore_id, Application* application) {
  if (lcore_id_ != UINT32_MAX) {
    return fail(ErrorCode::invalid_state, "the worker runs already, on lcore {}", lcore_id_);
  }
  if (lcore_id >= RTE_MAX_LCORE || rte_lcore_is_enabled(lcore_id) == 0 ||
      lcore_id == rte_get_main_lcore()) {
    return fail(ErrorCode::invalid_argument, "lcore {} is not a worker lcore of the EAL", lcore_id);
  }
  const auto entry = [](void* worker) {
    hand_over();
    auto* self = static_cast<Worker*>(worker);
    self->run(self->application_);
    hand_over();
    return 0;
  };
  application_ = application;
  hand_over();
  if (rte_eal_remote_launch(entry, this, lcore_id) != 0) {
    return fail(ErrorCode::busy, "lcore {} is busy", lcore_id);
  }
  lcore_id_ = lcore_id;
  return {};
}

void Worker::join() {
  if (lcore_id_ == UINT32_MAX) return;
  rte_eal_wait_lcore(lcore_id_);
  hand_over();
  lcore_id_ = UINT32_MAX;
}

void Worker::discard_leftover() {
  if (tx_count_ == 0) return;
  counters_.tx_discarded.add(tx_count_);
  rte_pktmbuf_free_bulk(tx_.data(), tx_count_);
  tx_count_ = 0;
}

}  // namespace rockhopper::stack
