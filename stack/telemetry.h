// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "stack/counter.h"
#include "stack/error.h"

namespace rockhopper::stack {

/// Names a group of counters to DPDK telemetry for as long as it lives:
///
///     /rockhopper/list                          the groups' names
///     /rockhopper/counters                      all groups that fit one answer; "omitted" others
///     /rockhopper/counters,GROUP[,FIRST]        one group, from its FIRST counter on
///     /rockhopper/texts,GROUP[,FIRST]           what its counters count, in the same order
///
/// An answer that ends early has an entry "next", the FIRST to go on with. Characters that
/// telemetry does not carry in names become '_', and names are cut to its length. `visit` runs in a
/// telemetry thread at any time until the destructor has returned: it must read only what is safe
/// to read there, as stack::Counter; `describe` likewise. Does nothing where telemetry is off.
class CounterGroup {
 public:
  using Visit = std::function<void(CounterVisitor visitor, void* context)>;
  using Describe = void (*)(CounterTextVisitor visitor, void* context);

  /// `name` is unique in the process and has no comma; `busy` if it is taken. `describe` may know
  /// of more counters than `visit` has.
  [[nodiscard]] static Expected<CounterGroup> add(std::string name, Visit visit, Describe describe);
  CounterGroup(CounterGroup&& other) noexcept;
  CounterGroup& operator=(CounterGroup&& other) noexcept;
  ~CounterGroup();

 private:
  explicit CounterGroup(std::string name) : name_(std::move(name)) {}
  std::string name_;  ///< empty after a move
};

/// Bytes that an answer of telemetry may have: DPDK 22.11 makes it in a buffer of 16 KB and cuts
/// silently what is longer.
inline constexpr std::size_t kTelemetryAnswerMax = 16 * 1024 - 512;

/// What GROUP[,FIRST] asks for.
struct TelemetryRequest {
  std::string_view group;
  std::size_t first = 0;
};

/// Reads it as another program has sent it, null for none; nothing if FIRST is no number. The group
/// lies in `parameters`.
[[nodiscard]] std::optional<TelemetryRequest> parse_telemetry_request(const char* parameters);

/// `add` for anything with Host's or Port's visit_counters() and describe_counters(); `owner` must
/// outlive the group.
template <typename Owner>
[[nodiscard]] Expected<CounterGroup> add_counter_group(const std::string& name,
                                                       const Owner& owner) {
  return CounterGroup::add(
      name,
      [&owner](CounterVisitor visitor, void* context) { owner.visit_counters(visitor, context); },
      [](CounterTextVisitor visitor, void* context) {
        Owner::describe_counters(visitor, context);
      });
}

}  // namespace rockhopper::stack
