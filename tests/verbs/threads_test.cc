// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
// Any thread may call anything: pairs of threads share a completion queue, others come and go.
#include <atomic>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "tests/verbs/rig.h"

namespace rockhopper::test {
namespace {

constexpr unsigned kPairs = 4;
constexpr std::uint32_t kMessages = 2000;
constexpr std::uint32_t kWindow = 16;

TEST(Threads, PostAndPollWhatTheyShare) {
  End a(1024);
  End b(1024);
  ibv_srq_init_attr init{.srq_context = nullptr,
                         .attr = {.max_wr = 512, .max_sge = 1, .srq_limit = 0}};
  ibv_srq* srq = table().create_srq(b.pd, &init);
  ASSERT_NE(srq, nullptr);
  std::vector<ibv_qp*> senders;
  for (unsigned i = 0; i < kPairs; ++i) {
    senders.push_back(a.create_qp(IBV_QPT_RC));
    connect(senders.back(), b.create_qp(IBV_QPT_RC, srq));
  }
  const auto refill = [&] {
    ibv_sge element = b.element(0, 64);
    ibv_recv_wr wr{.wr_id = 1, .next = nullptr, .sg_list = &element, .num_sge = 1};
    ibv_recv_wr* bad = nullptr;
    EXPECT_EQ(ibv_post_srq_recv(srq, &wr, &bad), 0);
  };
  for (unsigned i = 0; i < kPairs * kWindow; ++i) {
    refill();
  }
  std::atomic<std::uint32_t> received{0};
  std::atomic<std::uint32_t> sent{0};
  std::atomic<std::uint32_t> posted{0};
  std::atomic<bool> failed{false};
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < kPairs; ++i) {
    threads.emplace_back([&, i] {  // posts, and polls for all senders
      for (std::uint32_t own = 0; sent < kPairs * kMessages && !failed;) {
        if (own < kMessages && posted - sent < kWindow) {
          ++posted;
          failed = failed || post_send(senders[i], own++, IBV_WR_SEND, a.element(0, 32)) != 0;
        }
        ibv_wc completions[4];
        const int count = ibv_poll_cq(a.cq, 4, completions);
        for (int k = 0; k < count; ++k) {
          failed = failed || completions[k].status != IBV_WC_SUCCESS;
        }
        sent += static_cast<std::uint32_t>(count);
        if (count == 0) std::this_thread::yield();
      }
    });
    threads.emplace_back([&] {  // receives for all
      while (received < kPairs * kMessages && !failed) {
        ibv_wc completions[4];
        const int count = ibv_poll_cq(b.cq, 4, completions);
        for (int k = 0; k < count; ++k) {
          failed = failed || completions[k].status != IBV_WC_SUCCESS;
          refill();
        }
        received += static_cast<std::uint32_t>(count);
        if (count == 0) std::this_thread::yield();
      }
    });
  }
  // Meanwhile others make and end objects.
  std::thread restless([&] {
    while (received < kPairs * kMessages && !failed) {
      End other;
      (void)other.create_qp(IBV_QPT_UD);
      ibv_qp_attr attributes{};
      ibv_qp_init_attr qp_init{};
      EXPECT_EQ(table().query_qp(senders[0], &attributes, 0, &qp_init), 0);
      EXPECT_EQ(table().resize_cq(b.cq, 1024), 0);
    }
  });
  for (std::thread& thread : threads) {
    thread.join();
  }
  restless.join();
  EXPECT_FALSE(failed);
  EXPECT_EQ(sent, kPairs * kMessages);
  EXPECT_EQ(received, kPairs * kMessages);
  b.destroy_qps();
  EXPECT_EQ(table().destroy_srq(srq), 0);
}

}  // namespace
}  // namespace rockhopper::test
