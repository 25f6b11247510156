// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "apps/common/endpoint_options.h"
#include "apps/common/option_set.h"
#include "apps/common/transport.h"
#include "stack/split_list.h"

namespace rockhopper::apps {

/// What the programs have in common that measure between a server and a client, which decides
/// about the workload.
struct MeasuringOptions {
  std::string host;  ///< empty: server
  std::uint16_t port = 0;
  Transport transport = Transport::rc;
  std::vector<std::uint32_t> sizes;  ///< bytes of messages
  std::uint64_t iterations = 0;      ///< of each size
  double duration_s = 0;             ///< of each size; 0: by iterations
  std::optional<std::uint64_t> warmup;
  std::uint32_t window = 128;
  std::optional<std::uint16_t> path_mtu;
  unsigned ack_timeout = 14;
  bool report_gbits = false;
  bool json = false;
  double timeout_s = 10;
  EndpointOptions endpoint;

  [[nodiscard]] Role role() const { return host.empty() ? Role::server : Role::client; }
  [[nodiscard]] std::uint64_t duration_ns() const {
    return static_cast<std::uint64_t>(duration_s * 1e9);
  }
};

/// Adds where the server is, and how results are printed.
void add_measuring_options(const OptionSet& app, MeasuringOptions& options,
                           std::string_view report_gbits_names);

/// What --help says of options whose words depend on what is measured.
struct RunLengthTexts {
  std::string_view iterations;
  std::string_view warmup;
};
/// Adds how long each size is measured.
void add_run_length_options(const OptionSet& app, MeasuringOptions& options,
                            const RunLengthTexts& texts);

/// Adds what the client decides about queue pairs.
void add_queue_pair_options(const OptionSet& app, MeasuringOptions& options);

/// So many that the number of those of all queue pairs does not overflow.
inline constexpr std::uint64_t kIterationsMax = 1'000'000'000'000'000;

template <Named Operation>
[[nodiscard]] std::string names_text(std::span<const Operation> operations) {
  std::string text;
  for (const Operation operation : operations) {
    text += (text.empty() ? "" : ", ") + std::string(name_of(operation));
  }
  return text;
}

/// A value of --op: names with commas between them, or "all", which stands for `all`.
template <Named Operation>
[[nodiscard]] Expected<std::vector<Operation>> parse_operations(
    std::string_view list, std::initializer_list<Operation> all) {
  if (list == "all") return std::vector<Operation>(all);
  std::vector<Operation> operations;
  ROCKHOPPER_TRY(stack::split_list(list, [&](std::string_view name) -> Expected<void> {
    if (name == "all") {
      return fail(ErrorCode::invalid_argument, "--op {}: all stands alone, for {}", list,
                  names_text(std::span(all.begin(), all.size())));
    }
    const auto operation = parse_name<Operation>(name);
    if (!operation) {
      return fail(ErrorCode::invalid_argument, "--op {}: there are {} and all", name,
                  all_names<Operation>());
    }
    operations.push_back(*operation);
    return {};
  }));
  return operations;
}

}  // namespace rockhopper::apps
