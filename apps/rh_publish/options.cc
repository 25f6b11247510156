// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/rh_publish/options.h"

#include <algorithm>

namespace rockhopper::apps::publish {
namespace {

constexpr const char* kStores = "Stores and inputs";
constexpr const char* kSubscribers = "Subscribers";
constexpr const char* kDefaultStore = "default=16MiB";
constexpr const char* kDefaultInput = "lines";

void add_store_options(OptionSet app, RawOptions& raw) {
  Options& options = raw.options;
  app.add_option("--store", raw.stores,
                 "a store: NAME=SIZE, a power of two as 64KiB or 16MiB, a ring of messages; with "
                 ":file=PATH kept in a file; NAME=SIZE:conflated:keys=N has the latest message of "
                 "each of N keys. May be repeated. Default: default=16MiB")
      .type_name("SPEC")
      .one_value_each()
      .group(kStores);
  app.add_option("--input", raw.inputs,
                 "what is published: [STORE=]lines[:FILE], records[:FILE] (each behind its length, "
                 "32 bits, little endian), udp:[ADDRESS:]PORT or pcap:FILE. Without FILE standard "
                 "input. May be repeated. Default: lines")
      .type_name("SPEC")
      .one_value_each()
      .group(kStores);
  app.add_flag("--follow", options.input.follow,
               "files of lines and records may grow, shrink or be replaced: go on with that")
      .group(kStores);
  app.add_option("--rate", options.input.rate_per_s, "messages a second of each input, at most")
      .range(1e-3, 1e9)
      .type_name("N")
      .group(kStores);
  app.add_option("--speed", options.input.speed,
                 "of captures: 2 is twice as fast as they were taken; 0: without pauses")
      .range(0.0, 1e6)
      .type_name("FACTOR")
      .group(kStores);
  app.add_option("-n,--count", options.input.count, "end each input after so many messages")
      .positive()
      .type_name("N")
      .group(kStores);
  app.add_option("--key", raw.key,
                 "what of a message is its key in conflated stores: word, all up to the first "
                 "space or tab, or bytes:N, so many at the beginning")
      .type_name("RULE")
      .group(kStores);
}

void add_subscriber_options(OptionSet app, RawOptions& raw) {
  Options& options = raw.options;
  app.add_option("-p,--port", options.port,
                 "TCP port by which subscribers connect; 0: the system chooses")
      .group(kSubscribers);
  app.add_option("--policy", options.policy,
                 "JSON file that says who may read what (docs/programs/rh-publish.md); read again "
                 "when it changes or at SIGHUP. Default: everybody may read everything")
      .type_name("FILE")
      .group(kSubscribers);
  app.add_option("--wait", options.wait,
                 "publish nothing before so many subscribers have access to a store")
      .range(0, 4096)
      .type_name("N")
      .group(kSubscribers);
  app.add_flag("--stay", options.stay, "go on after the end of all inputs, until a signal")
      .group(kSubscribers);
  app.add_option("--linger", options.linger_s,
                 "how long subscribers have at the end to read what is left")
      .range(0.0, 86400.0)
      .type_name("SECONDS")
      .group(kSubscribers);
  app.add_option("--max-subscribers", options.subscribers_max, "at a time")
      .range(1, 4096)
      .type_name("N")
      .group(kSubscribers);
  app.add_option("--heartbeat", options.heartbeat_ms,
                 "how often stores show that the publisher lives")
      .range(0.1, 60'000.0)
      .type_name("MS")
      .group(kSubscribers);
  app.add_option("--transport", raw.transport,
                 "rc, or dc: dynamic connections (docs/dc.md); subscribers follow")
      .one_of({"rc", "dc"})
      .group(kSubscribers);
  app.add_option("--multicast", raw.multicast,
                 "send a copy of each message of rings to this group, as 239.1.2.3 or ff15::1; "
                 "subscribers READ only what of it does not reach them")
      .type_name("GROUP")
      .group(kSubscribers);
  app.add_option("-m,--mtu", options.path_mtu, "largest path MTU. Default: what the link allows")
      .one_of({256, 512, 1024, 2048, 4096})
      .type_name("BYTES")
      .group(kSubscribers);
  app.add_option("-u,--qp-timeout", options.ack_timeout,
                 "local ACK timeout code: 4.096 us * 2^code")
      .range(1, 31)
      .group(kSubscribers);
}

Expected<void> add_store(const std::string& text, Options& options) {
  ROCKHOPPER_TRY(auto store, parse_store(text));
  for (const StoreSpec& other : options.stores) {
    if (other.name == store.name) {
      return fail(ErrorCode::invalid_argument, "--store {}: there is one of that name already",
                  text);
    }
    if (!store.file.empty() && other.file == store.file) {
      return fail(ErrorCode::invalid_argument, "--store {}: {} has that file already", text,
                  other.name);
    }
  }
  options.stores.push_back(std::move(store));
  return {};
}

Expected<void> add_input(const std::string& text, Options& options) {
  ROCKHOPPER_TRY(auto input, parse_input(text));
  if (input.store.empty() && options.stores.size() > 1) {
    return fail(ErrorCode::invalid_argument, "--input {}: which store? As {}={}", text,
                options.stores.front().name, text);
  }
  if (input.store.empty()) input.store = options.stores.front().name;
  const auto named = [&](const StoreSpec& store) { return store.name == input.store; };
  if (std::none_of(options.stores.begin(), options.stores.end(), named)) {
    return fail(ErrorCode::invalid_argument, "--input {}: there is no store {}; see --store", text,
                input.store);
  }
  const bool stream = input.kind == InputKind::lines || input.kind == InputKind::records;
  const auto reads_stdin = [](const InputSpec& item) {
    return item.where == "-" && (item.kind == InputKind::lines || item.kind == InputKind::records);
  };
  if (reads_stdin(input) &&
      std::any_of(options.inputs.begin(), options.inputs.end(), reads_stdin)) {
    return fail(ErrorCode::invalid_argument, "--input {}: standard input can be read once only",
                text);
  }
  if (stream && options.input.follow && input.where == "-") {
    return fail(ErrorCode::invalid_argument,
                "--input {}: standard input cannot be followed; --follow is for files", text);
  }
  options.inputs.push_back(std::move(input));
  return {};
}

}  // namespace

void add_options(OptionSet app, RawOptions& raw) {
  add_store_options(app, raw);
  add_subscriber_options(app, raw);
  app.add_flag("--json", raw.options.json, "print the result as JSON");
  add_endpoint_options(app, raw.options.endpoint, "-d,--device");
}

Expected<Options> finish_options(const RawOptions& raw) {
  Options options = raw.options;
  options.transport = *parse_transport(raw.transport);
  ROCKHOPPER_TRY(options.key, parse_key_rule(raw.key));
  const auto or_default = [](const std::vector<std::string>& given, const char* otherwise) {
    return given.empty() ? std::vector<std::string>{otherwise} : given;
  };
  for (const std::string& text : or_default(raw.stores, kDefaultStore)) {
    ROCKHOPPER_TRY(add_store(text, options));
  }
  for (const std::string& text : or_default(raw.inputs, kDefaultInput)) {
    ROCKHOPPER_TRY(add_input(text, options));
  }
  if (options.transport == Transport::dc && options.endpoint.pkey_index != 0) {
    return fail(ErrorCode::invalid_argument, "--pkey-index is for --transport rc");
  }
  if (!raw.multicast.empty()) {
    options.multicast = stack::IpAddress::parse(raw.multicast);
    if (!options.multicast || !options.multicast->is_multicast()) {
      return fail(ErrorCode::invalid_argument,
                  "--multicast {}: this is no multicast group; as 239.1.2.3 or ff15::1",
                  raw.multicast);
    }
  }
  return options;
}

}  // namespace rockhopper::apps::publish
