// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "roce/gsi.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <cstring>

namespace rockhopper::roce {
namespace {

constexpr std::uint32_t kReceives = 512;
constexpr std::uint16_t kSends = 256;
constexpr std::size_t kReceiveBytes = kGrhBytes + wire::kMadBytes;
constexpr std::size_t kSendsOffset = kReceives * kReceiveBytes;
constexpr std::size_t kMemoryBytes = kSendsOffset + kSends * wire::kMadBytes;
constexpr std::uint64_t kSendBit = std::uint64_t{1} << 32;  ///< of a wr_id

}  // namespace

Expected<std::unique_ptr<Gsi>> Gsi::create(Engine& engine) {
  std::unique_ptr<Gsi> gsi(new Gsi(engine));
  ROCKHOPPER_TRY(gsi->open());
  return gsi;
}

Expected<void> Gsi::open() {
  pd_ = engine_.allocate_pd();
  // Each buffer is written before it is read.
  memory_ = std::make_unique_for_overwrite<std::byte[]>(kMemoryBytes);
  ROCKHOPPER_TRY(region_,
                 engine_.register_memory(pd_, memory_.get(), kMemoryBytes, kAccessLocalWrite));
  ROCKHOPPER_TRY(cq_, CompletionQueue::create(kReceives + kSends));
  ROCKHOPPER_TRY(qp_, engine_.create_gsi_qp({.qp_type = QpType::ud,
                                             .pd = pd_,
                                             .send_cq = cq_.get(),
                                             .recv_cq = cq_.get(),
                                             .max_send_wr = kSends,
                                             .max_recv_wr = kReceives,
                                             .max_inline_data = 0,
                                             .sq_sig_all = true}));
  ROCKHOPPER_TRY(
      qp_->bring_up({.qkey = wire::kGsiQkey, .sq_psn = engine_.random_psn()}, QpState::rts));
  for (std::uint32_t index = 0; index < kReceives; ++index) {
    post_receive(index);
  }
  posted_ahs_.resize(kSends);
  for (std::uint16_t buffer = 0; buffer < kSends; ++buffer) {
    free_buffers_.push_back(buffer);
  }
  return {};
}

Gsi::~Gsi() {
  if (qp_ != nullptr) engine_.destroy_qp(qp_);
  for (const Sending& sending : unresolved_) {
    engine_.destroy_ah(sending.ah);
  }
  for (AddressHandle* ah : posted_ahs_) {
    if (ah != nullptr) engine_.destroy_ah(ah);
  }
  if (region_.base != nullptr) (void)engine_.deregister_memory(region_.key);
  (void)engine_.deallocate_pd(pd_);
}

std::byte* Gsi::receive_buffer(std::uint64_t index) {
  return memory_.get() + index * kReceiveBytes;
}

std::byte* Gsi::send_buffer(std::uint64_t index) {
  return memory_.get() + kSendsOffset + index * wire::kMadBytes;
}

void Gsi::post_receive(std::uint64_t index) {
  const Sge sge{.addr = reinterpret_cast<std::uintptr_t>(receive_buffer(index)),
                .length = kReceiveBytes,
                .lkey = region_.key};
  [[maybe_unused]] const PostResult posted = qp_->post_recv({.wr_id = index, .sg_list = {&sge, 1}});
  assert(posted == PostResult::ok);
}

void Gsi::poll(std::uint64_t now_ns, const std::function<void(const ReceivedMad&)>& handler) {
  std::array<Completion, 32> completions;
  // One round: a flood leaves the caller its turn.
  const std::size_t count = cq_->poll(completions);
  for (const Completion& completion : std::span(completions).first(count)) {
    if ((completion.wr_id & kSendBit) != 0) {
      const auto buffer = static_cast<std::uint16_t>(completion.wr_id);
      finish({.ah = std::exchange(posted_ahs_[buffer], nullptr), .buffer = buffer});
    } else if (completion.status == WcStatus::success) {
      take(completion, handler);
      post_receive(completion.wr_id);
    }
  }
  if (!unresolved_.empty()) go_on(now_ns);
}

void Gsi::take(const Completion& completion,
               const std::function<void(const ReceivedMad&)>& handler) {
  counters_.rcvd_mads.add();
  if (completion.src_qp != wire::kGsiQpn) {
    counters_.bad_source_mads.add();
    return;
  }
  if (completion.byte_len != kReceiveBytes) {
    counters_.bad_length_mads.add();
    return;
  }
  const std::byte* bytes = receive_buffer(completion.wr_id);
  handler(
      {.bytes = MadBytes(reinterpret_cast<const std::uint8_t*>(bytes + kGrhBytes), wire::kMadBytes),
       .reply = {reply_vector(std::span<const std::byte, kGrhBytes>(bytes, kGrhBytes)),
                 completion.pkey_index}});
}

bool Gsi::send(const MadPath& to, MadBytes mad, std::uint64_t now_ns) {
  if (free_buffers_.empty()) {
    counters_.crowded_out_mads.add();
    if (unresolved_.empty()) return false;
    // Anybody can make us look for a station that does not exist. It must not silence us.
    finish(unresolved_.front());
    unresolved_.pop_front();
  }
  // Linux looks for a GID of the VLAN that a MAD came from, and its own GIDs without a VLAN are of
  // another than 0.
  MadPath untagged = to;
  untagged.priority_tag = false;
  auto ah = engine_.create_ah(pd_, untagged);
  if (!ah) {
    counters_.unreachable_mads.add();
    return false;
  }
  const Sending sending{.ah = *ah, .buffer = free_buffers_.back(), .pkey_index = to.pkey_index};
  free_buffers_.pop_back();
  std::memcpy(send_buffer(sending.buffer), mad.data(), mad.size());
  if (!try_post(sending, now_ns)) {
    unresolved_.push_back(sending);
    retry_ns_ = std::min(retry_ns_, now_ns + kUnresolvedRetryNs);
  }
  return true;
}

bool Gsi::try_post(const Sending& sending, std::uint64_t now_ns) {
  switch (engine_.resolve_ah(*sending.ah, now_ns)) {
    case stack::Resolution::pending:
      return false;
    case stack::Resolution::unreachable:
      counters_.unreachable_mads.add();
      finish(sending);
      return true;
    case stack::Resolution::ready:
      break;
  }
  const Sge sge{.addr = reinterpret_cast<std::uintptr_t>(send_buffer(sending.buffer)),
                .length = wire::kMadBytes,
                .lkey = region_.key};
  const PostResult posted = qp_->post_send({.wr_id = kSendBit | sending.buffer,
                                            .sg_list = {&sge, 1},
                                            .opcode = WrOpcode::send,
                                            .send_flags = kSendSignaled,
                                            .ah = sending.ah,
                                            .remote_qpn = wire::kGsiQpn,
                                            .remote_qkey = wire::kGsiQkey,
                                            .pkey_index = sending.pkey_index});
  if (posted != PostResult::ok) {
    counters_.unreachable_mads.add();
    finish(sending);
    return true;
  }
  counters_.sent_mads.add();
  posted_ahs_[sending.buffer] = sending.ah;
  return true;
}

void Gsi::finish(const Sending& sending) {
  engine_.destroy_ah(sending.ah);
  free_buffers_.push_back(sending.buffer);
}

void Gsi::go_on(std::uint64_t now_ns) {
  std::erase_if(unresolved_, [&](const Sending& sending) { return try_post(sending, now_ns); });
  retry_ns_ = unresolved_.empty() ? stack::kNever : now_ns + kUnresolvedRetryNs;
}

bool Gsi::resolves(const stack::IpAddress& destination) const {
  return std::ranges::any_of(unresolved_, [&](const Sending& sending) {
    return sending.ah->address_vector().destination == destination;
  });
}

std::uint64_t Gsi::next_deadline_ns() const {
  // More may have arrived than one poll() takes.
  return cq_->size() > 0 ? 0 : retry_ns_;
}

}  // namespace rockhopper::roce
