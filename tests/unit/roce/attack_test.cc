// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
// The attacks that "ReDMArk: Bypassing RDMA Security Mechanisms" (USENIX Security 2021) found to
// work on RNICs, tried on an engine. docs/security.md says what each shows.
#include <cstdlib>
#include <random>
#include <set>
#include <string>

#include "tests/support/seed.h"
#include "tests/unit/roce/rig.h"

namespace rockhopper::test::attack_test {
namespace {

using roce::DropReason;
using roce::QpState;
using roce::WcStatus;
using roce::WrOpcode;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using wire::Opcode;

constexpr std::uint32_t kPsn = 0x020000;
constexpr std::uint32_t kOwnPsn = 0x001000;
constexpr std::size_t kWriteBytes = 8;

Packet write_to(const Rig& rig, std::uint32_t psn, std::uint32_t rkey, std::uint8_t content) {
  return write_packet(Opcode::rc_rdma_write_only, psn,
                      {.va = rig.va(), .rkey = rkey, .length = kWriteBytes},
                      pattern(kWriteBytes, content));
}

std::uint32_t wrong_key(const Rig& rig) { return static_cast<std::uint32_t>(rig.invalid_key()); }

/// The peer is still served, from `psn` on.
void expect_served(Rig& rig, std::uint32_t psn) {
  rig.inject(write_to(rig, psn, rig.rkey(), 77));
  EXPECT_THAT(rig.sent(), ElementsAre(::testing::Property(&Packet::psn, psn)));
  EXPECT_EQ(rig.memory_at(0, kWriteBytes), pattern(kWriteBytes, 77));
  EXPECT_EQ(rig.qp().state(), QpState::rts);
}

/// A1, A4: who has the addresses and the QPN, but not the key, has one guess a connection.
TEST(Attack, OneWrongKeyEndsTheConnection) {
  Rig rig;
  rig.inject(write_to(rig, kPsn, wrong_key(rig), 1));
  EXPECT_THAT(rig.sent(), ElementsAre(IsNak(kPsn, wire::NakCode::remote_access_error)));
  EXPECT_EQ(rig.qp().state(), QpState::err);
  rig.inject(write_to(rig, kPsn, rig.rkey(), 2));
  rig.inject(write_to(rig, kPsn + 1, rig.rkey(), 2));
  EXPECT_THAT(rig.sent(), IsEmpty());
  EXPECT_TRUE(rig.untouched_outside(0, 0)) << "the second guess was right, and too late";
}

/// V1 to V3: keys of successive registrations do not lead from one to the next.
TEST(Attack, KeysDoNotTellTheNextOne) {
  Rig rig;
  std::set<std::uint32_t> steps;
  std::uint32_t last = rig.rkey();
  constexpr int kRegions = 200;
  for (int i = 0; i < kRegions; ++i) {
    const auto key = static_cast<std::uint32_t>(rig.add_region(0, 64, 0).key);
    steps.insert(key - last);
    last = key;
  }
  EXPECT_GT(steps.size(), kRegions * 9u / 10) << "a few steps repeat by chance at most";
}

/// A1: packets with the right addresses, QPN and key, and any PSN but the one that is due.
TEST(Attack, InjectedRequestsNeedThePsn) {
  Rig rig;
  std::mt19937_64 random(seed());
  for (int i = 0; i < 5000; ++i) {
    const auto psn = static_cast<std::uint32_t>(random() & wire::kMask24);
    if (psn == kPsn) continue;
    rig.inject(write_to(rig, psn, rig.rkey(), 1));
    (void)rig.sent();
  }
  EXPECT_TRUE(rig.untouched_outside(0, 0));
  expect_served(rig, kPsn);
}

/// A3: a packet that would break the connection, from somebody who does not know its PSN.
TEST(Attack, FatalRequestsNeedThePsn) {
  Rig rig;
  std::mt19937_64 random(seed());
  for (int i = 0; i < 5000; ++i) {
    const auto psn = static_cast<std::uint32_t>(random() & wire::kMask24);
    if (psn == kPsn) continue;
    rig.inject(write_to(rig, psn, wrong_key(rig), 1));
    (void)rig.sent();
  }
  expect_served(rig, kPsn);
}

/// A1, A3: everything right but the source address.
TEST(Attack, StrangersAreNotHeard) {
  Rig rig;
  rig.post_send(1, WrOpcode::rdma_write, kWriteBytes);
  (void)rig.sent();
  const std::uint64_t before = rig.drops(DropReason::bad_address);
  const Damage stranger{.source_address = true};
  rig.inject(write_to(rig, kPsn, rig.rkey(), 1), stranger);
  rig.inject(write_to(rig, kPsn, wrong_key(rig), 1), stranger);
  rig.inject(nak(kOwnPsn, wire::NakCode::remote_operational_error), stranger);
  rig.inject(ack(kOwnPsn), stranger);
  EXPECT_EQ(rig.drops(DropReason::bad_address) - before, 4u);
  EXPECT_THAT(rig.sent(), IsEmpty());
  EXPECT_THAT(rig.send_completions(), IsEmpty()) << "neither failed nor completed by a stranger";
  EXPECT_TRUE(rig.untouched_outside(0, 0));
  rig.inject(ack(kOwnPsn, 1));
  EXPECT_THAT(rig.send_completions(), ElementsAre(Completed(1u, WcStatus::success)));
  expect_served(rig, kPsn);
}

/// A3: responses from somebody who does not know what is outstanding.
TEST(Attack, InjectedResponsesNeedAnOutstandingPsn) {
  Rig rig;
  rig.post_send(1, WrOpcode::rdma_read, kWriteBytes, 0);
  (void)rig.sent();
  std::mt19937_64 random(seed());
  for (int i = 0; i < 3000; ++i) {
    const auto psn = static_cast<std::uint32_t>(random() & wire::kMask24);
    if (psn == kOwnPsn) continue;
    rig.inject(nak(psn, wire::NakCode::remote_access_error));
    rig.inject(ack(psn));
    rig.inject(read_response(Opcode::rc_rdma_read_response_only, psn, pattern(kWriteBytes, 9)));
  }
  EXPECT_THAT(rig.send_completions(), IsEmpty());
  EXPECT_TRUE(rig.untouched_outside(0, 0));
  EXPECT_EQ(rig.qp().state(), QpState::rts);
  rig.inject(read_response(Opcode::rc_rdma_read_response_only, kOwnPsn, pattern(kWriteBytes, 4)));
  EXPECT_THAT(rig.send_completions(), ElementsAre(Completed(1u, WcStatus::success)));
}

/// V9: a key reaches what is of the connection's own protection domain only.
TEST(Attack, KeysOfOtherDomainsDoNotServe) {
  Rig rig;
  const auto other = rig.engine().allocate_pd();
  auto region =
      rig.engine().register_memory(other, rig.memory(), Rig::kMemoryBytes, roce::kAccessAll);
  ASSERT_TRUE(region.has_value());
  rig.inject(write_to(rig, kPsn, static_cast<std::uint32_t>(region->key), 1));
  EXPECT_THAT(rig.sent(), ElementsAre(IsNak(kPsn, wire::NakCode::remote_access_error)));
  EXPECT_TRUE(rig.untouched_outside(0, 0));
}

/// A5: no more queue pairs than were allowed, whoever asks.
TEST(Attack, QueuePairsAreLimited) {
  Rig rig;
  std::uint32_t made = 1;
  while (true) {
    const auto qp = rig.engine().create_qp({.pd = rig.pd(),
                                            .send_cq = &rig.send_cq(),
                                            .recv_cq = &rig.recv_cq(),
                                            .max_send_wr = 1,
                                            .max_recv_wr = 0});
    if (!qp) {
      EXPECT_EQ(qp.error().code, ErrorCode::exhausted);
      break;
    }
    ASSERT_LE(++made, 1024u);
  }
  expect_served(rig, kPsn);
}

/// How many packets a flood has. ROCKHOPPER_HOSTILE_PACKETS=10000000 is the long one.
std::uint64_t flood_packets() {
  const char* text = std::getenv("ROCKHOPPER_HOSTILE_PACKETS");
  return text == nullptr ? 200'000 : std::strtoull(text, nullptr, 10);
}

class Flood {
 public:
  Flood(Rig& rig, std::uint64_t seed) : rig_(rig), random_(seed) {}

