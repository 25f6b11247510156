// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/common/cm_channel.h"

#include <algorithm>

namespace rockhopper::apps {

Expected<std::unique_ptr<CmChannel>> CmChannel::create(CmNode& node, const CmChannelInit& init) {
  std::unique_ptr<CmChannel> channel(new CmChannel(node, init));
  ROCKHOPPER_TRY(channel->open());
  return channel;
}

Expected<void> CmChannel::open() {
  roce::Engine& engine = node_.engine();
  const std::size_t bytes =
      std::size_t{init_.depth} * (receive_stride() + init_.send_bytes) + init_.rdma_bytes;
  ROCKHOPPER_TRY(memory_, PageMemory::allocate(std::max<std::size_t>(bytes, 1)));
  pd_ = engine.allocate_pd();
  ROCKHOPPER_TRY(region_, engine.register_memory(pd_, memory_.data(), memory_.size(),
                                                 roce::kAccessLocalWrite | roce::kAccessRemoteRead |
                                                     roce::kAccessRemoteWrite));
  ROCKHOPPER_TRY(send_cq_, roce::CompletionQueue::create(init_.depth + 1));
  ROCKHOPPER_TRY(recv_cq_, roce::CompletionQueue::create(init_.depth + 1));
  ROCKHOPPER_TRY(qp_, engine.create_qp({.qp_type = init_.qp_type,
                                        .pd = pd_,
                                        .send_cq = send_cq_.get(),
                                        .recv_cq = recv_cq_.get(),
                                        .max_send_wr = init_.depth,
                                        .max_recv_wr = init_.depth,
                                        .sq_sig_all = true}));
  // What is connected goes on from INIT by the connection manager.
  const bool connected = init_.qp_type != roce::QpType::ud;
  return qp_->bring_up(
      {.qkey = roce::cm::kUdpQkey, .sq_psn = engine.random_psn(), .pkey_index = node_.pkey_index()},
      connected ? roce::QpState::init : roce::QpState::rts);
}

CmChannel::~CmChannel() {
  if (connection != nullptr) node_.manager().release(*connection);
  if (qp_ != nullptr) node_.engine().destroy_qp(qp_);
  if (region_.base != nullptr) (void)node_.engine().deregister_memory(region_.key);
  (void)node_.engine().deallocate_pd(pd_);
}

std::uint32_t CmChannel::receive_stride() const {
  return init_.receive_bytes + (init_.qp_type == roce::QpType::ud ? roce::kGrhBytes : 0);
}

std::span<std::byte> CmChannel::receive_slot(std::uint64_t index) {
  return memory_.bytes().subspan(index * receive_stride(), receive_stride());
}

std::span<std::byte> CmChannel::send_slot(std::uint64_t index) {
  return memory_.bytes().subspan(
      std::size_t{init_.depth} * receive_stride() + index * init_.send_bytes, init_.send_bytes);
}

Expected<void> CmChannel::post_receive(std::uint64_t index) {
  const std::span<std::byte> slot = receive_slot(index);
  const roce::Sge sge{.addr = reinterpret_cast<std::uintptr_t>(slot.data()),
                      .length = static_cast<std::uint32_t>(slot.size()),
                      .lkey = region_.key};
  const roce::PostResult posted = qp_->post_recv({.wr_id = index, .sg_list = {&sge, 1}});
  if (posted == roce::PostResult::ok) return {};
  return fail(ErrorCode::invalid_state, "posting a receive failed: {}", roce::to_string(posted));
}

Expected<void> CmChannel::post(roce::SendWr request, std::span<std::byte> bytes) {
  const roce::Sge sge{.addr = reinterpret_cast<std::uintptr_t>(bytes.data()),
                      .length = static_cast<std::uint32_t>(bytes.size()),
                      .lkey = region_.key};
  request.sg_list = {&sge, 1};
  const roce::PostResult posted = qp_->post_send(request);
  if (posted == roce::PostResult::ok) return {};
  return fail(ErrorCode::invalid_state, "posting a send failed: {}", roce::to_string(posted));
}

Expected<std::optional<roce::Completion>> CmChannel::wait_completion(roce::CompletionQueue& cq,
                                                                     std::string_view what,
                                                                     bool forever) {
  roce::Completion completion;
  ROCKHOPPER_TRY(node_.wait([&] { return cq.poll({&completion, 1}) == 1; }, what, forever));
  if (completion.status == roce::WcStatus::success) return completion;
  if (completion.status == roce::WcStatus::wr_flush_err) return std::nullopt;
  return fail(ErrorCode::io, "waiting for {}: {} ({})", what, roce::to_string(completion.status),
              static_cast<int>(completion.status));
}

}  // namespace rockhopper::apps
