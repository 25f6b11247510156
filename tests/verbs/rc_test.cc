// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
// Reliable connections: each kind of request, by both interfaces.
#include <cerrno>
#include <cstring>
#include <numeric>

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/verbs/rig.h"

namespace rockhopper::test {
namespace {

constexpr std::uint32_t kLong = 10'000;  // several packets

class RcVerbs : public ::testing::Test {
 protected:
  RcVerbs() {
    connect(qp_, peer_);
    std::iota(a_.bytes.begin(), a_.bytes.end(), std::uint8_t{1});
  }
  [[nodiscard]] bool same(std::size_t bytes) const {
    return std::memcmp(a_.bytes.data(), b_.bytes.data(), bytes) == 0;
  }
  [[nodiscard]] std::uint64_t remote() const {
    return reinterpret_cast<std::uint64_t>(b_.bytes.data());
  }

  End a_;
  End b_;
  ibv_qp* qp_ = a_.create_qp(IBV_QPT_RC);
  ibv_qp* peer_ = b_.create_qp(IBV_QPT_RC);
};

TEST_F(RcVerbs, Send) {
  ASSERT_EQ(post_recv(peer_, 7, b_.element(0, kLong)), 0);
  ASSERT_EQ(post_send(qp_, 8, IBV_WR_SEND, a_.element(0, kLong)), 0);
  const ibv_wc received = next(b_.cq);
  EXPECT_EQ(received.status, IBV_WC_SUCCESS);
  EXPECT_EQ(received.opcode, IBV_WC_RECV);
  EXPECT_EQ(received.wr_id, 7u);
  EXPECT_EQ(received.byte_len, kLong);
  EXPECT_EQ(received.qp_num, peer_->qp_num);
  const ibv_wc sent = next(a_.cq);
  EXPECT_EQ(sent.status, IBV_WC_SUCCESS);
  EXPECT_EQ(sent.opcode, IBV_WC_SEND);
  EXPECT_EQ(sent.wr_id, 8u);
  EXPECT_TRUE(same(kLong));
}

/// A receiver that has its message may go: the sender is told all the same.
TEST_F(RcVerbs, AQueuePairThatGoesHasAcknowledgedWhatItTook) {
  ASSERT_EQ(post_recv(peer_, 1, b_.element(0, 64)), 0);
  ASSERT_EQ(post_send(qp_, 2, IBV_WR_SEND, a_.element(0, 64)), 0);
  EXPECT_EQ(next(b_.cq).status, IBV_WC_SUCCESS);
  b_.destroy_qps();
  EXPECT_EQ(next(a_.cq).status, IBV_WC_SUCCESS);
}

TEST_F(RcVerbs, ImmediateDataStaysInNetworkOrder) {
  ASSERT_EQ(post_recv(peer_, 1, b_.element(0, 16)), 0);
  ibv_sge element = a_.element(0, 16);
  ibv_send_wr wr{};
  wr.sg_list = &element;
  wr.num_sge = 1;
  wr.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
  wr.imm_data = htonl(0x01020304);
  wr.wr.rdma = {.remote_addr = remote(), .rkey = b_.mr->rkey};
  ibv_send_wr* bad = nullptr;
  ASSERT_EQ(ibv_post_send(qp_, &wr, &bad), 0);
  const ibv_wc received = next(b_.cq);
  EXPECT_EQ(received.opcode, IBV_WC_RECV_RDMA_WITH_IMM);
  EXPECT_EQ(received.wc_flags, static_cast<unsigned>(IBV_WC_WITH_IMM));
  EXPECT_EQ(received.imm_data, htonl(0x01020304));
  EXPECT_TRUE(same(16));
}

TEST_F(RcVerbs, WriteAndRead) {
  ASSERT_EQ(post_send(qp_, 1, IBV_WR_RDMA_WRITE, a_.element(0, kLong), remote(), b_.mr->rkey), 0);
  EXPECT_EQ(next(a_.cq).status, IBV_WC_SUCCESS);
  EXPECT_TRUE(same(kLong));
  std::memset(a_.bytes.data(), 0, kLong);
  ASSERT_EQ(post_send(qp_, 2, IBV_WR_RDMA_READ, a_.element(0, kLong), remote(), b_.mr->rkey), 0);
  const ibv_wc read = next(a_.cq);
  EXPECT_EQ(read.opcode, IBV_WC_RDMA_READ);
  EXPECT_EQ(read.byte_len, kLong);
  EXPECT_EQ(a_.bytes[5], 6);
  EXPECT_TRUE(same(kLong));
}

TEST_F(RcVerbs, Atomics) {
  const std::uint64_t before = 40;
  std::memcpy(b_.bytes.data(), &before, sizeof before);
  ibv_sge element = a_.element(64, 8);
  ibv_send_wr wr{};
  wr.sg_list = &element;
  wr.num_sge = 1;
  wr.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD;
  wr.send_flags = IBV_SEND_SIGNALED;
  wr.wr.atomic = {.remote_addr = remote(), .compare_add = 2, .swap = 0, .rkey = b_.mr->rkey};
  ibv_send_wr swap = wr;
  swap.opcode = IBV_WR_ATOMIC_CMP_AND_SWP;
  swap.wr.atomic.compare_add = 42;
  swap.wr.atomic.swap = 7;
  wr.next = &swap;
  ibv_send_wr* bad = nullptr;
  ASSERT_EQ(ibv_post_send(qp_, &wr, &bad), 0);
  EXPECT_EQ(next(a_.cq).opcode, IBV_WC_FETCH_ADD);
  EXPECT_EQ(next(a_.cq).opcode, IBV_WC_COMP_SWAP);
  std::uint64_t found = 0;
  std::memcpy(&found, a_.bytes.data() + 64, sizeof found);
  EXPECT_EQ(found, 42u);
  std::memcpy(&found, b_.bytes.data(), sizeof found);
  EXPECT_EQ(found, 7u);
}

TEST_F(RcVerbs, InlineBytesAreTheProgramsAgainAtOnce) {
  ASSERT_EQ(post_recv(peer_, 1, b_.element(0, 128)), 0);
  std::uint8_t bytes[100];
  std::memset(bytes, 0x5a, sizeof bytes);
  ibv_sge element{.addr = reinterpret_cast<std::uint64_t>(bytes), .length = 100, .lkey = 0};
  ibv_send_wr wr{};
  wr.sg_list = &element;
  wr.num_sge = 1;
  wr.opcode = IBV_WR_SEND;
  wr.send_flags = IBV_SEND_INLINE;
  ibv_send_wr* bad = nullptr;
  ASSERT_EQ(ibv_post_send(qp_, &wr, &bad), 0);
  std::memset(bytes, 0, sizeof bytes);
  EXPECT_EQ(next(b_.cq).byte_len, 100u);
  EXPECT_EQ(b_.bytes[99], 0x5a);
}

TEST_F(RcVerbs, OfAListWithAnErrorTheRequestsBeforeItArePosted) {
  ibv_sge element = a_.element(0, 8);
  ibv_send_wr list[3] = {};
  for (ibv_send_wr& wr : list) {
    wr.sg_list = &element;
    wr.num_sge = 1;
    wr.opcode = IBV_WR_RDMA_WRITE;
    wr.send_flags = IBV_SEND_SIGNALED;
    wr.wr.rdma = {.remote_addr = remote(), .rkey = b_.mr->rkey};
  }
  list[0].wr_id = 55;
  list[0].next = &list[1];
  list[1].next = &list[2];
  list[1].num_sge = 5;  // of 4
  ibv_send_wr* bad = nullptr;
  EXPECT_EQ(ibv_post_send(qp_, list, &bad), EINVAL);
  EXPECT_EQ(bad, &list[1]);
  EXPECT_EQ(next(a_.cq).wr_id, 55u);
  EXPECT_TRUE(is_empty(a_.cq));
}

TEST_F(RcVerbs, AFullQueueIsENOMEM) {
  for (int i = 0; i < 32; ++i) {
    ASSERT_EQ(post_recv(peer_, 0, b_.element(0, 8)), 0);
  }
  EXPECT_EQ(post_recv(peer_, 0, b_.element(0, 8)), ENOMEM);
}

TEST_F(RcVerbs, AWrongKeyEndsTheConnectionWithAnError) {
  ASSERT_EQ(post_send(qp_, 3, IBV_WR_RDMA_WRITE, a_.element(0, 8), remote(), b_.mr->rkey ^ 1), 0);
  EXPECT_EQ(next(a_.cq).status, IBV_WC_REM_ACCESS_ERR);
  ibv_qp_attr attributes{};
  ibv_qp_init_attr init{};
  ASSERT_EQ(table().query_qp(qp_, &attributes, IBV_QP_STATE, &init), 0);
  EXPECT_EQ(attributes.qp_state, IBV_QPS_ERR);
  EXPECT_EQ(qp_->state, IBV_QPS_ERR);
  ASSERT_EQ(post_send(qp_, 4, IBV_WR_SEND, a_.element(0, 8)), 0);
  EXPECT_EQ(next(a_.cq).status, IBV_WC_WR_FLUSH_ERR);
}

TEST_F(RcVerbs, ARegionThatIsRegisteredAnewKeepsItsKeys) {
  const std::uint32_t rkey = b_.mr->rkey;
  ASSERT_EQ(table().rereg_mr(b_.mr, IBV_REREG_MR_CHANGE_TRANSLATION, nullptr, b_.bytes.data() + 64,
                             64, 0),
            0);
  EXPECT_EQ(b_.mr->rkey, rkey);
  EXPECT_EQ(b_.mr->length, 64u);
  ASSERT_EQ(post_send(qp_, 1, IBV_WR_RDMA_WRITE, a_.element(64, 64), remote() + 64, rkey), 0);
  EXPECT_EQ(next(a_.cq).status, IBV_WC_SUCCESS);
  EXPECT_EQ(b_.bytes[64], a_.bytes[64]);
  ASSERT_EQ(table().rereg_mr(b_.mr, IBV_REREG_MR_CHANGE_ACCESS, nullptr, nullptr, 0,
                             IBV_ACCESS_LOCAL_WRITE),
            0);
  ASSERT_EQ(post_send(qp_, 2, IBV_WR_RDMA_WRITE, a_.element(64, 64), remote() + 64, rkey), 0);
  EXPECT_EQ(next(a_.cq).status, IBV_WC_REM_ACCESS_ERR);
}

/// Both ends' memory is a page that its region need not always have.
class PagedMemory : public ::testing::Test {
 protected:
  PagedMemory() { EXPECT_NE(page_, MAP_FAILED); }
  ~PagedMemory() override { munmap(page_, kBytes); }

