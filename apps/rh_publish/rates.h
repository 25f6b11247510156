// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace rockhopper::apps::publish {

/// What --stats shows now and then: messages and bytes a second, for each store.
class Rates {
 public:
  /// `interval_s` 0: never.
  explicit Rates(double interval_s) : interval_ns_(static_cast<std::uint64_t>(interval_s * 1e9)) {}

  /// Whether it is time. Then line() for each store.
  [[nodiscard]] bool due(std::uint64_t now_ns);
  /// "STORE: 1000 messages/s 0.064 MB/s, 12345 messages", for the time since the line before;
  /// empty the first time.
  [[nodiscard]] std::string line(const std::string& store, std::uint64_t messages,
                                 std::uint64_t bytes);

 private:
  struct Before {
    std::uint64_t messages = 0;
    std::uint64_t bytes = 0;
    std::uint64_t time_ns = 0;
  };

  std::uint64_t interval_ns_;
  std::uint64_t now_ns_ = 0;
  std::uint64_t next_ns_ = 0;
  std::map<std::string, Before> before_;
};

}  // namespace rockhopper::apps::publish
