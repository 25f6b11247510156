// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
// Clients that fall silent: what they held is free, and nothing that they had begun does harm later
// (DG-30, DG-32).
#include <algorithm>
#include <cstring>
#include <string>

#include <gtest/gtest.h>

#include "tests/dag/world.h"
#include "tests/sim/seeded_runs.h"

namespace rockhopper::sim::client_fence_test {
namespace {

using dag::Client;
using dag::Status;

constexpr std::uint64_t kLeaseNs = 20'000'000;

class Fences : public ::testing::Test {
 protected:
  static DagWorldConfig config() {
    DagWorldConfig config;
    config.network.pools = &pools();
    config.clients = 2;
    config.memory_bytes = 4096;
    config.store.quarantine_ns = 0;
    config.server.lease_ns = kLeaseNs;
    config.client.update_timeout_ns = 10 * kLeaseNs;
    return config;
  }
  void SetUp() override {
    (void)world.run(a, [](Client& c) {
      return c.create(bytes_of("k"), bytes_of("old"), {.capacity = 500}, 0);
    });
    (void)world.run(b, [](Client& c) { return c.read(bytes_of("k"), 0); });
  }
  [[nodiscard]] dag::RecordHeader header() {
    const auto found = server.store->lookup(bytes_of("k"));
    dag::RecordHeader header;
    std::memcpy(&header, server.store->memory().data() + found.place.address, sizeof header);
    return header;
  }
  [[nodiscard]] static std::string text_of(const DagClient::Kept& kept) {
    return {reinterpret_cast<const char*>(kept.data.data()), kept.data.size()};
  }
  /// The client's application stands still as soon as it has the lock.
  void die_with_lock() {
    ASSERT_EQ(a.client->update(bytes_of("k"), bytes_of("never"), 1), dag::Started::yes);
    ASSERT_TRUE(world.run_until([&] { return header().lock != 0; }));
    a.stopped = true;
  }

