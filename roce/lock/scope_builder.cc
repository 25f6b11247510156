// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "roce/lock/scope_builder.h"

#include <algorithm>

#include "roce/recovery/held_packets.h"
#include "roce/segmentation.h"

namespace rockhopper::roce::lock {
namespace {

void set(std::uint8_t& flags, std::uint8_t bit, bool on) {
  flags = static_cast<std::uint8_t>(on ? flags | bit : flags & ~bit);
}

}  // namespace

bool ScopeBuilder::also(const Word& word) {
  if (more_count_ == more_.size()) return false;
  more_[more_count_++] = word;
  return true;
}

ScopeBuilder& ScopeBuilder::fifo(bool on) {
  set(request_.flags, wire::Lketh::kFifo, on);
  return *this;
}

ScopeBuilder& ScopeBuilder::resend(bool on) {
  set(request_.flags, wire::Lketh::kResend, on);
  return *this;
}

bool ScopeBuilder::read(const Sge& to, std::uint64_t remote_addr, MemoryKey rkey) {
  return access({.sg_list = {&to, 1},
                 .opcode = WrOpcode::rdma_read,
                 .remote_addr = remote_addr,
                 .rkey = rkey});
}

bool ScopeBuilder::write(const Sge& from, std::uint64_t remote_addr, MemoryKey rkey) {
  return access({.sg_list = {&from, 1},
                 .opcode = WrOpcode::rdma_write,
                 .remote_addr = remote_addr,
                 .rkey = rkey});
}

bool ScopeBuilder::access(const SendWr& wr) {
  if (count_ == accesses_.size() || wr.sg_list.size() > 1 || !kScopeAccesses.has(wr.opcode)) {
    return false;
  }
  Access& access = accesses_[count_++];
  access.wr = wr;
  access.sge = wr.sg_list.empty() ? Sge{} : wr.sg_list.front();
  return true;
}

PostResult ScopeBuilder::prepare(const Limits& limits, ScopeResult* result) {
  std::uint64_t bytes = 0;
  std::uint64_t psns = 1;       // the release
  std::uint32_t responses = 2;  // of acquire and release
  for (const Access& access : std::span(accesses_).first(count_)) {
    const SendWr& wr = access.wr;
    const bool data = wr.opcode == WrOpcode::rdma_write || wr.opcode == WrOpcode::rdma_read;
    if (data && access.sge.length > kMaxMessageBytes) return PostResult::message_too_long;
    if (!wr.sg_list.empty() && limits.max_sge == 0) return PostResult::too_many_sges;
    psns += data ? packets_of(access.sge.length, limits.path_mtu) : 1;
    bytes += access.sge.length;
    responses += kWithResponse.has(wr.opcode) ? 1 : 0;
  }
  if (psns > UINT16_MAX) return PostResult::message_too_long;
  if (count_ + 2 > limits.room) return PostResult::queue_full;
  const bool resends = (request_.flags & wire::Lketh::kResend) != 0;
  const bool fits = psns < HeldPackets::kWindow && responses <= limits.max_rd_atomic && !resends;
  const bool store_forward = forward_ == Forward::automatic ? fits && bytes <= kStoreForwardBytes
                                                            : forward_ == Forward::store_forward;
  if (store_forward && !fits) return PostResult::invalid_request;
  set(request_.flags, wire::Lketh::kStoreForward, store_forward);
  request_.scope_psns = static_cast<std::uint16_t>(psns);
  request_.more = {more_.data(), more_count_};
  request_.result = result;
  release_request_ = {.mode = request_.mode, .operation = release_operation_, .result = result};
  return PostResult::ok;
}

SendWr ScopeBuilder::request_at(std::size_t index, std::uint64_t wr_id) const {
  SendWr wr;
  if (index > 0 && index <= count_) {
    const Access& access = accesses_[index - 1];
    wr = access.wr;
    if (!wr.sg_list.empty()) wr.sg_list = {&access.sge, 1};
    return wr;
  }
  wr.wr_id = wr_id;
  wr.remote_addr = word_.addr;
  wr.rkey = word_.rkey;
  wr.opcode = index == 0 ? WrOpcode::lock_acquire : WrOpcode::lock_release;
  wr.lock = index == 0 ? &request_ : &release_request_;
  wr.send_flags = index == 0 ? 0u : std::uint32_t{kSendSignaled};
  return wr;
}

PostResult ScopeBuilder::post(QueuePair& qp, std::uint64_t wr_id, ScopeResult* result) {
  const QpAttributes attributes = qp.query();
  const Limits limits{
      .path_mtu = bytes(attributes.path_mtu),
      .max_rd_atomic = attributes.max_rd_atomic,
      .room = static_cast<std::uint32_t>(qp.init().max_send_wr - qp.send_queue_depth()),
      .max_sge = qp.init().max_send_sge};
  return post([&qp](SendWr& wr) { return qp.post_send(wr); }, limits, wr_id, result);
}

}  // namespace rockhopper::roce::lock
