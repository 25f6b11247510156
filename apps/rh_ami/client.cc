// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/rh_ami/client.h"

#include <algorithm>
#include <cstdio>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "apps/common/progress.h"
#include "apps/common/signals.h"
#include "apps/common/steady_clock.h"
#include "apps/common/version.h"
#include "apps/rh_ami/ping_pong.h"
#include "apps/rh_ami/stream.h"

namespace rockhopper::apps::messages {
namespace {

constexpr std::uint64_t kTurnsPerLook = 256;
constexpr const char* kNoAnswer = "the server does not answer";

/// What went wrong in a run, and what became of its callbacks; nothing: nothing did.
Expected<void> outcome(const Run& run, const Node& node, const std::optional<Error>& cause) {
  const Ledger& ledger = run.ledger();
  if (ledger.unexpected() > 0) {
    return fail(ErrorCode::io, "{} callbacks were called twice, or for nothing",
                ledger.unexpected());
  }
  if (!run.fault().empty()) return fail(ErrorCode::io, "{}", run.fault());
  if (!cause && ledger.failed() == 0) return {};
  std::string text = cause                ? cause->message
                     : node.peer_failed() ? kNoAnswer
                                          : "instructions have failed";
  if (ledger.failed() > 0) {
    text += fmt::format("; callbacks called with an error: {}", ledger.failures());
  }
  if (ledger.outstanding() > 0) text += fmt::format("; never called: {}", ledger.outstanding());
  return fail(cause ? cause->code : ErrorCode::io, "{}", text);
}

}  // namespace

Client::Client(Node& node, const Options& options, std::uint64_t seed)
    : node_(node), options_(options), seed_(seed) {}

Expected<void> Client::run() {
  auto result = connect().and_then([this] { return run_all(); });
  if (!result && channel_) channel_->send_error(result.error());
  return result;
}

Expected<Agreement> Client::agree(const nlohmann::json& offer) const {
  auto version = number_from_json(offer, "version");
  auto server_mtu = number_from_json(offer, "path_mtu");
  if (!version || *version != kProtocolVersion || !server_mtu) {
    return fail(ErrorCode::unsupported, "the server speaks another version of the protocol");
  }
  const auto largest =
      static_cast<std::uint16_t>(std::min<std::uint64_t>(*server_mtu, node_.path_mtu_max()));
  if (options_.path_mtu.value_or(largest) > largest) {
    return fail(ErrorCode::unsupported, "path MTU {} does not fit both ends' links: at most {}",
                *options_.path_mtu, largest);
  }
  Agreement agreement;
  agreement.transport = options_.transport;
  agreement.path_mtu = options_.path_mtu.value_or(largest);
  for (const RunSpec& spec : plan(options_)) {
    agreement.size_max = std::max(agreement.size_max, spec.size);
  }
  agreement.window = options_.window;
  agreement.eager_bytes = options_.eager_bytes;
  agreement.ack_timeout = static_cast<std::uint8_t>(options_.ack_timeout);
  agreement.check = options_.check;
  return agreement;
}

Expected<void> Client::connect() {
  const auto timeout_ms = static_cast<std::uint32_t>(options_.endpoint.connect_timeout_s * 1000);
  ROCKHOPPER_TRY(auto connection,
                 TcpConnection::connect(options_.host, options_.port, timeout_ms, node_));
  channel_.emplace(std::move(connection), node_);
  ROCKHOPPER_TRY(node_.wait_for_link());

  ROCKHOPPER_TRY(auto offer, channel_->receive("offer"));
  ROCKHOPPER_TRY(auto agreement, agree(offer));
  ROCKHOPPER_TRY(auto side, node_.prepare(agreement, kClientId, std::nullopt));
  node_.context().set_handler(kPong, [this](const ami::Message& message) {
    if (run_ != nullptr) run_->on_pong(message);
  });
  const nlohmann::json hello{{"agreement", to_json(agreement)}, {"side", to_json(side)}};
  ROCKHOPPER_TRY(channel_->send("hello", hello));
  ROCKHOPPER_TRY(auto welcome, channel_->receive("welcome"));
  ROCKHOPPER_TRY(auto remote, side_from_json(welcome.value("side", nlohmann::json())));
  watch_ = std::make_unique<Watch>(
      [this]() -> Expected<void> {
        // Why the peer has gone is more than that it has.
        ROCKHOPPER_TRY(channel_->check());
        if (!node_.link_alive()) {
          return fail(ErrorCode::io, "the link went down: the peer has gone");
        }
        // Who has no callback is not told.
        if (node_.peer_failed()) return fail(ErrorCode::timeout, "{}", kNoAnswer);
        return {};
      },
      static_cast<std::uint64_t>(options_.timeout_s * 1e9));
  return node_.connect(remote, kServerId);
}

Expected<void> Client::run_all() {
  std::optional<Operation> last;
  std::uint64_t number = 0;
  for (RunSpec spec : plan(options_)) {
    spec.seed = seed_ + number++;
    if (!options_.json && last != spec.operation) {
      fmt::print("{}{}, {}, {} mode, {} thread{}\n{}\n", last ? "\n" : "", title(spec.operation),
                 to_string(options_.transport), to_string(options_.completion), options_.threads,
                 options_.threads > 1 ? "s" : "",
                 table_header(spec.operation, options_.report_gbits));
    }
    last = spec.operation;
    ROCKHOPPER_TRY(auto measurement, measure(spec));
    results_.push_back({spec, measurement});
    if (!options_.json) {
      fmt::print("{}\n", table_row(results_.back(), options_.report_gbits));
      (void)std::fflush(stdout);
    }
  }
  ROCKHOPPER_TRY(channel_->send("end", {{"results", report()["results"]}}));
  ROCKHOPPER_TRY(channel_->receive("ended"));
  return {};
}

Expected<Measurement> Client::measure(const RunSpec& spec) {
  ROCKHOPPER_TRY(channel_->send("start", to_json(spec)));
  ROCKHOPPER_TRY(channel_->receive("started"));
  if (spec.operation == Operation::am_lat) {
    run_ = std::make_unique<PingPong>(node_, options_, spec);
  } else {
    run_ = std::make_unique<Stream>(node_, options_, spec);
  }
  ROCKHOPPER_TRY(drive(*run_));
  ROCKHOPPER_TRY(channel_->send("stop", {{"instructions", run_->injected()}}));
  ROCKHOPPER_TRY(channel_->receive("stopped"));
  return run_->measurement();
}

Expected<void> Client::drive(Run& run) {
  node_.set_work(&run);
  watch_->set_impatient(true);
  std::optional<Error> cause;
  Progress progress("instructions");
  std::uint64_t seen = 0;
  for (std::uint64_t turns = 1; !run.finished(); ++turns) {
    (void)node_.turn();
    const std::uint64_t now = run.progress();
    if (auto good = watch_->turn(now != seen); !good) {
      cause = good.error();
      wind_up(run);
      break;
    }
    seen = now;
    if (turns % kTurnsPerLook == 0) progress.update(now, 0);
  }
  watch_->set_impatient(false);
  node_.set_work(nullptr);
  return outcome(run, node_, cause);
}

void Client::wind_up(Run& run) {
  run.stop();
  // A signal is not to wait for what has not left; else what becomes of it is of interest.
  bool closed = stop_requested();
  if (closed) node_.close();
  const auto limit_ns = static_cast<std::uint64_t>(options_.timeout_s * 1e9);
  for (std::uint64_t start_ns = steady_now_ns(); !run.finished();) {
    (void)node_.turn();
    if (steady_now_ns() - start_ns < limit_ns) continue;
    if (closed) return;
    node_.close();
    closed = true;
    start_ns = steady_now_ns();
  }
}

nlohmann::json Client::report() const {
  nlohmann::json results = nlohmann::json::array();
  for (const Result& result : results_) results.push_back(result_json(result, options_.check));
  return {{"program", "rh-ami"},
          {"version", kVersion},
          {"role", "client"},
          {"transport", to_string(options_.transport)},
          {"mode", to_string(options_.completion)},
          {"slots", options_.slots},
          {"threads", options_.threads},
          {"window", options_.window},
          {"level", to_string(options_.level)},
          {"path_mtu", node_.agreement().path_mtu},
          {"eager_bytes", options_.eager_bytes},
          {"seed", seed_},
          {"peer_memory_seen", !node_.peer_memory().empty()},
          {"counters", node_.counters()},
          {"results", results}};
}

}  // namespace rockhopper::apps::messages
