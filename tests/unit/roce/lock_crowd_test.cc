// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
// Locks at a target with very many connections: what they may cost, and that their order is kept.
#include <algorithm>
#include <cstdlib>
#include <deque>
#include <string>
#include <vector>

#include "tests/sim/rng.h"
#include "tests/unit/roce/lock_rig.h"

namespace rockhopper::test::lock_crowd_test {
namespace {

using roce::DropReason;
using sim::Rng;
using wire::Lketh;
using wire::LockStatus;
using wire::Opcode;

constexpr std::uint32_t kPsn = 0x100;  ///< first of a connection
constexpr std::uint64_t kRetryNs = 50'000;

/// LK-25: queue pairs come and go, and what they leave is used again.
TEST(LockCrowd, QueuePairsThatAreGoneLeaveNothing) {
  LockRig rig;
  const ConnectionOptions options = LockRig::with_locks();
  const auto churn = [&](std::size_t at_a_time) {
    std::vector<roce::QueuePair*> made;
    for (std::size_t i = 0; i < at_a_time; ++i) {
      made.push_back(&rig.make_qp(options));
    }
    for (roce::QueuePair* qp : made) {
      rig.engine().destroy_qp(qp);
    }
  };
  churn(16);
  const std::size_t words = rig.engine().lock_service()->table.words();
  const std::size_t places = rig.engine().lock_service()->places();
  EXPECT_GE(words, 16u) << "each may wait for a word of its own";
  EXPECT_GE(places, 16u);
  for (int i = 0; i < 10'000 / 16; ++i) {
    churn(16);
  }
  EXPECT_EQ(rig.engine().lock_service()->table.words(), words);
  EXPECT_EQ(rig.engine().lock_service()->places(), places);
}

/// Also of one that waits when it is destroyed; and the next one waits in its place.
TEST(LockCrowd, AQueuePairThatIsDestroyedWhileItWaitsLeavesItsPlace) {
  LockRig rig(LockRig::with_locks({.locks = {.max_parked_scopes = 1}}));
  rig.hold_elsewhere();
  for (std::uint32_t i = 0; i < 100; ++i) {
    auto& other = rig.connect(kPsn);
    rig.to(other, rig.acquire(kPsn, {.psns = 2}));
    rig.to(other, rig.write(kPsn + 1, 4096, {1}));
    ASSERT_THAT(rig.sent(), testing::ElementsAre(IsSignOfLife(kPsn))) << i;
    rig.engine().destroy_qp(&other);
  }
  EXPECT_EQ(rig.engine().lock_service()->places(), 1u);
}

/// LK-25: 10,000 scopes wait, with packets up to the limit; others are told to come again, another
/// word is had at once; and in the end all of them have been executed.
TEST(LockCrowd, TenThousandScopesWait) {
  constexpr std::uint32_t kPlaces = 10'000;
  constexpr std::uint32_t kScopes = kPlaces + 100;
  constexpr std::uint32_t kSpacing = 1024;  // PSNs from one connection to the next
  constexpr std::uint32_t kHeldPackets = 1024;
  constexpr std::size_t kCounter = 4096;
  ConnectionOptions options = LockRig::with_locks({.locks = {.max_parked_scopes = kPlaces}});
  options.max_qp = kScopes + 8;
  options.max_held_packets = kHeldPackets;
  LockRig rig(options);
  rig.hold_elsewhere();
  std::vector<roce::QueuePair*> qps;
  const auto psn_of = [](std::uint32_t scope) { return (scope + 1) * kSpacing; };
  for (std::uint32_t i = 0; i < kScopes; ++i) {
    qps.push_back(&rig.connect(psn_of(i)));
  }
  const auto send = [&](std::uint32_t scope, bool acquire) {
    const std::uint32_t psn = psn_of(scope);
    if (acquire) rig.to(*qps[scope], rig.acquire(psn, {.psns = 2}));
    rig.to(*qps[scope], rig.add(psn + 1, kCounter, 1));
    rig.to(*qps[scope], rig.release(psn + 2));
  };
  for (std::uint32_t i = 0; i < kScopes; ++i) {
    send(i, true);
  }
  std::vector<std::uint32_t> refused;
  for (const Packet& packet : rig.sent()) {
    if (testing::Matches(IsRnrNak(packet.psn(), 12))(packet)) {
      EXPECT_EQ(packet.psn() % kSpacing, 0u) << "the acquire itself";
      refused.push_back(packet.psn() / kSpacing - 1);
    }
  }
  EXPECT_EQ(refused.size(), kScopes - kPlaces);
  EXPECT_EQ(rig.engine().lock_service()->places(), kPlaces);
  // No more than the limit is kept of what is behind them; the pool has not room for all.
  EXPECT_GE(rig.drops(DropReason::lock_no_room), kPlaces - kHeldPackets);

  rig.inject(rig.acquire(LockRig::kPsn, {.word = 8}));
  EXPECT_THAT(rig.sent(), testing::ElementsAre(IsGranted(LockRig::kPsn))) << "another word";
  rig.inject(rig.release(LockRig::kPsn + 1));
  (void)rig.sent();

  rig.poke(0, 0);
  rig.advance(2 * kRetryNs);
  std::uint32_t released = 0;
  for (bool moved = true; moved;) {
    moved = false;
    for (const Packet& packet : rig.sent()) {
      moved = true;
      const std::uint32_t scope = packet.psn() / kSpacing - 1;
      if (packet.opcode() == Opcode::lock_response) {
        released += packet.headers.lkaeth.status == LockStatus::released ? 1 : 0;
      } else if (packet.opcode() == Opcode::rc_acknowledge &&
                 packet.headers.aeth.kind() == wire::AethKind::nak) {
        send(scope, false);  // what was dropped
      }
    }
    if (!moved && !refused.empty()) {
      for (const std::uint32_t scope : refused) {
        send(scope, true);
      }
      refused.clear();
      moved = true;
    }
  }
  EXPECT_EQ(released, kScopes);
  EXPECT_EQ(rig.cell(kCounter), kScopes);
  EXPECT_TRUE(rig.word().is_free());
}

/// LK-28: writers, and readers behind them, get the word in the order in which their requests
/// arrive; readers join readers. LK-30: with increasing tokens. ROCKHOPPER_LOCK_GRANTS grants.
TEST(LockCrowd, GrantsAreInTheOrderOfArrival) {
  struct Peer {
    roce::QueuePair* qp = nullptr;
    std::uint32_t psn = 0;
    bool asked = false;
    bool holds = false;
    bool shared = false;
  };
  constexpr std::size_t kPeers = 31;
  constexpr unsigned kSpacingBits = 19;
  const char* wanted = std::getenv("ROCKHOPPER_LOCK_GRANTS");
  const std::uint64_t grants = wanted == nullptr ? 20'000 : std::strtoull(wanted, nullptr, 0);
  ASSERT_LT(grants / kPeers, 1u << (kSpacingBits - 2)) << "PSNs of each connection";
  LockRig rig;
  Rng rng(28);
  std::vector<Peer> peers(kPeers);
  for (std::uint32_t i = 0; i < kPeers; ++i) {
    peers[i].psn = (i + 1) << kSpacingBits;
    peers[i].qp = &rig.connect(peers[i].psn);
  }
  // The model: who holds it, and who waits.
  std::vector<std::size_t> holders;
  std::deque<std::size_t> queue;
  const auto may_join = [&](std::size_t peer) {
    return holders.empty() || (peers[peer].shared && peers[holders[0]].shared);
  };
  std::uint64_t granted = 0;
  std::uint64_t last_token = 0;
  while (granted < grants) {
    const std::size_t chosen = rng.between(0, kPeers - 1);
    Peer& peer = peers[chosen];
    std::vector<std::size_t> expected;
    if (peer.holds) {
      peer.holds = peer.asked = false;
      std::erase(holders, chosen);
      rig.to(*peer.qp, rig.release(peer.psn++));
    } else if (!peer.asked) {
      peer.asked = true;
      peer.shared = rng.chance(40);
      const auto subtype = peer.shared ? Lketh::kAcquireShared : Lketh::kAcquireExclusive;
      rig.to(*peer.qp, rig.acquire(peer.psn++, {.subtype = subtype}));
      queue.push_back(chosen);
    }
    while (!queue.empty() && may_join(queue.front())) {
      expected.push_back(queue.front());
      holders.push_back(queue.front());
      queue.pop_front();
    }
    std::vector<Packet> answers = rig.sent();
    std::erase_if(answers, [](const Packet& packet) {
      return packet.headers.lkaeth.status != LockStatus::granted;
    });
    std::ranges::sort(answers, {}, [](const Packet& p) { return p.headers.lkaeth.value; });
    ASSERT_EQ(answers.size(), expected.size()) << "after " << granted << " grants";
    for (std::size_t i = 0; i < answers.size(); ++i) {
      ASSERT_EQ((answers[i].psn() >> kSpacingBits) - 1, expected[i])
          << "after " << granted << " grants";
      ASSERT_GT(answers[i].headers.lkaeth.value, last_token);
      last_token = answers[i].headers.lkaeth.value;
      peers[expected[i]].holds = true;
      ++granted;
    }
  }
  EXPECT_EQ(rig.statistics().grants, granted);
}

}  // namespace
}  // namespace rockhopper::test::lock_crowd_test
