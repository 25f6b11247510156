// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "roce/shared_receive_queue.h"

#include "roce/engine_context.h"

namespace rockhopper::roce {

SharedReceiveQueue::SharedReceiveQueue(Engine& engine, std::uint32_t number, const SrqInit& init)
    : engine_(engine),
      number_(number),
      pd_(init.pd),
      xrcd_(init.xrcd),
      cq_(init.cq),
      queue_(init.attributes.max_wr, init.attributes.max_sge, 0) {}

Expected<void> SharedReceiveQueue::modify(const SrqAttributes& attributes, std::uint32_t mask) {
  if ((mask & ~(kSrqMaxWr | kSrqLimit)) != 0) {
    return fail(ErrorCode::invalid_argument, "unknown attributes {:#x}", mask);
  }
  const std::uint32_t max_wr =
      (mask & kSrqMaxWr) != 0 ? attributes.max_wr : static_cast<std::uint32_t>(queue_.capacity());
  if (max_wr == 0 || max_wr > kMaxSrqWr || max_wr < queue_.size()) {
    return fail(ErrorCode::invalid_argument,
                "an SRQ in which {} requests wait holds at least these, at least 1 and at most {}, "
                "not {}",
                queue_.size(), kMaxSrqWr, max_wr);
  }
  const std::uint32_t limit = (mask & kSrqLimit) != 0 ? attributes.srq_limit : limit_;
  if (limit > max_wr) {
    return fail(ErrorCode::invalid_argument, "a limit of {} for an SRQ of {} requests", limit,
                max_wr);
  }
  if (max_wr != queue_.capacity()) queue_.resize(max_wr);
  limit_ = limit;
  check_limit();
  return {};
}

SrqAttributes SharedReceiveQueue::query() const {
  return {.max_wr = queue_.capacity(), .max_sge = queue_.max_sge(), .srq_limit = limit_};
}

PostResult SharedReceiveQueue::post_recv(const RecvWr& wr) { return post_receive(queue_, wr); }

bool SharedReceiveQueue::take(RecvQueue& to) {
  if (queue_.empty()) return false;
  move_receive(queue_, to);
  check_limit();
  return true;
}

void SharedReceiveQueue::check_limit() {
  if (queue_.size() < limit_) {
    limit_ = 0;
    EngineContext(engine_).raise({.type = AsyncEventType::srq_limit_reached, .srq = this});
  }
}

}  // namespace rockhopper::roce
