// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "apps/common/command_line.h"
#include "apps/common/endpoint_options.h"
#include "apps/common/option_set.h"
#include "stack/ip_address.h"

namespace rockhopper::apps::cm {

/// Whose part rh-cm plays: the peer is that program, or another rh-cm.
enum class Play : std::uint8_t { rping, ucmatose, udaddy, mckey, rdma_client };

constexpr auto names_of(Play) {
  return std::array{Names{"rping"}, Names{"ucmatose"}, Names{"udaddy"}, Names{"mckey"},
                    Names{"rdma_client"}};
}

struct Options {
  Play play = Play::rping;
  std::string host;                    ///< empty: server; mckey: the group
  std::optional<std::uint16_t> port;   ///< default: that of the stock program
  std::uint32_t connections = 1;       ///< ucmatose, udaddy, receiving mckey
  bool sender = false;                 ///< mckey
  std::optional<std::uint64_t> count;  ///< messages; rping: 0 = without end
  std::optional<std::uint32_t> size;   ///< bytes of a message
  bool verify = false;
  bool persistent = false;     ///< rping server: serve one client after the other
  bool uc = false;             ///< connect queue pairs of UC
  std::uint16_t path_mtu = 0;  ///< 0: the largest
  unsigned ack_timeout = 14;
  unsigned response_timeout = 18;
  unsigned max_retries = 15;
  double timeout_s = 10;
  bool json = false;
  EndpointOptions endpoint;

  [[nodiscard]] Role role() const {
    return (play == Play::mckey ? !sender : host.empty()) ? Role::server : Role::client;
  }
  [[nodiscard]] std::uint16_t service_port() const;
  [[nodiscard]] std::uint64_t message_count() const;
  [[nodiscard]] std::uint32_t message_size() const;
  /// The server's address, or the group. Requires that the host has been given and checked.
  [[nodiscard]] stack::IpAddress server() const { return *stack::IpAddress::parse(host); }
};

/// Adds them, and what checks that all fit each other.
void add_options(const OptionSet& app, Options& options);

}  // namespace rockhopper::apps::cm
