// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <map>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "apps/rh_publish/source.h"
#include "roce/random.h"

namespace rockhopper::apps::publish {

/// What a source gave until it had nothing, or ended.
struct Taken {
  std::vector<std::string> messages;
  bool ended = false;
  std::string error;  ///< empty: none
};

inline Taken take_all(Source& source, std::uint64_t now_ns = 0) {
  Taken taken;
  for (;;) {
    std::span<const std::byte> payload;
    const auto next = source.next(now_ns, payload);
    if (!next) {
      taken.error = next.error().message;
      return taken;
    }
    if (*next != Next::message) {
      taken.ended = *next == Next::end;
      return taken;
    }
    taken.messages.emplace_back(reinterpret_cast<const char*>(payload.data()), payload.size());
  }
}

inline std::map<std::string, std::uint64_t> counters_of(const Source& source) {
  std::map<std::string, std::uint64_t> counters;
  source.visit_counters([&](const char* name, std::uint64_t value) { counters[name] = value; });
  return counters;
}

/// Any bytes but LF; in `all`, LF too.
inline std::string random_message(roce::Random& random, std::size_t length, bool all) {
  std::string message(length, '\0');
  for (char& c : message) {
    c = static_cast<char>(random.below(256));
    if (!all && c == '\n') c = '\r';
  }
  return message;
}

inline std::string record_of(std::string_view payload) {
  std::string record;
  for (unsigned shift = 0; shift < 32; shift += 8) {
    record += static_cast<char>(payload.size() >> shift);
  }
  return record += payload;
}

}  // namespace rockhopper::apps::publish
