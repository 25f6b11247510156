// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/rh_publish/options.h"

#include <algorithm>

namespace rockhopper::apps::publish {
namespace {

constexpr const char* kDefaultStore = "default=16MiB";
constexpr const char* kDefaultInput = "lines";

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
  const auto reads_stdin = [](const InputSpec& item) {
    return item.where == "-" && is_stream(item.kind);
  };
  if (reads_stdin(input) &&
      std::any_of(options.inputs.begin(), options.inputs.end(), reads_stdin)) {
    return fail(ErrorCode::invalid_argument, "--input {}: standard input can be read once only",
                text);
  }
  if (reads_stdin(input) && options.input.follow) {
    return fail(ErrorCode::invalid_argument,
                "--input {}: standard input cannot be followed; --follow is for files", text);
  }
  options.inputs.push_back(std::move(input));
  return {};
}

Expected<void> add_defaults(Options& options) {
  if (options.stores.empty()) ROCKHOPPER_TRY(add_store(kDefaultStore, options));
  for (const std::string& text : options.input_texts) {
    ROCKHOPPER_TRY(add_input(text, options));
  }
  return options.inputs.empty() ? add_input(kDefaultInput, options) : Expected<void>();
}

void add_store_options(const OptionSet& app, Options& options) {
  app.add_parsed_list(
      "--store SPEC", [&options](const std::string& text) { return add_store(text, options); },
      "a store: NAME=SIZE, a power of two as 64KiB or 16MiB, a ring of messages; with :file=PATH "
      "kept in a file; NAME=SIZE:conflated:keys=N has the latest message of each of N keys. May be "
      "repeated. Default: default=16MiB");
  app.add_option("--input SPEC", options.input_texts,
                 "what is published: [STORE=]lines[:FILE], records[:FILE] (each behind its length, "
                 "32 bits, little endian), udp:[ADDRESS:]PORT[@INTERFACE] or pcap:FILE. Without "
                 "FILE standard "
                 "input. May be repeated. Default: lines")
      .one_value_each();
  app.add_flag("--follow", options.input.follow,
               "files of lines and records may grow, shrink or be replaced: go on with that");
  app.add_option("--rate N", options.input.rate_per_s, "messages a second of each input, at most")
      .range(1e-3, 1e9);
  app.add_option("--speed FACTOR", options.input.speed,
                 "of captures: 2 is twice as fast as they were taken; 0: without pauses")
      .range(0.0, 1e6);
  app.add_option("--longest-pause SECONDS", options.input.longest_pause_s,
                 "of captures; longer ones, as before a packet with a wrong time, are left out")
      .range(0.0, 1e9);
  app.add_option("-n,--count N", options.input.count, "end each input after so many messages")
      .positive();
  app.add_parsed(
      "--key RULE", "word",
      [&options](const std::string& text) -> Expected<void> {
        ROCKHOPPER_TRY(options.key, parse_key_rule(text));
        return {};
      },
      "what of a message is its key in conflated stores: word, all up to the first space or tab, "
      "or bytes:N, so many at the beginning");
}

void add_subscriber_options(const OptionSet& app, Options& options) {
  app.add_option("-p,--port", options.port,
                 "TCP port by which subscribers connect; 0: the system chooses");
  app.add_option("--policy FILE", options.policy,
                 "JSON file that says who may read what (docs/programs/rh-publish.md); read again "
                 "when it changes or at SIGHUP. Default: everybody may read everything");
  app.add_option("--wait N", options.wait,
                 "publish nothing before so many subscribers have access to a store")
      .range(0, 4096);
  app.add_flag("--stay", options.stay, "go on after the end of all inputs, until a signal");
  app.add_option("--linger SECONDS", options.linger_s,
                 "how long subscribers have at the end to read what is left")
      .range(0.0, 86400.0);
  app.add_option("--max-subscribers N", options.subscribers_max, "at a time").range(1, 4096);
  app.add_option("--heartbeat MS", options.heartbeat_ms,
                 "how often stores show that the publisher lives")
      .range(0.1, 60'000.0);
  app.add_option("--transport", options.transport,
                 "rc, or dc: dynamic connections (docs/dc.md); subscribers follow");
  app.add_parsed(
      "--multicast GROUP", "",
      [&options](const std::string& text) -> Expected<void> {
        if (text.empty()) return {};
        options.multicast = stack::IpAddress::parse(text);
        if (options.multicast && options.multicast->is_multicast()) return {};
        return fail(ErrorCode::invalid_argument,
                    "--multicast {}: this is no multicast group; as 239.1.2.3 or ff15::1", text);
      },
      "send a copy of each message of rings to this group, as 239.1.2.3 or ff15::1; subscribers "
      "READ only what of it does not reach them");
  add_path_mtu_option(app, options.path_mtu, "largest path MTU. Default: what the link allows");
  add_ack_timeout_option(app, "-u,--qp-timeout", options.ack_timeout);
}

}  // namespace

void add_options(const OptionSet& app, Options& options) {
  add_store_options(app.group("Stores and inputs"), options);
  add_subscriber_options(app.group("Subscribers"), options);
  app.add_flag("--json", options.json, "print the result as JSON");
  add_endpoint_options(app, options.endpoint);
  // Inputs name stores, which are all there now.
  app.check([&options] { return add_defaults(options); });
  app.check([&options] {
    return refuse_if({{options.transport == Transport::dc && options.endpoint.pkey_index != 0,
                       "--pkey-index is for --transport rc"}});
  });
}

}  // namespace rockhopper::apps::publish
