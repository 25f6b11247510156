// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/common/progress.h"

#include <cstdio>
#include <utility>

#include <fmt/format.h>
#include <unistd.h>

#include "apps/common/steady_clock.h"

namespace rockhopper::apps {
namespace {

constexpr std::uint64_t kIntervalNs = kNsPerSecond / 2;

}  // namespace

Progress::Progress(std::string what)
    : what_(std::move(what)),
      terminal_(isatty(STDERR_FILENO) != 0),
      next_ns_(steady_now_ns() + kIntervalNs) {}

Progress::~Progress() {
  if (shown_) fmt::print(stderr, "\r\033[K");
}

void Progress::update(std::uint64_t done, std::uint64_t total) {
  if (!terminal_) return;
  const std::uint64_t now_ns = steady_now_ns();
  if (now_ns < next_ns_) return;
  next_ns_ = now_ns + kIntervalNs;
  shown_ = true;
  if (total == 0) {
    fmt::print(stderr, "\r\033[K{}: {}", what_, done);
  } else {
    fmt::print(stderr, "\r\033[K{}: {} of {} ({} %)", what_, done, total, done * 100 / total);
  }
  (void)std::fflush(stderr);
}

}  // namespace rockhopper::apps
