// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdio>
#include <memory>
#include <optional>

#include "dc/endpoint.h"
#include "stack/error.h"
#include "stack/telemetry.h"

namespace rockhopper::apps {

/// A program's end of dynamic connections. Its counters are the group "dc" of telemetry and of the
/// printed statistics. Empty until create() has given it one.
class DcEndpoint {
 public:
  /// `engine` must outlive it. A process has one.
  [[nodiscard]] static Expected<DcEndpoint> create(roce::Engine& engine,
                                                   const dc::EndpointConfig& config = {});

  [[nodiscard]] dc::Endpoint* get() const { return endpoint_.get(); }
  [[nodiscard]] dc::Endpoint* operator->() const { return endpoint_.get(); }
  /// Every counter that is not 0, a line each.
  void print_statistics(std::FILE* out) const;

 private:
  std::unique_ptr<dc::Endpoint> endpoint_;
  std::optional<stack::CounterGroup> counters_;
};

}  // namespace rockhopper::apps
