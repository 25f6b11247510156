// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
// Fast registration and local invalidate (IBTA vol. 1, 10.6.8): rights, generations, and their
// place among other requests.
#include <functional>

#include "stack/time_units.h"
#include "tests/unit/roce/rig.h"

namespace rockhopper::test::fast_region_test {
namespace {

using roce::MemoryKey;
using roce::PostResult;
using roce::QpState;
using roce::WcOpcode;
using roce::WcStatus;
using roce::WrOpcode;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using wire::NakCode;
using wire::Opcode;

constexpr std::uint32_t kPsn = 0x020000;
constexpr std::uint32_t kSendPsn = 0x001000;
constexpr std::size_t kAt = 4096;

std::uint32_t number(MemoryKey key) { return static_cast<std::uint32_t>(key); }

struct FastRig : Rig {
  explicit FastRig(const ConnectionOptions& options = {})
      : Rig(options), region(*engine().allocate_fast_memory(pd(), 1024)) {
    region.base = reinterpret_cast<std::byte*>(memory() + kAt);
    region.length = 512;
    region.iova = 0x7000;
    region.access = roce::kAccessAll;
  }
  void register_it(std::uint64_t wr_id, std::uint32_t flags = 0) {
    ASSERT_EQ(post({.wr_id = wr_id,
                    .opcode = WrOpcode::reg_mr,
                    .send_flags = flags,
                    .fast_region = region}),
              PostResult::ok);
  }
  void invalidate(std::uint64_t wr_id, std::uint32_t flags = 0) {
    ASSERT_EQ(post({.wr_id = wr_id,
                    .opcode = WrOpcode::local_inv,
                    .send_flags = flags,
                    .invalidate_rkey = region.key}),
              PostResult::ok);
  }
  [[nodiscard]] Packet write(std::uint32_t psn) const {
    return write_packet(Opcode::rc_rdma_write_only, psn,
                        {.va = 0x7000, .rkey = number(region.key), .length = 8}, pattern(8));
  }