  /// Anything but a request with the PSN that is due, in all degrees of knowledge about us.
  void inject_one(std::uint32_t due) {
    Packet bad = any_packet();
    if (bad.headers.bth.psn.value == due) bad.headers.bth.psn = wire::Psn::make(due + 1000);
    Damage damage;
    if (chance(4)) damage.icrc = true;
    if (chance(4)) damage.source_address = true;
    if (chance(8)) damage.opcode = static_cast<std::uint8_t>(random_());
    if (chance(8)) damage.pkey = static_cast<std::uint16_t>(random_());
    if (chance(8)) damage.version = static_cast<std::uint8_t>(random_() % 16);
    if (chance(8)) damage.extra_bytes = static_cast<std::int32_t>(random_() % 40) - 20;
    // With another opcode at the due PSN it would be heard, rightly.
    rig_.inject(bad, damage);
  }

 private:
  [[nodiscard]] bool chance(unsigned one_in) { return random_() % one_in == 0; }

  Packet any_packet() {
    const auto psn = static_cast<std::uint32_t>(random_() & wire::kMask24);
    const std::uint32_t key = chance(2) ? rig_.rkey() : static_cast<std::uint32_t>(random_());
    const wire::Reth reth{.va = chance(2) ? rig_.va(random_() % Rig::kMemoryBytes) : random_(),
                          .rkey = key,
                          .length = static_cast<std::uint32_t>(random_() % 4096)};
    Packet any = packet_of_kind(random_() % 7, psn, reth);
    if (chance(3)) {
      any.headers.bth.destination = wire::Qpn::make(static_cast<std::uint32_t>(random_()));
    }
    return any;
  }

