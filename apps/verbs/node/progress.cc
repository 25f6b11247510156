// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/verbs/node/progress.h"

#include <algorithm>
#include <optional>
#include <utility>

#include <rte_pause.h>
#include <sched.h>

#include "apps/verbs/node/node.h"
#include "stack/futex.h"
#include "stack/time_units.h"

namespace rockhopper::verbs {
namespace {

constexpr std::uint64_t kFirstLookNs = 50 * kNsPerUs;
constexpr std::uint64_t kLastLookNs = kNsPerMs;
/// Watching for so long without being missed makes up for one time of being missed.
constexpr std::uint64_t kForgivenNs = kNsPerMs;
/// Turns of the thread, with turns of the application between all of them, that end the serving.
constexpr unsigned kCrowded = 64;
/// Polls in a row that find nothing, about 20 us of them, before each further one gives the
/// processor to whoever waits for it.
constexpr unsigned kEmptyPollsMax = 256;
/// Posts that wait for a turn at most.
constexpr unsigned kPostsMax = 32;

}  // namespace

Expected<void> Progress::start(NodeLink& link) {
  link_ = &link;
  if (mode_ == ProgressMode::inline_only) return {};
  return thread_.start("rh-progress", &Progress::enter, this);
}

void Progress::stop() {
  if (!thread_.started()) return;
  stop_.store(true, std::memory_order_relaxed);
  wanted_.store(1, std::memory_order_release);
  stack::wake_futex(wanted_, 1);
  link_->segment().wake();
  thread_.join();
}

bool Progress::turn_of_application(bool lingers) {
  bool moved = false;
  if (mode_ != ProgressMode::thread && !node_.abandoned() && node_.lock().try_lock()) {
    moved = turn();
    if (moved) {
      on_moved_by_application(lingers);
      tell_unless_watched();
    }
    application_turns_.store(application_turns_.load(std::memory_order_relaxed) + 1,
                             std::memory_order_relaxed);
    node_.tell_events();
    node_.lock().unlock();
  }
  // A peer that waits for a processor is not to wait until this thread has used up its time.
  const std::uint32_t empty = moved ? 0 : empty_polls_.load(std::memory_order_relaxed) + 1;
  empty_polls_.store(empty, std::memory_order_relaxed);
  if (empty >= kEmptyPollsMax) sched_yield();
  return moved;
}

void Progress::on_moved_by_application(bool lingers) {
  // Each wake-up for what the application has taken already disturbs it.
  if (!serving_ || mode_ != ProgressMode::adaptive) return;
  moves_ += lingers ? reluctance_ : 1;
  if (moves_ < reluctance_) return;
  dispensable_.store(true, std::memory_order_relaxed);
  ring_if_asleep(0);
}

/// The thread tells what was counted when it looks, and before it sleeps; while it sleeps, nobody
/// else does.
void Progress::tell_unless_watched() {
  if (mode_ == ProgressMode::inline_only || asleep_until_ns_ != 0) {
    node_.tell(node_.clock().now_ns());
  }
}

void Progress::wait_for_writes() {
  if (mode_ == ProgressMode::thread) return;
  const std::uint64_t before = writes_at_post_.load(std::memory_order_relaxed);
  if (writes() != before) return;  // the answer is there already
  const std::uint64_t begin_ns = node_.clock().now_ns();
  std::uint64_t lingered_ns = 0;
  while (writes() == before && lingered_ns < Lingering::kLongestNs) {
    (void)turn_of_application(true);
    lingered_ns = node_.clock().now_ns() - begin_ns;
  }
  lingering_.on_lingered(lingered_ns, writes() != before);
}

std::uint64_t Progress::writes() const {
  return node_.engine().counters().rx_write_requests.value();
}

/// The first of several posts goes out at once, as somebody may wait for it; the others go together
/// in the next turn.
void Progress::on_posted() {
  writes_at_post_.store(writes(), std::memory_order_relaxed);
  if (mode_ == ProgressMode::thread) {
    ring_if_asleep(0);
    return;
  }
  if (posts_ == 0 || posts_ == kPostsMax) {
    (void)node_.worker().send_now();
    posts_ = 0;
    tell_unless_watched();
  }
  ++posts_;
  on_changed();
}

void Progress::on_changed() {
  if (asleep_until_ns_ != 0) ring_if_asleep(node_.next_deadline_ns());
}

void Progress::on_armed() {
  sleeps_on_events_ = true;
  moves_ = 0;
  dispensable_.store(false, std::memory_order_relaxed);
  if (mode_ != ProgressMode::adaptive || wanted_.load(std::memory_order_relaxed) != 0) return;
  wanted_.store(1, std::memory_order_release);
  stack::wake_futex(wanted_, 1);
}

void Progress::ring_if_asleep(std::uint64_t due_ns) {
  if (due_ns >= asleep_until_ns_) return;
  asleep_until_ns_ = 0;  // once is enough
  link_->segment().wake();
}

bool Progress::turn() {
  posts_ = 0;
  const bool moved = node_.worker().poll_once();
  node_.serve();
  // What arrived is acknowledged before the application can answer it: who waits for events of two
  // queues in one channel takes them in the order in which an RNIC's come.
  if (moved && sleeps_on_events_) (void)node_.worker().send_now();
  return moved;
}

void Progress::enter(void* self) { static_cast<Progress*>(self)->run(); }

void Progress::run() {
  spinning_.begin();
  while (!stop_.load(std::memory_order_relaxed)) {
    if (serving_) {
      serve();
    } else {
      watch();
    }
  }
}

void Progress::watch() {
  const std::uint64_t now_ns = node_.clock().now_ns();
  stack::wait_on_futex(wanted_, 0, now_ns + look_ns_);
  const std::uint32_t turns = application_turns_.load(std::memory_order_relaxed);
  if (wanted_.load(std::memory_order_acquire) == 0 && turns != turns_seen_) {
    turns_seen_ = turns;
    look_ns_ = std::min(2 * look_ns_, kLastLookNs);
    const Section section(node_);
    node_.tell_when_due(now_ns);
    if (now_ns - term_began_ns_ > kForgivenNs) {
      term_began_ns_ = now_ns;
      reluctance_ = std::max(reluctance_ / 2, kReluctanceMin);
    }
    return;
  }
  begin_to_serve();
  const bool found = take_turns();
  // Nobody had asked for it, so packets that wait have waited for nobody.
  if (found && wanted_.load(std::memory_order_relaxed) == 0) {
    const Section section(node_);
    reluctance_ = std::min(2 * reluctance_, kReluctanceMax);
  }
  go_to_sleep();
}

void Progress::serve() {
  (void)take_turns();
  if (dispensable_.exchange(false, std::memory_order_relaxed)) return begin_to_watch();
  go_to_sleep();
}

void Progress::begin_to_watch() {
  wanted_.store(0, std::memory_order_relaxed);
  look_ns_ = kFirstLookNs;
  term_began_ns_ = node_.clock().now_ns();
  turns_seen_ = application_turns_.load(std::memory_order_relaxed);
  const Section section(node_);
  serving_ = false;
  link_->segment().stay_awake();
}

void Progress::begin_to_serve() {
  dispensable_.store(false, std::memory_order_relaxed);
  const Section section(node_);
  serving_ = true;
  moves_ = 0;
}

bool Progress::take_turns() {
  bool found = false;
  const std::uint64_t writes_before = writes();
  unsigned crowded = 0;
  std::uint32_t turns_seen = application_turns_.load(std::memory_order_relaxed);
  std::uint64_t last_ns = node_.clock().now_ns();
  while (!stop_.load(std::memory_order_relaxed)) {
    bool moved = false;
    {
      const Section section(node_);
      moved = turn();
      if (moved) {
        moves_ /= 2;
        node_.tell_when_due(last_ns);
      }
    }
    const std::uint32_t turns = application_turns_.load(std::memory_order_relaxed);
    crowded = turns == std::exchange(turns_seen, turns) ? 0 : crowded + 1;
    if (crowded == kCrowded && mode_ == ProgressMode::adaptive) {
      dispensable_.store(true, std::memory_order_relaxed);
      break;
    }
    const std::uint64_t now_ns = node_.clock().now_ns();
    if (moved) {
      found = true;
      last_ns = now_ns;
    } else if (now_ns - last_ns >= spinning_.limit_ns()) {
      break;
    }
    rte_pause();  // others get the lock
  }
  // The application may have waited for these bytes.
  if (writes() != writes_before) lingering_.on_missed();
  return found;
}

void Progress::go_to_sleep() {
  spinning_.adapt();
  std::uint64_t until_ns = 0;
  std::optional<std::uint32_t> armed;
  {
    const Section section(node_);
    // What was posted or came after the last turn is seen here, and what comes later rings.
    if (turn()) return;
    armed = link_->arm();
    if (!armed) return;
    node_.tell(node_.clock().now_ns());
    until_ns = std::min(node_.next_deadline_ns(), node_.next_listing_ns());
    asleep_until_ns_ = until_ns;
  }
  if (until_ns > node_.clock().now_ns() && !stop_.load(std::memory_order_relaxed)) {
    link_->segment().sleep(*armed, until_ns);
  }
  const Section section(node_);
  asleep_until_ns_ = 0;
}

}  // namespace rockhopper::verbs
