// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/rh_ami/application.h"

namespace rockhopper::apps::messages {

Application::Application(bool own_thread, IdlePolicy idle) : idle_(idle) {
  if (own_thread) {
    thread_ = std::thread([this] { run(); });
  }
}

Application::~Application() {
  quit_.store(true, std::memory_order_relaxed);
  if (thread_.joinable()) thread_.join();
}

void Application::set(Work* work, Background& adapter) {
  wanted_.store(work, std::memory_order_release);
  if (!thread_.joinable()) {
    running_.store(work, std::memory_order_relaxed);
    return;
  }
  while (running_.load(std::memory_order_acquire) != work) {
    (void)adapter.turn();
  }
}

bool Application::turn() {
  if (thread_.joinable()) return false;
  Work* work = running_.load(std::memory_order_relaxed);
  return work != nullptr && work->turn();
}

void Application::run() {
  Idler idler(idle_);
  while (!quit_.load(std::memory_order_relaxed)) {
    Work* work = wanted_.load(std::memory_order_acquire);
    running_.store(work, std::memory_order_release);
    const bool worked = work != nullptr && work->turn();
    if (idler.is_time(worked)) idler.rest(kLongIdleSleepNs);
  }
}

}  // namespace rockhopper::apps::messages
