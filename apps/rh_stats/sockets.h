// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <string>
#include <vector>

namespace rockhopper::apps::stats {

/// The telemetry socket of a DPDK process, alive or not.
struct TelemetrySocket {
  std::string path;
  std::string file_prefix;  ///< of the process, as given to its EAL
};

/// The directories that DPDK processes of this user have their runtime directories in, each once:
/// $RUNTIME_DIRECTORY/dpdk, /var/run/dpdk, $XDG_RUNTIME_DIR/dpdk, that of programs which were
/// started without this variable, and /tmp/dpdk.
[[nodiscard]] std::vector<std::string> runtime_parents();

/// The telemetry sockets below `parents`, in order of their paths. Directories that cannot be read
/// have none.
[[nodiscard]] std::vector<TelemetrySocket> find_sockets(const std::vector<std::string>& parents);

}  // namespace rockhopper::apps::stats
