// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
// A posted send request: each kind has its own fields.
#include "roce/send_wqe.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>

#include <gtest/gtest.h>

#include "roce/address_handle.h"
#include "roce/lock/request.h"
#include "tests/unit/roce/rig.h"

namespace rockhopper::test {
namespace {

using roce::MemoryKey;
using roce::RequestKind;
using roce::SendWqe;
using roce::SendWr;
using roce::WcStatus;
using roce::WrOpcode;

/// The kinds as the wr union and the others of ibv_send_wr have them.
const std::map<WrOpcode, RequestKind> kKinds{
    {WrOpcode::rdma_write, RequestKind::rdma},
    {WrOpcode::rdma_write_with_imm, RequestKind::rdma},
    {WrOpcode::send, RequestKind::send},
    {WrOpcode::send_with_imm, RequestKind::send},
    {WrOpcode::send_with_inv, RequestKind::send},
    {WrOpcode::rdma_read, RequestKind::rdma},
    {WrOpcode::atomic_cmp_and_swp, RequestKind::atomic},
    {WrOpcode::atomic_fetch_and_add, RequestKind::atomic},
    {WrOpcode::local_inv, RequestKind::local_inv},
    {WrOpcode::bind_mw, RequestKind::bind_mw},
    {WrOpcode::reg_mr, RequestKind::reg_mr},
    {WrOpcode::flush, RequestKind::flush},
    {WrOpcode::atomic_write, RequestKind::rdma},
    {WrOpcode::masked_atomic_cmp_and_swp, RequestKind::atomic},
    {WrOpcode::masked_atomic_fetch_and_add, RequestKind::atomic},
    {WrOpcode::lock_acquire, RequestKind::lock},
    {WrOpcode::lock_release, RequestKind::lock},
    {WrOpcode::lock_cancel, RequestKind::lock},
};

/// A request with another value in every field, so that none can stand in for another.
SendWr everything(WrOpcode opcode) {
  return {.wr_id = 0x0101010101010101,
          .opcode = opcode,
          .send_flags = roce::kSendSignaled,
          .imm_data = 0x02020202,
          .invalidate_rkey = MemoryKey{0x03030303},
          .remote_addr = 0x0404040404040404,
          .rkey = MemoryKey{0x05050505},
          .compare_add = 0x0606060606060606,
          .swap = 0x0707070707070707,
          .mw_bind = {.mr = MemoryKey{0x08080808},
                      .addr = 0x0909090909090909,
                      .length = 0x0a0a0a0a0a0a0a0a,
                      .access = 0x0b0b0b0b},
          .fast_region = {.base = reinterpret_cast<std::byte*>(0x0c0c0c0c),
                          .length = 0x0d0d0d0d0d0d0d0d,
                          .iova = 0x0e0e0e0e0e0e0e0e,
                          .access = 0x0f0f0f0f,
                          .key = MemoryKey{0x10101010}},
          .flush = {.length = 0x11111111, .placement_type = 2, .selectivity_level = 1},
          .remote_qpn = wire::Qpn{0x121212},
          .remote_qkey = 0x13131313,
          .pkey_index = 0x1414};
}

/// The request of a connection whose place in the ring held something else before.
SendWqe begun(const SendWr& wr, std::uint32_t length = 4711) {
  SendWqe wqe;
  std::memset(static_cast<void*>(&wqe), 0xee, sizeof wqe);
  wqe.begin(wr, roce::kind_of(wr.opcode), length);
  return wqe;
}
SendWqe begun(WrOpcode opcode) { return begun(everything(opcode)); }

void expect_remote(const SendWqe::RemoteMemory& remote) {
  EXPECT_EQ(remote.addr, 0x0404040404040404u);
  EXPECT_EQ(remote.rkey, MemoryKey{0x05050505});
}

TEST(SendWqe, EveryOpcodeHasItsKind) {
  ASSERT_EQ(kKinds.size(), roce::kWrOpcodes);
  for (const auto& [opcode, kind] : kKinds) {
    EXPECT_EQ(roce::kind_of(opcode), kind) << static_cast<int>(opcode);
  }
}

TEST(SendWqe, BeginsWithoutPsnsAndFailures) {
  roce::lock::Request lock;
  std::array<roce::Sge, 3> list{};
  for (const auto& [opcode, kind] : kKinds) {
    SendWr wr = everything(opcode);
    wr.lock = &lock;
    wr.sg_list = list;
    const SendWqe wqe = begun(wr);
    EXPECT_EQ(wqe.kind(), kind);
    EXPECT_EQ(wqe.opcode, opcode);
    EXPECT_EQ(wqe.wr_id, 0x0101010101010101u);
    EXPECT_EQ(wqe.num_sge, 3);
    EXPECT_EQ(wqe.length, opcode == WrOpcode::flush ? 0x11111111u : 4711u);
    EXPECT_EQ(wqe.psn_count, 0u);
    EXPECT_EQ(wqe.first_psn, wire::Psn{0});
    EXPECT_EQ(wqe.ssn, 0u);
    EXPECT_EQ(wqe.failure, WcStatus::success);
    EXPECT_EQ(wqe.flags, SendWqe::flags_of(opcode) | roce::kSendSignaled);
  }
}

TEST(SendWqe, OwnFlagsAreNotTheCallers) {
  SendWr wr = everything(WrOpcode::send);
  wr.send_flags = UINT32_MAX;
  const SendWqe wqe = begun(wr);
  EXPECT_EQ(wqe.flags, ~SendWqe::kOwnFlags);
  EXPECT_EQ(wqe.kind(), RequestKind::send);
  EXPECT_FALSE(wqe.is_settled());
  EXPECT_FALSE(wqe.in_scope());
}

TEST(SendWqe, SendHasImmediateDataOrAKeyToInvalidate) {
  const SendWqe immediate = begun(WrOpcode::send_with_imm);
  EXPECT_EQ(immediate.imm_data(), 0x02020202u);
  EXPECT_EQ(immediate.send().imm_data, 0x02020202u);
  EXPECT_EQ(begun(WrOpcode::send_with_inv).send().invalidate_rkey, MemoryKey{0x03030303});
}

TEST(SendWqe, RdmaNamesThePeersMemory) {
  for (const WrOpcode opcode : {WrOpcode::rdma_write, WrOpcode::rdma_write_with_imm,
                                WrOpcode::rdma_read, WrOpcode::atomic_write}) {
    const SendWqe wqe = begun(opcode);
    expect_remote(wqe.rdma().remote);
    expect_remote(wqe.remote());
  }
  EXPECT_EQ(begun(WrOpcode::rdma_write_with_imm).imm_data(), 0x02020202u);
}

TEST(SendWqe, AtomicHasTheValuesOfAtomicEth) {
  for (const WrOpcode opcode :
       {WrOpcode::atomic_cmp_and_swp, WrOpcode::masked_atomic_cmp_and_swp}) {
    const SendWqe wqe = begun(opcode);
    expect_remote(wqe.remote());
    EXPECT_EQ(wqe.atomic().compare, 0x0606060606060606u);
    EXPECT_EQ(wqe.atomic().swap_add, 0x0707070707070707u);
  }
  for (const WrOpcode opcode :
       {WrOpcode::atomic_fetch_and_add, WrOpcode::masked_atomic_fetch_and_add}) {
    const SendWqe wqe = begun(opcode);
    expect_remote(wqe.remote());
    EXPECT_EQ(wqe.atomic().compare, 0u);
    EXPECT_EQ(wqe.atomic().swap_add, 0x0606060606060606u);
  }
}

TEST(SendWqe, FlushHasItsTypeAndLevel) {
  const SendWqe wqe = begun(WrOpcode::flush);
  expect_remote(wqe.remote());
  EXPECT_EQ(wqe.flush().placement_type, 2);
  EXPECT_EQ(wqe.flush().selectivity_level, 1);
}

TEST(SendWqe, LocalRequestsSayWhatTheyChange) {
  EXPECT_EQ(begun(WrOpcode::local_inv).local_inv().key, MemoryKey{0x03030303});

  const SendWqe bind = begun(WrOpcode::bind_mw);
  EXPECT_EQ(bind.bind_mw().rkey, MemoryKey{0x05050505});
  const roce::MwBindInfo info = bind.bind_mw().info();
  EXPECT_EQ(info.mr, MemoryKey{0x08080808});
  EXPECT_EQ(info.addr, 0x0909090909090909u);
  EXPECT_EQ(info.length, 0x0a0a0a0a0a0a0a0au);
  EXPECT_EQ(info.access, 0x0b0b0b0bu);

  const roce::MemoryRegion region = begun(WrOpcode::reg_mr).reg_mr().region();
  EXPECT_EQ(region.base, reinterpret_cast<std::byte*>(0x0c0c0c0c));
  EXPECT_EQ(region.length, 0x0d0d0d0d0d0d0d0du);
  EXPECT_EQ(region.iova, 0x0e0e0e0e0e0e0e0eu);
  EXPECT_EQ(region.access, 0x0f0f0f0fu);
  EXPECT_EQ(region.key, MemoryKey{0x10101010});
}

TEST(SendWqe, LockRequestsHaveTheCallersResult) {
  roce::lock::ScopeResult result;
  const roce::lock::Request lock{.result = &result};
  for (const WrOpcode opcode :
       {WrOpcode::lock_acquire, WrOpcode::lock_release, WrOpcode::lock_cancel}) {
    SendWr wr = everything(opcode);
    wr.lock = &lock;
    EXPECT_EQ(begun(wr).lock().result, &result);
  }
}

TEST(SendWqe, DatagramSaysWhereItGoes) {
  Rig rig({.qp_type = roce::QpType::ud});  // only engines make address handles
  SendWr wr = everything(WrOpcode::send_with_imm);
  wr.ah = rig.ah();
  SendWqe wqe;
  wqe.begin(wr, RequestKind::datagram, 0);
  EXPECT_EQ(wqe.kind(), RequestKind::datagram);
  EXPECT_EQ(wqe.datagram().ah_id, rig.ah()->id());
  EXPECT_EQ(wqe.datagram().remote_qpn, wire::Qpn{0x121212});
  EXPECT_EQ(wqe.datagram().remote_qkey, 0x13131313u);
  EXPECT_EQ(wqe.datagram().imm_data, 0x02020202u);
  EXPECT_EQ(wqe.datagram().pkey_index, 0x1414);
}

#ifndef NDEBUG
TEST(SendWqeDeathTest, FieldsOfOtherKindsAreOutOfReach) {
  const SendWqe send = begun(WrOpcode::send);
  const SendWqe write = begun(WrOpcode::rdma_write);
  EXPECT_DEATH((void)send.datagram(), "RequestKind::datagram");
  EXPECT_DEATH((void)send.rdma(), "RequestKind::rdma");
  EXPECT_DEATH((void)send.remote(), "RequestKind::rdma");
  EXPECT_DEATH((void)write.send(), "RequestKind::send");
  EXPECT_DEATH((void)write.atomic(), "RequestKind::atomic");
  EXPECT_DEATH((void)write.flush(), "RequestKind::flush");
  EXPECT_DEATH((void)write.local_inv(), "RequestKind::local_inv");
  EXPECT_DEATH((void)write.bind_mw(), "RequestKind::bind_mw");
  EXPECT_DEATH((void)write.reg_mr(), "RequestKind::reg_mr");
  EXPECT_DEATH((void)write.lock(), "RequestKind::lock");
}

TEST(SendWqeDeathTest, OnlySendsCanBeDatagrams) {
  SendWqe wqe;
  EXPECT_DEATH(wqe.begin(everything(WrOpcode::rdma_write), RequestKind::datagram, 0), "kind_of");
}
#endif

}  // namespace
}  // namespace rockhopper::test
