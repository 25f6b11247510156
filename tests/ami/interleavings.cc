// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "tests/ami/interleavings.h"

#include <algorithm>
#include <memory>
#include <span>
#include <unordered_set>

#include <ucontext.h>
#include <xxhash.h>

namespace rockhopper::interleavings {
namespace {

using detail::Clock;
using detail::Object;

constexpr std::size_t kStackBytes = 64 << 10;

std::uint64_t mix(std::uint64_t digest, std::uint64_t value) {
  const std::array<std::uint64_t, 2> both{digest, value};
  return XXH3_64bits(both.data(), sizeof both);
}

std::uint64_t mix(std::uint64_t digest, const Clock& clock) {
  return mix(digest, XXH3_64bits(clock.data(), sizeof clock));
}

void join(Clock& clock, const Clock& other) {
  for (std::size_t i = 0; i < kMaxThreads; ++i) {
    clock[i] = std::max(clock[i], other[i]);
  }
}

bool acquires(std::memory_order order) {
  return order == std::memory_order_acquire || order == std::memory_order_acq_rel ||
         order == std::memory_order_seq_cst;
}

bool releases(std::memory_order order) {
  return order == std::memory_order_release || order == std::memory_order_acq_rel ||
         order == std::memory_order_seq_cst;
}

struct Fiber {
  ucontext_t context{};
  std::function<void()> body;
  std::uint64_t history = 0;  ///< what it has read
  Clock clock{};
  std::uint64_t seen = 0;  ///< its last changes()
  bool waiting = false;    ///< until changes() is another
  bool ended = false;
};

/// A point at which several could go on.
struct Choice {
  std::size_t taken = 0;
  std::size_t among = 0;
};

class Explorer {
 public:
  explicit Explorer(const std::function<Run()>& make_run)
      : make_run_(make_run), stacks_(std::make_unique<std::byte[]>(kMaxThreads * kStackBytes)) {}

  Report explore(std::uint64_t max_runs);

  // From objects and threads.
  void add(const Object& object) { objects_.push_back(&object); }
  [[nodiscard]] Fiber* current() { return current_; }
  [[nodiscard]] std::size_t current_index() const {
    return static_cast<std::size_t>(current_ - fibers_.data());
  }
  void fail(const std::string& what) {
    if (report_.error.empty()) report_.error = what;
  }
  void yield() {
    Fiber* me = current_;
    if (me == nullptr) return;
    me->history = mix(me->history, 1);  // it is one step further
    swapcontext(&me->context, &scheduler_);
  }
  std::uint64_t changes = 0;

 private:
  void run_once();
  void start(std::span<const std::function<void()>> bodies);
  [[nodiscard]] bool choose(std::span<Fiber* const> ready, Fiber*& next);
  [[nodiscard]] std::uint64_t state() const;
  static void enter();

