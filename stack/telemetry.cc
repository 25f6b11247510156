// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "stack/telemetry.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstring>
#include <map>
#include <mutex>
#include <string_view>
#include <system_error>
#include <utility>

#include <rte_telemetry.h>

#include "stack/dpdk_compat.h"

namespace rockhopper::stack {
namespace {

// DPDK 22.11 makes an answer in a buffer of 16 KB and cuts silently what is longer.
constexpr std::size_t kAnswerMax = 16 * 1024 - 512;
// Around a name in the answer: quotes, colon, 20 digits, comma.
constexpr std::size_t kEntryOverhead = 24;
// One entry of the dictionary is for "next".
constexpr std::size_t kEntriesMax = RTE_TEL_MAX_DICT_ENTRIES - 1;

struct Registry {
  std::mutex mutex;
  std::map<std::string, CounterGroup::Visit, std::less<>> groups;
  bool commands_registered = false;
};

/// Never destroyed: the telemetry thread outlives main().
Registry& registry() {
  static auto* const instance = new Registry;
  return *instance;
}

std::string telemetry_name(std::string_view name) {
  std::string result(name.substr(0, RTE_TEL_MAX_STRING_LEN - 1));
  std::replace_if(
      result.begin(), result.end(),
      [](char c) { return std::isalnum(static_cast<unsigned char>(c)) == 0 && c != '/'; }, '_');
  return result;
}

/// Adds counters from the `first` on to a dictionary until it or the answer is full.
struct DictWriter {
  rte_tel_data* data;
  std::size_t first;
  std::size_t budget;
  std::size_t seen = 0;
  std::size_t added = 0;
  bool full = false;

  void add(const char* name, std::uint64_t value) {
    if (seen++ < first || full) return;
    const std::string text = telemetry_name(name);
    if (added == kEntriesMax || text.size() + kEntryOverhead > budget ||
        add_dict_uint(data, text.c_str(), value) != 0) {
      full = true;
      return;
    }
    budget -= text.size() + kEntryOverhead;
    ++added;
  }
  static void visit(void* context, const char* name, std::uint64_t value) {
    static_cast<DictWriter*>(context)->add(name, value);
  }
};

int list_groups(const char* /*command*/, const char* /*parameters*/, rte_tel_data* data) {
  rte_tel_data_start_array(data, RTE_TEL_STRING_VAL);
  const std::lock_guard lock(registry().mutex);
  for (const auto& [name, visit] : registry().groups) {
    if (rte_tel_data_add_array_string(data, name.c_str()) != 0) break;
  }
  return 0;
}

int one_group(std::string_view name, std::size_t first, rte_tel_data* data) {
  const std::lock_guard lock(registry().mutex);
  const auto group = registry().groups.find(name);
  if (group == registry().groups.end()) return -1;
  rte_tel_data_start_dict(data);
  DictWriter writer{.data = data, .first = first, .budget = kAnswerMax};
  group->second(&DictWriter::visit, &writer);
  if (writer.full) add_dict_uint(data, "next", first + writer.added);
  return 0;
}

int all_groups(rte_tel_data* data) {
  const std::lock_guard lock(registry().mutex);
  rte_tel_data_start_dict(data);
  std::size_t budget = kAnswerMax;
  std::uint64_t omitted = 0;
  std::size_t groups = 0;
  for (const auto& [name, visit] : registry().groups) {
    const std::string text = telemetry_name(name);
    rte_tel_data* group = rte_tel_data_alloc();
    if (group == nullptr) return -1;
    rte_tel_data_start_dict(group);
    DictWriter writer{.data = group,
                      .first = 0,
                      .budget = budget - std::min(budget, text.size() + kEntryOverhead)};
    visit(&DictWriter::visit, &writer);
    if (writer.full || groups == kEntriesMax ||
        rte_tel_data_add_dict_container(data, text.c_str(), group, 0) != 0) {
      rte_tel_data_free(group);
      ++omitted;
      continue;
    }
    budget = writer.budget;
    ++groups;
  }
  if (omitted > 0) add_dict_uint(data, "omitted", omitted);
  return 0;
}

int show_counters(const char* /*command*/, const char* parameters, rte_tel_data* data) {
  if (parameters == nullptr || *parameters == '\0') return all_groups(data);
  const std::string_view text(parameters);
  const std::size_t comma = text.find(',');
  std::size_t first = 0;
  if (comma != std::string_view::npos) {
    const char* end = text.data() + text.size();
    const auto result = std::from_chars(text.data() + comma + 1, end, first);
    if (result.ec != std::errc{} || result.ptr != end) return -1;
  }
  return one_group(text.substr(0, comma), first, data);
}

}  // namespace

Expected<CounterGroup> CounterGroup::add(std::string name, Visit visit) {
  if (name.empty() || name.size() >= RTE_TEL_MAX_STRING_LEN ||
      name.find(',') != std::string::npos) {
    return fail(ErrorCode::invalid_argument,
                "counter group \"{}\": 1 to {} characters without comma are possible", name,
                RTE_TEL_MAX_STRING_LEN - 1);
  }
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  if (!all.commands_registered) {
    const int listed = rte_telemetry_register_cmd("/rockhopper/list", list_groups,
                                                  "Lists the counter groups. No parameters.");
    const int shown = rte_telemetry_register_cmd(
        "/rockhopper/counters", show_counters,
        "Shows counters. Parameters: group and first counter, both optional.");
    if (listed != 0 || shown != 0) {
      return fail(ErrorCode::io, "DPDK telemetry refuses the /rockhopper commands");
    }
    all.commands_registered = true;
  }
  if (!all.groups.emplace(name, std::move(visit)).second) {
    return fail(ErrorCode::busy, "there is a counter group {} already", name);
  }
  return CounterGroup(std::move(name));
}

CounterGroup::CounterGroup(CounterGroup&& other) noexcept : name_(std::exchange(other.name_, {})) {}

CounterGroup& CounterGroup::operator=(CounterGroup&& other) noexcept {
  std::swap(name_, other.name_);
  return *this;
}

CounterGroup::~CounterGroup() {
  if (name_.empty()) return;
  const std::lock_guard lock(registry().mutex);
  registry().groups.erase(name_);
}

}  // namespace rockhopper::stack
