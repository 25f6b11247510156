// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/rh_dag/connect_options.h"

#include <algorithm>
#include <charconv>
#include <string_view>
#include <system_error>

#include <fmt/format.h>

#include "apps/services/dag/record.h"

namespace rockhopper::apps::dag_node {
namespace {

constexpr std::size_t kServersMax = 64;
/// Head and slots of a record besides its data.
constexpr std::uint64_t kRecordOverhead = dag::record_bytes(dag::kKeyMax, 0, 2);
constexpr Range kBufferedRecordMax{.least = 4096, .most = (1u << 29) - kRecordOverhead};
constexpr Range kTimeout{.least = 1'000'000, .most = 3'600'000'000'000};

template <typename T>
bool parse_number(std::string_view text, T& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc{} && end == text.data() + text.size();
}

Expected<dag::PlacementRule> parse_rule(const std::string& text) {
  const std::size_t equals = text.rfind('=');
  dag::PlacementRule rule;
  if (equals != std::string::npos) {
    rule.prefix = text.substr(0, equals);
    if (parse_number(std::string_view(text).substr(equals + 1), rule.server)) return rule;
  }
  return fail(ErrorCode::invalid_argument,
              "--place {}: expected is PREFIX=N, the beginning of keys and a server from 0 on",
              text);
}

Expected<void> add_server(const std::string& text, ConnectOptions& options) {
  ROCKHOPPER_TRY(auto address, parse_server_address(text));
  if (std::find(options.servers.begin(), options.servers.end(), address) != options.servers.end()) {
    return fail(ErrorCode::invalid_argument, "--server {} is there twice", text);
  }
  options.servers.push_back(std::move(address));
  return {};
}

Expected<void> settle(ConnectOptions& options) {
  if (options.servers.empty()) options.servers.push_back({.host = "localhost"});
  const std::size_t servers = options.servers.size();
  ROCKHOPPER_TRY(refuse_if({
      {servers > kServersMax, fmt::format("--server: {} servers at most", kServersMax)},
      {options.home >= servers,
       fmt::format("--home {}: there are {} servers, from 0 on", options.home, servers)},
  }));
  auto placement = options.make_placement();
  if (placement) return {};
  return fail(ErrorCode::invalid_argument, "--place: {}", placement.error().message);
}

}  // namespace

Expected<ServerAddress> parse_server_address(const std::string& text) {
  ServerAddress address;
  std::string_view port;
  const std::size_t bracket = text.starts_with('[') ? text.find(']') : std::string::npos;
  const std::size_t colon = text.rfind(':');
  if (bracket != std::string::npos) {
    address.host = text.substr(1, bracket - 1);
    const std::string_view rest = std::string_view(text).substr(bracket + 1);
    if (rest.starts_with(':')) port = rest.substr(1);
    if (!rest.empty() && port.empty()) address.host.clear();
  } else if (colon != std::string::npos && text.find(':') == colon) {
    address.host = text.substr(0, colon);
    port = std::string_view(text).substr(colon + 1);
    if (port.empty()) address.host.clear();
  } else {
    address.host = text.find('[') == std::string::npos ? text : "";  // or IPv6 without a port
  }
  if (address.host.empty() ||
      (!port.empty() && (!parse_number(port, address.port) || address.port == 0))) {
    return fail(ErrorCode::invalid_argument,
                "--server {}: expected is HOST, HOST:PORT or [IPV6]:PORT", text);
  }
  return address;
}

void add_connect_options(const OptionSet& app, ConnectOptions& options, const char* record_max) {
  const OptionSet servers = app.group("Servers");
  servers.add_parsed_list(
      "-s,--server SERVER",
      [&options](const std::string& text) { return add_server(text, options); },
      "HOST[:PORT] of an rh-dag serve; may be repeated, the first one is server 0, for all clients "
      "in the same order. Default: localhost");
  servers.add_option("--home N", options.home, "the number of the server that has the runs");
  servers.add_option("--placement", options.placement,
                     "which server has a key: hash, by all of it; affinity, by what is between { "
                     "and }, if anything; table, by --place, the rest as affinity. The same for "
                     "all clients");
  servers.add_parsed_list(
      "--place RULE",
      [&options](const std::string& text) -> Expected<void> {
        ROCKHOPPER_TRY(auto rule, parse_rule(text));
        options.rules.push_back(std::move(rule));
        return {};
      },
      "PREFIX=N: keys that begin so are at server N; the longest one counts. May be repeated");
  servers.add_option("--entries N", options.entries, "of the client's own map of keys")
      .range(1u, 1u << 26);
  servers.add_bytes("--record-max BYTES", options.record_max, record_max, kBufferedRecordMax,
                    "data of a record that can be read, at most");
  servers.add_time("--timeout TIME", options.request_timeout_ns, "500ms", kTimeout,
                   "for which a server may take no notice of a request");
  add_path_mtu_option(servers, options.path_mtu, "path MTU. Default: the servers'");
  add_ack_timeout_option(servers, "-u,--qp-timeout", options.ack_timeout);
  app.add_flag("--json", options.json, "print the result as JSON");
  add_endpoint_options(app, options.endpoint);
  app.check([&options] { return settle(options); });
}

std::uint32_t ConnectOptions::buffer_bytes() const {
  return static_cast<std::uint32_t>(2 * record_max + kRecordOverhead);
}

Expected<dag::Placement> ConnectOptions::make_placement() const {
  return dag::Placement::create(placement, static_cast<std::uint16_t>(servers.size()), rules);
}

Expected<dag::Placement> ConnectOptions::make_home_placement() const {
  return dag::Placement::create(dag::PlacementPolicy::table,
                                static_cast<std::uint16_t>(servers.size()),
                                {{.prefix = "", .server = home}});
}

}  // namespace rockhopper::apps::dag_node
