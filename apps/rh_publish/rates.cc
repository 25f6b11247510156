// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/rh_publish/rates.h"

#include <utility>

#include <fmt/format.h>

namespace rockhopper::apps::publish {

bool Rates::due(std::uint64_t now_ns) {
  if (interval_ns_ == 0 || now_ns < next_ns_) return false;
  now_ns_ = now_ns;
  next_ns_ = now_ns + interval_ns_;
  return true;
}

std::string Rates::line(const std::string& store, std::uint64_t messages, std::uint64_t bytes) {
  const auto [found, first] = before_.try_emplace(store);
  const Before before = std::exchange(
      found->second, Before{.messages = messages, .bytes = bytes, .time_ns = now_ns_});
  if (first || now_ns_ <= before.time_ns) return {};
  const double seconds = static_cast<double>(now_ns_ - before.time_ns) * 1e-9;
  return fmt::format("{}: {:.0f} messages/s {:.3f} MB/s, {} messages", store,
                     static_cast<double>(messages - before.messages) / seconds,
                     static_cast<double>(bytes - before.bytes) / seconds * 1e-6, messages);
}

}  // namespace rockhopper::apps::publish
