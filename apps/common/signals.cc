// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/common/signals.h"

#include <atomic>
#include <csignal>

#include <fmt/format.h>

namespace rockhopper::apps {
namespace {

std::atomic<int> stop_signal{0};
static_assert(std::atomic<int>::is_always_lock_free);

std::atomic<bool> reload_asked{false};
static_assert(std::atomic<bool>::is_always_lock_free);

std::atomic<bool> pause_asked{false};

void on_pause(int) { pause_asked.store(true, std::memory_order_relaxed); }

void on_reload(int) { reload_asked.store(true, std::memory_order_relaxed); }

void on_signal(int signal) { stop_signal.store(signal, std::memory_order_relaxed); }

}  // namespace

void catch_stop_signals() {
  struct sigaction action = {};
  action.sa_handler = &on_signal;
  // The second signal meets the default action: a way out should a clean stop hang.
  action.sa_flags = static_cast<int>(SA_RESETHAND);
  sigemptyset(&action.sa_mask);
  (void)sigaction(SIGINT, &action, nullptr);
  (void)sigaction(SIGTERM, &action, nullptr);
  (void)std::signal(SIGPIPE, SIG_IGN);
}

bool stop_requested() { return stop_signal.load(std::memory_order_relaxed) != 0; }

void catch_reload_signal() {
  struct sigaction action = {};
  action.sa_handler = &on_reload;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  (void)sigaction(SIGHUP, &action, nullptr);
}

bool take_reload_request() { return reload_asked.exchange(false, std::memory_order_relaxed); }

void catch_pause_signal() {
  struct sigaction action = {};
  action.sa_handler = &on_pause;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  (void)sigaction(SIGUSR1, &action, nullptr);
}

bool take_pause_request() { return pause_asked.exchange(false, std::memory_order_relaxed); }

Error interrupted() {
  const int signal = stop_signal.load(std::memory_order_relaxed);
  return Error{ErrorCode::invalid_state,
               fmt::format("interrupted by {}", signal == SIGTERM ? "SIGTERM" : "SIGINT")};
}

}  // namespace rockhopper::apps
