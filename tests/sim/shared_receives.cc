// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "tests/sim/shared_receives.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "tests/sim/sim_network.h"

namespace rockhopper::sim {

std::uint32_t SharedReceives::memory_bytes(std::uint32_t max_message, std::uint32_t depth) {
  return (max_message + 64) * (depth + 1) + 1024;
}

SharedReceives::SharedReceives(std::uint32_t wr_id_high, roce::Engine& engine,
                               const roce::SrqInit& init, NodeMemory& memory,
                               std::uint32_t max_message, Rng& rng)
    : wr_id_high_(wr_id_high),
      memory_(memory),
      rng_(rng),
      depth_(init.attributes.max_wr),
      max_sge_(init.attributes.max_sge),
      srq_(must(engine.create_srq(init))) {
  const std::uint32_t bytes = memory_bytes(max_message, depth_) - 512;
  area_ = memory.make_area(engine, init.pd, bytes, roce::kAccessLocalWrite, rng);
  ranges_ = RangeAllocator(bytes);
}

bool SharedReceives::post(std::uint32_t capacity) {
  if (srq_->depth() >= srq_->query().max_wr) return false;
  auto buffer = make_scatter_buffer(area_, ranges_, capacity, max_sge_, rng_);
  if (!buffer) return false;
  Receive receive{
      .wr_id = wr_id_high_ << 32 | next_++, .capacity = capacity, .buffer = std::move(*buffer)};
  const roce::PostResult result =
      srq_->post_recv({.wr_id = receive.wr_id, .sg_list = receive.buffer.sges});
  if (result != roce::PostResult::ok) {
    error_ = fmt::format("posting to the SRQ: {}", roce::to_string(result));
    return false;
  }
  posted_.emplace(receive.wr_id, std::move(receive));
  return true;
}

void SharedReceives::modify() {
  if (armed_ == 0 && rng_.chance(20)) {
    armed_ = rng_.between32(1, srq_->query().max_wr);
    must(srq_->modify({.srq_limit = armed_}, roce::kSrqLimit));
  } else if (rng_.chance(5)) {
    const auto least = std::max({1u, static_cast<std::uint32_t>(srq_->depth()), armed_});
    must(srq_->modify({.max_wr = rng_.between32(least, std::max(least, depth_))}, roce::kSrqMaxWr));
  }
}

void SharedReceives::on_limit_reached() {
  if (armed_ == 0) error_ = "a limit event of an SRQ whose limit is not armed";
  armed_ = 0;
}

std::optional<Receive> SharedReceives::take(std::uint64_t wr_id) {
  auto node = posted_.extract(wr_id);
  if (node.empty()) return std::nullopt;
  return std::move(node.mapped());
}

void SharedReceives::release(const Receive& receive) {
  memory_.scramble(receive.buffer.offset, receive.buffer.span, rng_);
  ranges_.free(receive.buffer.area_offset);
}

std::string SharedReceives::contradiction() const {
  if (srq_->depth() != posted_.size()) {
    return fmt::format("{} receives wait in the SRQ, {} should", srq_->depth(), posted_.size());
  }
  if (srq_->query().srq_limit != armed_) {
    return fmt::format("the SRQ's limit is {}, not {}", srq_->query().srq_limit, armed_);
  }
  if (armed_ > srq_->depth()) {
    return fmt::format("{} receives wait in the SRQ, fewer than its limit of {}: no event",
                       srq_->depth(), armed_);
  }
  return error_;
}

}  // namespace rockhopper::sim
