// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/rh_stats/program.h"

#include <algorithm>
#include <fstream>

#include <fmt/format.h>

#include "apps/common/steady_clock.h"

namespace rockhopper::apps::stats {
namespace {

/// Answers that one group may take: each has room for hundreds of counters.
constexpr int kPagesMax = 1000;

std::string process_name(std::int64_t pid) {
  std::string name;
  std::ifstream file(fmt::format("/proc/{}/comm", pid));
  std::getline(file, name);
  return name;
}

}  // namespace

Expected<Program> Program::connect(const TelemetrySocket& socket) {
  ROCKHOPPER_TRY(auto client, TelemetryClient::connect(socket.path));
  Program program(socket, std::move(client));
  program.name_ = process_name(program.pid());
  auto list = program.client_.ask("/rockhopper/list");
  if (!list) return fail(list.error().code, "{}: {}", socket.path, list.error().message);
  if (list->is_array()) {
    for (const Json& group : *list) {
      if (group.is_string()) program.groups_.push_back(group.get<std::string>());
    }
  }
  return program;
}

Expected<Counters> Program::read_group(const std::string& group) {
  Counters counters;
  std::uint64_t first = 0;
  for (int page = 0; page < kPagesMax; ++page) {
    ROCKHOPPER_TRY(auto answer,
                   client_.ask(fmt::format("/rockhopper/counters,{},{}", group, first)));
    if (!answer.is_object()) return counters;  // the group has gone
    std::uint64_t next = 0;
    for (const auto& [name, value] : answer.items()) {
      if (!value.is_number_unsigned()) continue;
      if (name == "next") {
        next = value.get<std::uint64_t>();
      } else {
        counters.emplace_back(name, value.get<std::uint64_t>());
      }
    }
    if (next <= first) return counters;
    first = next;
  }
  return fail(ErrorCode::unsupported, "group {} does not end", group);
}

Expected<Snapshot> Program::read(const std::vector<std::string>& wanted) {
  Snapshot snapshot;
  snapshot.time_ns = steady_now_ns();
  for (const std::string& group : groups_) {
    if (!wanted.empty() && std::find(wanted.begin(), wanted.end(), group) == wanted.end()) continue;
    ROCKHOPPER_TRY(auto counters, read_group(group));
    if (!counters.empty()) snapshot.groups.emplace(group, std::move(counters));
  }
  return snapshot;
}

}  // namespace rockhopper::apps::stats
