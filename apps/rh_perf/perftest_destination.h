// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "stack/ip_address.h"

namespace rockhopper::apps::perf {

/// What perftest's programs tell each other of a queue pair.
struct PerftestDestination {
  std::uint32_t outstanding_reads = 0;
  std::uint32_t qpn = 0;
  std::uint32_t psn = 0;
  std::uint32_t rkey = 0;
  std::uint64_t address = 0;
  stack::IpAddress gid;
};

/// How they say it: in hexadecimal text over a TCP connection, in numbers of the most significant
/// byte first (their struct pingpong_dest) over one of the connection manager.
enum class PerftestForm : std::uint8_t { text, binary };

[[nodiscard]] std::string to_message(const PerftestDestination& destination, PerftestForm form);
/// Nothing if it is no such message.
[[nodiscard]] std::optional<PerftestDestination> parse_destination(std::string_view message,
                                                                   PerftestForm form);

}  // namespace rockhopper::apps::perf