  roce::MemoryRegion region;
};

TEST(FastRegions, ServeFromRegistrationToInvalidation) {
  FastRig rig;
  rig.register_it(1);
  EXPECT_THAT(rig.sent(), IsEmpty());
  const auto done = rig.send_completions();
  ASSERT_THAT(done, ElementsAre(Completed(1u, WcStatus::success)));
  EXPECT_EQ(done[0].opcode, WcOpcode::reg_mr);
  rig.inject(rig.write(kPsn));
  EXPECT_THAT(rig.sent(), ElementsAre(IsAck(kPsn, 1u)));
  EXPECT_EQ(rig.memory_at(kAt, 8), pattern(8));
  rig.invalidate(2);
  EXPECT_THAT(rig.sent(), IsEmpty());
  EXPECT_EQ(rig.send_completions().at(0).opcode, WcOpcode::local_inv);
  rig.inject(rig.write(kPsn + 1));
  EXPECT_THAT(rig.sent(), ElementsAre(IsNak(kPsn + 1, NakCode::remote_access_error)));
}

TEST(FastRegions, AreLocalKeysToo) {
  FastRig rig;
  rig.register_it(1);
  const std::array<roce::Sge, 1> list{{{.addr = 0x7000, .length = 32, .lkey = rig.region.key}}};
  ASSERT_EQ(rig.post({.wr_id = 2, .sg_list = list, .opcode = WrOpcode::send}), PostResult::ok);
  const auto sent = rig.sent();
  ASSERT_THAT(sent, ElementsAre(IsPacket(Opcode::rc_send_only, kSendPsn)));
  EXPECT_EQ(sent[0].payload, rig.memory_at(kAt, 32));
}

TEST(FastRegions, EachGenerationHasItsKey) {
  FastRig rig;
  std::uint32_t psn = kPsn;
  const MemoryKey first = rig.region.key;
  for (int i = 0; i < 300; ++i) {
    rig.region.key = roce::next_generation(rig.region.key);
    rig.register_it(1);
    (void)rig.sent();
    rig.inject(rig.write(psn));
    ASSERT_THAT(rig.sent(), ElementsAre(IsAck(psn, static_cast<std::uint32_t>(i + 1))));
    ++psn;
    rig.invalidate(2);
    (void)rig.sent();
    ASSERT_THAT(rig.send_completions(),
                ElementsAre(Completed(1u, WcStatus::success), Completed(2u, WcStatus::success)));
  }
  EXPECT_EQ(number(rig.region.key) >> 8, number(first) >> 8);
  EXPECT_EQ(rig.counters().fast_registrations.value(), 300u);
}

TEST(FastRegions, OldGenerationIsRefusedAndCounted) {
  FastRig rig;
  rig.register_it(1);
  (void)rig.sent();
  const Packet late = rig.write(kPsn);
  rig.invalidate(2);
  rig.region.key = roce::next_generation(rig.region.key);
  rig.register_it(3);
  (void)rig.sent();
  rig.inject(late);
  EXPECT_THAT(rig.sent(), ElementsAre(IsNak(kPsn, NakCode::remote_access_error)));
  EXPECT_EQ(rig.counters().stale_keys.value(), 1u);
  EXPECT_TRUE(rig.untouched_outside(0, 0));
}

TEST(FastRegions, BadRegistrationsFailTheQueuePair) {
  const auto other_base = [](FastRig& rig) { rig.region.base = nullptr; };
  const auto too_long = [](FastRig& rig) { rig.region.length = 1025; };
  const auto empty = [](FastRig& rig) { rig.region.length = 0; };
  const auto wraps = [](FastRig& rig) { rig.region.iova = UINT64_MAX - 10; };
  const auto unknown_right = [](FastRig& rig) { rig.region.access = 1u << 30; };
  const auto inconsistent = [](FastRig& rig) { rig.region.access = roce::kAccessRemoteWrite; };
  const auto plain_region = [](FastRig& rig) { rig.region.key = rig.key(); };
  const auto no_region = [](FastRig& rig) { rig.region.key = rig.invalid_key(); };
  const auto other_domain = [](FastRig& rig) {
    const auto pd = rig.engine().allocate_pd();
    rig.region.key = rig.engine().allocate_fast_memory(pd, 1024)->key;
  };
  const auto valid = [](FastRig& rig) {
    rig.register_it(1);
    (void)rig.sent();
    (void)rig.send_completions();
  };
  const std::array<std::function<void(FastRig&)>, 10> changes{
      other_base,   too_long,     empty,     wraps,        unknown_right,
      inconsistent, plain_region, no_region, other_domain, valid};
  for (std::size_t i = 0; i < changes.size(); ++i) {
    SCOPED_TRACE(i);
    FastRig rig;
    changes[i](rig);
    rig.register_it(5);
    (void)rig.sent();
    EXPECT_THAT(rig.send_completions(), ElementsAre(Completed(5u, WcStatus::mw_bind_err)));
    EXPECT_EQ(rig.qp().state(), QpState::err);
  }
}

TEST(FastRegions, CanBeInvalidatedByThePeer) {
  FastRig rig;
  rig.register_it(1);
  (void)rig.sent();
  rig.post_recv(1, 64, 0);
  Packet send = packet(Opcode::rc_send_only_with_invalidate, kPsn, pattern(8));
  send.headers.ieth.rkey = number(rig.region.key);
  rig.inject(send);
  EXPECT_THAT(rig.sent(), ElementsAre(IsAck(kPsn, 1u)));
  rig.inject(rig.write(kPsn + 1));
  EXPECT_THAT(rig.sent(), ElementsAre(IsNak(kPsn + 1, NakCode::remote_access_error)));
}

TEST(FastRegions, AreDeregisteredByAnyGenerationOfTheKey) {
  FastRig rig;
  rig.register_it(1);
  (void)rig.sent();
  EXPECT_TRUE(rig.engine().deregister_memory(roce::next_generation(rig.region.key)));
  rig.inject(rig.write(kPsn));
  EXPECT_THAT(rig.sent(), ElementsAre(IsNak(kPsn, NakCode::remote_access_error)));
}

TEST(FastRegions, AllocationChecks) {
  Rig rig;
  EXPECT_FALSE(rig.engine().allocate_fast_memory(rig.pd(), 0));
  EXPECT_FALSE(rig.engine().allocate_fast_memory(roce::ProtectionDomain{999}, 10));
  EXPECT_FALSE(rig.engine().allocate_window(rig.pd(), roce::MemoryKind::region));
  EXPECT_FALSE(
      rig.engine().allocate_window(roce::ProtectionDomain{999}, roce::MemoryKind::window_type_1));
}

TEST(FastRegions, ListsAndInlineDataAreRefused) {
  FastRig rig;
  const std::array<roce::Sge, 1> list{{{.addr = rig.va(), .length = 8, .lkey = rig.key()}}};
  EXPECT_EQ(rig.post({.sg_list = list, .opcode = WrOpcode::reg_mr, .fast_region = rig.region}),
            PostResult::invalid_request);
  EXPECT_EQ(rig.post({.opcode = WrOpcode::local_inv, .send_flags = roce::kSendInline}),
            PostResult::invalid_request);
  Rig datagrams({.qp_type = roce::QpType::ud});
  EXPECT_EQ(datagrams.post({.opcode = WrOpcode::local_inv, .ah = datagrams.ah()}),
            PostResult::invalid_request);
}

TEST(LocalInvalidate, OfWhatCannotBeIsAnError) {
  for (const bool known : {true, false}) {
    FastRig rig;
    rig.region.key = known ? rig.key() : rig.invalid_key();
    rig.invalidate(1);
    (void)rig.sent();
    EXPECT_THAT(rig.send_completions(), ElementsAre(Completed(1u, WcStatus::mw_bind_err)));
    EXPECT_EQ(rig.counters().memory_request_errors.value(), 1u);
  }
}

TEST(LocalRequests, TakeNoPsnAndCompleteInOrder) {
  FastRig rig;
  rig.post_send(1, WrOpcode::rdma_write, 8);
  rig.register_it(2);
  rig.post_send(3, WrOpcode::rdma_write, 8);
  EXPECT_THAT(rig.sent(), ElementsAre(IsPacket(Opcode::rc_rdma_write_only, kSendPsn),
                                      IsPacket(Opcode::rc_rdma_write_only, kSendPsn + 1)));
  EXPECT_EQ(rig.counters().fast_registrations.value(), 1u);
  EXPECT_THAT(rig.send_completions(), IsEmpty()) << "what is before it is not complete";
  rig.inject(ack(kSendPsn));
  EXPECT_THAT(rig.send_completions(),
              ElementsAre(Completed(1u, WcStatus::success), Completed(2u, WcStatus::success)));
  rig.inject(ack(kSendPsn + 1));
  EXPECT_THAT(rig.send_completions(), ElementsAre(Completed(3u, WcStatus::success)));
}

TEST(LocalRequests, AreExecutedOnceHoweverOftenOthersAreSent) {
  FastRig rig;
  rig.post_send(1, WrOpcode::rdma_write, 8);
  rig.register_it(2);
  rig.post_send(3, WrOpcode::rdma_write, 8);
  (void)rig.sent();
  rig.inject(nak(kSendPsn, NakCode::psn_sequence_error));
  for (int i = 0; i < 2; ++i) {
    EXPECT_THAT(rig.sent(), ElementsAre(IsPacket(Opcode::rc_rdma_write_only, kSendPsn),
                                        IsPacket(Opcode::rc_rdma_write_only, kSendPsn + 1)));
    rig.advance(10 * kNsPerMs);  // beyond the timeout
  }
  EXPECT_EQ(rig.counters().fast_registrations.value(), 1u);
  rig.inject(ack(kSendPsn + 1));
  EXPECT_THAT(rig.send_completions(),
              ElementsAre(Completed(1u, WcStatus::success), Completed(2u, WcStatus::success),
                          Completed(3u, WcStatus::success)));
}

TEST(LocalRequests, InvalidationWaitsForAllBeforeIt) {
  FastRig rig;
  rig.register_it(1);
  const std::array<roce::Sge, 1> list{{{.addr = 0x7000, .length = 32, .lkey = rig.region.key}}};
  ASSERT_EQ(rig.post({.wr_id = 2, .sg_list = list, .opcode = WrOpcode::send}), PostResult::ok);
  rig.invalidate(3);
  rig.post_send(4, WrOpcode::rdma_write, 8);
  EXPECT_THAT(rig.sent(), ElementsAre(IsPacket(Opcode::rc_send_only, kSendPsn)));
  // Sent again, the SEND still finds its key.
  rig.inject(nak(kSendPsn, NakCode::psn_sequence_error));
  EXPECT_THAT(rig.sent(), ElementsAre(IsPacket(Opcode::rc_send_only, kSendPsn)));
  EXPECT_EQ(rig.counters().local_invalidations.value(), 0u);
  rig.inject(ack(kSendPsn));
  EXPECT_THAT(rig.sent(), ElementsAre(IsPacket(Opcode::rc_rdma_write_only, kSendPsn + 1)));
  EXPECT_THAT(rig.send_completions(),
              ElementsAre(Completed(1u, WcStatus::success), Completed(2u, WcStatus::success),
                          Completed(3u, WcStatus::success)));
}

TEST(LocalRequests, FenceWaitsForResponses) {
  for (const bool fenced : {true, false}) {
    FastRig rig;
    rig.post_send(1, WrOpcode::rdma_read, 8);
    rig.register_it(2, fenced ? std::uint32_t{roce::kSendFence} : 0u);
    (void)rig.sent();
    EXPECT_EQ(rig.counters().fast_registrations.value(), fenced ? 0u : 1u);
    rig.inject(read_response(Opcode::rc_rdma_read_response_only, kSendPsn, pattern(8)));
    (void)rig.sent();
    EXPECT_EQ(rig.counters().fast_registrations.value(), 1u);
    EXPECT_THAT(rig.send_completions(),
                ElementsAre(Completed(1u, WcStatus::success), Completed(2u, WcStatus::success)));
  }
}

TEST(LocalRequests, FailureWaitsForItsTurnAndStopsWhatIsBehind) {
  FastRig rig;
  rig.post_send(1, WrOpcode::rdma_write, 8);
  rig.region.length = 0;
  rig.register_it(2);
  rig.post_send(3, WrOpcode::rdma_write, 8);
  EXPECT_THAT(rig.sent(), ElementsAre(IsPacket(Opcode::rc_rdma_write_only, kSendPsn)));
  EXPECT_THAT(rig.send_completions(), IsEmpty());
  EXPECT_EQ(rig.qp().state(), QpState::rts);
  rig.inject(ack(kSendPsn));
  EXPECT_THAT(rig.send_completions(),
              ElementsAre(Completed(1u, WcStatus::success), Completed(2u, WcStatus::mw_bind_err),
                          Completed(3u, WcStatus::wr_flush_err)));
  EXPECT_EQ(rig.qp().state(), QpState::err);
}

TEST(LocalRequests, WaitInSqd) {
  FastRig rig;
  ASSERT_TRUE(rig.qp().modify({.qp_state = QpState::sqd}, roce::kQpState));
  rig.register_it(1);
  EXPECT_THAT(rig.sent(), IsEmpty());
  EXPECT_EQ(rig.counters().fast_registrations.value(), 0u);
  ASSERT_TRUE(rig.qp().modify({.qp_state = QpState::rts}, roce::kQpState));
  (void)rig.sent();
  EXPECT_THAT(rig.send_completions(), ElementsAre(Completed(1u, WcStatus::success)));
}

TEST(LocalRequests, ManyInARowComplete) {
  FastRig rig({.max_send_wr = 4096, .cq_capacity = 8192});
  for (std::uint64_t i = 0; i < 4096; ++i) {
    if (i % 2 == 0) {
      rig.register_it(i);
    } else {
      rig.invalidate(i);
    }
  }
  (void)rig.sent();
  const auto done = rig.send_completions();
  ASSERT_EQ(done.size(), 4096u);
  for (std::size_t i = 0; i < done.size(); ++i) {
    ASSERT_THAT(done[i], Completed(i, WcStatus::success));
  }
}

}  // namespace
}  // namespace rockhopper::test::fast_region_test
