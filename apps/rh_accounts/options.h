// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>
#include <string>

#include "apps/common/endpoint_options.h"

namespace rockhopper::apps::accounts {

struct Options {
  std::string host;  ///< empty: the server
  std::uint16_t port = 7175;
  bool standard = false;  ///< without locks at the target: by compare and swap

  // The server's.
  std::uint32_t accounts = 1000;
  std::int64_t initial = 1000;  ///< balance of each account
  std::uint32_t threads = 0;    ///< of its own that transfer too
  std::uint32_t lease_us = 100'000;
  std::uint32_t clients = 0;  ///< to serve before it ends; 0: until a signal

  // A client's.
  std::uint64_t transfers = 10'000;
  std::uint32_t connections = 1;
  std::uint32_t audit_every = 1000;  ///< transfers of a connection; 0: only at the end
  std::uint32_t wait_us = 1'000'000;
  std::uint16_t hot = 0;  ///< transfers between the first so many accounts only; 0: all

  unsigned ack_timeout = 14;
  double timeout_s = 10;
  bool json = false;
  EndpointOptions endpoint;

  [[nodiscard]] Role role() const { return host.empty() ? Role::server : Role::client; }
};

}  // namespace rockhopper::apps::accounts
