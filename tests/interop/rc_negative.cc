// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "tests/interop/rc_negative.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <string>

namespace rockhopper::interop {
namespace {

using Clock = std::chrono::steady_clock;
using Kind = OperationKind;

constexpr std::uint32_t kRegionBytes = 16384;
constexpr std::uint32_t kLocalBytes = 32768;
constexpr std::uint32_t kReceiveBytes = 8192;
constexpr int kTimeoutS = 60;
constexpr std::uint32_t kPsnStep = 1u << 17;
/// How long the server looks for the effects of a request that the client knows to have failed.
constexpr auto kSettle = std::chrono::milliseconds(1000);
constexpr std::byte kRegionByte{0x11};

enum class Key : std::uint8_t { right, wrong, invalidated };
enum class Place : std::uint8_t { inside, before_start, past_end, wrap };
enum class Peer : std::uint8_t { alive, gone };

struct Case {
  std::string_view name;
  Kind kind = Kind::write;
  std::uint32_t length = 64;
  Key key = Key::right;
  Place place = Place::inside;
  std::uint32_t misalignment = 0;
  Rights queue_pair_rights{};
  Rights region_rights{};
  std::uint32_t receives = 2;
  std::uint32_t receive_length = 2048;
  bool bad_local_key = false;
  bool bad_receive_key = false;
  Peer peer = Peer::alive;
};

constexpr std::uint32_t kLong = 5000;  ///< several packets at any path MTU up to 4096
constexpr Rights kNoWrite{false, true, true};
constexpr Rights kNoRead{true, false, true};
constexpr Rights kNoAtomic{true, true, false};

constexpr Case kCases[] = {
    {.name = "write_wrong_rkey", .key = Key::wrong},
    {.name = "write_long_wrong_rkey", .length = kLong, .key = Key::wrong},
    {.name = "write_imm_wrong_rkey", .kind = Kind::write_imm, .key = Key::wrong},
    {.name = "read_wrong_rkey", .kind = Kind::read, .key = Key::wrong},
    {.name = "compare_swap_wrong_rkey", .kind = Kind::compare_swap, .length = 8, .key = Key::wrong},
    {.name = "fetch_add_wrong_rkey", .kind = Kind::fetch_add, .length = 8, .key = Key::wrong},
    {.name = "write_before_start", .place = Place::before_start},
    {.name = "write_past_end", .place = Place::past_end},
    {.name = "write_long_past_end", .length = kLong, .place = Place::past_end},
    {.name = "write_wrap", .place = Place::wrap},
    {.name = "read_before_start", .kind = Kind::read, .place = Place::before_start},
    {.name = "read_past_end", .kind = Kind::read, .place = Place::past_end},
    {.name = "read_long_past_end", .kind = Kind::read, .length = kLong, .place = Place::past_end},
    {.name = "read_wrap", .kind = Kind::read, .place = Place::wrap},
    {.name = "fetch_add_past_end", .kind = Kind::fetch_add, .length = 8, .place = Place::past_end},
    {.name = "write_no_region_right", .region_rights = kNoWrite},
    {.name = "read_no_region_right", .kind = Kind::read, .region_rights = kNoRead},
    {.name = "compare_swap_no_region_right",
     .kind = Kind::compare_swap,
     .length = 8,
     .region_rights = kNoAtomic},
    {.name = "fetch_add_no_region_right",
     .kind = Kind::fetch_add,
     .length = 8,
     .region_rights = kNoAtomic},
    {.name = "write_no_queue_pair_right", .queue_pair_rights = kNoWrite},
    {.name = "read_no_queue_pair_right", .kind = Kind::read, .queue_pair_rights = kNoRead},
    {.name = "fetch_add_no_queue_pair_right",
     .kind = Kind::fetch_add,
     .length = 8,
     .queue_pair_rights = kNoAtomic},
    {.name = "compare_swap_unaligned", .kind = Kind::compare_swap, .length = 8, .misalignment = 4},
    {.name = "fetch_add_unaligned", .kind = Kind::fetch_add, .length = 8, .misalignment = 1},
    {.name = "send_too_long", .kind = Kind::send, .length = 200, .receive_length = 100},
    {.name = "send_long_too_long", .kind = Kind::send, .length = kLong, .receive_length = 2048},
    {.name = "send_no_receive", .kind = Kind::send, .receives = 0},
    {.name = "write_imm_no_receive", .kind = Kind::write_imm, .receives = 0},
    {.name = "send_inv_wrong_rkey", .kind = Kind::send_inv, .key = Key::wrong},
    {.name = "write_invalidated_rkey", .key = Key::invalidated},
    {.name = "bad_local_key", .kind = Kind::write, .bad_local_key = true},
    {.name = "bad_receive_key", .kind = Kind::send, .bad_receive_key = true},
    {.name = "peer_gone", .peer = Peer::gone},
};

ConnectionConfig config_of(const Case& test, Role role, const RunOptions& options) {
  ConnectionConfig config;
  config.region_bytes = kRegionBytes;
  config.local_bytes = kLocalBytes;
  config.receive_bytes = kReceiveBytes;
  config.keys = test.key == Key::invalidated ? 1 : 0;
  config.max_dest_rd_atomic = options.max_rd_atomic;
  config.timeout = options.timeout;
  config.retry_count = 2;
  config.rnr_retry = 2;
  config.min_rnr_timer = options.min_rnr_timer;
  if (role == Role::server) {
    config.queue_pair_rights = test.queue_pair_rights;
    config.region_rights = test.region_rights;
  }
  return config;
}

std::uint64_t remote_addr(const Case& test, const RemoteRegion& region) {
  switch (test.place) {
    case Place::before_start:
      return region.addr - 8;
    case Place::past_end:  // begins inside, ends outside; atomics begin at the end
      return region.addr + region.length - (test.length > 8 ? 8 : 0);
    case Place::wrap:
      return ~std::uint64_t{0} - 7;
    case Place::inside:
      break;
  }
  return region.addr + 4096 + test.misalignment;
}

Request request_of(const Case& test, const RemoteRegion& region, std::uint32_t rkey) {
  Request request;
  request.id = 1;
  request.kind = test.kind;
  request.rkey = rkey;
  request.remote_addr = remote_addr(test, region);
  request.compare = 0;
  request.swap_or_add = 1;
  request.pieces = 1;
  request.piece[0] = {0, test.length};
  request.bad_lkey = test.bad_local_key;
  return request;
}

Request send_of(std::uint64_t id, Kind kind, std::uint32_t rkey) {
  Request request;
  request.id = id;
  request.kind = kind;
  request.rkey = rkey;
  request.pieces = 1;
  request.piece[0] = {16384, 16};
  return request;
}

/// Takes completions until `count` are there or the deadline passes.
Json collect(Endpoint& endpoint, Exchange& exchange, std::size_t count, Clock::duration limit) {
  Json result = Json::array();
  std::array<Completed, 16> completed;
  const auto deadline = Clock::now() + limit;
  while (result.size() < count && Clock::now() < deadline) {
    const std::size_t n = endpoint.poll(completed);
    for (const Completed& one : std::span(completed).first(n)) {
      result.push_back({{"id", one.id}, {"status", one.success ? "success" : one.status}});
    }
    if (n == 0) {
      // The exchange has nothing to say now; its descriptor only keeps wait() uniform.
      endpoint.wait(exchange.descriptor(), 20);
    }
  }
  return result;
}

class NegativeRun {
 public:
  NegativeRun(Endpoint& endpoint, Exchange& exchange, Role role, const RunOptions& options,
              std::uint32_t path_mtu, std::uint32_t first_psn)
      : endpoint_(endpoint),
        exchange_(exchange),
        role_(role),
        options_(options),
        path_mtu_(path_mtu),
        first_psn_(first_psn) {}

