// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/rh_perf/perftest_run.h"

#include <algorithm>
#include <cstdio>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "apps/common/signals.h"
#include "apps/common/sizes.h"
#include "apps/common/steady_clock.h"
#include "apps/common/version.h"

namespace rockhopper::apps::perf {
namespace {

constexpr std::uint64_t kLingerNs = 500 * kNsPerMs;

/// How often the programs shake hands before and after they connect their queue pairs.
struct Handshakes {
  unsigned before;
  unsigned after;
};

Handshakes handshakes(const RunSpec& spec) {
  if (spec.operation == Operation::send) return {.before = 1, .after = 3};
  if (spec.kind == RunKind::bandwidth) return {.before = 1, .after = 2};
  return {.before = 2, .after = 2};
}

}  // namespace

PerftestRun::PerftestRun(Backend& backend, const Options& options, PerftestRdmaCm* rdma_cm)
    : backend_(backend),
      options_(options),
      rdma_cm_(rdma_cm),
      spec_(plan(options).front()),
      pump_(backend) {
  if (rdma_cm_ != nullptr) rdma_cm_->serve_with(pump_);
}

Expected<void> PerftestRun::run() {
  auto result = meet()
                    .and_then([this] { return prepare(); })
                    .and_then([this] { return connect(); })
                    .and_then([this] { return work(); })
                    .and_then([this] { return end(); });
  if (!result) {
    const Error cause = cause_of(result.error());
    if (rdma_cm_ != nullptr) rdma_cm_->abandon();
    return tl::make_unexpected(cause);
  }
  if (!options_.json) print();
  return {};
}

/// What came first: a disconnect, which flushes the requests, or a failed completion met while
/// waiting for the peer.
Error PerftestRun::cause_of(const Error& error) {
  if (rdma_cm_ != nullptr) {
    if (const auto ended = rdma_cm_->why_ended()) return *ended;
  }
  return pump_.error().value_or(error);
}

Expected<void> PerftestRun::meet() {
  if (rdma_cm_ != nullptr) {
    exchange_.emplace(*rdma_cm_, is_client());
    // A link that nobody has seen up cannot be seen to go down.
    return rdma_cm_->meet().and_then([this] { return backend_.wait_for_link(); });
  }
  ROCKHOPPER_TRY(auto connection, meet_over_tcp());
  tcp_ = std::make_unique<PerftestTcpCarrier>(std::move(connection), pump_);
  exchange_.emplace(*tcp_, is_client());
  return backend_.wait_for_link();
}

Expected<TcpConnection> PerftestRun::meet_over_tcp() {
  if (is_client()) {
    return TcpConnection::connect(
        options_.host, options_.port,
        static_cast<std::uint32_t>(options_.endpoint.connect_timeout_s * 1000), pump_);
  }
  return accept_at(options_.port, pump_);
}

/// Versions and sizes, and then what this end is.
Expected<void> PerftestRun::prepare() {
  ROCKHOPPER_TRY(auto greeting,
                 exchange_->greet(options_.path_mtu.value_or(backend_.path_mtu_max())));
  peer_version_ = greeting.version;
  agreement_ = propose(options_, backend_);
  agreement_.path_mtu = static_cast<std::uint16_t>(greeting.path_mtu);
  // The peer walks through that much of our memory.
  agreement_.size_max = std::max(spec_.size, greeting.buffer_bytes);
  ROCKHOPPER_TRY(layout_, Layout::make(agreement_));
  std::optional<bool> ipv4;
  if (rdma_cm_ != nullptr) ipv4 = rdma_cm_->path().source.is_ipv4();
  ROCKHOPPER_TRY(auto side, backend_.prepare(agreement_, layout_->bytes(), ipv4));
  own_ = {.outstanding_reads = agreement_.outstanding_reads,
          .qpn = side.qps.front().qpn,
          .psn = side.qps.front().psn,
          .rkey = side.rkey,
          .address = side.address + layout_->target(0, 0),
          .gid = side.gid};
  return {};
}

Expected<void> PerftestRun::connect() {
  if (rdma_cm_ != nullptr) {
    // The programs wait for each other before and after. The addresses are the exchange's.
    ROCKHOPPER_TRY(shake_hands(1));
    ROCKHOPPER_TRY(rdma_cm_->connect_queue_pair(agreement_));
    ROCKHOPPER_TRY(shake_hands(1));
    agreement_.path_mtu = static_cast<std::uint16_t>(rdma_cm_->path_mtu());
  }
  ROCKHOPPER_TRY(shake_hands(handshakes(spec_).before));
  if (rdma_cm_ != nullptr) peer_.gid = rdma_cm_->path().destination;
  if (peer_.gid.is_ipv4() != own_.gid.is_ipv4()) {
    return fail(ErrorCode::io, "the peer's address is {}, ours {}; choose with -x at either end",
                peer_.gid.to_string(), own_.gid.to_string());
  }
  if (is_client()) {
    agreement_.outstanding_reads =
        std::min(agreement_.outstanding_reads, static_cast<std::uint16_t>(peer_.outstanding_reads));
  }
  const Side remote{.gid = peer_.gid,
                    // So that the target of our first queue pair is the peer's buffer.
                    .address = peer_.address - layout_->target(0, 0),
                    .bytes = layout_->bytes(),
                    .rkey = peer_.rkey,
                    .qps = {{.qpn = peer_.qpn, .psn = peer_.psn}}};
  ROCKHOPPER_TRY(backend_.connect(agreement_, remote));
  ROCKHOPPER_TRY(start_traffic(remote));
  return shake_hands(handshakes(spec_).after);
}

Expected<void> PerftestRun::start_traffic(const Side& remote) {
  watch_ = std::make_unique<Watch>(
      [this]() -> Expected<void> {
        // What the peer has sent before it went has one more turn.
        const bool gone = std::exchange(peer_gone_, exchange_->peer_closed());
        if (backend_.link_alive() && !gone) return {};
        return fail(ErrorCode::io, "the peer has gone");
      },
      static_cast<std::uint64_t>(options_.timeout_s * 1e9));
  traffic_ = std::make_unique<Traffic>(backend_, agreement_, *layout_, remote, *watch_);
  pump_.set_traffic(traffic_.get());
  return traffic_->start(spec_);
}

Expected<void> PerftestRun::shake_hands(unsigned times) {
  for (unsigned i = 0; i < times; ++i) {
    ROCKHOPPER_TRY(peer_, exchange_->shake_hands(own_));
  }
  return {};
}

Expected<void> PerftestRun::work() {
  if (is_client() || is_write_latency()) return measure();
  return is_send() ? answer() : Expected<void>{};
}

Expected<void> PerftestRun::measure() {
  // ib_write_lat's server sends first.
  ROCKHOPPER_TRY(measurement_,
                 is_latency() ? run_latency(*traffic_, spec_, is_write_latency() && is_client())
                              : run_bandwidth(*traffic_, spec_, options_.cq_moderation));
  return {};
}

/// Takes the peer's messages; of a latency run, sends as many back.
Expected<void> PerftestRun::answer() {
  PongServer pong(*traffic_, spec_);
  watch_->set_impatient(true);
  const auto done = [&] { return is_latency() ? traffic_->posted(0) : traffic_->received(); };
  while (done() < spec_.iterations) {
    ROCKHOPPER_TRY(traffic_->poll());
    if (!is_latency()) continue;
    ROCKHOPPER_TRY(pong.turn());
  }
  watch_->set_impatient(false);
  return traffic_->drain();
}

Expected<void> PerftestRun::end() {
  const bool one_way_report = !is_latency() && !is_send();
  if (one_way_report) {
    ROCKHOPPER_TRY(shake_hands(1));
    PerftestReport own;
    if (measurement_) {
      const double rate = operations_per_s(*measurement_);
      own = {.size = spec_.size,
             .iterations = spec_.iterations,
             .peak = measurement_->peak_operations_per_s * spec_.size / kBytesPerMib,
             .average = rate * spec_.size / kBytesPerMib,
             .message_rate = rate * 1e-6};
    }
    ROCKHOPPER_TRY(auto peer, exchange_->swap_reports(own));
    if (!measurement_ && peer.message_rate > 0) {
      measurement_ = Measurement{
          .operations = peer.iterations,
          .seconds = static_cast<double>(peer.iterations) / (peer.message_rate * 1e6),
          .peak_operations_per_s = peer.peak * kBytesPerMib / std::max<double>(spec_.size, 1)};
    }
  }
  if (is_write_latency()) {
    // ib_write_lat says nothing: what it has sent last may still want an acknowledgement.
    linger();
  } else {
    ROCKHOPPER_TRY(shake_hands(1));
    ROCKHOPPER_TRY(exchange_->say_done());
  }
  if (rdma_cm_ != nullptr) rdma_cm_->leave();
  return {};
}

void PerftestRun::linger() {
  const std::uint64_t end_ns = steady_now_ns() + kLingerNs;
  while (steady_now_ns() < end_ns && !stop_requested() && !exchange_->peer_closed()) {
    (void)pump_.turn();
  }
}

void PerftestRun::print() const {
  if (!measurement_) {
    fmt::print("served {} {}: {} messages of {} bytes\n", title_of(spec_.operation),
               is_latency() ? "Latency" : "BW", spec_.iterations, spec_.size);
    return;
  }
  fmt::print(" {} {} Test with perftest {}, path MTU {}, {}\n{}\n{}\n", title_of(spec_.operation),
             is_latency() ? "Latency" : "BW", peer_version_, agreement_.path_mtu, backend_.name(),
             table_header(spec_.kind, options_.report_gbits),
             table_row({spec_, *measurement_, false}, options_.report_gbits));
}

nlohmann::json PerftestRun::report() const {
  nlohmann::json results = nlohmann::json::array();
  if (measurement_) results.push_back(result_json({spec_, *measurement_, false}));
  return {{"program", "rh-perf"},
          {"version", kVersion},
          {"role", is_client() ? "client" : "server"},
          {"peer", "perftest " + peer_version_},
          {"backend", backend_.name()},
          {"transport", "RC"},
          {"rdma_cm", rdma_cm_ != nullptr},
          {"path_mtu", agreement_.path_mtu},
          {"operation", name_of(spec_.operation)},
          {"iterations", spec_.iterations},
          {"results", std::move(results)}};
}

}  // namespace rockhopper::apps::perf
