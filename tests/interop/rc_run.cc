// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "tests/interop/rc_run.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <optional>
#include <utility>
#include <vector>

#include "tests/interop/rc_negative.h"
#include "tests/interop/rc_requester.h"
#include "tests/interop/rc_responder.h"

namespace rockhopper::interop {
namespace {

constexpr char kProtocol[] = "rockhopper-rc-peer";
constexpr int kVersion = 1;
constexpr int kWaitMs = 1000;
using Clock = std::chrono::steady_clock;

template <typename T>
T field(const Json& line, const char* name) {
  try {
    return line.at(name).get<T>();
  } catch (const Json::exception& error) {
    throw Failure(std::string("the peer's line: ") + error.what());
  }
}

/// What the two first lines agree on.
struct Agreement {
  Address peer;
  RemoteRegion peer_region;
  std::uint32_t path_mtu = 0;
  std::uint8_t max_rd_atomic = 0;
  RunOptions options;
};

ConnectionConfig connection_config(const RunOptions& options, std::uint32_t first_psn) {
  ConnectionConfig config;
  config.region_bytes = options.script.region_bytes;
  config.local_bytes = kArenaBytes + kGuardBytes;
  config.receive_bytes = kArenaBytes + kGuardBytes;
  config.keys = kMaxKeys;
  config.send_depth = options.script.window + kMaxKeys;
  config.receive_depth = options.script.phase_operations;
  config.first_psn = first_psn;
  config.max_dest_rd_atomic = options.max_rd_atomic;
  config.timeout = options.timeout;
  config.retry_count = options.retry_count;
  config.rnr_retry = options.rnr_retry;
  config.min_rnr_timer = options.min_rnr_timer;
  const std::vector<OperationKind>& kinds = options.script.kinds;
  config.placements = std::any_of(kinds.begin(), kinds.end(), is_placement);
  config.queue_pair_rights.flush = config.region_rights.flush =
      std::count(kinds.begin(), kinds.end(), OperationKind::flush) > 0;
  return config;
}

Json hello(const Address& address, const Endpoint& endpoint, const RunOptions& options,
           std::uint32_t path_mtu) {
  const Limits limits = endpoint.limits();
  Json line = to_json(address);
  line["protocol"] = kProtocol;
  line["version"] = kVersion;
  line["path_mtu"] = path_mtu;
  line["max_dest_rd_atomic"] = std::min(options.max_rd_atomic, limits.max_rd_atomic);
  line["invalidate"] = limits.invalidate;
  line["region"] = to_json(endpoint.remote_region());
  return line;
}

void check_protocol(const Json& line) {
  if (field<std::string>(line, "protocol") != kProtocol ||
      field<int>(line, "version") != kVersion) {
    throw Failure("the peer speaks another protocol or version");
  }
}

/// Exchanges the first lines; opens the endpoint as the client's options ask.
Agreement agree(Endpoint& endpoint, Exchange& exchange, Role role, RunOptions options,
                std::uint32_t first_psn) {
  Json peer;
  std::uint32_t path_mtu = std::min(options.script.path_mtu, endpoint.limits().path_mtu);
  if (role == Role::server) {
    peer = receive_line(endpoint, exchange, options.stall_timeout_s);
    check_protocol(peer);
    options = run_options(field<Json>(peer, "options"));
    path_mtu = std::min(path_mtu, field<std::uint32_t>(peer, "path_mtu"));
  }
  const Address own = endpoint.open(connection_config(options, first_psn));
  Json line = hello(own, endpoint, options, path_mtu);
  if (role == Role::client) line["options"] = to_json(options);
  exchange.send(line);
  if (role == Role::client) {
    peer = receive_line(endpoint, exchange, options.stall_timeout_s);
    check_protocol(peer);
    path_mtu = field<std::uint32_t>(peer, "path_mtu");
  }
  if (!field<bool>(peer, "invalidate") || !endpoint.limits().invalidate) {
    std::erase(options.script.kinds, OperationKind::send_inv);
  }
  options.script.path_mtu = path_mtu;
  if (const std::string wrong = check(options.script); !wrong.empty()) throw Failure(wrong);
  const auto peer_holds = field<std::uint8_t>(peer, "max_dest_rd_atomic");
  return {address(peer), remote_region(field<Json>(peer, "region")), path_mtu,
          std::min({options.max_rd_atomic, endpoint.limits().max_rd_atomic, peer_holds}),
          std::move(options)};
}

/// The two halves of this end, and the lines that keep it in step with the peer.
class Run {
 public:
  Run(Endpoint& endpoint, Exchange& exchange, Role role, Agreement agreement, bool show_progress)
      : endpoint_(endpoint),
        exchange_(exchange),
        agreement_(std::move(agreement)),
        show_progress_(show_progress) {
    const RunOptions& options = agreement_.options;
    const bool client = role == Role::client;
    const Direction own = client ? Direction::client_to_server : Direction::server_to_client;
    const Direction other = client ? Direction::server_to_client : Direction::client_to_server;
    if (client ? options.client_requests : options.server_requests) {
      requester_.emplace(endpoint, options.script, own,
                         client ? options.client_waits_for_fence : options.server_waits_for_fence);
    }
    if (client ? options.server_requests : options.client_requests) {
      responder_.emplace(endpoint, options.script, other, options.late_receives);
    }
  }

