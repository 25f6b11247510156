// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/rh_stats/view.h"

#include <algorithm>
#include <string>

#include <fmt/format.h>
#include <fnmatch.h>

namespace rockhopper::apps::stats {
namespace {

double seconds_between(const Snapshot& before, const Snapshot& now) {
  return static_cast<double>(now.time_ns - before.time_ns) / 1e9;
}

void print_heading(std::FILE* out, const Program& program) {
  fmt::print(out, "{} (pid {}, file prefix {})\n", program.name(), program.pid(),
             program.socket().file_prefix);
}

/// What an object says of the program that it is about.
Json heading_to_json(const Program& program) {
  return {{"pid", program.pid()},
          {"name", program.name()},
          {"file_prefix", program.socket().file_prefix}};
}

}  // namespace

double rate_of(const Snapshot& now, const Snapshot& before, const std::string& group,
               const std::string& name, std::uint64_t value) {
  const auto old_group = before.groups.find(group);
  if (old_group == before.groups.end() || now.time_ns <= before.time_ns) return 0;
  const auto old = std::find_if(old_group->second.begin(), old_group->second.end(),
                                [&name](const auto& counter) { return counter.first == name; });
  if (old == old_group->second.end()) return 0;
  // Numbers of entries and the like may fall.
  return (static_cast<double>(value) - static_cast<double>(old->second)) /
         seconds_between(before, now);
}

void print_counters(std::FILE* out, const Program& program, const Snapshot& now,
                    const Snapshot* before, bool zeros) {
  print_heading(out, program);
  fmt::print(out, "  {:<16} {:<32} {:>20}{}\n", "GROUP", "COUNTER", "VALUE",
             before == nullptr ? "" : fmt::format(" {:>16}", "PER SECOND"));
  for (const auto& [group, counters] : now.groups) {
    for (const auto& [name, value] : counters) {
      if (value == 0 && !zeros) continue;
      fmt::print(out, "  {:<16} {:<32} {:>20}", group, name, value);
      if (before != nullptr) {
        fmt::print(out, " {:>16.1f}", rate_of(now, *before, group, name, value));
      }
      fmt::print(out, "\n");
    }
  }
}

Json program_to_json(const Program& program) {
  return {{"pid", program.pid()},
          {"name", program.name()},
          {"file_prefix", program.socket().file_prefix},
          {"socket", program.socket().path},
          {"dpdk", program.dpdk_version()},
          {"groups", program.groups()}};
}

Json counters_to_json(const Program& program, const Snapshot& now, const Snapshot* before) {
  Json object = heading_to_json(program);
  Json values = Json::object();
  Json rates = Json::object();
  for (const auto& [group, counters] : now.groups) {
    for (const auto& [name, value] : counters) {
      values[group][name] = value;
      if (before != nullptr) rates[group][name] = rate_of(now, *before, group, name, value);
    }
  }
  object["counters"] = values;
  if (before != nullptr) {
    object["seconds"] = seconds_between(*before, now);
    object["rates"] = rates;
  }
  return object;
}

void print_texts(std::FILE* out, const Program& program, const GroupTexts& texts) {
  print_heading(out, program);
  fmt::print(out, "  {:<16} {:<32} {}\n", "GROUP", "COUNTER", "WHAT IT COUNTS");
  for (const auto& [group, entries] : texts) {
    for (const auto& [name, text] : entries) {
      fmt::print(out, "  {:<16} {:<32} {}\n", group, name, text);
    }
  }
}

Json texts_to_json(const Program& program, const GroupTexts& texts) {
  Json object = heading_to_json(program);
  object["texts"] = Json::object();
  for (const auto& [group, entries] : texts) {
    for (const auto& [name, text] : entries) object["texts"][group][name] = text;
  }
  return object;
}

void keep_matching(GroupTexts& texts, const std::string& pattern) {
  for (auto& [group, entries] : texts) {
    std::erase_if(entries, [&pattern](const auto& entry) {
      return fnmatch(pattern.c_str(), entry.first.c_str(), 0) != 0;
    });
  }
  std::erase_if(texts, [](const auto& item) { return item.second.empty(); });
}

}  // namespace rockhopper::apps::stats
