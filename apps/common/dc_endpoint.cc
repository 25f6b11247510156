// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/common/dc_endpoint.h"

#include "apps/common/counters.h"

namespace rockhopper::apps {

Expected<DcEndpoint> DcEndpoint::create(roce::Engine& engine, const dc::EndpointConfig& config) {
  DcEndpoint made;
  ROCKHOPPER_TRY(made.endpoint_, dc::Endpoint::create(engine, config));
  ROCKHOPPER_TRY(made.counters_, stack::add_counter_group("dc", *made.endpoint_));
  return made;
}

void DcEndpoint::print_statistics(std::FILE* out) const { print_counters(out, "dc", *endpoint_); }

}  // namespace rockhopper::apps
