// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdio>

#include "roce/event_trace.h"

namespace rockhopper::apps {

/// Prints an engine's events, a line each, for people.
class EventPrinter final : public roce::EventTrace {
 public:
  /// `out` is not owned.
  explicit EventPrinter(std::FILE* out) : out_(out) {}
  void on_event(std::uint64_t now_ns, wire::Qpn qp, roce::TraceEvent event, std::uint32_t a,
                std::uint32_t b) override;

 private:
  std::FILE* out_;
};

}  // namespace rockhopper::apps
