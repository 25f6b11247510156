// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <atomic>
#include <thread>

#include "apps/common/background.h"
#include "apps/common/idle.h"

namespace rockhopper::apps::messages {

/// What an application does with its context: one turn after another, without waiting.
class Work {
 public:
  Work() = default;
  Work(const Work&) = delete;
  Work& operator=(const Work&) = delete;
  virtual ~Work() = default;
  /// True if there was something to do.
  virtual bool turn() = 0;
};

/// Gives the work its turns: on the thread of the adapter, or on one of its own, which is the only
/// one that injects (AM-30).
class Application {
 public:
  Application(bool own_thread, IdlePolicy idle);
  Application(const Application&) = delete;
  Application& operator=(const Application&) = delete;
  ~Application();

  /// From the return on `work` has the turns, null for nobody, and what had them before has no
  /// more: what it has left is the caller's. `adapter` goes on meanwhile.
  void set(Work* work, Background& adapter);
  /// A turn of the work, unless it has a thread.
  bool turn();

 private:
  void run();

  std::atomic<Work*> wanted_{nullptr};
  std::atomic<Work*> running_{nullptr};
  std::atomic<bool> quit_{false};
  IdlePolicy idle_;
  std::thread thread_;
};

}  // namespace rockhopper::apps::messages
