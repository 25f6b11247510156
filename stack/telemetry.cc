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

// Around a name in the answer: quotes, colon, 20 digits, comma.
constexpr std::size_t kEntryOverhead = 24;
// One entry of the dictionary is for "next".
constexpr std::size_t kEntriesMax = RTE_TEL_MAX_DICT_ENTRIES - 1;

struct Group {
  CounterGroup::Visit visit;
  CounterGroup::Describe describe;
};

struct Registry {
  std::mutex mutex;
  std::map<std::string, Group, std::less<>> groups;
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

  /// `put` adds the entry of this name, with a value of at most `length` characters beyond those of
  /// a number; it says 0 when that is done.
  template <typename Put>
  void add(const char* name, std::size_t length, const Put& put) {
    if (seen++ < first || full) return;
    const std::string key = telemetry_name(name);
    const std::size_t size = key.size() + length + kEntryOverhead;
    if (added == kEntriesMax || size > budget || put(data, key.c_str()) != 0) {
      full = true;
      return;
    }
    budget -= size;
    ++added;
  }
  static void visit(void* context, const char* name, std::uint64_t value) {
    static_cast<DictWriter*>(context)->add(name, 0, [value](rte_tel_data* to, const char* key) {
      return add_dict_uint(to, key, value);
    });
  }
};

/// What the counters of a group count, by their names.
using Texts = std::map<std::string, std::string, std::less<>>;

Texts texts_of(const Group& group) {
  Texts texts;
  group.describe([](void* context, const char* name,
                    const char* text) { static_cast<Texts*>(context)->emplace(name, text); },
                 &texts);
  return texts;
}

/// Adds to a dictionary the text of each counter that is visited.
struct TextWriter {
  const Texts& texts;
  DictWriter& writer;

  static void visit(void* context, const char* name, std::uint64_t /*value*/) {
    const auto& to = *static_cast<const TextWriter*>(context);
    const auto found = to.texts.find(name);
    const std::string text = found == to.texts.end() ? std::string() : found->second;
    to.writer.add(name, text.size(), [&text](rte_tel_data* data, const char* key) {
      return rte_tel_data_add_dict_string(data, key, text.c_str());
    });
  }
};

/// Adds to the answer what there is to say of a group's counters.
using Write = void (*)(const Group& group, DictWriter& writer);

void write_values(const Group& group, DictWriter& writer) {
  group.visit(&DictWriter::visit, &writer);
}

void write_texts(const Group& group, DictWriter& writer) {
  const Texts texts = texts_of(group);
  TextWriter text_writer{.texts = texts, .writer = writer};
  group.visit(&TextWriter::visit, &text_writer);
}

int list_groups(const char* /*command*/, const char* /*parameters*/, rte_tel_data* data) {
  rte_tel_data_start_array(data, RTE_TEL_STRING_VAL);
  const std::lock_guard lock(registry().mutex);
  for (const auto& [name, group] : registry().groups) {
    if (rte_tel_data_add_array_string(data, name.c_str()) != 0) break;
  }
  return 0;
}

int one_group(std::string_view name, std::size_t first, rte_tel_data* data, Write write) {
  const std::lock_guard lock(registry().mutex);
  const auto group = registry().groups.find(name);
  if (group == registry().groups.end()) return -1;
  rte_tel_data_start_dict(data);
  DictWriter writer{.data = data, .first = first, .budget = kTelemetryAnswerMax};
  write(group->second, writer);
  if (writer.full) add_dict_uint(data, "next", first + writer.added);
  return 0;
}

int all_groups(rte_tel_data* data) {
  const std::lock_guard lock(registry().mutex);
  rte_tel_data_start_dict(data);
  std::size_t budget = kTelemetryAnswerMax;
  std::uint64_t omitted = 0;
  std::size_t groups = 0;
  for (const auto& [name, group] : registry().groups) {
    const std::string text = telemetry_name(name);
    rte_tel_data* values = rte_tel_data_alloc();
    if (values == nullptr) return -1;
    rte_tel_data_start_dict(values);
    DictWriter writer{.data = values,
                      .first = 0,
                      .budget = budget - std::min(budget, text.size() + kEntryOverhead)};
    write_values(group, writer);
    if (writer.full || groups == kEntriesMax ||
        rte_tel_data_add_dict_container(data, text.c_str(), values, 0) != 0) {
      rte_tel_data_free(values);
      ++omitted;
      continue;
    }
    budget = writer.budget;
    ++groups;
  }
  if (omitted > 0) add_dict_uint(data, "omitted", omitted);
  return 0;
}

/// The answer about GROUP[,FIRST], as another program has asked for it.
int asked_group(const char* parameters, rte_tel_data* data, Write write) {
  const auto request = parse_telemetry_request(parameters);
  return request ? one_group(request->group, request->first, data, write) : -1;
}

int show_counters(const char* /*command*/, const char* parameters, rte_tel_data* data) {
  if (parameters == nullptr || *parameters == '\0') return all_groups(data);
  return asked_group(parameters, data, write_values);
}

int show_texts(const char* /*command*/, const char* parameters, rte_tel_data* data) {
  if (parameters == nullptr || *parameters == '\0') return -1;
  return asked_group(parameters, data, write_texts);
}

}  // namespace

std::optional<TelemetryRequest> parse_telemetry_request(const char* parameters) {
  const std::string_view text(parameters == nullptr ? "" : parameters);
  const std::size_t comma = text.find(',');
  TelemetryRequest request{.group = text.substr(0, comma)};
  if (comma != std::string_view::npos) {
    const char* end = text.data() + text.size();
    const auto result = std::from_chars(text.data() + comma + 1, end, request.first);
    if (result.ec != std::errc{} || result.ptr != end) return std::nullopt;
  }
  return request;
}

Expected<CounterGroup> CounterGroup::add(std::string name, Visit visit, Describe describe) {
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
    const int described = rte_telemetry_register_cmd(
        "/rockhopper/texts", show_texts,
        "Says what counters count. Parameters: group, and first counter, which is optional.");
    if (listed != 0 || shown != 0 || described != 0) {
      return fail(ErrorCode::io, "DPDK telemetry refuses the /rockhopper commands");
    }
    all.commands_registered = true;
  }
  if (!all.groups.emplace(name, Group{std::move(visit), describe}).second) {
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
