// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

#include "stack/error.h"

namespace rockhopper::apps::publish {

enum class Next : std::uint8_t {
  message,
  nothing,  ///< for now
  end,      ///< and nothing ever comes again
};

/// Where messages come from. For one thread; no function waits.
class Source {
 public:
  using CounterVisit = std::function<void(const char* name, std::uint64_t value)>;

  Source() = default;
  Source(const Source&) = delete;
  Source& operator=(const Source&) = delete;
  virtual ~Source() = default;

  /// With Next::message `payload` is the message, and the source's until the next call. An error
  /// is one line that names the input; the source is of no use afterwards.
  [[nodiscard]] virtual Expected<Next> next(std::uint64_t now_ns,
                                            std::span<const std::byte>& payload) = 0;
  virtual void visit_counters(const CounterVisit&) const {}
};

}  // namespace rockhopper::apps::publish
