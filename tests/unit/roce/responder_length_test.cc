// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
// Payload lengths by opcode, and lengths that a RETH promises.
#include <algorithm>

#include "tests/unit/roce/rig.h"

namespace rockhopper::test::responder_length_test {
namespace {

using roce::QpState;
using ::testing::ElementsAre;
using wire::NakCode;
using wire::Opcode;

constexpr std::uint32_t kPsn = 0x020000;
constexpr std::uint32_t kMtu = 256;

struct LengthCase {
  const char* name;
  std::vector<std::pair<Opcode, std::uint32_t>> packets;
  bool allowed;
};

class Lengths : public ::testing::TestWithParam<LengthCase> {};

/// Only the last packet of a case may be wrong.
TEST_P(Lengths, Clause9_7_4_LengthsFitTheOpcode) {
  const LengthCase& row = GetParam();
  Rig rig;
  rig.post_recv(1, 16384, 0);
  std::uint32_t total = 0;
  for (const auto& [opcode, length] : row.packets) {
    total += length;
  }
  std::uint32_t psn = kPsn;
  for (const auto& [opcode, length] : row.packets) {
    const wire::Reth reth{.va = rig.va(), .rkey = rig.rkey(), .length = total};
    ASSERT_EQ(rig.qp().state(), QpState::rts);
    rig.inject(write_packet(opcode, psn++, reth, pattern(length)));
  }
  const auto answer = rig.sent();
  if (row.allowed) {
    EXPECT_EQ(rig.qp().state(), QpState::rts);
    EXPECT_EQ(rig.qp().query().rq_psn.value, psn);
  } else {
    EXPECT_EQ(rig.qp().state(), QpState::err);
    ASSERT_FALSE(answer.empty());
    EXPECT_THAT(answer.back(), IsNak(psn - 1, NakCode::invalid_request));
  }
}

INSTANTIATE_TEST_SUITE_P(
    Cases, Lengths,
    ::testing::Values(
        LengthCase{"SendOnlyEmpty", {{Opcode::rc_send_only, 0}}, true},
        LengthCase{"SendOnlyOneByte", {{Opcode::rc_send_only, 1}}, true},
        LengthCase{"SendOnlyFull", {{Opcode::rc_send_only, kMtu}}, true},
        LengthCase{"SendOnlyTooLong", {{Opcode::rc_send_only, kMtu + 1}}, false},
        LengthCase{"SendFirstShort", {{Opcode::rc_send_first, kMtu - 1}}, false},
        LengthCase{"SendFirstEmpty", {{Opcode::rc_send_first, 0}}, false},
        LengthCase{"SendFirstTooLong", {{Opcode::rc_send_first, kMtu + 4}}, false},
        LengthCase{"SendMiddleShort",
                   {{Opcode::rc_send_first, kMtu}, {Opcode::rc_send_middle, kMtu - 4}},
                   false},
        LengthCase{
            "SendLastEmpty", {{Opcode::rc_send_first, kMtu}, {Opcode::rc_send_last, 0}}, false},
        LengthCase{"SendLastImmediateEmpty",
                   {{Opcode::rc_send_first, kMtu}, {Opcode::rc_send_last_with_immediate, 0}},
                   false},
        LengthCase{
            "SendLastOneByte", {{Opcode::rc_send_first, kMtu}, {Opcode::rc_send_last, 1}}, true},
        LengthCase{
            "SendLastFull", {{Opcode::rc_send_first, kMtu}, {Opcode::rc_send_last, kMtu}}, true},
        LengthCase{"SendLastTooLong",
                   {{Opcode::rc_send_first, kMtu}, {Opcode::rc_send_last, kMtu + 1}},
                   false},
        LengthCase{"WriteOnlyEmpty", {{Opcode::rc_rdma_write_only, 0}}, true},
        LengthCase{"WriteOnlyFull", {{Opcode::rc_rdma_write_only, kMtu}}, true},
        LengthCase{"WriteOnlyTooLong", {{Opcode::rc_rdma_write_only, kMtu + 1}}, false},
        LengthCase{"WriteFirstShort", {{Opcode::rc_rdma_write_first, kMtu - 4}}, false},
        LengthCase{"WriteLastFull",
                   {{Opcode::rc_rdma_write_first, kMtu}, {Opcode::rc_rdma_write_last, kMtu}},
                   true},
        LengthCase{"WriteMiddleTooLong",
                   {{Opcode::rc_rdma_write_first, kMtu}, {Opcode::rc_rdma_write_middle, kMtu + 4}},
                   false}),
    [](const auto& row) { return row.param.name; });

struct RethCase {
  const char* name;
  std::uint32_t promised;
  std::vector<std::pair<Opcode, std::uint32_t>> packets;
};

class RethLengths : public ::testing::TestWithParam<RethCase> {};

TEST_P(RethLengths, Clause9_7_4_RethLengthDiffersFromThePayload) {
  const RethCase& row = GetParam();
  Rig rig;
  rig.post_recv(1, 64, 32768);
  std::uint32_t psn = kPsn;
  for (const auto& [opcode, length] : row.packets) {
    const wire::Reth reth{.va = rig.va(1024), .rkey = rig.rkey(), .length = row.promised};
    ASSERT_EQ(rig.qp().state(), QpState::rts);
    rig.inject(write_packet(opcode, psn++, reth, pattern(length)));
  }
  const auto answer = rig.sent();
  ASSERT_FALSE(answer.empty());
  EXPECT_THAT(answer.back(), IsNak(psn - 1, NakCode::invalid_request));
  EXPECT_EQ(rig.qp().state(), QpState::err);
  EXPECT_TRUE(rig.untouched_outside(1024, row.promised));
}

INSTANTIATE_TEST_SUITE_P(
    Cases, RethLengths,
    ::testing::Values(
        RethCase{"OnlyShorter", 16, {{Opcode::rc_rdma_write_only, 12}}},
        RethCase{"OnlyLonger", 8, {{Opcode::rc_rdma_write_only, 12}}},
        RethCase{"OnlyEmptyButPromised", 8, {{Opcode::rc_rdma_write_only, 0}}},
        RethCase{"OnlyFullButNonePromised", 0, {{Opcode::rc_rdma_write_only, 8}}},
        RethCase{"OnlyPromisesTwoPackets", kMtu + 8, {{Opcode::rc_rdma_write_only, kMtu}}},
        RethCase{"ImmediateShorter", 16, {{Opcode::rc_rdma_write_only_with_immediate, 12}}},
        RethCase{"FirstIsAll", kMtu, {{Opcode::rc_rdma_write_first, kMtu}}},
        RethCase{"FirstIsMore", kMtu - 1, {{Opcode::rc_rdma_write_first, kMtu}}},
        RethCase{"MiddleIsMore",
                 2 * kMtu,
                 {{Opcode::rc_rdma_write_first, kMtu}, {Opcode::rc_rdma_write_middle, kMtu}}},
        RethCase{"LastTooEarly",
                 3 * kMtu,
                 {{Opcode::rc_rdma_write_first, kMtu}, {Opcode::rc_rdma_write_last, kMtu}}},
        RethCase{"LastTooLong",
                 kMtu + 8,
                 {{Opcode::rc_rdma_write_first, kMtu}, {Opcode::rc_rdma_write_last, 12}}},
        RethCase{"LastEmpty",
                 kMtu + 8,
                 {{Opcode::rc_rdma_write_first, kMtu}, {Opcode::rc_rdma_write_last, 0}}},
        RethCase{"LastTooShort",
                 kMtu + 8,
                 {{Opcode::rc_rdma_write_first, kMtu}, {Opcode::rc_rdma_write_last, 4}}}),
    [](const auto& row) { return row.param.name; });

TEST(ResponderLength, Clause9_7_4_MessagesOverTwoGigabytesAreInvalid) {
  for (const auto& request :
       {write_packet(Opcode::rc_rdma_write_first, kPsn, {.va = 0, .rkey = 0, .length = 0x80000001},
                     pattern(kMtu)),
        read_request(kPsn, {.va = 0, .rkey = 0, .length = 0x80000001})}) {
    Rig rig;
    rig.inject(request);
    EXPECT_THAT(rig.sent(), ElementsAre(IsNak(kPsn, NakCode::invalid_request)));
  }
}

TEST(ResponderLength, PathMtuIsThatOfTheQueuePairNotThatOfThePort) {
  for (const roce::PathMtu mtu :
       {roce::PathMtu::mtu_256, roce::PathMtu::mtu_512, roce::PathMtu::mtu_1024,
        roce::PathMtu::mtu_2048, roce::PathMtu::mtu_4096}) {
    const std::uint32_t full = roce::bytes(mtu);
    Rig rig({.path_mtu = mtu});
    rig.post_recv(1, 2 * full, 0);
    rig.inject(packet(Opcode::rc_send_first, kPsn, pattern(full), false));
    rig.inject(packet(Opcode::rc_send_last, kPsn + 1, pattern(full, 2)));
    EXPECT_THAT(rig.sent(), ElementsAre(IsAck(kPsn + 1, 1u)));
    EXPECT_EQ(rig.memory_at(0, full), pattern(full));
    EXPECT_EQ(rig.memory_at(full, full), pattern(full, 2));
    rig.inject(packet(Opcode::rc_send_only, kPsn + 2, pattern(std::min(full + 1, 4097u))));
    EXPECT_THAT(rig.sent(), ElementsAre(IsNak(kPsn + 2, NakCode::invalid_request)));
  }
}

}  // namespace
}  // namespace rockhopper::test::responder_length_test
