// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/rh_stats/sockets.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <system_error>

#include <unistd.h>

namespace rockhopper::apps::stats {
namespace {

namespace fs = std::filesystem;

/// Processes that share a runtime directory (--in-memory) add ":1" and so on.
constexpr const char* kSocketName = "dpdk_telemetry.v2";

/// Entries of a directory; none when it is not there or not ours to read.
std::vector<fs::path> entries(const fs::path& directory) {
  std::vector<fs::path> result;
  std::error_code error;
  for (fs::directory_iterator at(directory, error), end; !error && at != end; at.increment(error)) {
    result.push_back(at->path());
  }
  std::sort(result.begin(), result.end());
  return result;
}

}  // namespace

std::vector<std::string> runtime_parents() {
  std::vector<fs::path> bases{"/var/run", "/tmp"};
  for (const char* name : {"RUNTIME_DIRECTORY", "XDG_RUNTIME_DIR"}) {
    const char* value = std::getenv(name);
    if (value == nullptr || *value == '\0') continue;
    bases.emplace_back(value);
    bases.push_back(fs::path(value) / "rockhopper");
  }
  bases.push_back(fs::path("/run/user") / std::to_string(getuid()));
  bases.emplace_back("/tmp/rockhopper-" + std::to_string(getuid()));

  std::vector<std::string> parents;
  for (const fs::path& base : bases) {
    std::error_code error;
    const fs::path parent = fs::canonical(base / "dpdk", error);  // /var/run is a link to /run
    if (!error && std::find(parents.begin(), parents.end(), parent) == parents.end()) {
      parents.push_back(parent);
    }
  }
  return parents;
}

std::vector<TelemetrySocket> find_sockets(const std::vector<std::string>& parents) {
  std::vector<TelemetrySocket> sockets;
  for (const std::string& parent : parents) {
    for (const fs::path& directory : entries(parent)) {
      for (const fs::path& entry : entries(directory)) {
        std::error_code error;
        if (entry.filename().string().starts_with(kSocketName) && fs::is_socket(entry, error)) {
          sockets.push_back({.path = entry, .file_prefix = directory.filename()});
        }
      }
    }
  }
  return sockets;
}

}  // namespace rockhopper::apps::stats