  Packet packet_of_kind(std::uint64_t kind, std::uint32_t psn, const wire::Reth& reth) {
    const Payload payload = pattern(random_() % 256, 3);
    switch (kind) {
      case 0:
        return write_packet(Opcode::rc_rdma_write_only, psn, reth, payload);
      case 1:
        return read_request(psn, reth);
      case 2:
        return packet(Opcode::rc_send_only, psn, payload);
      case 3:
        return fetch_add(psn, reth.va, reth.rkey, 1);
      case 4:
        return nak(psn, static_cast<wire::NakCode>(random_() % 5));
      case 5:
        return read_response(Opcode::rc_rdma_read_response_only, psn, payload);
      default:
        return rnr_nak(psn, static_cast<std::uint8_t>(random_() % 32));
    }
  }

  Rig& rig_;
  std::mt19937_64 random_;
};

/// A6: a peer is served, byte for byte, through a flood; nothing else changes and nothing is left.
TEST(Attack, GoodPeerIsServedThroughAFlood) {
  constexpr std::uint64_t kPacketsAGood = 64;
  Rig rig;
  Flood flood(rig, seed());
  const std::uint64_t packets = flood_packets();
  std::uint32_t psn = kPsn;
  for (std::uint64_t i = 0; i < packets; ++i) {
    flood.inject_one(psn);
    if (i % kPacketsAGood != 0) continue;
    (void)rig.sent();
    const auto content = static_cast<std::uint8_t>(i / kPacketsAGood);
    rig.inject(write_to(rig, psn, rig.rkey(), content));
    ASSERT_EQ(rig.memory_at(0, kWriteBytes), pattern(kWriteBytes, content)) << i;
    psn = wire::Psn::make(psn + 1).value;
  }
  (void)rig.sent();
  EXPECT_TRUE(rig.untouched_outside(0, kWriteBytes));
  EXPECT_EQ(rig.qp().state(), QpState::rts);
  EXPECT_EQ(rig.counters().rx_write_requests.value(), psn - kPsn) << "those of the peer, no other";
}

}  // namespace
}  // namespace rockhopper::test::attack_test
