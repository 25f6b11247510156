// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/common/dc_endpoint.h"

#include <utility>

#include "apps/common/counters.h"

namespace rockhopper::apps {

Expected<DcEndpoint> DcEndpoint::create(roce::Engine& engine, const dc::EndpointConfig& config) {
  DcEndpoint made;
  auto endpoint = dc::Endpoint::create(engine, config);
  if (!endpoint) return tl::make_unexpected(endpoint.error());
  made.endpoint_ = std::move(*endpoint);
  auto counters = stack::add_counter_group("dc", *made.endpoint_);
  if (!counters) return tl::make_unexpected(counters.error());
  made.counters_ = std::move(*counters);
  return made;
}

void DcEndpoint::print_statistics(std::FILE* out) const { print_counters(out, "dc", *endpoint_); }

}  // namespace rockhopper::apps
