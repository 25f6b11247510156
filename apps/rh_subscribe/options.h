// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "apps/common/command_line.h"
#include "apps/common/endpoint_options.h"
#include "apps/common/option_set.h"
#include "apps/rh_publish/options.h"
#include "apps/rh_subscribe/format.h"
#include "apps/services/publisher/reader.h"

namespace rockhopper::apps::subscribe {

struct Options {
  std::string host;
  std::string name;                 ///< who we are; empty: nobody in particular
  std::string secret;               ///< of that name
  std::vector<std::string> stores;  ///< empty: all that are shown
  publisher::ReaderConfig reader{};
  double poll_min_us = 0;     ///< of the reader, as given
  double poll_max_us = 1000;  ///< likewise
  std::uint64_t count = 0;    ///< messages to end after; 0: no number
  std::string output = "-";   ///< a folder; empty: standard output
  unsigned ack_timeout = 14;
  std::uint16_t port = publish::kDefaultPort;
  std::uint16_t path_mtu = 0;  ///< 0: the publisher's
  Format format = Format::lines;
  bool list = false;          ///< show which stores there are, and end
  bool no_multicast = false;  ///< READ all, though the publisher sends copies to a group
  bool strict = false;        ///< fail if anything is lost
  bool json = false;
  EndpointOptions endpoint;
};

/// Adds them, and what checks that all fit each other and reads the secret. `wall_now_ns`: since
/// 1970.
void add_options(const OptionSet& app, Options& options, std::uint64_t wall_now_ns);

/// Reads "tail", "oldest", a sequence number, or a time: @SECONDS since 1970, UTC as
/// 2026-01-31T12:00:00, or how long ago, as 250ms or 10s.
[[nodiscard]] Expected<publisher::Start> parse_start(std::string_view text,
                                                     std::uint64_t wall_now_ns);

}  // namespace rockhopper::apps::subscribe
