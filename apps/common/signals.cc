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

std::atomic<void (*)()> last_action{nullptr};

/// The second signal meets the default action: a way out should a clean stop hang.
void on_signal(int signal) {
  if (stop_signal.exchange(signal, std::memory_order_relaxed) == 0) return;
  if (void (*const action)() = last_action.load()) action();
  (void)std::signal(signal, SIG_DFL);
  (void)std::raise(signal);
}

}  // namespace

void catch_stop_signals() {
  struct sigaction action = {};
  action.sa_handler = &on_signal;
  sigemptyset(&action.sa_mask);
  (void)sigaction(SIGINT, &action, nullptr);
  (void)sigaction(SIGTERM, &action, nullptr);
  (void)std::signal(SIGPIPE, SIG_IGN);
  (void)std::signal(SIGXFSZ, SIG_IGN);
}

void on_second_stop_signal(void (*action)()) { last_action.store(action); }

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
