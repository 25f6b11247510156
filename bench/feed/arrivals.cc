// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "bench/feed/arrivals.h"

#include <algorithm>
#include <stdexcept>

#include <nlohmann/json.hpp>

#include "apps/common/steady_clock.h"
#include "bench/feed/stamp.h"

namespace rockhopper::bench {

Arrivals::Arrivals(std::size_t subscribers, std::uint64_t window_ns, bool with_latency)
    : subscribers_(subscribers), window_ns_(window_ns), with_latency_(with_latency) {}

void Arrivals::take(std::size_t subscriber, std::span<const std::byte> payload) {
  const auto stamp = stamp_of(payload);
  if (!stamp) throw std::runtime_error("a message of the feed is too short");
  Subscriber& to = subscribers_[subscriber];
  if (stamp->sequence < to.next.value_or(0)) {
    throw std::runtime_error("a message has come twice, or too late");
  }
  const std::uint64_t lost = to.next ? stamp->sequence - *to.next : 0;
  to.next = stamp->sequence + 1;
  if (stamp->measured == 0) return;
  warm_ = true;
  if (!begun() || over()) return;
  ++to.messages;
  any_ = true;
  to.lost += lost;
  if (with_latency_) {
    const std::uint64_t now_ns = apps::steady_now_ns();
    latency_.add(now_ns - std::min(now_ns, stamp->time_ns));
  }
}

void Arrivals::tick(std::uint64_t now_ns) {
  if (!warm_ || over()) return;
  if (!begun()) {
    start_ns_ = now_ns;
  } else if (any_ && now_ns - *start_ns_ >= window_ns_) {
    end_ns_ = now_ns;
  }
}

nlohmann::json Arrivals::report() const {
  std::uint64_t messages = 0;
  std::uint64_t lost = 0;
  std::uint64_t fewest = UINT64_MAX;
  for (const Subscriber& subscriber : subscribers_) {
    messages += subscriber.messages;
    lost += subscriber.lost;
    fewest = std::min(fewest, subscriber.messages);
  }
  const double seconds = over() ? static_cast<double>(*end_ns_ - *start_ns_) / kNsPerSecond : 0;
  nlohmann::json report{{"subscribers", subscribers_.size()},
                        {"seconds", seconds},
                        {"messages", messages},
                        {"lost", lost},
                        {"fewest", fewest}};
  if (latency_.count() > 0) {
    report["latency_us"] = {{"p50", latency_.percentile_ns(0.5) / 1e3},
                            {"p99", latency_.percentile_ns(0.99) / 1e3}};
  }
  return report;
}

}  // namespace rockhopper::bench
