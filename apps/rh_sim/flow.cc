// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/rh_sim/flow.h"

#include <algorithm>
#include <span>

namespace rockhopper::apps::sim {

Flow::Flow(const FlowSpec& spec, std::uint64_t start_ns)
    : spec_(spec), start_ns_(start_ns), posted_ns_(spec.window) {}

void Flow::connect(roce::QueuePair& qp, const Memory& memory, const roce::AddressHandle* ah,
                   wire::Qpn remote, std::uint32_t qkey) {
  qp_ = &qp;
  memory_ = memory;
  ah_ = ah;
  remote_ = remote;
  qkey_ = qkey;
}

/// When a message is to be posted at the earliest.
std::uint64_t Flow::due_ns(std::uint64_t message) const {
  const std::uint64_t first_ns = start_ns_ + spec_.start_ns;
  if (spec_.rate_bits_per_s == 0) return first_ns;
  const double bits = 8.0 * static_cast<double>(spec_.size) * static_cast<double>(message);
  return first_ns +
         static_cast<std::uint64_t>(bits * 1e9 / static_cast<double>(spec_.rate_bits_per_s));
}

bool Flow::may_post(std::uint64_t now_ns) const {
  if (result_.failed != 0 || now_ns >= start_ns_ + spec_.stop_ns ||
      (spec_.count != 0 && result_.posted == spec_.count)) {
    return false;
  }
  return result_.posted - result_.completed < spec_.window && now_ns >= due_ns(result_.posted);
}

void Flow::post(std::uint64_t now_ns) {
  while (may_post(now_ns)) {
    const roce::Sge sge{memory_.source, spec_.size, memory_.source_key};
    const roce::SendWr wr{.wr_id = id(),
                          .sg_list = spec_.size == 0 ? std::span<const roce::Sge>{}
                                                     : std::span<const roce::Sge>{&sge, 1},
                          .opcode = spec_.operation,
                          .send_flags = roce::kSendSignaled,
                          .remote_addr = memory_.target,
                          .rkey = memory_.target_key,
                          .compare_add = 1,
                          .ah = ah_,
                          .remote_qpn = remote_,
                          .remote_qkey = qkey_};
    if (qp_->post_send(wr) != roce::PostResult::ok) {
      ++result_.failed;
      return;
    }
    posted_ns_[result_.posted % spec_.window] = now_ns;
    result_.first_ns = std::min(result_.first_ns, now_ns - start_ns_);
    ++result_.posted;
  }
}

void Flow::on_completion(const roce::Completion& completion, std::uint64_t now_ns,
                         std::uint64_t measure_from_ns) {
  if (completion.status != roce::WcStatus::success) {
    ++result_.failed;
    return;
  }
  last_latency_ns_ = now_ns - posted_ns_[result_.completed % spec_.window];
  result_.latency_sum_ns += last_latency_ns_;
  result_.latency_max_ns = std::max(result_.latency_max_ns, last_latency_ns_);
  ++result_.completed;
  result_.bytes += spec_.size;
  if (now_ns - start_ns_ >= measure_from_ns) result_.measured_bytes += spec_.size;
  result_.last_ns = now_ns - start_ns_;
}

std::uint64_t Flow::next_post_ns(std::uint64_t now_ns) const {
  if (result_.failed != 0 || (spec_.count != 0 && result_.posted == spec_.count) ||
      result_.posted - result_.completed >= spec_.window) {
    return stack::kNever;
  }
  const std::uint64_t next_ns = std::max(due_ns(result_.posted), now_ns + 1);
  return next_ns < start_ns_ + spec_.stop_ns ? next_ns : stack::kNever;
}

bool Flow::finished(std::uint64_t now_ns) const {
  if (result_.failed != 0) return true;
  const bool no_more =
      now_ns >= start_ns_ + spec_.stop_ns || (spec_.count != 0 && result_.posted == spec_.count);
  return no_more && result_.completed == result_.posted;
}

}  // namespace rockhopper::apps::sim
