// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/services/dag/schedule/home_link.h"

#include <cassert>

namespace rockhopper::dag {
namespace {

constexpr std::uint32_t kHomeSends = 8192;
/// Of these, for looks at the board alone: 256 runs, and 4096 workers, two in each READ.
constexpr std::size_t kBoardSends = 2560;

}  // namespace

Expected<std::unique_ptr<HomeLink>> HomeLink::create(roce::Engine& engine, dc::Endpoint& endpoint,
                                                     roce::ProtectionDomain pd,
                                                     const roce::AddressVector& av,
                                                     const Grant& grant,
                                                     const ClientConfig& timing) {
  std::unique_ptr<HomeLink> link(new HomeLink(grant));
  ROCKHOPPER_TRY(link->cq_, roce::CompletionQueue::create(kHomeSends));
  ROCKHOPPER_TRY(link->ah_, roce::own(engine, engine.create_ah(pd, av)));
  ROCKHOPPER_TRY(link->dci_,
                 dc::own(endpoint, endpoint.create_dci({.pd = pd,
                                                        .send_cq = link->cq_.get(),
                                                        .max_send_wr = kHomeSends,
                                                        .max_inline_data = kWriteMax,
                                                        .path_mtu = timing.path_mtu,
                                                        .max_rd_atomic = roce::kMaxRdAtomic,
                                                        .timeout = timing.timeout,
                                                        .retry_cnt = timing.retry_cnt})));
  return link;
}

std::size_t HomeLink::room() const {
  constexpr std::size_t kOthers = kHomeSends - kBoardSends;
  const std::size_t depth = dci_->send_queue_depth();
  return dci_->state() == roce::QpState::err || depth > kOthers ? 0 : kOthers - depth;
}

/// A stream in error takes nothing; that it failed is told by what it had.
void HomeLink::post(roce::SendWr wr, bool signaled) {
  if (signaled) wr.send_flags |= roce::kSendSignaled;
  wr.ah = ah_.get();
  wr.remote_qpn = target_;
  wr.dc_access_key = access_key_;
  const roce::PostResult posted = dci_->post_send(wr);
  assert(posted == roce::PostResult::ok || posted == roce::PostResult::invalid_state);
  (void)posted;
}

void HomeLink::read(std::uint64_t wr_id, roce::MemoryKey rkey, std::uint64_t address,
                    const LocalMemory& memory, std::byte* to, std::uint32_t length, bool signaled) {
  const roce::Sge sge{reinterpret_cast<std::uintptr_t>(to), length, memory.key()};
  post({.wr_id = wr_id,
        .sg_list = {&sge, 1},
        .opcode = roce::WrOpcode::rdma_read,
        .remote_addr = address,
        .rkey = rkey},
       signaled);
}

void HomeLink::compare_swap(std::uint64_t wr_id, roce::MemoryKey rkey, std::uint64_t address,
                            std::uint64_t compare, std::uint64_t swap, const LocalMemory& memory,
                            std::byte* found, bool signaled) {
  const roce::Sge sge{reinterpret_cast<std::uintptr_t>(found), sizeof compare, memory.key()};
  post({.wr_id = wr_id,
        .sg_list = {&sge, 1},
        .opcode = roce::WrOpcode::atomic_cmp_and_swp,
        .remote_addr = address,
        .rkey = rkey,
        .compare_add = compare,
        .swap = swap},
       signaled);
}

void HomeLink::fetch_add(std::uint64_t wr_id, roce::MemoryKey rkey, std::uint64_t address,
                         std::uint64_t add, const LocalMemory& memory, std::byte* found,
                         bool signaled) {
  const roce::Sge sge{reinterpret_cast<std::uintptr_t>(found), sizeof add, memory.key()};
  post({.wr_id = wr_id,
        .sg_list = {&sge, 1},
        .opcode = roce::WrOpcode::atomic_fetch_and_add,
        .remote_addr = address,
        .rkey = rkey,
        .compare_add = add},
       signaled);
}

void HomeLink::write(std::uint64_t wr_id, roce::MemoryKey rkey, std::uint64_t address,
                     std::span<const std::byte> bytes, bool signaled) {
  assert(bytes.size() <= kWriteMax);
  const roce::Sge sge{
      reinterpret_cast<std::uintptr_t>(bytes.data()), static_cast<std::uint32_t>(bytes.size()), {}};
  post({.wr_id = wr_id,
        .sg_list = {&sge, 1},
        .opcode = roce::WrOpcode::rdma_write,
        .send_flags = roce::kSendInline,
        .remote_addr = address,
        .rkey = rkey},
       signaled);
}

}  // namespace rockhopper::dag
