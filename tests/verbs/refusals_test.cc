// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
// What verbs refuse, and how: handles that are none, orders of destruction, memory that is not
// there.
#include <cerrno>
#include <cstdint>
#include <cstring>

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/verbs/rig.h"

namespace rockhopper::test {
namespace {

TEST(Handles, GarbledOnesAreRefused) {
  End end;
  ibv_qp* qp = end.create_qp(IBV_QPT_RC);
  end.cq->handle ^= 1;
  EXPECT_EQ(table().destroy_cq(end.cq), EINVAL);
  ibv_wc completion{};
  EXPECT_EQ(ibv_poll_cq(end.cq, 1, &completion), -1);
  end.cq->handle ^= 1;
  qp->handle += 1;
  EXPECT_EQ(table().destroy_qp(qp), EINVAL);
  EXPECT_EQ(post_recv(qp, 1, end.element(0, 8)), EINVAL);
  qp->handle -= 1;
  end.mr->handle += 1;
  EXPECT_EQ(table().dereg_mr(end.mr), EINVAL);
  end.mr->handle -= 1;
  end.pd->handle += 1;
  EXPECT_EQ(table().dealloc_pd(end.pd), EINVAL);
  end.pd->handle -= 1;
  EXPECT_EQ(table().destroy_qp(nullptr), EINVAL);
  EXPECT_EQ(table().alloc_pd(nullptr), nullptr);
  EXPECT_EQ(errno, EINVAL);
}

TEST(Handles, ThoseOfAnotherContextAreRefused) {
  const End a;
  const End b;
  ibv_qp_init_attr init{};
  init.send_cq = a.cq;
  init.recv_cq = b.cq;
  init.qp_type = IBV_QPT_RC;
  EXPECT_EQ(table().create_qp(a.pd, &init), nullptr);
  EXPECT_EQ(errno, EINVAL);
}

TEST(Destruction, NothingGoesBeforeItsUsers) {
  End end;
  EXPECT_EQ(table().dealloc_pd(end.pd), EBUSY);  // the region
  (void)end.create_qp(IBV_QPT_UC);
  EXPECT_EQ(table().destroy_cq(end.cq), EBUSY);
}

TEST(Destruction, AContextMayBeClosedWithAllThatItHas) {
  ibv_context* context = open_device();
  ibv_pd* pd = table().alloc_pd(context);
  ibv_cq* cq = table().create_cq(context, 4, nullptr, nullptr, 0);
  ibv_qp_init_attr init{};
  init.send_cq = init.recv_cq = cq;
  init.qp_type = IBV_QPT_RC;
  // The program holds what is left for as long as it runs.
  static ibv_qp* qp = nullptr;
  qp = table().create_qp(pd, &init);
  ASSERT_NE(qp, nullptr);
  EXPECT_EQ(table().close_device(context), 0);
  // What was left is none of ours any more, and is nothing to others.
  EXPECT_EQ(table().destroy_qp(qp), EINVAL);
  const End end;
}

// Programs write those fields of a structure that they mean, and leave in the others what was
// there. A sanitizer sees whoever takes such a number for an enumerator.
template <typename Enumeration>
void garble(Enumeration& field) {
  std::memset(&field, 0xA5, sizeof field);
}

TEST(Garbage, InFieldsThatTheMaskLeavesOutMeansNothing) {
  End end;
  ibv_qp* qp = end.create_qp(IBV_QPT_RC);
  ibv_qp_attr attributes;
  std::memset(&attributes, 0xA5, sizeof attributes);
  attributes.qp_state = IBV_QPS_ERR;
  EXPECT_EQ(table().modify_qp(qp, &attributes, IBV_QP_STATE), 0);
  EXPECT_EQ(qp->state, IBV_QPS_ERR);
}

TEST(Garbage, WhereItIsMeantIsRefused) {
  End end;
  ibv_qp* qp = end.create_qp(IBV_QPT_RC);
  ibv_qp_attr attributes{};
  garble(attributes.qp_state);
  EXPECT_EQ(table().modify_qp(qp, &attributes, IBV_QP_STATE), EINVAL);
  attributes.qp_state = IBV_QPS_RESET;
  garble(attributes.cur_qp_state);
  EXPECT_EQ(table().modify_qp(qp, &attributes, IBV_QP_STATE | IBV_QP_CUR_STATE), EINVAL);
  ibv_qp_init_attr init{};
  init.send_cq = init.recv_cq = end.cq;
  garble(init.qp_type);
  EXPECT_EQ(table().create_qp(end.pd, &init), nullptr);
  EXPECT_EQ(errno, EOPNOTSUPP);
  ibv_srq_init_attr_ex shared{};
  shared.attr = {.max_wr = 1, .max_sge = 1, .srq_limit = 0};
  shared.pd = end.pd;
  shared.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD;
  garble(shared.srq_type);
  EXPECT_EQ(extended(end.context).create_srq_ex(end.context, &shared), nullptr);
  EXPECT_EQ(errno, EINVAL);
  ibv_qp_open_attr open{};
  open.comp_mask = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE;
  garble(open.qp_type);
  EXPECT_EQ(extended(end.context).open_qp(end.context, &open), nullptr);
  EXPECT_EQ(errno, EINVAL);
}

TEST(Garbage, NoSuchRequest) {
  End end;
  ibv_qp* a = end.create_qp(IBV_QPT_RC);
  connect(a, end.create_qp(IBV_QPT_RC));
  ibv_send_wr wr{};
  ibv_send_wr* bad = nullptr;
  EXPECT_EQ(ibv_post_send(a, &wr, &bad), 0);
  garble(wr.opcode);
  EXPECT_EQ(ibv_post_send(a, &wr, &bad), EINVAL);
  EXPECT_EQ(bad, &wr);
}

TEST(QueuePairs, NoneWanted) {
  const End end;
  ibv_qp_init_attr init{};  // of everything 0
  init.send_cq = init.recv_cq = end.cq;
  init.qp_type = IBV_QPT_RC;
  ibv_qp* qp = table().create_qp(end.pd, &init);
  ASSERT_NE(qp, nullptr);
  EXPECT_EQ(table().destroy_qp(qp), 0);
  init.qp_type = IBV_QPT_RAW_PACKET;
  EXPECT_EQ(table().create_qp(end.pd, &init), nullptr);
  EXPECT_EQ(errno, EOPNOTSUPP);
  init.qp_type = IBV_QPT_RC;
  init.cap.max_send_wr = 1u << 20;
  EXPECT_EQ(table().create_qp(end.pd, &init), nullptr);
  EXPECT_EQ(errno, EINVAL);
}

TEST(QueuePairs, WrongTransitions) {
  End end;
  ibv_qp* qp = end.create_qp(IBV_QPT_RC);
  EXPECT_EQ(modify_state(qp, IBV_QPS_RTS), EINVAL);
  EXPECT_EQ(modify_state(qp, IBV_QPS_INIT), EINVAL);  // without attributes
  EXPECT_EQ(modify_state(qp, IBV_QPS_UNKNOWN), EINVAL);
  EXPECT_EQ(post_send(qp, 1, IBV_WR_SEND, end.element(0, 8)), EINVAL);
  EXPECT_EQ(post_recv(qp, 1, end.element(0, 8)), EINVAL);
  EXPECT_EQ(qp->state, IBV_QPS_RESET);
}

TEST(Memory, WhatIsNotMappedIsEFAULT) {
  const End end;
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  auto* pages = static_cast<std::uint8_t*>(
      mmap(nullptr, 3 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  ASSERT_NE(pages, MAP_FAILED);
  munmap(pages + page, page);  // a hole
  EXPECT_EQ(table().reg_mr(end.pd, pages, 3 * page, IBV_ACCESS_LOCAL_WRITE), nullptr);
  EXPECT_EQ(errno, EFAULT);
  ibv_mr* mr = table().reg_mr(end.pd, pages, page, IBV_ACCESS_LOCAL_WRITE);
  ASSERT_NE(mr, nullptr);
  const std::uint32_t key = mr->lkey;
  // Another thread may have got what was unmapped; the last page of user space nobody gets.
  auto* nowhere = reinterpret_cast<std::uint8_t*>((std::uintptr_t{1} << 47) - page);
  EXPECT_EQ(table().rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, nullptr, nowhere, page, 0),
            IBV_REREG_MR_ERR_CMD);
  EXPECT_EQ(errno, EFAULT);
  EXPECT_EQ(mr->lkey, key);
  EXPECT_EQ(
      table().rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, nullptr, pages + 2 * page, page, 0), 0);
  EXPECT_EQ(mr->addr, pages + 2 * page);
  EXPECT_EQ(table().dereg_mr(mr), 0);
  ASSERT_EQ(mprotect(pages, page, PROT_READ), 0);
  EXPECT_EQ(table().reg_mr(end.pd, pages, page, IBV_ACCESS_LOCAL_WRITE), nullptr);
  EXPECT_EQ(errno, EFAULT);
  mr = table().reg_mr(end.pd, pages, page, IBV_ACCESS_REMOTE_READ);
  ASSERT_NE(mr, nullptr);
  EXPECT_EQ(table().dereg_mr(mr), 0);
  ASSERT_EQ(mprotect(pages, page, PROT_NONE), 0);
  EXPECT_EQ(table().reg_mr(end.pd, pages, page, IBV_ACCESS_REMOTE_READ), nullptr);
  EXPECT_EQ(errno, EFAULT);
  EXPECT_EQ(table().reg_mr(end.pd, pages, page, IBV_ACCESS_LOCAL_WRITE), nullptr);
  EXPECT_EQ(errno, EFAULT);
  munmap(pages, page);
  munmap(pages + 2 * page, page);
}

TEST(Memory, AccessAndLength) {
  End end;
  EXPECT_EQ(table().reg_mr(end.pd, end.bytes.data(), 64, IBV_ACCESS_REMOTE_WRITE), nullptr);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(table().reg_mr(end.pd, end.bytes.data(), 64, 1 << 15), nullptr);
  ibv_mr* empty = table().reg_mr(end.pd, end.bytes.data(), 0, 0);
  ASSERT_NE(empty, nullptr);
  EXPECT_EQ(table().dereg_mr(empty), 0);
  ibv_mr* all =
      table().reg_mr(end.pd, nullptr, SIZE_MAX, IBV_ACCESS_ON_DEMAND | IBV_ACCESS_LOCAL_WRITE);
  ASSERT_NE(all, nullptr);
  EXPECT_EQ(table().dereg_mr(all), 0);
  EXPECT_EQ(table().reg_dmabuf_mr(end.pd, 0, 64, 0, -1, 0), nullptr);
  EXPECT_EQ(errno, EBADF);
}

/// The child opens a device of its own; what it has inherited does nothing.
TEST(Processes, AForkedChild) {
  End end;
  ibv_qp* qp = end.create_qp(IBV_QPT_RC);
  bring_up(qp, qp->qp_num);
  const pid_t child = fork_while_others_sleep();
  ASSERT_GE(child, 0);
  if (child == 0) {
    ibv_wc completion{};
    bool right = ibv_poll_cq(end.cq, 1, &completion) == -1;
    right = right && post_recv(qp, 1, end.element(0, 8)) == EIO;
    right = right && table().destroy_qp(qp) == 0 && table().alloc_pd(end.context) == nullptr;
    {
      End own;
      ibv_qp* mine = own.create_qp(IBV_QPT_RC);
      bring_up(mine, mine->qp_num);
      right = right && post_recv(mine, 1, own.element(0, 8)) == 0;
      right = right && post_send(mine, 2, IBV_WR_SEND, own.element(8, 8)) == 0;
      right = right && next(own.cq).status == IBV_WC_SUCCESS;
      right = right && next(own.cq).status == IBV_WC_SUCCESS;
    }
    _exit(right && !::testing::Test::HasFailure() ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  ASSERT_EQ(post_recv(qp, 1, end.element(0, 8)), 0);
  ASSERT_EQ(post_send(qp, 2, IBV_WR_SEND, end.element(8, 8)), 0);
  EXPECT_EQ(next(end.cq).status, IBV_WC_SUCCESS);
  EXPECT_EQ(next(end.cq).status, IBV_WC_SUCCESS);
}

}  // namespace
}  // namespace rockhopper::test
