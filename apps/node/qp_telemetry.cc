// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/node/qp_telemetry.h"

#include <algorithm>
#include <cassert>
#include <functional>
#include <map>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <rte_telemetry.h>

#include "roce/queue_pair.h"
#include "stack/dpdk_compat.h"
#include "stack/telemetry.h"

namespace rockhopper {
namespace {

// The engine's thread waits for no more than so many to be read.
constexpr std::size_t kPlacesAtOnce = 64;
constexpr std::size_t kLinesMax = RTE_TEL_MAX_ARRAY_ENTRIES;
// Around a line in the answer: quotes and comma.
constexpr std::size_t kLineOverhead = 3;

struct Registry {
  std::mutex mutex;
  std::map<std::string, const QpTelemetry*, std::less<>> groups;
  bool commands_registered = false;
};

/// Never destroyed: the telemetry thread outlives main().
Registry& registry() {
  static auto* const instance = new Registry;
  return *instance;
}

/// A word, as the device's list of queue pairs has it (docs/verbs.md).
std::string_view word_of(roce::QpType type) {
  switch (type) {
    case roce::QpType::xrc_send:
      return "XRC_INI";
    case roce::QpType::xrc_recv:
      return "XRC_TGT";
    default:
      return to_string(type);
  }
}

int tell_states(const QpTelemetry& telemetry, std::size_t /*first*/, rte_tel_data* data) {
  std::map<std::pair<std::string_view, std::string_view>, std::uint64_t> counts;
  std::vector<roce::QpSummary> found;
  std::size_t place = 0;
  do {
    found.clear();
    place = telemetry.list(place, found);
    for (const roce::QpSummary& qp : found) {
      ++counts[{word_of(qp.type), to_string(qp.state)}];
    }
  } while (place != 0);
  rte_tel_data_start_dict(data);
  for (const auto& [key, count] : counts) {
    stack::add_dict_uint(data, fmt::format("{}_{}", key.first, key.second).c_str(), count);
  }
  return 0;
}

int tell_queue_pairs(const QpTelemetry& telemetry, std::size_t first, rte_tel_data* data) {
  rte_tel_data* lines = rte_tel_data_alloc();
  if (lines == nullptr) return -1;
  rte_tel_data_start_array(lines, RTE_TEL_STRING_VAL);
  std::vector<roce::QpSummary> found;
  std::size_t place = first;
  std::size_t bytes = 0;
  std::size_t count = 0;
  // A page ends between two calls of list(), when another one might not fit.
  constexpr std::size_t kLineMax =
      sizeof "16777215 XRC_INI RESET 16777215 16777215" + kLineOverhead;
  do {
    found.clear();
    place = telemetry.list(place, found);
    for (const roce::QpSummary& qp : found) {
      const std::string line = fmt::format("{} {} {} {} {}", qp.number.value, word_of(qp.type),
                                           to_string(qp.state), qp.sent.value, qp.received.value);
      rte_tel_data_add_array_string(lines, line.c_str());
      bytes += line.size() + kLineOverhead;
      ++count;
    }
  } while (place != 0 && count + kPlacesAtOnce <= kLinesMax &&
           bytes + kPlacesAtOnce * kLineMax <= stack::kTelemetryAnswerMax);
  rte_tel_data_start_dict(data);
  if (rte_tel_data_add_dict_container(data, "queue_pairs", lines, 0) != 0) {
    rte_tel_data_free(lines);
    return -1;
  }
  if (place != 0) stack::add_dict_uint(data, "next", place);
  return 0;
}

using Tell = int (*)(const QpTelemetry& telemetry, std::size_t first, rte_tel_data* data);

/// The answer about GROUP[,FIRST], as another program has asked for it.
int answer(const char* parameters, rte_tel_data* data, Tell tell) {
  const auto request = stack::parse_telemetry_request(parameters);
  if (!request) return -1;
  const std::lock_guard lock(registry().mutex);
  const auto found = registry().groups.find(request->group);
  return found == registry().groups.end() ? -1 : tell(*found->second, request->first, data);
}

std::size_t place_of(const roce::QueuePair& qp) { return qp.number().value & 0xffff; }

int show_states(const char* /*command*/, const char* parameters, rte_tel_data* data) {
  return answer(parameters, data, tell_states);
}

int show_queue_pairs(const char* /*command*/, const char* parameters, rte_tel_data* data) {
  return answer(parameters, data, tell_queue_pairs);
}

}  // namespace

QpTelemetry::~QpTelemetry() { withdraw(); }

Expected<void> QpTelemetry::publish(std::string group) {
  assert(group_.empty() && !group.empty());
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  if (!all.commands_registered) {
    const int counted =
        rte_telemetry_register_cmd("/rockhopper/queue_pair_states", show_states,
                                   "Counts queue pairs by type and state. Parameter: group.");
    const int listed = rte_telemetry_register_cmd(
        "/rockhopper/queue_pairs", show_queue_pairs,
        "Lists queue pairs. Parameters: group, and first place, which is optional.");
    if (counted != 0 || listed != 0) {
      return fail(ErrorCode::io, "DPDK telemetry refuses the commands about queue pairs");
    }
    all.commands_registered = true;
  }
  if (!all.groups.emplace(group, this).second) {
    return fail(ErrorCode::busy, "there are queue pairs of a group {} already", group);
  }
  group_ = std::move(group);
  return {};
}

void QpTelemetry::withdraw() {
  if (group_.empty()) return;
  const std::lock_guard lock(registry().mutex);
  registry().groups.erase(group_);
  group_.clear();
}

void QpTelemetry::on_created(const roce::QueuePair& qp) {
  const std::lock_guard lock(mutex_);
  const std::size_t place = place_of(qp);
  if (place >= places_.size()) places_.resize(place + 1);
  assert(places_[place] == nullptr);
  places_[place] = &qp;
}

void QpTelemetry::on_destroyed(const roce::QueuePair& qp) {
  const std::lock_guard lock(mutex_);
  assert(places_[place_of(qp)] == &qp);
  places_[place_of(qp)] = nullptr;
}

std::size_t QpTelemetry::list(std::size_t first, std::vector<roce::QpSummary>& found) const {
  const std::lock_guard lock(mutex_);
  if (first >= places_.size()) return 0;
  const std::size_t end = std::min(places_.size(), first + kPlacesAtOnce);
  for (std::size_t place = first; place < end; ++place) {
    if (places_[place] != nullptr) found.push_back(places_[place]->summary());
  }
  return end < places_.size() ? end : 0;
}

}  // namespace rockhopper
