// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
// Keys, bounds and rights of what a peer asks for.
#include <cstring>

#include "tests/unit/roce/rig.h"

namespace rockhopper::test::responder_access_test {
namespace {

using roce::AsyncEventType;
using roce::QpState;
using roce::WcStatus;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using wire::NakCode;
using wire::Opcode;

constexpr std::uint32_t kPsn = 0x020000;
constexpr std::uint32_t kMtu = 256;

/// The requests that name memory, each for `length` bytes (atomics always 8).
enum class Kind { write, write_immediate, write_first, read, compare_swap, fetch_add };

Packet request(Kind kind, std::uint64_t va, std::uint32_t rkey, std::uint32_t length) {
  const wire::Reth reth{.va = va, .rkey = rkey, .length = length};
  switch (kind) {
    case Kind::write:
      return write_packet(Opcode::rc_rdma_write_only, kPsn, reth, pattern(length));
    case Kind::write_immediate:
      return write_packet(Opcode::rc_rdma_write_only_with_immediate, kPsn, reth, pattern(length));
    case Kind::write_first:
      return write_packet(Opcode::rc_rdma_write_first, kPsn,
                          {.va = va, .rkey = rkey, .length = kMtu + length}, pattern(kMtu));
    case Kind::read:
      return read_request(kPsn, reth);
    case Kind::compare_swap:
      return compare_swap(kPsn, va, rkey, 0, 1);
    case Kind::fetch_add:
      break;
  }
  return fetch_add(kPsn, va, rkey, 1);
}

const char* name_of(Kind kind) {
  static constexpr const char* kNames[] = {"Write", "WriteImmediate", "WriteFirst",
                                           "Read",  "CompareSwap",    "FetchAdd"};
  return kNames[static_cast<int>(kind)];
}

std::uint32_t right_of(Kind kind) {
  switch (kind) {
    case Kind::read:
      return roce::kAccessRemoteRead;
    case Kind::compare_swap:
    case Kind::fetch_add:
      return roce::kAccessRemoteAtomic;
    default:
      return roce::kAccessRemoteWrite;
  }
}

class MemoryRequest : public ::testing::TestWithParam<Kind> {
 protected:
  void expect_refused(Rig& rig, const Packet& packet, NakCode code) {
    rig.post_recv(77, 64, 60000);
    rig.inject(packet);
    EXPECT_THAT(rig.sent(), ElementsAre(IsNak(kPsn, code)));
    EXPECT_EQ(rig.qp().state(), QpState::err);
    EXPECT_TRUE(rig.untouched_outside(0, 0));
    EXPECT_THAT(rig.recv_completions(), ElementsAre(Completed(77u, WcStatus::wr_flush_err)));
    EXPECT_EQ(rig.counters().send_nak.value(), 1u);
    EXPECT_EQ(rig.drops(roce::DropReason::refused_request), 1u);
  }
};

TEST_P(MemoryRequest, Clause9_7_4_UnknownKey) {
  for (const std::uint32_t flip : {0x00000001u, 0x00010000u, 0x80000000u, 0xffffffffu}) {
    Rig rig;
    expect_refused(rig, request(GetParam(), rig.va(), rig.rkey() ^ flip, 8),
                   NakCode::remote_access_error);
  }
}

TEST_P(MemoryRequest, Clause9_7_4_KeyOfAnotherProtectionDomain) {
  Rig rig;
  const auto other = rig.engine().allocate_pd();
  const auto region =
      rig.engine().register_memory(other, rig.memory(), Rig::kMemoryBytes, roce::kAccessAll);
  ASSERT_TRUE(region.has_value());
  expect_refused(rig, request(GetParam(), rig.va(), static_cast<std::uint32_t>(region->key), 8),
                 NakCode::remote_access_error);
}

TEST_P(MemoryRequest, Clause9_7_4_DeregisteredKey) {
  Rig rig;
  const auto region = rig.add_region(0, 4096, roce::kAccessAll);
  ASSERT_TRUE(rig.engine().deregister_memory(region.key).has_value());
  expect_refused(rig, request(GetParam(), rig.va(), static_cast<std::uint32_t>(region.key), 8),
                 NakCode::remote_access_error);
}

TEST_P(MemoryRequest, Clause9_7_4_RegionWithoutTheRight) {
  Rig rig;
  // Everything but what the request needs, as far as rights go together.
  std::uint32_t access = roce::kAccessAll & ~right_of(GetParam());
  const auto region = rig.add_region(0, 4096, access);
  expect_refused(rig, request(GetParam(), rig.va(), static_cast<std::uint32_t>(region.key), 8),
                 NakCode::remote_access_error);
}

TEST_P(MemoryRequest, Clause9_7_4_QueuePairWithoutTheRight) {
  Rig rig({.access = roce::kAccessAll & ~right_of(GetParam())});
  expect_refused(rig, request(GetParam(), rig.va(), rig.rkey(), 8), NakCode::invalid_request);
}

TEST_P(MemoryRequest, Clause9_7_4_OutOfBounds) {
  constexpr std::size_t kStart = 4096;
  constexpr std::size_t kLength = 1024;
  // Lengths of the access and where it begins, from the region's start; all end or begin outside.
  struct Place {
    std::int64_t offset;
    std::uint32_t length;
  };
  for (const Place& place : {Place{-8, 8}, Place{-8, 16}, Place{kLength, 8}, Place{kLength - 8, 16},
                             Place{1 << 20, 8}, Place{-(1 << 20), 8}}) {
    Rig rig;
    const auto region = rig.add_region(kStart, kLength, roce::kAccessAll);
    const bool atomic = right_of(GetParam()) == roce::kAccessRemoteAtomic;
    const bool crosses_by_length = place.offset == kLength - 8;
    if (atomic && (crosses_by_length || place.length == 16)) continue;
    const auto va =
        static_cast<std::uint64_t>(static_cast<std::int64_t>(rig.va(kStart)) + place.offset);
    expect_refused(rig,
                   request(GetParam(), va, static_cast<std::uint32_t>(region.key), place.length),
                   NakCode::remote_access_error);
  }
}

TEST_P(MemoryRequest, Clause9_7_4_AddressPlusLengthOverflows) {
  for (const std::uint64_t va : {~std::uint64_t{7}, std::uint64_t{0}, std::uint64_t{1} << 63}) {
    Rig rig;
    expect_refused(rig, request(GetParam(), va, rig.rkey(), 64), NakCode::remote_access_error);
  }
}

TEST_P(MemoryRequest, WholeRegionIsInBounds) {
  constexpr std::size_t kStart = 4096;
  const bool first = GetParam() == Kind::write_first;
  for (const std::uint32_t length : {8u, kMtu}) {
    if (length != 8 && right_of(GetParam()) == roce::kAccessRemoteAtomic) continue;
    Rig rig;
    rig.post_recv(1, 8, 60000);
    const auto region = rig.add_region(kStart, length + (first ? kMtu : 0), roce::kAccessAll);
    rig.inject(request(GetParam(), rig.va(kStart), static_cast<std::uint32_t>(region.key), length));
    EXPECT_EQ(rig.qp().state(), QpState::rts);
    (void)rig.sent();
  }
}

/// A region that ends where the address space does.
TEST_P(MemoryRequest, IovaAtTheEndOfTheAddressSpace) {
  Rig rig;
  constexpr std::uint64_t kIova = ~std::uint64_t{4096 + 8 - 1};  // the last 8 bytes are not of it
  const auto region =
      rig.engine().register_memory_iova(rig.pd(), rig.memory(), 4096, roce::kAccessAll, kIova);
  ASSERT_TRUE(region.has_value()) << region.error().message;
  rig.post_recv(1, 8, 60000);
  const auto key = static_cast<std::uint32_t>(region->key);
  rig.inject(request(GetParam(), kIova + 4096 - 1024, key, 8));
  EXPECT_EQ(rig.qp().state(), QpState::rts);
  Packet beyond = request(GetParam(), kIova + 4096, key, 8);
  beyond.headers.bth.psn = wire::Psn{kPsn + 1};
  if (GetParam() == Kind::write_first) return;
  rig.inject(beyond);
  EXPECT_EQ(rig.qp().state(), QpState::err);
}

/// Without bytes no key is looked at (IBTA vol. 1, 9.7.4).
TEST_P(MemoryRequest, Clause9_7_4_ZeroLengthNeedsNoKey) {
  if (right_of(GetParam()) == roce::kAccessRemoteAtomic || GetParam() == Kind::write_first) return;
  Rig rig;
  rig.post_recv(1, 8, 60000);
  rig.inject(request(GetParam(), 12345, 0xffffffff, 0));
  EXPECT_EQ(rig.qp().state(), QpState::rts);
  const auto answer = rig.sent();
  ASSERT_EQ(answer.size(), 1u);
  EXPECT_EQ(answer[0].psn(), kPsn);
  EXPECT_TRUE(answer[0].payload.empty());
}

INSTANTIATE_TEST_SUITE_P(Kinds, MemoryRequest,
                         ::testing::Values(Kind::write, Kind::write_immediate, Kind::write_first,
                                           Kind::read, Kind::compare_swap, Kind::fetch_add),
                         [](const auto& row) { return name_of(row.param); });

TEST(ResponderAccess, Clause9_7_4_UnalignedAtomicIsInvalid) {
  for (std::uint64_t offset = 1; offset < 8; ++offset) {
    Rig rig;
    rig.inject(fetch_add(kPsn, rig.va(offset), rig.rkey(), 1));
    EXPECT_THAT(rig.sent(), ElementsAre(IsNak(kPsn, NakCode::invalid_request)));
    EXPECT_TRUE(rig.untouched_outside(0, 0));
  }
}

/// The region may be taken away between two packets of a message.
TEST(ResponderAccess, DeregistrationStopsAWriteInProgress) {
  Rig rig;
  const auto region = rig.add_region(0, 4096, roce::kAccessAll);
  const wire::Reth reth{
      .va = rig.va(), .rkey = static_cast<std::uint32_t>(region.key), .length = 2 * kMtu};
  rig.inject(write_packet(Opcode::rc_rdma_write_first, kPsn, reth, pattern(kMtu)));
  ASSERT_TRUE(rig.engine().deregister_memory(region.key).has_value());
  rig.inject(write_packet(Opcode::rc_rdma_write_last, kPsn + 1, reth, pattern(kMtu)));
  EXPECT_THAT(rig.sent(), ElementsAre(IsNak(kPsn + 1, NakCode::remote_access_error)));
  EXPECT_TRUE(rig.untouched_outside(0, kMtu));
}

TEST(ResponderAccess, DeregistrationStopsAReadThatIsNotAnswered) {
  Rig rig;
  const auto region = rig.add_region(0, 4096, roce::kAccessAll);
  rig.inject(read_request(
      kPsn, {.va = rig.va(), .rkey = static_cast<std::uint32_t>(region.key), .length = 2 * kMtu}));
  ASSERT_TRUE(rig.engine().deregister_memory(region.key).has_value());
  EXPECT_THAT(rig.sent(), ElementsAre(IsNak(kPsn, NakCode::remote_access_error)));
  EXPECT_EQ(rig.qp().state(), QpState::err);
}

/// The NAK stands at the READ's PSN, and so does its MSN, whatever was executed behind the READ.
TEST(ResponderAccess, Clause9_7_7_1_NakOfAnOwedReadCountsNothingBehindIt) {
  Rig rig;
  const auto region = rig.add_region(0, 4096, roce::kAccessAll);
  const wire::Reth here{.va = rig.va(), .rkey = rig.rkey(), .length = 8};
  const wire::Reth gone{
      .va = rig.va(), .rkey = static_cast<std::uint32_t>(region.key), .length = 8};
  rig.inject(write_packet(Opcode::rc_rdma_write_only, kPsn, here, pattern(8)));
  rig.inject(read_request(kPsn + 1, gone));
  rig.inject(read_request(kPsn + 2, here));
  rig.inject(write_packet(Opcode::rc_rdma_write_only, kPsn + 3, here, pattern(8)));
  ASSERT_TRUE(rig.engine().deregister_memory(region.key).has_value());
  const auto sent = rig.sent();
  ASSERT_THAT(sent, ElementsAre(IsNak(kPsn + 1, NakCode::remote_access_error)));
  EXPECT_EQ(sent[0].headers.aeth.msn, 1u);
}

/// A late copy of a READ that was answered long ago: the application may have taken the region
/// away since, and the connection must live on.
TEST(ResponderAccess, DuplicateReadOfADeregisteredRegionDoesNoHarm) {
  Rig rig;
  const auto region = rig.add_region(0, 4096, roce::kAccessAll);
  const auto read = read_request(
      kPsn, {.va = rig.va(), .rkey = static_cast<std::uint32_t>(region.key), .length = 16});
  rig.inject(read);
  EXPECT_THAT(rig.sent(), ElementsAre(IsPacket(Opcode::rc_rdma_read_response_only, kPsn)));
  ASSERT_TRUE(rig.engine().deregister_memory(region.key).has_value());
  rig.inject(read);
  EXPECT_THAT(rig.sent(), IsEmpty());
  EXPECT_EQ(rig.qp().state(), QpState::rts);
}

TEST(ResponderAccess, Clause9_9_3_RefusalRaisesTheAsynchronousEvent) {
  {
    Rig rig;
    rig.inject(read_request(kPsn, {.va = 0, .rkey = 1, .length = 1}));
    const auto events = rig.async_events();
    ASSERT_FALSE(events.empty());
    EXPECT_EQ(events[0].type, AsyncEventType::qp_access_err);
    EXPECT_EQ(events[0].qp_num, rig.qp().number());
  }
  {
    Rig rig;
    rig.inject(packet(Opcode::rc_send_last, kPsn, pattern(4)));
    const auto events = rig.async_events();
    ASSERT_FALSE(events.empty());
    EXPECT_EQ(events[0].type, AsyncEventType::qp_req_err);
  }
}

TEST(ResponderAccess, NothingIsExecutedBehindARefusal) {
  Rig rig;
  rig.inject(write_packet(Opcode::rc_rdma_write_only, kPsn, {.va = 0, .rkey = 1, .length = 8},
                          pattern(8)));
  rig.inject(write_packet(Opcode::rc_rdma_write_only, kPsn + 1,
                          {.va = rig.va(), .rkey = rig.rkey(), .length = 8}, pattern(8)));
  rig.inject(write_packet(Opcode::rc_rdma_write_only, kPsn,
                          {.va = rig.va(), .rkey = rig.rkey(), .length = 8}, pattern(8)));
  EXPECT_THAT(rig.sent(), ElementsAre(IsNak(kPsn, NakCode::remote_access_error)));
  EXPECT_TRUE(rig.untouched_outside(0, 0));
}

}  // namespace
}  // namespace rockhopper::test::responder_access_test
