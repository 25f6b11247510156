// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
// Sessions, their ids and what remains of them (DC-4, DC-15, DC-26, DC-28, DC-31).
#include "dc/session_table.h"

#include <set>

#include <gtest/gtest.h>

#include "dc/message.h"

namespace rockhopper::dc {
namespace {

constexpr wire::Qpn kTarget{0xd00001};

Peer peer(std::uint32_t host, std::uint32_t initiator = 0xd00100, std::uint8_t stream = 0) {
  return {stack::IpAddress::from_ipv4(0x0a000000 + host), wire::Qpn{initiator}, stream};
}

class SessionTableTest : public ::testing::Test {
 protected:
  Session& open(const Peer& peer, std::uint64_t now_ns = 0, std::uint32_t nonce = 1) {
    EXPECT_TRUE(has_room(peer, now_ns));
    EXPECT_FALSE(table_.is_over_quota(peer));
    return table_.open(peer, 7, nonce, kTarget, now_ns);
  }
  /// What need not be remembered any more is forgotten first.
  bool has_room(const Peer& peer, std::uint64_t now_ns = 0) {
    table_.forget(now_ns);
    return table_.has_room(peer);
  }

  roce::SeededRandom random_{1};
  SessionTable table_{
      {.contexts = 4, .tombstones = 4, .per_host = 3, .tombstone_ns = 1000, .shard = 2}, random_};
};

TEST_F(SessionTableTest, IdNamesShardContextAndGeneration) {
  const Session& session = open(peer(1));
  EXPECT_EQ(session.id >> 56, 2u);
  EXPECT_LT(context_index(session.id), 4u);
  EXPECT_EQ(table_.find(session.id), &session);
  EXPECT_EQ(table_.find(peer(1)), &session);
}

TEST_F(SessionTableTest, StaleIdFindsNoOtherSession) {
  std::set<std::uint64_t> ids;
  for (std::uint32_t i = 0; i < 100; ++i) {
    Session& session = open(peer(i), i * 10'000ull);
    EXPECT_TRUE(ids.insert(session.id).second) << "an id came again";
    for (const std::uint64_t id : ids) {
      EXPECT_EQ(table_.find(id), id == session.id ? &session : nullptr);
    }
    table_.close(session, wire::Psn{i}, i * 10'000ull);
    EXPECT_EQ(table_.find(session.id), nullptr);
  }
}

TEST_F(SessionTableTest, IdsBeyondThePoolFindNothing) {
  const Session& session = open(peer(1));
  EXPECT_EQ(table_.find(session.id + (1ull << 32) * 4), nullptr);
  EXPECT_EQ(table_.find(~0ull), nullptr);
  EXPECT_EQ(table_.find(0ull), nullptr);
}

TEST_F(SessionTableTest, TombstoneKeepsWhatWasExecutedUntilItsTimeIsOver) {
  Session& session = open(peer(1), 0, 42);
  const std::uint64_t id = session.id;
  table_.close(session, wire::Psn{77}, 500);
  table_.forget(1499);
  const Session* tombstone = table_.find(peer(1));
  ASSERT_NE(tombstone, nullptr);
  EXPECT_FALSE(tombstone->open);
  EXPECT_EQ(tombstone->id, id);
  EXPECT_EQ(tombstone->nonce, 42u);
  EXPECT_EQ(tombstone->final_psn, wire::Psn{77});
  table_.forget(1500);
  EXPECT_EQ(table_.find(peer(1)), nullptr);
}

TEST_F(SessionTableTest, RefusesWithoutContextsAndOpensAgainWhenOneIsFree) {
  Session& first = open(peer(1));
  for (std::uint32_t host = 2; host <= 4; ++host) {
    (void)open(peer(host));
  }
  EXPECT_EQ(table_.open_count(), 4u);
  EXPECT_FALSE(has_room(peer(5)));
  table_.close(first, {}, 0);
  EXPECT_TRUE(has_room(peer(5)));
}

/// What is still to be remembered is not forgotten for somebody new.
TEST_F(SessionTableTest, RefusesWhenTooMuchIsToBeRemembered) {
  for (std::uint32_t host = 1; host <= 8; ++host) {
    table_.close(open(peer(host)), {}, 100);
  }
  EXPECT_FALSE(has_room(peer(9), 1099));
  EXPECT_TRUE(has_room(peer(1), 1099)) << "is known";
  EXPECT_TRUE(has_room(peer(9), 1100));
}

TEST_F(SessionTableTest, QuotaIsOfAHost) {
  Session& first = open(peer(1, 0xd00100));
  (void)open(peer(1, 0xd00101));
  (void)open(peer(1, 0xd00101, 1));
  EXPECT_TRUE(table_.is_over_quota(peer(1, 0xd00102)));
  EXPECT_FALSE(table_.is_over_quota(peer(2)));
  table_.close(first, {}, 0);
  EXPECT_FALSE(table_.is_over_quota(peer(1, 0xd00102)));
}

TEST_F(SessionTableTest, OldestIsTheLeastRecentlyActive) {
  EXPECT_EQ(table_.oldest(), nullptr);
  Session& first = open(peer(1), 1);
  Session& second = open(peer(2), 2);
  EXPECT_EQ(table_.oldest(), &first);
  table_.touch(first, 3);
  EXPECT_EQ(table_.oldest(), &second);
  table_.close(second, {}, 4);
  EXPECT_EQ(table_.oldest(), &first);
}

TEST_F(SessionTableTest, ARestartedProcessIsANewIncarnation) {
  table_.close(open(peer(1)), {}, 0);
  const Session& again = table_.open(peer(1), 8, 1, kTarget, 0);
  EXPECT_EQ(again.incarnation, 8u);
  EXPECT_EQ(again.previous_incarnation, 7u);
}

/// DC-22: whatever comes and goes, the pool is whole afterwards.
TEST_F(SessionTableTest, ManySessionsLeaveThePoolFull) {
  std::uint64_t now_ns = 0;
  for (std::uint32_t i = 0; i < 10'000; ++i, now_ns += 400) {
    table_.close(open(peer(i % 1000), now_ns), {}, now_ns);
  }
  EXPECT_EQ(table_.open_count(), 0u);
  table_.forget(now_ns + 1000);
  EXPECT_EQ(table_.tombstone_count(), 0u);
  for (std::uint32_t host = 1; host <= 4; ++host) {
    (void)open(peer(host), now_ns + 1000);
  }
}

}  // namespace
}  // namespace rockhopper::dc
