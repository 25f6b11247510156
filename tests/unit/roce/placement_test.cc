// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
// FLUSH and ATOMIC WRITE (IBTA vol. 1, annex A19), of both ends.
#include <cstring>

#include "roce/persistence.h"
#include "tests/unit/roce/rig.h"

namespace rockhopper::test::placement_test {
namespace {

using roce::PostResult;
using roce::WcOpcode;
using roce::WcStatus;
using roce::WrOpcode;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using wire::Feth;
using wire::NakCode;
using wire::Opcode;

constexpr std::uint32_t kPsn = 0x020000;
constexpr std::uint32_t kSendPsn = 0x001000;
constexpr std::uint32_t kFlushRights = roce::kAccessFlushGlobal | roce::kAccessFlushPersistent;

class RecordingPersistence final : public roce::Persistence {
 public:
  bool persist(std::byte* data, std::size_t length) noexcept override {
    at = data;
    bytes = length;
    ++calls;
    return works;
  }
  std::byte* at = nullptr;
  std::size_t bytes = 0;
  int calls = 0;
  bool works = true;
};

Packet atomic_write(std::uint32_t psn, wire::Reth reth, Payload payload = pattern(8)) {
  return write_packet(Opcode::rc_atomic_write, psn, reth, std::move(payload));
}

Packet flush(std::uint32_t psn, wire::Reth reth, std::uint8_t type, std::uint8_t level = 0) {
  Packet packet = write_packet(Opcode::rc_flush, psn, reth);
  packet.headers.feth = {.reserved26 = 0, .selectivity_level = level, .placement_type = type};
  return packet;
}

auto IsConfirmation(std::uint32_t psn) {
  return IsResponse(Opcode::rc_rdma_read_response_only, psn, Payload{});
}

struct FlushRig : Rig {
  explicit FlushRig(RecordingPersistence* persistence, std::uint32_t qp_access,
                    std::uint32_t region_access)
      : Rig({.access = qp_access, .persistence = persistence}),
        region(add_region(1024, 2048, region_access | roce::kAccessLocalWrite)) {}
  [[nodiscard]] wire::Reth reth(std::uint32_t length = 100) {
    return {.va = va(1500), .rkey = static_cast<std::uint32_t>(region.key), .length = length};
  }
  roce::MemoryRegion region;
};

TEST(AtomicWriteResponder, A19_WritesEightBytesAndConfirmsWithAnEmptyReadResponse) {
  Rig rig;
  rig.inject(atomic_write(kPsn, {.va = rig.va(64), .rkey = rig.rkey(), .length = 8}));
  const auto answer = rig.sent();
  ASSERT_THAT(answer, ElementsAre(IsConfirmation(kPsn)));
  EXPECT_EQ(answer[0].headers.aeth.msn, 1u);
  EXPECT_EQ(rig.memory_at(64, 8), pattern(8));
  EXPECT_TRUE(rig.untouched_outside(64, 8));
  EXPECT_EQ(rig.counters().rx_atomic_write_requests.value(), 1u);
}

TEST(AtomicWriteResponder, A19_DuplicateIsConfirmedAndNotExecutedAgain) {
  Rig rig;
  const auto request = atomic_write(kPsn, {.va = rig.va(64), .rkey = rig.rkey(), .length = 8});
  rig.inject(request);
  (void)rig.sent();
  std::memset(rig.memory() + 64, 0x55, 8);
  rig.inject(request);
  EXPECT_THAT(rig.sent(), ElementsAre(IsConfirmation(kPsn)));
  EXPECT_EQ(rig.memory_at(64, 8), Payload(8, 0x55));
  EXPECT_EQ(rig.counters().rx_atomic_write_requests.value(), 1u);
}

TEST(AtomicWriteResponder, A19_BadRequestsAreRefused) {
  struct Case {
    std::uint64_t offset;
    std::uint32_t length;
    std::size_t payload;
    bool right_key;
    std::uint32_t access;
    NakCode code;
  };
  const std::array cases{
      Case{4, 8, 8, true, roce::kAccessAll, NakCode::invalid_request},
      Case{0, 4, 8, true, roce::kAccessAll, NakCode::invalid_request},
      Case{0, 8, 4, true, roce::kAccessAll, NakCode::invalid_request},
      Case{0, 16, 16, true, roce::kAccessAll, NakCode::invalid_request},
      Case{0, 8, 8, true, roce::kAccessRemoteRead, NakCode::invalid_request},
      Case{0, 8, 8, false, roce::kAccessAll, NakCode::remote_access_error},
      Case{Rig::kMemoryBytes, 8, 8, true, roce::kAccessAll, NakCode::remote_access_error},
  };
  for (std::size_t i = 0; i < cases.size(); ++i) {
    SCOPED_TRACE(i);
    const Case& one = cases[i];
    Rig rig({.access = one.access});
    const std::uint32_t key =
        one.right_key ? rig.rkey() : static_cast<std::uint32_t>(rig.invalid_key());
    rig.inject(atomic_write(kPsn, {.va = rig.va(0) + one.offset, .rkey = key, .length = one.length},
                            pattern(one.payload)));
    EXPECT_THAT(rig.sent(), ElementsAre(IsNak(kPsn, one.code)));
    EXPECT_TRUE(rig.untouched_outside(0, 0));
  }
}

TEST(AtomicWriteRequester, A19_IsOnePacketAndEndsWithItsResponse) {
  for (const bool in_line : {false, true}) {
    Rig rig;
    const auto list =
        std::array<roce::Sge, 2>{{{.addr = rig.va(8), .length = 3, .lkey = rig.key()},
                                  {.addr = rig.va(100), .length = 5, .lkey = rig.key()}}};
    ASSERT_EQ(rig.post({.wr_id = 5,
                        .sg_list = list,
                        .opcode = WrOpcode::atomic_write,
                        .send_flags = in_line ? std::uint32_t{roce::kSendInline} : 0u,
                        .remote_addr = 0x100000,
                        .rkey = roce::MemoryKey{0x77}}),
              PostResult::ok);
    const auto sent = rig.sent();
    ASSERT_THAT(sent, ElementsAre(IsPacket(Opcode::rc_atomic_write, kSendPsn)));
    EXPECT_EQ(sent[0].headers.reth, (wire::Reth{.va = 0x100000, .rkey = 0x77, .length = 8}));
    Payload expected = rig.memory_at(8, 3);
    const Payload rest = rig.memory_at(100, 5);
    expected.insert(expected.end(), rest.begin(), rest.end());
    EXPECT_EQ(sent[0].payload, expected);
    rig.inject(ack(kSendPsn));
    EXPECT_THAT(rig.send_completions(), IsEmpty()) << "an ACK is not its response";
    rig.inject(read_response(Opcode::rc_rdma_read_response_only, kSendPsn, {}));
    const auto done = rig.send_completions();
    ASSERT_THAT(done, ElementsAre(Completed(5u, WcStatus::success)));
    EXPECT_EQ(done[0].opcode, WcOpcode::atomic_write);
  }
}

TEST(AtomicWriteRequester, A19_ResponseWithPayloadIsBad) {
  Rig rig;
  rig.post_send(1, WrOpcode::atomic_write, 8);
  (void)rig.sent();
  rig.inject(read_response(Opcode::rc_rdma_read_response_only, kSendPsn, pattern(8)));
  EXPECT_THAT(rig.send_completions(), ElementsAre(Completed(1u, WcStatus::bad_resp_err)));
}

TEST(AtomicWriteRequester, A19_OtherLengthsAndPlacesAreNotPosted) {
  Rig rig;
  const auto post = [&](std::uint32_t length, std::uint64_t remote) {
    const std::array<roce::Sge, 1> list{{{.addr = rig.va(), .length = length, .lkey = rig.key()}}};
    return rig.post({.sg_list = list, .opcode = WrOpcode::atomic_write, .remote_addr = remote});
  };
  EXPECT_EQ(post(4, 0x1000), PostResult::invalid_request);
  EXPECT_EQ(post(16, 0x1000), PostResult::invalid_request);
  EXPECT_EQ(post(8, 0x1004), PostResult::invalid_request);
  EXPECT_EQ(post(8, 0x1008), PostResult::ok);
}

TEST(FlushResponder, A19_GlobalVisibilityIsConfirmedWithoutPersisting) {
  RecordingPersistence persistence;
  FlushRig rig(&persistence, roce::kAccessQp, kFlushRights);
  rig.inject(flush(kPsn, rig.reth(), Feth::kGlobalVisibility));
  EXPECT_THAT(rig.sent(), ElementsAre(IsConfirmation(kPsn)));
  EXPECT_EQ(persistence.calls, 0);
  EXPECT_EQ(rig.counters().rx_flush_requests.value(), 1u);
}

TEST(FlushResponder, A19_PersistsTheRangeOrTheRegion) {
  for (const std::uint8_t level : {Feth::kMemoryRegionRange, Feth::kMemoryRegion}) {
    RecordingPersistence persistence;
    FlushRig rig(&persistence, roce::kAccessQp, kFlushRights);
    rig.inject(flush(kPsn, rig.reth(), Feth::kPersistence | Feth::kGlobalVisibility, level));
    EXPECT_THAT(rig.sent(), ElementsAre(IsConfirmation(kPsn)));
    const bool whole = level == Feth::kMemoryRegion;
    EXPECT_EQ(persistence.at, reinterpret_cast<std::byte*>(rig.memory() + (whole ? 1024 : 1500)));
    EXPECT_EQ(persistence.bytes, whole ? 2048u : 100u);
    EXPECT_EQ(persistence.calls, 1);
  }
}

TEST(FlushResponder, A19_DuplicateIsConfirmedOnly) {
  RecordingPersistence persistence;
  FlushRig rig(&persistence, roce::kAccessQp, kFlushRights);
  const auto request = flush(kPsn, rig.reth(), Feth::kPersistence);
  rig.inject(request);
  (void)rig.sent();
  rig.inject(request);
  EXPECT_THAT(rig.sent(), ElementsAre(IsConfirmation(kPsn)));
  EXPECT_EQ(persistence.calls, 1);
}

TEST(FlushResponder, A19_NeedsTheRightsOfQueuePairAndRegion) {
  struct Case {
    std::uint32_t qp, region;
    std::uint8_t type;
    NakCode code;
  };
  const std::array cases{
      Case{roce::kAccessAll, kFlushRights, Feth::kGlobalVisibility, NakCode::invalid_request},
      Case{roce::kAccessAll | roce::kAccessFlushGlobal, kFlushRights, Feth::kPersistence,
           NakCode::invalid_request},
      Case{roce::kAccessQp, roce::kAccessAll, Feth::kGlobalVisibility,
           NakCode::remote_access_error},
      Case{roce::kAccessQp, roce::kAccessFlushGlobal, Feth::kPersistence,
           NakCode::remote_access_error},
  };
  for (std::size_t i = 0; i < cases.size(); ++i) {
    SCOPED_TRACE(i);
    RecordingPersistence persistence;
    FlushRig rig(&persistence, cases[i].qp, cases[i].region);
    rig.inject(flush(kPsn, rig.reth(), cases[i].type));
    EXPECT_THAT(rig.sent(), ElementsAre(IsNak(kPsn, cases[i].code)));
    EXPECT_EQ(persistence.calls, 0);
  }
}

TEST(FlushResponder, A19_ReservedTypesAndLevelsAreInvalid) {
  for (const auto& [type, level] : std::initializer_list<std::pair<std::uint8_t, std::uint8_t>>{
           {0, 0}, {4, 0}, {Feth::kGlobalVisibility, 2}, {Feth::kGlobalVisibility, 3}}) {
    RecordingPersistence persistence;
    FlushRig rig(&persistence, roce::kAccessQp, kFlushRights);
    rig.inject(flush(kPsn, rig.reth(), type, level));
    EXPECT_THAT(rig.sent(), ElementsAre(IsNak(kPsn, NakCode::invalid_request)));
  }
}

TEST(FlushResponder, A19_BeyondTheRegionIsAnAccessError) {
  RecordingPersistence persistence;
  FlushRig rig(&persistence, roce::kAccessQp, kFlushRights);
  rig.inject(flush(kPsn, rig.reth(2000), Feth::kPersistence));
  EXPECT_THAT(rig.sent(), ElementsAre(IsNak(kPsn, NakCode::remote_access_error)));
}

TEST(FlushResponder, A19_FailureToPersistIsToldToThePeer) {
  RecordingPersistence persistence;
  persistence.works = false;
  FlushRig rig(&persistence, roce::kAccessQp, kFlushRights);
  rig.inject(flush(kPsn, rig.reth(), Feth::kPersistence));
  EXPECT_THAT(rig.sent(), ElementsAre(IsNak(kPsn, NakCode::remote_operational_error)));
}

TEST(FlushResponder, PersistentRegionsNeedAWayToPersist) {
  Rig rig;
  EXPECT_FALSE(rig.engine().register_memory(
      rig.pd(), rig.memory(), 64, roce::kAccessLocalWrite | roce::kAccessFlushPersistent));
  EXPECT_TRUE(rig.engine().register_memory(rig.pd(), rig.memory(), 64,
                                           roce::kAccessLocalWrite | roce::kAccessFlushGlobal));
}

TEST(FlushRequester, A19_SaysWhatAndHowAndEndsWithItsResponse) {
  Rig rig;
  ASSERT_EQ(rig.post({.wr_id = 3,
                      .opcode = WrOpcode::flush,
                      .remote_addr = 0x123456,
                      .rkey = roce::MemoryKey{0x99},
                      .flush = {.length = 1 << 20,
                                .placement_type = Feth::kPersistence,
                                .selectivity_level = Feth::kMemoryRegion}}),
            PostResult::ok);
  rig.post_send(4, WrOpcode::rdma_write, 8);
  const auto sent = rig.sent();
  ASSERT_THAT(sent, ElementsAre(IsPacket(Opcode::rc_flush, kSendPsn),
                                IsPacket(Opcode::rc_rdma_write_only, kSendPsn + 1)));
  EXPECT_EQ(sent[0].headers.reth, (wire::Reth{.va = 0x123456, .rkey = 0x99, .length = 1 << 20}));
  EXPECT_EQ(sent[0].headers.feth, (Feth{.reserved26 = 0,
                                        .selectivity_level = Feth::kMemoryRegion,
                                        .placement_type = Feth::kPersistence}));
  rig.inject(read_response(Opcode::rc_rdma_read_response_only, kSendPsn, {}));
  const auto done = rig.send_completions();
  ASSERT_THAT(done, ElementsAre(Completed(3u, WcStatus::success)));
  EXPECT_EQ(done[0].opcode, WcOpcode::flush);
  EXPECT_EQ(done[0].byte_len, 0u);
}

TEST(FlushRequester, A19_SenselessOnesAreNotPosted) {
  Rig rig;
  const auto post = [&](roce::FlushInfo info) {
    return rig.post({.opcode = WrOpcode::flush, .flush = info});
  };
  EXPECT_EQ(post({.length = 1, .placement_type = 0}), PostResult::invalid_request);
  EXPECT_EQ(post({.length = 1, .placement_type = 4}), PostResult::invalid_request);
  EXPECT_EQ(post({.length = 1, .selectivity_level = 2}), PostResult::invalid_request);
  EXPECT_EQ(post({.length = (1u << 31) + 1}), PostResult::invalid_request);
  EXPECT_EQ(post({.length = 1u << 31}), PostResult::ok);
}

}  // namespace
}  // namespace rockhopper::test::placement_test