  DagWorld world{config()};
  DagServer& server = *world.servers[0];
  DagClient& a = *world.clients[0];
  DagClient& b = *world.clients[1];
};

// DG-32: the old value stays, and the lock is free after the lease.
TEST_F(Fences, ADeadWritersLockIsReleased) {
  die_with_lock();
  const std::uint64_t begun_ns = world.network.now_ns();
  const auto updated =
      world.run(b, [](Client& c) { return c.update(bytes_of("k"), bytes_of("new"), 2); });
  EXPECT_EQ(updated.result.status, Status::ok);
  EXPECT_GE(world.network.now_ns() - begun_ns, kLeaseNs / 2);
  EXPECT_EQ(updated.result.version.version, 2u);
  EXPECT_EQ(server.fenced.size(), 1u);
  EXPECT_EQ(server.server->counters().locks_released.value(), 1u);
  // He wakes up, and learns that he is fenced: his update is not made.
  a.stopped = false;
  ASSERT_TRUE(world.run_until([&] { return !a.lost.empty() && a.client->in_use() == 0; }));
  EXPECT_NE(a.kept.back().result.status, Status::ok);
  EXPECT_EQ(text_of(world.run(b, [](Client& c) { return c.read(bytes_of("k"), 3); })), "new");
  // And may come back.
  world.connect(a, 0);
  EXPECT_EQ(text_of(world.run(a, [](Client& c) { return c.read(bytes_of("k"), 4); })), "new");
  EXPECT_EQ(world.run(a, [](Client& c) { return c.update(bytes_of("k"), bytes_of("newer"), 5); })
                .result.status,
            Status::ok);
}

// DG-30: memory that a client may still write to is not another record's before he is fenced.
TEST_F(Fences, MemoryRestsWhileAWriterMayWrite) {
  die_with_lock();
  EXPECT_EQ(world.run(b, [](Client& c) { return c.erase(bytes_of("k"), 2); }).result.status,
            Status::ok);
  world.run_for(kLeaseNs / 2);
  EXPECT_TRUE(server.fenced.empty());
  EXPECT_LT(server.store->free_bytes(), world.config.memory_bytes);
  ASSERT_TRUE(
      world.run_until([&] { return server.store->free_bytes() == world.config.memory_bytes; }));
  EXPECT_EQ(server.fenced.size(), 1u);
  const auto made = world.run(b, [](Client& c) {
    return c.create(bytes_of("other"), bytes_of("value"), {.capacity = 500}, 3);
  });
  ASSERT_EQ(made.result.status, Status::ok);
  const std::vector<std::byte> before(server.store->memory().begin(), server.store->memory().end());
  a.stopped = false;
  ASSERT_TRUE(world.run_until([&] { return !a.lost.empty() && a.client->in_use() == 0; }));
  EXPECT_TRUE(std::equal(before.begin(), before.end(), server.store->memory().begin()));
}

// DG-30: while a change that was begun is not complete, the lease is not renewed twice more; thus
// its memory rests although the client is alive.
TEST_F(Fences, RenewalsWaitForWhatWasBegun) {
  // Nothing that the server sends arrives: what has been posted stays under way.
  ASSERT_EQ(a.client->update(bytes_of("k"), bytes_of("new"), 1), dag::Started::yes);
  ASSERT_TRUE(world.run_until([&] { return header().lock != 0; }));
  const std::uint64_t renewals = a.client->counters().renewals.value();
  world.network.node(0).cut(true);
  world.run_for(kLeaseNs / 2);
  EXPECT_LE(a.client->counters().renewals.value(), renewals + 1);
  EXPECT_GT(a.client->counters().renewals_held_up.value(), 0u);
  world.network.node(0).cut(false);
  ASSERT_TRUE(world.run_until([&] { return a.client->in_use() == 0; }));
  EXPECT_EQ(a.kept.back().result.status, Status::ok);
  EXPECT_TRUE(server.fenced.empty());
}

// DG-30: nor is it while somebody holds it for changes that he makes by himself.
TEST_F(Fences, AHeldLeaseIsRenewedOnceMore) {
  Client& client = *a.client;
  const auto posted = [&] { return client.counters().renewals.value(); };
  world.run_for(kLeaseNs / 2);
  const std::uint64_t since = client.lease(0).renewals();
  const std::uint64_t before = posted();
  ASSERT_TRUE(client.lease(0).hold(since));
  ASSERT_TRUE(client.lease(0).hold(since));
  ASSERT_EQ(world.run(b, [](Client& c) { return c.erase(bytes_of("k"), 2); }).result.status,
            Status::ok);
  world.run_for(kLeaseNs / 2);
  EXPECT_EQ(posted(), before + 1);
  EXPECT_LT(server.store->free_bytes(), world.config.memory_bytes);
  // Who holds what is older holds up nothing for longer.
  EXPECT_FALSE(client.lease(0).hold(since));
  const std::uint64_t later = client.lease(0).renewals();
  EXPECT_EQ(later, since + 1);
  ASSERT_TRUE(client.lease(0).hold(later));
  client.lease(0).unhold(since);
  world.run_for(kLeaseNs / 4);
  EXPECT_EQ(posted(), before + 1);
  client.lease(0).unhold(since);
  EXPECT_LE(client.next_deadline_ns(), world.network.now_ns());
  world.run_for(kLeaseNs / 2);
  EXPECT_EQ(posted(), before + 2);
  client.lease(0).unhold(later);
  world.run_for(kLeaseNs);
  EXPECT_GT(posted(), before + 3);
  EXPECT_EQ(server.store->free_bytes(), world.config.memory_bytes);
  EXPECT_TRUE(server.fenced.empty());
  EXPECT_FALSE(client.lease(0).hold(later));
  EXPECT_FALSE(client.lease(0).hold(client.lease(0).renewals() + 2));
}

// DG-30: what counts is what the server has seen: another connection may be ahead of a renewal that
// is still on its way.
TEST_F(Fences, ARenewalCountsWhenItIsComplete) {
  world.run_for(kLeaseNs / 2);
  const std::uint64_t complete = a.client->lease(0).renewals();
  const std::uint64_t posted = a.client->counters().renewals.value();
  // From now on no answer arrives.
  world.network.node(0).cut(true);
  world.run_for(kLeaseNs / 2);
  EXPECT_GE(a.client->counters().renewals.value(), posted + 2);
  EXPECT_EQ(a.client->lease(0).renewals(), complete);
  EXPECT_FALSE(a.client->lease(0).hold(complete));
  world.network.node(0).cut(false);
  ASSERT_TRUE(world.run_until([&] { return a.client->lease(0).renewals() >= complete + 2; }));
  EXPECT_TRUE(a.client->lease(0).hold(a.client->lease(0).renewals()));
}

// DG-35, DG-36: a client that its server may have fenced knows, before the server does it, however
// long the connection goes on trying: what it was doing at other servers must end too.
TEST_F(Fences, ALeaseEndsForTheClientFirst) {
  DagWorldConfig patient = config();
  patient.client.timeout = 16;
  DagWorld other(patient);
  DagClient& client = *other.clients[0];
  other.run_for(3 * kLeaseNs);
  EXPECT_TRUE(client.lost.empty());
  other.network.node(1).cut(true);
  ASSERT_TRUE(other.run_until([&] { return !client.lost.empty(); }));
  EXPECT_TRUE(other.servers[0]->fenced.empty());
  EXPECT_EQ(client.client->counters().leases_ended.value(), 1u);
  EXPECT_FALSE(client.client->connected(0));
  ASSERT_TRUE(other.run_until([&] { return other.servers[0]->fenced.size() == 2; }, kLeaseNs));
}

// A hold ends with its connection.
TEST_F(Fences, NothingIsHeldOfAnEarlierConnection) {
  const std::uint64_t since = a.client->lease(0).renewals();
  ASSERT_TRUE(a.client->lease(0).hold(since));
  server.server->remove_client(a.ids[0], world.network.now_ns());
  ASSERT_TRUE(world.run_until([&] { return !a.lost.empty() && a.client->in_use() == 0; }));
  EXPECT_FALSE(a.client->lease(0).hold(a.client->lease(0).renewals()));
  a.client->lease(0).unhold(since);
  world.connect(a, 0);
  EXPECT_FALSE(a.client->lease(0).hold(since));
  const std::uint64_t now = a.client->lease(0).renewals();
  ASSERT_TRUE(a.client->lease(0).hold(now));
  a.client->lease(0).unhold(since);
  a.client->lease(0).unhold(now - 1);
  const std::uint64_t posted = a.client->counters().renewals.value();
  world.run_for(kLeaseNs / 2);
  EXPECT_EQ(a.client->counters().renewals.value(), posted + 1);
  a.client->lease(0).unhold(now);
  world.run_for(3 * kLeaseNs);
  EXPECT_GT(a.client->counters().renewals.value(), posted + 8);
  EXPECT_TRUE(server.fenced.empty());
}

// Clients that do nothing keep their leases, and a server that has stood still takes none away.
TEST_F(Fences, LeasesAreKept) {
  world.run_for(5 * kLeaseNs);
  EXPECT_TRUE(server.fenced.empty());
  server.stopped = true;
  world.run_for(5 * kLeaseNs);
  server.stopped = false;
  world.run_for(5 * kLeaseNs);
  EXPECT_TRUE(server.fenced.empty());
  EXPECT_EQ(server.server->counters().leases_extended.value(), 1u);
  EXPECT_TRUE(a.lost.empty());
}

// Keys of its own: who is removed reaches nothing, others go on.
TEST_F(Fences, ARemovedClientReachesNothing) {
  server.server->remove_client(a.ids[0], world.network.now_ns());
  const auto read = world.run(a, [](Client& c) { return c.read(bytes_of("k"), 1); });
  EXPECT_EQ(read.result.status, Status::unreachable);
  EXPECT_EQ(a.lost.size(), 1u);
  EXPECT_EQ(a.client->read(bytes_of("k"), 2), dag::Started::unreachable);
  EXPECT_EQ(text_of(world.run(b, [](Client& c) { return c.read(bytes_of("k"), 3); })), "old");
}

}  // namespace
}  // namespace rockhopper::sim::client_fence_test
