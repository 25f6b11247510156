// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
// Shared receive queues of an engine.
#include <algorithm>
#include <cassert>

#include "roce/engine.h"

namespace rockhopper::roce {
namespace {

constexpr std::uint32_t kSrqIndexBits = 16;
constexpr std::size_t kFirstSrqSlots = 16;
static_assert(kMaxSrq == 1u << kSrqIndexBits);

}  // namespace

Expected<SharedReceiveQueue*> Engine::create_srq(const SrqInit& init) {
  if (!has_pd(init.pd)) return fail(ErrorCode::not_found, "no such protection domain");
  const SrqAttributes& attributes = init.attributes;
  if (attributes.max_wr == 0 || attributes.max_wr > kMaxSrqWr || attributes.max_sge == 0 ||
      attributes.max_sge > kMaxSge) {
    return fail(ErrorCode::invalid_argument,
                "an SRQ has 1 to {} requests of 1 to {} elements, not {} of {}", kMaxSrqWr, kMaxSge,
                attributes.max_wr, attributes.max_sge);
  }
  const bool xrc = init.xrcd != XrcDomain{};
  if (xrc != (init.cq != nullptr) || (xrc && !has_xrcd(init.xrcd))) {
    return fail(ErrorCode::invalid_argument,
                "an SRQ of XRC needs an XRC domain and a completion queue, another has neither");
  }
  if (srq_count_ == kMaxSrq) {
    return fail(ErrorCode::exhausted, "all {} shared receive queues are in use", kMaxSrq);
  }
  if (srq_count_ * 2 >= srqs_.size() && srqs_.size() < kMaxSrq) {
    srqs_.resize(std::max(srqs_.size() * 2, kFirstSrqSlots));
  }
  std::size_t index = config_.random->below(srqs_.size());
  while (srqs_[index] != nullptr) {
    index = (index + 1) % srqs_.size();
  }
  const auto high = static_cast<std::uint32_t>(1 + config_.random->below(0xff));  // 0 is none
  const std::uint32_t number = high << kSrqIndexBits | static_cast<std::uint32_t>(index);
  srqs_[index].reset(new SharedReceiveQueue(*this, number, init));
  ++srq_count_;
  if (xrc) init.cq->count_users(1);
  return srqs_[index].get();
}

Expected<void> Engine::destroy_srq(SharedReceiveQueue* srq) {
  assert(srq != nullptr && find_srq(srq->number()) == srq);
  if (srq->users() > 0) return fail(ErrorCode::busy, "{} queue pairs use the SRQ", srq->users());
  for (const auto& qp : qps_) {
    if (qp != nullptr) qp->forget_srq(*srq);
  }
  if (srq->cq() != nullptr) {
    srq->cq()->count_users(-1);
    if (!srq->cq()->is_used()) std::erase(overrun_cqs_, srq->cq());
  }
  std::erase_if(async_events_, [srq](const AsyncEvent& event) { return event.srq == srq; });
  srqs_[srq->number() & (kMaxSrq - 1)].reset();
  --srq_count_;
  return {};
}

Expected<void> Engine::check_receive_side(const QpInit& init) const {
  if (init.srq == nullptr) return {};
  if (init.qp_type == QpType::uc) {
    return fail(ErrorCode::unsupported, "a queue pair of UC cannot use an SRQ");
  }
  if (find_srq(init.srq->number()) != init.srq) {
    return fail(ErrorCode::invalid_argument, "the SRQ is another engine's");
  }
  return {};
}

SharedReceiveQueue* Engine::find_srq(std::uint32_t number) const {
  const std::size_t index = number & (kMaxSrq - 1);
  SharedReceiveQueue* srq = index < srqs_.size() ? srqs_[index].get() : nullptr;
  return srq != nullptr && srq->number() == number ? srq : nullptr;
}

}  // namespace rockhopper::roce
