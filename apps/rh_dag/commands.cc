// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/rh_dag/commands.h"

namespace rockhopper::apps::dag_node {

ExitStatus ClientCommand::run(const CommandLine& line) {
  if (auto prepared = prepare(); !prepared) return line.usage_error(prepared.error());
  return line.run(line.endpoint_config(connect_.endpoint, Role::client, connect_.path_mtu),
                  connect_.json,
                  [this](const EndpointConfig& config, const stack::Arguments& arguments) {
                    return execute({connect_, config, arguments});
                  });
}

}  // namespace rockhopper::apps::dag_node
