// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/rh_stats/program.h"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <type_traits>

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

template <typename Value>
bool is_of(const Json& value) {
  return std::is_same_v<Value, std::string> ? value.is_string() : value.is_number_unsigned();
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

std::vector<std::string> Program::chosen(const std::vector<std::string>& wanted) const {
  if (wanted.empty()) return groups_;
  std::vector<std::string> groups;
  std::copy_if(groups_.begin(), groups_.end(), std::back_inserter(groups),
               [&wanted](const std::string& group) {
                 return std::find(wanted.begin(), wanted.end(), group) != wanted.end();
               });
  return groups;
}

template <typename Value>
Expected<Entries<Value>> Program::ask_about(const std::string& group, const char* command) {
  Entries<Value> entries;
  std::uint64_t first = 0;
  for (int page = 0; page < kPagesMax; ++page) {
    ROCKHOPPER_TRY(auto answer,
                   client_.ask(fmt::format("/rockhopper/{},{},{}", command, group, first)));
    if (!answer.is_object()) return entries;  // the group has gone, or there is no such command
    std::uint64_t next = 0;
    for (const auto& [name, value] : answer.items()) {
      if (name == "next" && value.is_number_unsigned()) {
        next = value.template get<std::uint64_t>();
      } else if (is_of<Value>(value)) {
        entries.emplace_back(name, value.template get<Value>());
      }
    }
    if (next <= first) return entries;
    first = next;
  }
  return fail(ErrorCode::unsupported, "group {} does not end", group);
}

Expected<Snapshot> Program::read(const std::vector<std::string>& wanted) {
  Snapshot snapshot;
  snapshot.time_ns = steady_now_ns();
  for (const std::string& group : chosen(wanted)) {
    ROCKHOPPER_TRY(auto counters, ask_about<std::uint64_t>(group, "counters"));
    if (!counters.empty()) snapshot.groups.emplace(group, std::move(counters));
  }
  return snapshot;
}

Expected<GroupTexts> Program::describe(const std::vector<std::string>& wanted) {
  GroupTexts all;
  for (const std::string& group : chosen(wanted)) {
    ROCKHOPPER_TRY(auto texts, ask_about<std::string>(group, "texts"));
    if (!texts.empty()) all.emplace(group, std::move(texts));
  }
  if (all.empty()) return fail(ErrorCode::unsupported, "does not say what its counters count");
  return all;
}

}  // namespace rockhopper::apps::stats
