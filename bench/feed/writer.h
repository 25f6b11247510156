// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "apps/rh_publish/rate_limiter.h"
#include "apps/services/publisher/store.h"

namespace rockhopper::bench {

struct WriterConfig {
  std::uint32_t bytes = 64;     ///< of a message, from the size of a Stamp on
  std::uint32_t burst = 64;     ///< messages that are shown to subscribers at once
  double rate_per_s = 0;        ///< 0: as fast as it can
  std::optional<unsigned> cpu;  ///< a thread of its own, on that processor
};

/// Writes a feed into a store: on a thread of its own, or a burst whenever turn() is called.
class Writer {
 public:
  enum class Mode { idle, warm_up, measured };

  /// `store` must outlive it.
  Writer(publisher::Store& store, const WriterConfig& config);
  Writer(const Writer&) = delete;
  Writer& operator=(const Writer&) = delete;
  ~Writer();

  /// Any thread, like all that follows.
  void set_mode(Mode mode) { mode_.store(mode, std::memory_order_release); }
  /// A burst, if it is time and the writer has no thread. By one thread.
  void turn();

  struct Work {
    std::uint64_t messages = 0;
    double seconds = 0;  ///< of a processor
  };
  /// So far.
  [[nodiscard]] Work work() const;

 private:
  void run();
  void write(Mode mode, std::uint64_t now_ns);

  publisher::Store& store_;
  WriterConfig config_;
  apps::publish::RateLimiter limiter_;
  std::vector<std::byte> payload_;
  std::atomic<Mode> mode_ = Mode::idle;
  std::atomic<bool> stop_ = false;
  std::atomic<std::uint64_t> messages_ = 0;
  std::atomic<std::uint64_t> cycles_ = 0;  ///< of the time stamp counter, in turn()
  std::thread thread_;
};

}  // namespace rockhopper::bench