  /// What comes of a request for that page, over queue pairs of its own.
  [[nodiscard]] ibv_wc_status write_to(const ibv_mr& mr) {
    return request(IBV_WR_RDMA_WRITE, a_.element(0, 8), mr);
  }
  [[nodiscard]] ibv_wc_status read_from(const ibv_mr& mr) {
    return request(IBV_WR_RDMA_READ, a_.element(0, 8), mr);
  }
  [[nodiscard]] ibv_wc_status request(ibv_wr_opcode opcode, ibv_sge element, const ibv_mr& mr) {
    ibv_qp* qp = a_.create_qp(IBV_QPT_RC);
    connect(qp, b_.create_qp(IBV_QPT_RC));
    EXPECT_EQ(post_send(qp, 1, opcode, element, address(), mr.rkey), 0);
    return next(a_.cq).status;
  }
  [[nodiscard]] std::uint64_t address() const { return reinterpret_cast<std::uint64_t>(page_); }
  [[nodiscard]] ibv_sge element(const ibv_mr& mr) const { return {address(), 8, mr.lkey}; }

  static const inline auto kBytes = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  End a_;
  End b_;
  void* page_ = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
};

TEST_F(PagedMemory, RequestsForWhatIsNotThereFail) {
  ibv_mr* one = table().reg_mr(b_.pd, page_, kBytes, End::kAccess | IBV_ACCESS_ON_DEMAND);
  ibv_mr* all = table().reg_mr(b_.pd, nullptr, SIZE_MAX, End::kAccess | IBV_ACCESS_ON_DEMAND);
  for (ibv_mr* mr : {one, all}) {
    ASSERT_NE(mr, nullptr);
    EXPECT_EQ(write_to(*mr), IBV_WC_SUCCESS);
    ASSERT_EQ(mprotect(page_, kBytes, PROT_READ), 0);
    EXPECT_EQ(write_to(*mr), IBV_WC_REM_ACCESS_ERR);
    EXPECT_EQ(read_from(*mr), IBV_WC_SUCCESS);
    ASSERT_EQ(mprotect(page_, kBytes, PROT_NONE), 0);
    EXPECT_EQ(read_from(*mr), IBV_WC_REM_ACCESS_ERR);
    ASSERT_EQ(mprotect(page_, kBytes, PROT_READ | PROT_WRITE), 0);
    EXPECT_EQ(write_to(*mr), IBV_WC_SUCCESS);
    EXPECT_EQ(table().dereg_mr(mr), 0);
  }
}

TEST_F(PagedMemory, TheOwnersRequestsForItFailToo) {
  ibv_mr* mr = table().reg_mr(a_.pd, page_, kBytes, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_ON_DEMAND);
  ASSERT_NE(mr, nullptr);
  ASSERT_EQ(mprotect(page_, kBytes, PROT_NONE), 0);
  ibv_qp* qp = a_.create_qp(IBV_QPT_RC);
  ibv_qp* peer = b_.create_qp(IBV_QPT_RC);
  connect(qp, peer);
  ASSERT_EQ(post_recv(qp, 1, element(*mr)), 0);
  ASSERT_EQ(post_send(peer, 2, IBV_WR_SEND, b_.element(0, 8)), 0);
  EXPECT_EQ(next(a_.cq).status, IBV_WC_LOC_PROT_ERR);
  EXPECT_EQ(next(b_.cq).status, IBV_WC_REM_OP_ERR);
  qp = a_.create_qp(IBV_QPT_RC);
  connect(qp, b_.create_qp(IBV_QPT_RC));
  ASSERT_EQ(post_send(qp, 3, IBV_WR_SEND, element(*mr)), 0);
  EXPECT_EQ(next(a_.cq).status, IBV_WC_LOC_PROT_ERR);
  EXPECT_EQ(table().dereg_mr(mr), 0);
}

TEST_F(RcVerbs, AResetQueuePairHasNoCompletionsFromBefore) {
  ibv_qp* other = a_.create_qp(IBV_QPT_RC);
  ASSERT_EQ(post_recv(qp_, 1, a_.element(0, 8)), 0);
  bring_up(other, peer_->qp_num);
  ASSERT_EQ(post_recv(other, 2, a_.element(0, 8)), 0);
  ASSERT_EQ(modify_state(qp_, IBV_QPS_ERR), 0);
  ASSERT_EQ(modify_state(other, IBV_QPS_ERR), 0);
  ASSERT_EQ(modify_state(qp_, IBV_QPS_RESET), 0);
  const ibv_wc flushed = next(a_.cq);
  EXPECT_EQ(flushed.wr_id, 2u);
  EXPECT_EQ(flushed.status, IBV_WC_WR_FLUSH_ERR);
  EXPECT_TRUE(is_empty(a_.cq));
}

TEST_F(RcVerbs, DeviceMemoryIsWrittenByPeersAndCopiedByTheProgram) {
  ibv_alloc_dm_attr wanted{.length = 256, .log_align_req = 6, .comp_mask = 0};
  ibv_dm* dm = extended(b_.context).alloc_dm(b_.context, &wanted);
  ASSERT_NE(dm, nullptr);
  const auto reg_dm_mr = extended(b_.context).reg_dm_mr;
  EXPECT_EQ(reg_dm_mr(b_.pd, dm, 0, 64, End::kAccess), nullptr);  // not zero-based
  EXPECT_EQ(reg_dm_mr(b_.pd, dm, 200, 57, End::kAccess | IBV_ACCESS_ZERO_BASED), nullptr);
  ibv_mr* mr = reg_dm_mr(b_.pd, dm, 64, 128, End::kAccess | IBV_ACCESS_ZERO_BASED);
  ASSERT_NE(mr, nullptr);
  EXPECT_EQ(mr->addr, nullptr);
  EXPECT_EQ(extended(b_.context).free_dm(dm), EBUSY);
  ASSERT_EQ(post_send(qp_, 1, IBV_WR_RDMA_WRITE, a_.element(0, 64), 8, mr->rkey), 0);
  EXPECT_EQ(next(a_.cq).status, IBV_WC_SUCCESS);
  EXPECT_EQ(dm->memcpy_from_dm(b_.bytes.data(), dm, 72, 64), 0);
  EXPECT_TRUE(same(64));
  EXPECT_EQ(dm->memcpy_from_dm(b_.bytes.data(), dm, 73, 4), EINVAL);
  EXPECT_EQ(dm->memcpy_to_dm(dm, 256, b_.bytes.data(), 4), EINVAL);
  EXPECT_EQ(dm->memcpy_to_dm(dm, 252, b_.bytes.data(), 4), 0);
  EXPECT_EQ(table().dereg_mr(mr), 0);
  EXPECT_EQ(extended(b_.context).free_dm(dm), 0);
  wanted.length = (1u << 20) + 1;
  EXPECT_EQ(extended(b_.context).alloc_dm(b_.context, &wanted), nullptr);
}

TEST_F(RcVerbs, WindowsOfBothTypes) {
  ibv_mw* mw = a_.context->ops.alloc_mw(b_.pd, IBV_MW_TYPE_1);
  ASSERT_NE(mw, nullptr);
  ibv_mw_bind bind{};
  bind.send_flags = IBV_SEND_SIGNALED;
  // Local write is a right of the region; that programs name it here changes nothing.
  bind.bind_info = {.mr = b_.mr,
                    .addr = remote() + 64,
                    .length = 64,
                    .mw_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_LOCAL_WRITE};
  ASSERT_EQ(b_.context->ops.bind_mw(peer_, mw, &bind), 0);
  EXPECT_EQ(next(b_.cq).opcode, IBV_WC_BIND_MW);
  ASSERT_EQ(post_send(qp_, 1, IBV_WR_RDMA_WRITE, a_.element(64, 64), remote() + 64, mw->rkey), 0);
  EXPECT_EQ(next(a_.cq).status, IBV_WC_SUCCESS);
  EXPECT_EQ(b_.bytes[64], a_.bytes[64]);
  EXPECT_EQ(table().dereg_mr(b_.mr), EBUSY);
  EXPECT_EQ(b_.context->ops.dealloc_mw(mw), 0);

  mw = b_.context->ops.alloc_mw(b_.pd, IBV_MW_TYPE_2);
  ASSERT_NE(mw, nullptr);
  ibv_send_wr wr{};
  wr.opcode = IBV_WR_BIND_MW;
  wr.send_flags = IBV_SEND_SIGNALED;
  wr.bind_mw.mw = mw;
  wr.bind_mw.rkey = (mw->rkey & ~0xffu) | ((mw->rkey + 1) & 0xff);
  wr.bind_mw.bind_info = bind.bind_info;
  ibv_send_wr* bad = nullptr;
  ASSERT_EQ(ibv_post_send(peer_, &wr, &bad), 0);
  EXPECT_EQ(next(b_.cq).status, IBV_WC_SUCCESS);
  ASSERT_EQ(post_send(qp_, 1, IBV_WR_RDMA_WRITE, a_.element(0, 64), remote() + 64, wr.bind_mw.rkey),
            0);
  EXPECT_EQ(next(a_.cq).status, IBV_WC_SUCCESS);
  EXPECT_EQ(b_.context->ops.dealloc_mw(mw), 0);
}

/// A queue pair of the newer interface in the place of qp_.
class RcBatches : public RcVerbs {
 protected:
  RcBatches() {
    a_.destroy_qps();
    b_.destroy_qps();
    ibv_qp_init_attr_ex init{};
    init.send_cq = init.recv_cq = a_.cq;
    init.cap = {.max_send_wr = 8,
                .max_recv_wr = 8,
                .max_send_sge = 2,
                .max_recv_sge = 2,
                .max_inline_data = 64};
    init.qp_type = IBV_QPT_RC;
    init.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
    init.pd = a_.pd;
    init.send_ops_flags =
        IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_ATOMIC_WRITE | 1u << 11;
    qp_ = extended(a_.context).create_qp_ex(a_.context, &init);
    EXPECT_NE(qp_, nullptr);
    a_.qps.push_back(qp_);
    peer_ = b_.create_qp(IBV_QPT_RC);
    connect(qp_, peer_);
    ex_ = table().qp_to_qp_ex(qp_);
    EXPECT_NE(ex_, nullptr);
  }
  ibv_qp_ex* ex_ = nullptr;
};

TEST_F(RcBatches, AreSentTogether) {
  ASSERT_EQ(post_recv(peer_, 1, b_.element(1024, 64)), 0);
  ibv_wr_start(ex_);
  ex_->wr_id = 11;
  ex_->wr_flags = 0;
  ibv_wr_rdma_write(ex_, b_.mr->rkey, remote());
  ibv_wr_set_sge(ex_, a_.mr->lkey, a_.element(0, 1).addr, 512);
  ex_->wr_id = 12;
  ex_->wr_flags = IBV_SEND_SIGNALED;
  ibv_wr_send(ex_);
  char text[] = "hello";
  ibv_wr_set_inline_data(ex_, text, sizeof text);
  std::memset(text, 0, sizeof text);
  ASSERT_EQ(ibv_wr_complete(ex_), 0);
  EXPECT_EQ(next(a_.cq).wr_id, 12u);
  EXPECT_EQ(next(b_.cq).byte_len, sizeof text);
  EXPECT_TRUE(same(512));
  EXPECT_STREQ(reinterpret_cast<char*>(b_.bytes.data() + 1024), "hello");
}

TEST_F(RcBatches, AbortedOnesAreNot) {
  ibv_wr_start(ex_);
  ex_->wr_flags = IBV_SEND_SIGNALED;
  ibv_wr_rdma_write(ex_, b_.mr->rkey, remote());
  ibv_wr_set_sge(ex_, a_.mr->lkey, a_.element(0, 1).addr, 8);
  ibv_wr_abort(ex_);
  EXPECT_TRUE(is_empty(a_.cq));
}

TEST_F(RcBatches, ThatAreTooLongArePostedNotAtAll) {
  ibv_wr_start(ex_);
  ex_->wr_flags = IBV_SEND_SIGNALED;
  for (int i = 0; i < 9; ++i) {
    ibv_wr_rdma_write(ex_, b_.mr->rkey, remote());
    ibv_wr_set_sge(ex_, a_.mr->lkey, a_.element(0, 1).addr, 8);
  }
  EXPECT_EQ(ibv_wr_complete(ex_), ENOMEM);
  EXPECT_TRUE(is_empty(a_.cq));
}

TEST_F(RcBatches, AtomicWrite) {
  const std::uint64_t value = 0x1122334455667788;
  ibv_wr_start(ex_);
  ex_->wr_flags = IBV_SEND_SIGNALED;
  ibv_wr_atomic_write(ex_, b_.mr->rkey, remote() + 8, &value);
  ASSERT_EQ(ibv_wr_complete(ex_), 0);
  const ibv_wc completion = next(a_.cq);
  EXPECT_EQ(completion.status, IBV_WC_SUCCESS);
  EXPECT_EQ(completion.opcode, IBV_WC_ATOMIC_WRITE);
  EXPECT_EQ(std::memcmp(b_.bytes.data() + 8, &value, sizeof value), 0);
}

/// Programs of a later header find it behind the last function of this one.
TEST_F(RcBatches, FlushStandsBehindTheOtherFunctions) {
  ibv_mr* mr = table().reg_mr(b_.pd, b_.bytes.data(), 4096, End::kAccess | 1 << 8);
  ASSERT_NE(mr, nullptr);
  ibv_qp_attr attributes{};
  attributes.qp_access_flags = End::kAccess | 1 << 8;
  ASSERT_EQ(table().modify_qp(peer_, &attributes, IBV_QP_ACCESS_FLAGS), 0);
  using Flush =
      void (*)(ibv_qp_ex*, std::uint32_t, std::uint64_t, std::size_t, std::uint8_t, std::uint8_t);
  const Flush flush = reinterpret_cast<Flush*>(&ex_->wr_atomic_write)[1];
  ibv_wr_start(ex_);
  ex_->wr_flags = IBV_SEND_SIGNALED;
  flush(ex_, mr->rkey, remote(), 64, 1, 0);
  ASSERT_EQ(ibv_wr_complete(ex_), 0);
  const ibv_wc completion = next(a_.cq);
  EXPECT_EQ(completion.status, IBV_WC_SUCCESS);
  EXPECT_EQ(static_cast<unsigned>(completion.opcode), 8u);
  EXPECT_EQ(table().dereg_mr(mr), 0);
}

}  // namespace
}  // namespace rockhopper::test