  const std::function<Run()>& make_run_;
  std::unique_ptr<std::byte[]> stacks_;
  std::vector<const Object*> objects_;
  std::vector<Fiber> fibers_;
  Fiber* current_ = nullptr;
  ucontext_t scheduler_{};
  std::vector<Choice> path_;
  std::size_t depth_ = 0;  ///< choices of this run
  std::unordered_set<std::uint64_t> known_;
  Report report_;
};

Explorer* explorer = nullptr;

Report Explorer::explore(std::uint64_t max_runs) {
  explorer = this;
  do {
    if (report_.runs == max_runs) fail("the guard's number of runs was reached");
    ++report_.runs;
    run_once();
    // The last choice that has another way.
    while (!path_.empty() && path_.back().taken + 1 == path_.back().among) {
      path_.pop_back();
    }
    if (!path_.empty()) ++path_.back().taken;
  } while (!path_.empty() && report_.error.empty());
  explorer = nullptr;
  report_.states = known_.size();
  return report_;
}

void Explorer::run_once() {
  objects_.clear();
  depth_ = 0;
  changes = 0;
  const Run run = make_run_();
  start(run.threads);
  std::vector<Fiber*> ready;
  while (report_.error.empty()) {
    ready.clear();
    bool all_ended = true;
    for (Fiber& fiber : fibers_) {
      all_ended = all_ended && fiber.ended;
      if (!fiber.ended && !(fiber.waiting && changes == fiber.seen)) ready.push_back(&fiber);
    }
    if (all_ended) {
      if (run.at_end) run.at_end();
      return;
    }
    if (ready.empty()) {
      fail("all threads wait");
      return;
    }
    Fiber* next = nullptr;
    if (!choose(ready, next)) return;
    next->waiting = false;
    current_ = next;
    swapcontext(&scheduler_, &next->context);
    current_ = nullptr;
  }
}

void Explorer::start(std::span<const std::function<void()>> bodies) {
  fibers_.clear();
  fibers_.resize(bodies.size());
  for (std::size_t i = 0; i < bodies.size(); ++i) {
    Fiber& fiber = fibers_[i];
    fiber.body = bodies[i];
    fiber.history = i;
    fiber.clock[i] = 1;
    getcontext(&fiber.context);
    fiber.context.uc_stack.ss_sp = stacks_.get() + i * kStackBytes;
    fiber.context.uc_stack.ss_size = kStackBytes;
    fiber.context.uc_link = &scheduler_;
    makecontext(&fiber.context, enter, 0);
  }
}

void Explorer::enter() {
  Fiber& me = *explorer->current();
  me.body();
  me.ended = true;
}

/// False: what follows is known.
bool Explorer::choose(std::span<Fiber* const> ready, Fiber*& next) {
  if (depth_ == path_.size()) {
    if (!known_.insert(state()).second) return false;
    path_.push_back({.taken = 0, .among = ready.size()});
  }
  next = ready[path_[depth_++].taken];
  return true;
}

std::uint64_t Explorer::state() const {
  std::uint64_t digest = 0;
  for (const Object* object : objects_) {
    digest = mix(digest, object->digest());
  }
  for (const Fiber& fiber : fibers_) {
    digest = mix(mix(digest, fiber.history), fiber.clock);
    digest = mix(digest, (fiber.ended ? 4u : 0u) + (fiber.waiting ? 2u : 0u) +
                             (fiber.seen == changes ? 1u : 0u));
  }
  return digest;
}

}  // namespace

Report explore(const std::function<Run()>& make_run, std::uint64_t max_runs) {
  return Explorer(make_run).explore(max_runs);
}

void check(bool condition, const char* what) {
  if (!condition) explorer->fail(what);
}

std::uint64_t changes() {
  explorer->current()->seen = explorer->changes;
  return explorer->changes;
}

void wait_for_change(std::uint64_t seen) {
  explorer->current()->seen = seen;
  explorer->current()->waiting = true;
  explorer->yield();
}

namespace detail {

Object::Object() { explorer->add(*this); }

void AtomicObject::let_others_go() { explorer->yield(); }

void AtomicObject::note_load(std::uint64_t value, std::memory_order order) const {
  Fiber* me = explorer->current();
  if (me == nullptr) return;
  me->history = mix(me->history, value);
  if (acquires(order)) join(me->clock, released_);
}

void AtomicObject::note_store(bool changed, std::memory_order order) {
  Fiber* me = explorer->current();
  if (changed) ++explorer->changes;
  if (me == nullptr) return;
  me->history = mix(me->history, 0);
  released_ = releases(order) ? me->clock : Clock{};
  ++me->clock[explorer->current_index()];
}

void AtomicObject::note_exchange(std::uint64_t before, bool changed, std::memory_order order) {
  Fiber* me = explorer->current();
  if (changed) ++explorer->changes;
  if (me == nullptr) return;
  me->history = mix(me->history, before);
  if (acquires(order)) join(me->clock, released_);
  if (releases(order)) join(released_, me->clock);
  ++me->clock[explorer->current_index()];
}

std::uint64_t AtomicObject::digest_with(std::uint64_t value) const {
  return mix(mix(0, value), released_);
}

void CellObject::note_read() const {
  Fiber* me = explorer->current();
  if (me == nullptr) return;
  if (written_ > me->clock[writer_]) explorer->fail("a read races with a write");
  me->history = mix(me->history, content_);
  const std::size_t index = explorer->current_index();
  read_[index] = me->clock[index];
}

void CellObject::note_write() {
  Fiber* me = explorer->current();
  if (me == nullptr) return;
  if (written_ > me->clock[writer_]) explorer->fail("two writes race");
  for (std::size_t i = 0; i < kMaxThreads; ++i) {
    if (read_[i] > me->clock[i]) explorer->fail("a write races with a read");
  }
  writer_ = explorer->current_index();
  written_ = me->clock[writer_];
  content_ = me->history;
}

std::uint64_t CellObject::digest() const {
  return mix(mix(mix(content_, writer_), written_), read_);
}

}  // namespace detail
}  // namespace rockhopper::interleavings