  Json execute(const Case& test) {
    const Json peer = meet(test);
    Json result = {{"case", test.name}};
    if (role_ == Role::client) {
      result["requester"] = request(test, peer);
      exchange_.send({{"result", result["requester"]}});
      result["responder"] = line("result")["result"];
    } else {
      result["responder"] = respond(test);
      exchange_.send({{"result", result["responder"]}});
    }
    return result;
  }

 private:
  /// Opens, exchanges addresses and connects.
  Json meet(const Case& test) {
    ConnectionConfig config = config_of(test, role_, options_);
    config.first_psn = first_psn_;
    first_psn_ = (first_psn_ + kPsnStep) & 0xffffff;
    Json own = to_json(endpoint_.open(config));
    std::fill(endpoint_.region().begin(), endpoint_.region().end(), kRegionByte);
    own["case"] = test.name;
    own["region"] = to_json(endpoint_.remote_region());
    exchange_.send(own);
    Json peer = line("case");
    if (peer["case"] != test.name) {
      throw Failure("the peer runs another case: " + peer["case"].dump());
    }
    const auto rd_atomic = std::min(options_.max_rd_atomic, endpoint_.limits().max_rd_atomic);
    endpoint_.connect(address(peer), path_mtu_, rd_atomic);
    exchange_.send({{"connected", true}});
    (void)line("connected");
    return peer;
  }

