// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "apps/services/dag/graph/node_runner.h"
#include "apps/services/dag/schedule/worker.h"

namespace rockhopper::apps::dag_node {

/// Runs the tasks of nodes for a worker.
class Executor : public dag::NodeExecutor {
 public:
  /// Who gets the results from now on; null: nobody.
  void set_worker(dag::Worker* worker) { worker_ = worker; }
  /// Hands over what is done. True if there was something.
  virtual bool deliver() = 0;
  /// What jobs name is needed no more.
  [[nodiscard]] virtual bool idle() const = 0;
  /// Nobody wants what is being run.
  virtual void abandon_all() = 0;

 protected:
  [[nodiscard]] dag::Worker* worker() const { return worker_; }

 private:
  dag::Worker* worker_ = nullptr;
};

/// In the caller's thread, at once: for tasks that are shorter than a lease by far.
class InlineExecutor final : public Executor {
 public:
  /// `registry` must outlive it.
  InlineExecutor(const dag::FunctionRegistry& registry, dag::CommandRunner run_command)
      : runner_(registry, std::move(run_command)) {}

  [[nodiscard]] std::size_t room() const override { return 1; }
  void start(const Job& job) override;
  bool deliver() override { return false; }
  [[nodiscard]] bool idle() const override { return true; }
  void abandon_all() override {}

 private:
  dag::NodeRunner runner_;
  std::vector<std::byte> output_;
};

/// On threads of its own, one node each at a time.
class ThreadExecutor final : public Executor {
 public:
  ThreadExecutor(const dag::FunctionRegistry& registry, const dag::CommandRunner& run_command,
                 unsigned threads);
  /// What is being run is finished first, as soon as it can be.
  ~ThreadExecutor() override;

  [[nodiscard]] std::size_t room() const override;
  void start(const Job& job) override;
  void abandon(std::uint64_t ticket) override;
  bool deliver() override;
  [[nodiscard]] bool idle() const override;
  void abandon_all() override;

  /// Of the calling thread: whether what it runs was abandoned. For functions that last.
  [[nodiscard]] static bool is_abandoned();

 private:
  /// A thread and what it has to do. Its owner is the thread while `busy`, else the executor.
  struct Lane {
    Lane(const dag::FunctionRegistry& registry, const dag::CommandRunner& run_command)
        : runner(registry, run_command) {}
    dag::NodeRunner runner;
    Job job;
    std::vector<std::byte> output;
    Expected<void> result;
    std::uint64_t start_ns = 0;
    std::uint64_t end_ns = 0;
    bool in_use = false;  ///< until it has been delivered
    std::atomic<bool> busy{false};
    std::atomic<bool> abandoned{false};
    std::mutex mutex;
    std::condition_variable wake;
    bool stop = false;
    std::thread thread;
  };

  static void work(Lane& lane);

  std::vector<std::unique_ptr<Lane>> lanes_;
};

}  // namespace rockhopper::apps::dag_node
