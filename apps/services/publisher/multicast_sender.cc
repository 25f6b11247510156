// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/services/publisher/multicast_sender.h"

#include <algorithm>
#include <array>

namespace rockhopper::publisher {
namespace {

/// Copies that can be on their way.
constexpr std::uint32_t kSlots = 256;
/// Records of a store in one turn, so that others have theirs.
constexpr unsigned kBurst = 128;

/// Such that a sender may put it into its requests: the highest bit would mean another thing.
std::uint32_t make_qkey(roce::Engine& engine) {
  const std::uint32_t high = engine.random_psn().value;
  const std::uint32_t low = engine.random_psn().value;
  return (high << 12 ^ low) & ~roce::kOwnQkey;
}

}  // namespace

Expected<std::unique_ptr<MulticastSender>> MulticastSender::create(roce::Engine& engine,
                                                                   roce::ProtectionDomain pd,
                                                                   const MulticastConfig& config) {
  if (!config.group.is_multicast()) {
    return fail(ErrorCode::invalid_argument, "{} is no multicast group", config.group.to_string());
  }
  if (config.group.is_ipv4() != config.source.is_ipv4()) {
    return fail(ErrorCode::invalid_argument, "group {} and address {} are of different families",
                config.group.to_string(), config.source.to_string());
  }
  if (bytes(config.path_mtu) > engine.max_path_mtu()) {
    return fail(ErrorCode::invalid_argument, "a datagram of this link has at most {} bytes, not {}",
                engine.max_path_mtu(), bytes(config.path_mtu));
  }
  auto made = std::unique_ptr<MulticastSender>(new MulticastSender(engine));
  ROCKHOPPER_TRY(made->set_up(pd, config));
  return made;
}

Expected<void> MulticastSender::set_up(roce::ProtectionDomain pd, const MulticastConfig& config) {
  ROCKHOPPER_TRY(cq_, roce::CompletionQueue::create(kSlots));
  slots_.resize(std::size_t{kSlots} * bytes(config.path_mtu));
  // It is only read, but there is no region without any right.
  ROCKHOPPER_TRY(region_,
                 roce::own(engine_, engine_.register_memory(pd, slots_.data(), slots_.size(),
                                                            roce::kAccessLocalWrite)));
  ROCKHOPPER_TRY(ah_,
                 roce::own(engine_, engine_.create_ah(pd, {.source = config.source,
                                                           .destination = config.group,
                                                           .traffic_class = config.traffic_class,
                                                           .hop_limit = config.hop_limit})));
  ROCKHOPPER_TRY(qp_, roce::own(engine_, engine_.create_qp({.qp_type = roce::QpType::ud,
                                                            .pd = pd,
                                                            .send_cq = cq_.get(),
                                                            .recv_cq = cq_.get(),
                                                            .max_send_wr = kSlots,
                                                            .max_recv_wr = 0,
                                                            .sq_sig_all = true})));
  group_ = {.group = config.group,
            .source = config.source,
            .source_qpn = qp_->number(),
            .qkey = make_qkey(engine_),
            .path_mtu = config.path_mtu};
  roce::QpAttributes attributes;
  attributes.pkey_index = config.pkey_index;
  attributes.qkey = group_.qkey;
  attributes.sq_psn = engine_.random_psn();
  return qp_->bring_up(attributes, roce::QpState::rts);
}

void MulticastSender::remove(std::uint16_t store_id) {
  followers_.remove_if(
      [store_id](const LogFollower& follower) { return follower.store_id() == store_id; });
}

bool MulticastSender::has(std::uint16_t store_id) const {
  return std::any_of(followers_.begin(), followers_.end(), [store_id](const LogFollower& follower) {
    return follower.store_id() == store_id;
  });
}

bool MulticastSender::progress() {
  bool worked = poll_sends();
  for (LogFollower& follower : followers_) {
    worked = send_from(follower) || worked;
  }
  return worked;
}

bool MulticastSender::poll_sends() {
  std::array<roce::Completion, 32> completions;
  const std::size_t count = cq_->poll(completions);
  for (std::size_t i = 0; i < count; ++i) {
    --sending_;
    if (completions[i].status != roce::WcStatus::success) counters_.copies_failed.add();
  }
  // What has failed was one datagram, and nobody waits for it.
  if (sending_ == 0 && qp_->state() == roce::QpState::sqe) {
    (void)qp_->modify({.qp_state = roce::QpState::rts}, roce::kQpState);
  }
  return count > 0;
}

std::span<std::byte> MulticastSender::slot() {
  const std::size_t size = bytes(group_.path_mtu);
  return std::span(slots_).subspan(next_slot_ * size, size);
}

bool MulticastSender::send_from(LogFollower& follower) {
  bool worked = false;
  for (unsigned i = 0; i < kBurst && sending_ < kSlots; ++i) {
    const LogFollower::Step step = follower.next(slot());
    counters_.copies_skipped.add(follower.take_skipped());
    switch (step) {
      case LogFollower::Step::nothing:
        return worked;
      case LogFollower::Step::record:
        post(follower);
        break;
      case LogFollower::Step::too_long:
        counters_.copies_too_long.add();
        break;
      case LogFollower::Step::overtaken:
        counters_.copies_overtaken.add();
        break;
      case LogFollower::Step::damaged:
        counters_.copies_damaged.add();
        break;
    }
    worked = true;
  }
  return worked;
}

void MulticastSender::post(const LogFollower& follower) {
  const roce::Sge from{reinterpret_cast<std::uintptr_t>(slot().data()),
                       static_cast<std::uint32_t>(follower.size()), region_.key()};
  const roce::PostResult posted = qp_->post_send({.sg_list = {&from, 1},
                                                  .opcode = roce::WrOpcode::send_with_imm,
                                                  .imm_data = follower.store_id(),
                                                  .ah = ah_.get(),
                                                  .remote_qpn = wire::kMulticastQpn,
                                                  .remote_qkey = group_.qkey});
  if (posted != roce::PostResult::ok) {
    counters_.copies_failed.add();
    return;
  }
  next_slot_ = (next_slot_ + 1) % kSlots;
  ++sending_;
  counters_.copies_sent.add();
  counters_.copy_bytes.add(follower.size());
}

}  // namespace rockhopper::publisher
