// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "roce/congestion/pacer.h"

#include <algorithm>
#include <utility>

#include "roce/transport_context.h"

namespace rockhopper::roce {
namespace {

constexpr std::uint64_t kNsBitsPerByte = 8'000'000'000;

}  // namespace

Pacer::Pacer(QueuePair& qp, const CongestionConfig& config,
             std::unique_ptr<CongestionControl> control, std::uint32_t window_max)
    : qp_(qp),
      config_(config),
      control_(std::move(control)),
      rtt_(control_->uses_acks() ? window_max : 0),
      timer_([](void* self,
                std::uint64_t) { TransportContext(static_cast<Pacer*>(self)->qp_).schedule(); },
             this) {}

void Pacer::reset() {
  control_->reset();
  rtt_.clear();
  next_ns_ = 0;
  TransportContext(qp_).engine().timers().cancel(timer_);
}

void Pacer::begin_turn(std::uint64_t now_ns) {
  if (control_->rate(now_ns) == kUnlimited) next_ns_ = 0;
}

std::uint16_t Pacer::allowance(std::uint32_t packet_bytes, std::uint64_t now_ns) const {
  const std::uint64_t rate = control_->rate(now_ns);
  if (rate == kUnlimited) return UINT16_MAX;
  if (next_ns_ > now_ns) return 0;
  const std::uint64_t behind_ns = std::min(now_ns - next_ns_, kCatchUpNs);
  // One now, and those whose times have passed.
  const std::uint64_t packets = 1 + behind_ns * rate / kNsBitsPerByte / packet_bytes;
  return static_cast<std::uint16_t>(std::min<std::uint64_t>(packets, UINT16_MAX));
}

void Pacer::on_sent(std::uint64_t bytes, std::uint64_t now_ns) {
  control_->on_sent(bytes, now_ns);
  const std::uint64_t rate = control_->rate(now_ns);
  if (rate == kUnlimited) return;
  const std::uint64_t earliest_ns = now_ns > kCatchUpNs ? now_ns - kCatchUpNs : 0;
  next_ns_ = std::max(next_ns_, earliest_ns) + bytes * kNsBitsPerByte / rate;
}

void Pacer::wait() { TransportContext(qp_).engine().timers().arm(timer_, next_ns_); }

}  // namespace rockhopper::roce
