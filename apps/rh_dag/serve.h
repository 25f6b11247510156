// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include "apps/common/endpoint_options.h"
#include "apps/rh_dag/serve_options.h"
#include "stack/eal.h"

namespace rockhopper::apps::dag_node {

/// A run of `rh-dag serve`: until a signal comes.
[[nodiscard]] Expected<void> serve(const ServeOptions& options, const EndpointConfig& config,
                                   const stack::Arguments& arguments);

}  // namespace rockhopper::apps::dag_node
