// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/services/publisher/multicast_receiver.h"

#include "roce/address_vector.h"

namespace rockhopper::publisher {

Expected<std::unique_ptr<MulticastReceiver>> MulticastReceiver::create(
    roce::Engine& engine, roce::ProtectionDomain pd, const MulticastGroup& group,
    const Config& config, SubscriberCounters& counters) {
  auto made = std::unique_ptr<MulticastReceiver>(new MulticastReceiver(engine, group, counters));
  ROCKHOPPER_TRY(made->set_up(pd, config));
  return made;
}

std::size_t MulticastReceiver::buffer_bytes() const {
  return roce::kGrhBytes + bytes(group_.path_mtu);
}

Expected<void> MulticastReceiver::set_up(roce::ProtectionDomain pd, const Config& config) {
  const std::uint32_t buffers = config.buffers;
  ROCKHOPPER_TRY(cq_, roce::CompletionQueue::create(buffers));
  bytes_.resize(buffers * buffer_bytes());
  ROCKHOPPER_TRY(region_,
                 roce::own(engine_, engine_.register_memory(pd, bytes_.data(), bytes_.size(),
                                                            roce::kAccessLocalWrite)));
  ROCKHOPPER_TRY(qp_, roce::own(engine_, engine_.create_qp({.qp_type = roce::QpType::ud,
                                                            .pd = pd,
                                                            .send_cq = cq_.get(),
                                                            .recv_cq = cq_.get(),
                                                            .max_send_wr = 1,
                                                            .max_recv_wr = buffers})));
  roce::QpAttributes attributes;
  attributes.pkey_index = config.pkey_index;
  attributes.qkey = group_.qkey;
  ROCKHOPPER_TRY(qp_->bring_up(attributes, roce::QpState::rtr));
  for (std::uint32_t i = 0; i < buffers; ++i) {
    post(i);
  }
  return engine_.attach_multicast(*qp_, group_.group);
}

std::optional<MulticastReceiver::Copy> MulticastReceiver::check(
    const roce::Completion& completion) {
  if (completion.status != roce::WcStatus::success) {
    counters_.multicast_failed.add();
    return std::nullopt;
  }
  counters_.multicast_received.add();
  const std::span<const std::byte> datagram = std::span<const std::byte>(bytes_).subspan(
      completion.wr_id * buffer_bytes(), completion.byte_len);
  if (datagram.size() < roce::kGrhBytes || (completion.wc_flags & roce::kWcWithImm) == 0 ||
      completion.imm_data > UINT16_MAX) {
    counters_.multicast_malformed.add();
    return std::nullopt;
  }
  const stack::IpAddress from = roce::reply_vector(datagram.first<roce::kGrhBytes>()).destination;
  if (from != group_.source || completion.src_qp != group_.source_qpn) {
    counters_.multicast_foreign.add();
    return std::nullopt;
  }
  return Copy{.store_id = static_cast<std::uint16_t>(completion.imm_data),
              .bytes = datagram.subspan(roce::kGrhBytes)};
}

void MulticastReceiver::post(std::uint32_t buffer) {
  const roce::Sge to{reinterpret_cast<std::uintptr_t>(bytes_.data() + buffer * buffer_bytes()),
                     static_cast<std::uint32_t>(buffer_bytes()), region_.key()};
  // It has room for all of them.
  (void)qp_->post_recv({.wr_id = buffer, .sg_list = {&to, 1}});
}

}  // namespace rockhopper::publisher
