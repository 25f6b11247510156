// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/rh_dag/connect_options.h"

#include <algorithm>
#include <charconv>
#include <string_view>
#include <system_error>

#include "apps/rh_dag/quantities.h"
#include "apps/services/dag/record.h"

namespace rockhopper::apps::dag_node {
namespace {

constexpr const char* kServers = "Servers";
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

dag::PlacementPolicy policy_of(const std::string& name) {
  if (name == "hash") return dag::PlacementPolicy::hash;
  return name == "table" ? dag::PlacementPolicy::table : dag::PlacementPolicy::affinity;
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

void add_connect_options(OptionSet app, RawConnectOptions& raw) {
  ConnectOptions& options = raw.options;
  app.add_option("-s,--server", raw.servers,
                 "HOST[:PORT] of an rh-dag serve; may be repeated, the first one is server 0, for "
                 "all clients in the same order. Default: localhost")
      .type_name("SERVER")
      .one_value_each()
      .group(kServers);
  app.add_option("--home", options.home, "the number of the server that has the runs")
      .type_name("N")
      .group(kServers);
  app.add_option(
         "--placement", raw.placement,
         "which server has a key: hash, by all of it; affinity, by what is between { and }, "
         "if anything; table, by --place, the rest as affinity. The same for all clients")
      .one_of({"hash", "affinity", "table"})
      .group(kServers);
  app.add_option("--place", raw.rules,
                 "PREFIX=N: keys that begin so are at server N; the longest one counts. May be "
                 "repeated")
      .type_name("RULE")
      .one_value_each()
      .group(kServers);
  app.add_option("--entries", options.entries, "of the client's own map of keys")
      .range(1u, 1u << 26)
      .type_name("N")
      .group(kServers);
  app.add_option("--record-max", raw.record_max, "data of a record that can be read, at most")
      .type_name("BYTES")
      .group(kServers);
  app.add_option("--timeout", raw.timeout, "for which a server may take no notice of a request")
      .type_name("TIME")
      .group(kServers);
  app.add_option("-m,--mtu", options.path_mtu, "path MTU. Default: the servers'")
      .one_of({256, 512, 1024, 2048, 4096})
      .type_name("BYTES")
      .group(kServers);
  app.add_option("-u,--qp-timeout", options.ack_timeout,
                 "local ACK timeout code: 4.096 us * 2^code")
      .range(1, 31)
      .group(kServers);
  app.add_flag("--json", options.json, "print the result as JSON");
  add_endpoint_options(app, options.endpoint, "-d,--device");
}

Expected<ConnectOptions> finish_options(const RawConnectOptions& raw) {
  ConnectOptions options = raw.options;
  for (const std::string& text : raw.servers) {
    ROCKHOPPER_TRY(auto address, parse_server_address(text));
    if (std::find(options.servers.begin(), options.servers.end(), address) !=
        options.servers.end()) {
      return fail(ErrorCode::invalid_argument, "--server {} is there twice", text);
    }
    options.servers.push_back(std::move(address));
  }
  if (options.servers.empty()) options.servers.push_back({.host = "localhost"});
  if (options.servers.size() > kServersMax) {
    return fail(ErrorCode::invalid_argument, "--server: {} servers at most", kServersMax);
  }
  if (options.home >= options.servers.size()) {
    return fail(ErrorCode::invalid_argument, "--home {}: there are {} servers, from 0 on",
                options.home, options.servers.size());
  }
  options.placement = policy_of(raw.placement);
  for (const std::string& text : raw.rules) {
    ROCKHOPPER_TRY(auto rule, parse_rule(text));
    options.rules.push_back(std::move(rule));
  }
  if (auto placement = options.make_placement(); !placement) {
    return fail(ErrorCode::invalid_argument, "--place: {}", placement.error().message);
  }
  std::uint64_t record_max = 0;
  ROCKHOPPER_TRY(read_bytes("--record-max", raw.record_max, kBufferedRecordMax, record_max));
  ROCKHOPPER_TRY(read_time("--timeout", raw.timeout, kTimeout, options.request_timeout_ns));
  // Both slots of a record that is updated, and the header.
  options.buffer_bytes = static_cast<std::uint32_t>(2 * record_max + kRecordOverhead);
  return options;
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
