// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/rh_ami/client.h"

#include <algorithm>
#include <optional>

#include <fmt/format.h>

#include "apps/common/progress.h"
#include "apps/common/signals.h"
#include "apps/common/steady_clock.h"
#include "apps/rh_ami/ping_pong.h"
#include "apps/rh_ami/report.h"
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
    : MeasuringClient(options, node, plan(options), seed), node_(node), ami_options_(options) {}

Expected<Agreement> Client::agree(const Offer& offer) const {
  const auto largest =
      static_cast<std::uint16_t>(std::min<std::uint32_t>(offer.path_mtu, node_.path_mtu_max()));
  if (options_.path_mtu.value_or(largest) > largest) {
    return fail(ErrorCode::unsupported, "path MTU {} does not fit both ends' links: at most {}",
                *options_.path_mtu, largest);
  }
  return Agreement{.transport = options_.transport,
                   .path_mtu = options_.path_mtu.value_or(largest),
                   .size_max = size_max(),
                   .window = options_.window,
                   .eager_bytes = ami_options_.eager_bytes,
                   .ack_timeout = static_cast<std::uint8_t>(options_.ack_timeout),
                   .check = ami_options_.check};
}

Expected<void> Client::greet() {
  ROCKHOPPER_TRY(node_.wait_for_link());
  ROCKHOPPER_TRY(auto offer, channel_->receive<Offer>("offer"));
  ROCKHOPPER_TRY(auto agreement, agree(offer));
  ROCKHOPPER_TRY(auto side, node_.prepare(agreement, kClientId, std::nullopt));
  node_.context().set_handler(kPong, [this](const ami::Message& message) {
    if (run_ != nullptr) run_->on_pong(message);
  });
  ROCKHOPPER_TRY(channel_->send("hello", fields_to_json(Hello{agreement, side})));
  ROCKHOPPER_TRY(auto welcome, channel_->receive<Welcome>("welcome"));
  set_watch([this] { return check_peer(); });
  return node_.connect(welcome.side, kServerId);
}

Expected<void> Client::check_peer() {
  // Why the peer has gone is more than that it has.
  ROCKHOPPER_TRY(channel_->check());
  if (!node_.link_alive()) return fail(ErrorCode::io, "the link went down: the peer has gone");
  // A client without a callback is not told.
  if (node_.peer_failed()) return fail(ErrorCode::timeout, "{}", kNoAnswer);
  return {};
}

std::string Client::title(const RunSpec& spec, bool first) const {
  return fmt::format(
      "{}{}, {}, {} mode, {} thread{}\n{}", first ? "" : "\n", title_of(spec.operation),
      name_of(options_.transport), name_of(ami_options_.completion), ami_options_.threads,
      ami_options_.threads > 1 ? "s" : "", table_header(spec.operation, options_.report_gbits));
}

Expected<ResultLine> Client::measure(const RunSpec& spec) {
  ROCKHOPPER_TRY(start(spec));
  if (spec.operation == Operation::am_lat) {
    run_ = std::make_unique<PingPong>(node_, ami_options_, spec);
  } else {
    run_ = std::make_unique<Stream>(node_, ami_options_, spec);
  }
  ROCKHOPPER_TRY(drive(*run_));
  ROCKHOPPER_TRY(stop(fields_to_json(Stop{run_->injected()})));
  const Result result{spec, run_->measurement()};
  return ResultLine{result_json(result, ami_options_.check),
                    table_row(result, options_.report_gbits)};
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

nlohmann::json Client::details() const {
  return {{"program", "rh-ami"},
          {"transport", name_of(options_.transport)},
          {"mode", name_of(ami_options_.completion)},
          {"slots", ami_options_.slots},
          {"threads", ami_options_.threads},
          {"window", options_.window},
          {"level", name_of(ami_options_.level)},
          {"path_mtu", node_.agreement().path_mtu},
          {"eager_bytes", ami_options_.eager_bytes},
          {"seed", seed_},
          {"peer_memory_seen", !node_.peer_memory().empty()},
          {"counters", node_.counters()}};
}

}  // namespace rockhopper::apps::messages
