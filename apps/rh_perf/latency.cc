// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include <array>
#include <atomic>
#include <memory>
#include <numeric>
#include <vector>

#include "apps/common/progress.h"
#include "apps/common/steady_clock.h"
#include "apps/rh_perf/workload.h"

namespace rockhopper::apps::perf {
namespace {

/// Both ends' WRITEs carry a number in their last byte, which arrives last.
std::byte mark_of(std::uint64_t message) { return static_cast<std::byte>((message + 1) & 0xff); }

/// The last byte of this end's target, which the other end's WRITE changes behind our back.
std::byte landed(Traffic& traffic, std::uint32_t size) {
  std::byte& last = traffic.target(0, 0, size).back();
  return std::atomic_ref<std::byte>(last).load(std::memory_order_acquire);
}

Expected<void> post_one(Traffic& traffic, const RunSpec& spec, std::uint16_t qp,
                        std::uint64_t message) {
  while (traffic.room(qp) == 0) {
    ROCKHOPPER_TRY(traffic.poll());
  }
  if (spec.operation == Operation::write) {
    traffic.local(qp, message, spec.size).back() = mark_of(message);
  }
  SendRequest request;
  request.id = WorkId{false, qp, 1}.encode();
  request.operation = spec.operation;
  request.length = spec.size;
  request.local_offset = traffic.layout().local(qp, message);
  request.remote_address = traffic.remote_target(qp, 0);
  request.compare_add = spec.operation == Operation::cas ? message : 1;
  request.swap = message + 1;
  return traffic.post(qp, {&request, 1});
}

/// All queue pairs at once, each with one scope at a time: from its post to its completion.
Expected<Measurement> run_scopes(Traffic& traffic, const RunSpec& spec) {
  const auto histogram = std::make_unique<LatencyHistogram>();
  Progress progress("operations");
  traffic.watch().set_impatient(true);
  const std::uint64_t qps = traffic.agreement().qps;
  const std::uint64_t warmup = spec.warmup * qps;
  const std::uint64_t total = spec.duration_ns > 0 ? UINT64_MAX : warmup + spec.iterations * qps;
  std::vector<std::uint64_t> sent_ns(qps);
  std::vector<std::uint16_t> todo;
  traffic.take_freed(todo);  // of an earlier run
  todo.resize(qps);
  std::iota(todo.begin(), todo.end(), std::uint16_t{0});
  std::uint64_t posted = 0;
  std::uint64_t ended = 0;
  std::uint64_t start_ns = 0;
  std::uint64_t now_ns = steady_now_ns();
  while (ended < total) {
    if (start_ns == 0 && ended >= warmup) start_ns = now_ns;
    if (spec.duration_ns > 0 && start_ns != 0 && now_ns - start_ns >= spec.duration_ns) break;
    for (const std::uint16_t qp : todo) {
      if (posted == total) break;
      sent_ns[qp] = steady_now_ns();
      ROCKHOPPER_TRY(post_one(traffic, spec, qp, posted++));
    }
    ROCKHOPPER_TRY(traffic.poll());
    traffic.take_freed(todo);
    now_ns = steady_now_ns();
    for (const std::uint16_t qp : todo) {
      if (ended++ >= warmup) histogram->add(now_ns - sent_ns[qp]);
    }
    progress.update(ended, spec.duration_ns > 0 ? 0 : total);
  }
  Measurement result;
  result.operations = histogram->count();
  result.seconds = static_cast<double>(now_ns - start_ns) * 1e-9;
  ROCKHOPPER_TRY(traffic.drain());
  traffic.watch().set_impatient(false);
  result.latency = histogram->summary(1.0);
  return result;
}

/// The event that ends the measurement of a message has come.
bool answered(Traffic& traffic, const RunSpec& spec, std::uint64_t message) {
  switch (spec.operation) {
    case Operation::send:
      return traffic.received() > message;
    case Operation::write:
      return landed(traffic, spec.size) == mark_of(message);
    default:
      return traffic.completed() > message;
  }
}

}  // namespace

Expected<Measurement> run_latency(Traffic& traffic, const RunSpec& spec, bool peer_begins) {
  if (spec.operation == Operation::lock) return run_scopes(traffic, spec);
  const auto histogram = std::make_unique<LatencyHistogram>();
  Progress progress("operations");
  traffic.watch().set_impatient(true);
  const std::uint64_t total = spec.warmup + spec.iterations;
  // The number of the peer's message that answers ours.
  const std::uint64_t ahead = peer_begins ? 1 : 0;
  while (peer_begins && !answered(traffic, spec, 0)) {
    ROCKHOPPER_TRY(traffic.poll());
  }
  std::uint64_t start_ns = steady_now_ns();
  for (std::uint64_t message = 0; spec.duration_ns > 0 || message < total; ++message) {
    if (message == spec.warmup) start_ns = steady_now_ns();
    const std::uint64_t sent_ns = steady_now_ns();
    if (spec.duration_ns > 0 && message >= spec.warmup && sent_ns - start_ns >= spec.duration_ns) {
      break;
    }
    ROCKHOPPER_TRY(post_one(traffic, spec, 0, message));
    if (peer_begins && message + 1 == total) break;
    while (!answered(traffic, spec, message + ahead)) {
      ROCKHOPPER_TRY(traffic.poll());
    }
    if (message >= spec.warmup) histogram->add(steady_now_ns() - sent_ns);
    if (message % 64 == 0) progress.update(message, spec.duration_ns > 0 ? 0 : total);
  }
  const double seconds = static_cast<double>(steady_now_ns() - start_ns) * 1e-9;
  ROCKHOPPER_TRY(traffic.drain());
  traffic.watch().set_impatient(false);
  const bool round_trip = spec.operation == Operation::send || spec.operation == Operation::write;
  Measurement result;
  result.operations = histogram->count();
  result.seconds = seconds;
  result.latency = histogram->summary(round_trip ? 0.5 : 1.0);
  return result;
}

Expected<void> PongServer::turn() {
  if (spec_.operation == Operation::send) {
    for (; answered_ < traffic_.received(); ++answered_) {
      ROCKHOPPER_TRY(post_one(traffic_, spec_, 0, answered_));
    }
  } else if (spec_.operation == Operation::write &&
             landed(traffic_, spec_.size) == mark_of(answered_)) {
    return post_one(traffic_, spec_, 0, answered_++);
  }
  return {};
}

}  // namespace rockhopper::apps::perf
