// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>
#include <memory>

#include "dc/cnak_queue.h"
#include "dc/counters.h"
#include "dc/endpoint_config.h"
#include "dc/number_table.h"
#include "dc/targets.h"
#include "roce/engine.h"
#include "roce/extension_context.h"
#include "roce/random.h"
#include "roce/wire/dcsh.h"

namespace rockhopper::dc {

/// What the parts of an endpoint have in common: where they stand, what they are told, and each
/// other. The endpoint makes it; it outlives all of them. On the engine's thread.
struct EndpointContext {
  EndpointContext(roce::Engine& its_engine, roce::ExtensionContext& its_extension,
                  const EndpointConfig& its_config)
      : engine(its_engine),
        extension(its_extension),
        config(its_config),
        incarnation(random().next()),
        numbers(random(), extension.config().shards, extension.config().shard,
                extension.config().qpns) {}

  [[nodiscard]] roce::Random& random() const { return *extension.config().random; }
  /// Returns the largest path MTU whose packets, session header included, fit the interface MTU.
  [[nodiscard]] std::uint32_t max_path_mtu() const {
    return engine.max_path_mtu(static_cast<std::uint32_t>(wire::Dcsh::kSize));
  }

  roce::Engine& engine;
  roce::ExtensionContext& extension;  ///< what only an extension may do to the engine
  const EndpointConfig config;
  const std::uint64_t incarnation;  ///< unlike that of an endpoint that was here before
  NumberTable numbers;
  Counters counters;
  std::unique_ptr<CnakQueue> cnaks;
  std::unique_ptr<Targets> targets;
};

}  // namespace rockhopper::dc