  Json execute() {
    const auto begin = Clock::now();
    std::uint64_t phases = 0;
    while (phase()) {
      ++phases;
    }
    const std::chrono::duration<double> seconds = Clock::now() - begin;
    Json summary = {{"ok", true},
                    {"phases", phases},
                    {"path_mtu", agreement_.path_mtu},
                    {"seed", agreement_.options.script.seed},
                    {"seconds", seconds.count()},
                    {"requested", requester_ ? requester_->summary() : Json()},
                    {"received", responder_ ? responder_->summary() : Json()}};
    exchange_.send({{"finished", true}});
    if (!receive_line(endpoint_, exchange_, agreement_.options.stall_timeout_s)
             .contains("finished")) {
      throw Failure("the peer did not finish");
    }
    return summary;
  }

 private:
  /// One phase of both halves; false when neither has one.
  bool phase() {
    const bool requests = requester_ && requester_->begin_phase();
    const bool responds = responder_ && responder_->begin_phase();
    if (!requests && !responds) return false;
    peer_ready_ = peer_done_ = own_done_ = false;
    exchange_.send({{"ready", phase_}, {"keys", responds ? responder_->keys() : kNoKeys}});
    last_progress_ = Clock::now();
    while (!(own_done_ && peer_done_ && (!responds || responder_->phase_done()))) {
      bool progress = poll();
      progress |= read_lines();
      progress |= requests && requester_->post();
      progress |= responds && agreement_.options.late_receives > 0 && responder_->post_late();
      if (!own_done_ && peer_ready_ && (!requests || requester_->phase_done())) {
        exchange_.send({{"done", phase_}});
        own_done_ = true;
      }
      if (progress) {
        last_progress_ = Clock::now();
      } else {
        check_stall();
        endpoint_.wait(exchange_.descriptor(), kWaitMs);
      }
    }
    if (responds) responder_->check_region();
    ++phase_;
    report();
    return true;
  }

  bool poll() {
    const std::size_t count = endpoint_.poll(completed_);
    for (const Completed& completed : std::span(completed_).first(count)) {
      if (completed.receive ? !responder_ : !requester_) {
        throw Failure("a completion of something that was not posted");
      }
      if (completed.receive) {
        responder_->on_completion(completed);
      } else {
        requester_->on_completion(completed);
      }
    }
    return count > 0;
  }

  bool read_lines() {
    bool any = false;
    // Lines of the next phase stay in the exchange until this one is over.
    while (!(peer_ready_ && peer_done_)) {
      const std::optional<Json> line = exchange_.poll();
      if (!line) break;
      any = true;
      if (line->contains("ready") && field<std::uint64_t>(*line, "ready") == phase_) {
        peer_ready_ = true;
        if (requester_) {
          requester_->start(agreement_.peer_region,
                            field<std::vector<std::uint32_t>>(*line, "keys"));
        }
      } else if (line->contains("done") && field<std::uint64_t>(*line, "done") == phase_) {
        peer_done_ = true;
      } else {
        throw Failure("unexpected line of the peer: " + line->dump());
      }
    }
    return any;
  }

  void check_stall() const {
    const int limit_s = agreement_.options.stall_timeout_s;
    if (Clock::now() - last_progress_ < std::chrono::seconds(limit_s)) return;
    const Json state = {{"requester", requester_ ? requester_->progress() : Json()},
                        {"responder", responder_ ? responder_->progress() : Json()},
                        {"queue_pair", endpoint_.state()},
                        {"peer_ready", peer_ready_},
                        {"peer_done", peer_done_}};
    throw Failure("no progress for " + std::to_string(limit_s) + " s: " + state.dump());
  }

  void report() const {
    if (show_progress_ && requester_) {
      std::fprintf(stderr, "\r%llu operations",
                   static_cast<unsigned long long>(requester_->operations_done()));
    }
  }

  static inline const std::vector<std::uint32_t> kNoKeys;

