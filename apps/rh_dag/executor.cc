// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/rh_dag/executor.h"

#include <algorithm>
#include <utility>

#include "apps/common/steady_clock.h"

namespace rockhopper::apps::dag_node {
namespace {

thread_local const std::atomic<bool>* abandoned_here = nullptr;

Expected<std::span<const std::byte>> outcome_of(const Expected<void>& result,
                                                const std::vector<std::byte>& output) {
  ROCKHOPPER_TRY(result);
  return std::span<const std::byte>(output);
}

}  // namespace

// In the caller's thread.

void InlineExecutor::start(const Job& job) {
  const std::uint64_t start_ns = steady_now_ns();
  const auto result = runner_.run(job.key, job.tasks, job.inputs, output_);
  worker()->complete(job.ticket, outcome_of(result, output_), start_ns, steady_now_ns());
}

// On threads.

ThreadExecutor::ThreadExecutor(const dag::FunctionRegistry& registry,
                               const dag::CommandRunner& run_command, unsigned threads) {
  for (unsigned i = 0; i < threads; ++i) {
    lanes_.push_back(std::make_unique<Lane>(registry, run_command));
    Lane& lane = *lanes_.back();
    lane.thread = std::thread([&lane] { work(lane); });
  }
}

ThreadExecutor::~ThreadExecutor() {
  abandon_all();
  for (const auto& lane : lanes_) {
    {
      const std::lock_guard lock(lane->mutex);
      lane->stop = true;
    }
    lane->wake.notify_one();
    lane->thread.join();
  }
}

void ThreadExecutor::work(Lane& lane) {
  abandoned_here = &lane.abandoned;
  std::unique_lock lock(lane.mutex);
  for (;;) {
    lane.wake.wait(lock, [&lane] { return lane.stop || lane.busy.load(); });
    if (!lane.busy.load()) return;
    lock.unlock();
    lane.start_ns = steady_now_ns();
    lane.result = lane.runner.run(lane.job.key, lane.job.tasks, lane.job.inputs, lane.output);
    lane.end_ns = steady_now_ns();
    lock.lock();
    lane.busy.store(false);
  }
}

std::size_t ThreadExecutor::room() const {
  return static_cast<std::size_t>(
      std::count_if(lanes_.begin(), lanes_.end(), [](const auto& lane) { return !lane->in_use; }));
}

void ThreadExecutor::start(const Job& job) {
  const auto free =
      std::find_if(lanes_.begin(), lanes_.end(), [](const auto& lane) { return !lane->in_use; });
  Lane& lane = **free;
  lane.in_use = true;
  {
    const std::lock_guard lock(lane.mutex);
    lane.job = job;
    lane.abandoned.store(false);
    lane.busy.store(true);
  }
  lane.wake.notify_one();
}

void ThreadExecutor::abandon(std::uint64_t ticket) {
  for (const auto& lane : lanes_) {
    if (lane->in_use && lane->job.ticket == ticket) lane->abandoned.store(true);
  }
}

void ThreadExecutor::abandon_all() {
  for (const auto& lane : lanes_) {
    lane->abandoned.store(true);
  }
}

bool ThreadExecutor::deliver() {
  bool worked = false;
  for (const auto& lane : lanes_) {
    if (!lane->in_use || lane->busy.load()) continue;
    worked = true;
    if (worker() != nullptr) {
      worker()->complete(lane->job.ticket, outcome_of(lane->result, lane->output), lane->start_ns,
                         lane->end_ns);
    }
    lane->in_use = false;
  }
  return worked;
}

bool ThreadExecutor::idle() const {
  return std::none_of(lanes_.begin(), lanes_.end(), [](const auto& lane) { return lane->in_use; });
}

bool ThreadExecutor::is_abandoned() { return abandoned_here != nullptr && *abandoned_here; }

}  // namespace rockhopper::apps::dag_node