  Json line(const char* name) {
    Json received = receive_line(endpoint_, exchange_, kTimeoutS);
    if (!received.contains(name)) throw Failure("unexpected line of the peer: " + received.dump());
    return received;
  }

  Json request(const Case& test, const Json& peer) {
    const Json go = line("go");
    const RemoteRegion region = remote_region(peer.at("region"));
    std::uint32_t rkey = region.rkey;
    if (test.key == Key::wrong) {
      rkey ^= 0x00ffff00;  // another index: no such region
    }
    std::vector<Request> requests;
    if (test.key == Key::invalidated) {
      rkey = go.at("key").get<std::uint32_t>();
      requests.push_back(send_of(0, Kind::send_inv, rkey));
    }
    requests.push_back(request_of(test, region, rkey));
    requests.push_back(send_of(2, Kind::send, 0));
    requests.push_back(send_of(3, Kind::send, 0));
    Json completions = Json::array();
    std::size_t posted = 0;
    for (const Request& request : requests) {
      try {
        endpoint_.post(std::span(&request, 1));
        ++posted;
      } catch (const Failure&) {  // refused before it reaches the wire
        completions.push_back({{"id", request.id}, {"status", "not_posted"}});
      }
    }
    for (const Json& one : collect(endpoint_, exchange_, posted, std::chrono::seconds(kTimeoutS))) {
      completions.push_back(one);
    }
    return {
        {"completions", completions}, {"state", endpoint_.state()}, {"events", endpoint_.events()}};
  }

  Json respond(const Case& test) {
    Json go = {{"go", true}};
    if (test.key == Key::invalidated) go["key"] = endpoint_.renew_keys(1).at(0);
    std::vector<Receive> receives(test.receives);
    for (std::size_t i = 0; i < receives.size(); ++i) {
      receives[i].id = i;
      receives[i].pieces = 1;
      receives[i].piece[0] = {static_cast<std::uint32_t>(i) * 4096, test.receive_length};
      receives[i].bad_lkey = test.bad_receive_key;
    }
    endpoint_.post(receives);
    if (test.peer == Peer::gone) endpoint_.destroy_queue_pair();
    exchange_.send(go);
    (void)line("result");
    const Json completions = test.peer == Peer::gone
                                 ? Json::array()
                                 : collect(endpoint_, exchange_, receives.size(), kSettle);
    const auto region = endpoint_.region();
    const bool changed =
        !std::all_of(region.begin(), region.end(), [](std::byte b) { return b == kRegionByte; });
    return {{"completions", completions},
            {"state", test.peer == Peer::gone ? "none" : endpoint_.state()},
            {"events", endpoint_.events()},
            {"region_changed", changed}};
  }

  Endpoint& endpoint_;
  Exchange& exchange_;
  const Role role_;
  const RunOptions& options_;
  const std::uint32_t path_mtu_;
  std::uint32_t first_psn_;  ///< of the next case
};

}  // namespace

std::vector<std::string_view> negative_cases() {
  std::vector<std::string_view> names;
  for (const Case& test : kCases) {
    names.push_back(test.name);
  }
  return names;
}

Json run_negative(Endpoint& endpoint, Exchange& exchange, Role role, const RunOptions& options,
                  std::uint32_t path_mtu, std::uint32_t first_psn) {
  NegativeRun run(endpoint, exchange, role, options, path_mtu, first_psn);
  Json results = Json::array();
  for (const Case& test : kCases) {
    if (options.negative == "all" || options.negative == test.name) {
      results.push_back(run.execute(test));
    }
  }
  if (results.empty()) throw Failure("no such negative case: " + options.negative);
  return {{"ok", true}, {"path_mtu", path_mtu}, {"cases", results}};
}

}  // namespace rockhopper::interop
