// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "apps/common/latency_histogram.h"

namespace rockhopper::bench {

/// What the subscribers of a process receive: all together so many messages in a window of time,
/// and how old they were. The window begins when the feed has warmed up, and goes on until there is
/// one at least. For one thread.
class Arrivals {
 public:
  /// `with_latency`: looks at the clock for each message.
  Arrivals(std::size_t subscribers, std::uint64_t window_ns, bool with_latency);

  /// A message has come. Throws if it is none of a feed, or not behind those before.
  void take(std::size_t subscriber, std::span<const std::byte> payload);
  /// To be called between messages: begins the window, and ends it.
  void tick(std::uint64_t now_ns);
  [[nodiscard]] bool over() const { return end_ns_.has_value(); }
  [[nodiscard]] bool begun() const { return start_ns_.has_value(); }

  /// Of the window: seconds, messages and lost ones of all subscribers, the fewest that one has
  /// received, microseconds from publishing to here.
  [[nodiscard]] nlohmann::json report() const;

 private:
  struct Subscriber {
    std::optional<std::uint64_t> next;  ///< sequence number
    std::uint64_t messages = 0;
    std::uint64_t lost = 0;
  };

  std::vector<Subscriber> subscribers_;
  std::uint64_t window_ns_;
  bool with_latency_;
  bool warm_ = false;
  bool any_ = false;  ///< in the window
  std::optional<std::uint64_t> start_ns_;
  std::optional<std::uint64_t> end_ns_;
  apps::LatencyHistogram latency_;
};

}  // namespace rockhopper::bench