  Endpoint& endpoint_;
  Exchange& exchange_;
  const Agreement agreement_;
  const bool show_progress_;
  std::optional<RequesterHalf> requester_;
  std::optional<ResponderHalf> responder_;
  std::array<Completed, 64> completed_;
  std::uint64_t phase_ = 0;
  bool peer_ready_ = false;
  bool peer_done_ = false;
  bool own_done_ = false;
  Clock::time_point last_progress_;
};

}  // namespace

Json to_json(const RunOptions& options) {
  std::vector<std::string> kinds;
  for (const OperationKind kind : options.script.kinds) {
    kinds.emplace_back(to_string(kind));
  }
  return {{"seed", options.script.seed},
          {"operations", options.script.operations},
          {"kinds", kinds},
          {"window", options.script.window},
          {"phase_operations", options.script.phase_operations},
          {"region_bytes", options.script.region_bytes},
          {"max_length", options.script.max_length},
          {"max_sges", options.script.max_sges},
          {"lasting_read_keys", options.script.lasting_read_keys},
          {"client_requests", options.client_requests},
          {"server_requests", options.server_requests},
          {"late_receives", options.late_receives},
          {"client_waits_for_fence", options.client_waits_for_fence},
          {"server_waits_for_fence", options.server_waits_for_fence},
          {"max_rd_atomic", options.max_rd_atomic},
          {"timeout", options.timeout},
          {"retry_count", options.retry_count},
          {"rnr_retry", options.rnr_retry},
          {"min_rnr_timer", options.min_rnr_timer},
          {"negative", options.negative},
          {"stall_timeout_s", options.stall_timeout_s}};
}

RunOptions run_options(const Json& line) {
  RunOptions options;
  options.script.seed = field<std::uint64_t>(line, "seed");
  options.script.operations = field<std::uint64_t>(line, "operations");
  for (const auto& name : field<std::vector<std::string>>(line, "kinds")) {
    const std::optional<OperationKind> kind = operation_kind(name);
    if (!kind) throw Failure("the peer asks for an unknown operation '" + name + "'");
    options.script.kinds.push_back(*kind);
  }
  options.script.window = field<std::uint32_t>(line, "window");
  options.script.phase_operations = field<std::uint32_t>(line, "phase_operations");
  options.script.region_bytes = field<std::uint32_t>(line, "region_bytes");
  options.script.max_length = field<std::uint32_t>(line, "max_length");
  options.script.max_sges = field<std::uint32_t>(line, "max_sges");
  options.script.lasting_read_keys = field<bool>(line, "lasting_read_keys");
  options.client_requests = field<bool>(line, "client_requests");
  options.server_requests = field<bool>(line, "server_requests");
  options.late_receives = field<std::uint32_t>(line, "late_receives");
  options.client_waits_for_fence = field<bool>(line, "client_waits_for_fence");
  options.server_waits_for_fence = field<bool>(line, "server_waits_for_fence");
  options.max_rd_atomic = field<std::uint8_t>(line, "max_rd_atomic");
  options.timeout = field<std::uint8_t>(line, "timeout");
  options.retry_count = field<std::uint8_t>(line, "retry_count");
  options.rnr_retry = field<std::uint8_t>(line, "rnr_retry");
  options.min_rnr_timer = field<std::uint8_t>(line, "min_rnr_timer");
  options.negative = field<std::string>(line, "negative");
  options.stall_timeout_s = field<int>(line, "stall_timeout_s");
  if (const std::string wrong = check(options.script); !wrong.empty()) {
    throw Failure("the peer's options: " + wrong);
  }
  return options;
}

Json to_json(const Address& address) {
  return {{"qpn", address.qpn}, {"psn", address.psn}, {"gid", address.gid}};
}

Address address(const Json& line) {
  return {field<std::uint32_t>(line, "qpn"), field<std::uint32_t>(line, "psn"),
          field<std::string>(line, "gid")};
}

Json to_json(const RemoteRegion& region) {
  return {{"addr", region.addr}, {"rkey", region.rkey}, {"length", region.length}};
}

RemoteRegion remote_region(const Json& line) {
  return {field<std::uint64_t>(line, "addr"), field<std::uint32_t>(line, "rkey"),
          field<std::uint64_t>(line, "length")};
}

Json receive_line(Endpoint& endpoint, Exchange& exchange, int timeout_s) {
  const auto deadline = Clock::now() + std::chrono::seconds(timeout_s);
  while (Clock::now() < deadline) {
    if (std::optional<Json> line = exchange.poll()) return *std::move(line);
    endpoint.wait(exchange.descriptor(), kWaitMs);
  }
  throw Failure("the peer said nothing for " + std::to_string(timeout_s) + " s");
}

Json run(Endpoint& endpoint, Exchange& exchange, Role role, RunOptions options,
         std::uint32_t first_psn, bool show_progress) {
  Agreement agreement = agree(endpoint, exchange, role, std::move(options), first_psn);
  if (!agreement.options.negative.empty()) {
    return run_negative(endpoint, exchange, role, agreement.options, agreement.path_mtu, first_psn);
  }
  // The region must have its first content before the peer can send to it.
  const Address peer = agreement.peer;
  const std::uint32_t path_mtu = agreement.path_mtu;
  const std::uint8_t max_rd_atomic = agreement.max_rd_atomic;
  const int timeout_s = agreement.options.stall_timeout_s;
  Run connection(endpoint, exchange, role, std::move(agreement), show_progress);
  endpoint.connect(peer, path_mtu, max_rd_atomic);
  exchange.send({{"connected", true}});
  if (!receive_line(endpoint, exchange, timeout_s).contains("connected")) {
    throw Failure("the peer did not connect");
  }
  return connection.execute();
}

}  // namespace rockhopper::interop
