// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
// Each way to a record, one at a time (DG-4 to DG-9, DG-14 to DG-20, DG-30 to DG-32).
#include <algorithm>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <unistd.h>

#include "apps/services/dag/hash.h"
#include "roce/wire/opcode.h"
#include "tests/ami/allocations.h"
#include "tests/dag/world.h"
#include "tests/sim/seeded_runs.h"
#include "tests/support/capture.h"

namespace rockhopper::sim::store_access_test {
namespace {

using dag::Client;
using dag::Status;

DagWorldConfig quiet(unsigned clients = 2) {
  DagWorldConfig config;
  config.network.pools = &pools();
  config.clients = clients;
  return config;
}

std::string text_of(const DagClient::Kept& kept) {
  return {reinterpret_cast<const char*>(kept.data.data()), kept.data.size()};
}

// DG-9, DG-16, DG-18, DG-20, DG-31.
TEST(StoreAccess, WhatIsCreatedIsReadByAll) {
  DagWorld world(quiet());
  DagClient& a = *world.clients[0];
  DagClient& b = *world.clients[1];
  const auto created = world.run(a, [](Client& client) {
    return client.create(bytes_of("k"), bytes_of("value"), {.capacity = 100}, 1);
  });
  ASSERT_EQ(created.result.status, Status::ok);
  const auto read = world.run(a, [](Client& client) { return client.read(bytes_of("k"), 2); });
  EXPECT_EQ(text_of(read), "value");
  EXPECT_EQ(read.result.version, created.result.version);
  // It was created for that client, which has the entry; the other one asks, once.
  EXPECT_EQ(a.client->counters().requests.value(), 1u);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(text_of(world.run(b, [](Client& client) { return client.read(bytes_of("k"), 3); })),
              "value");
  }
  EXPECT_EQ(b.client->counters().requests.value(), 1u);
  EXPECT_EQ(world
                .run(a,
                     [](Client& client) {
                       return client.create(bytes_of("k"), bytes_of("other"), {}, 4);
                     })
                .result.status,
            Status::exists);
}

// DG-15, DG-19, DG-20, DG-30, DG-31.
TEST(StoreAccess, UpdatesDeletesAndMovesAreSeenByOthers) {
  DagWorld world(quiet());
  DagClient& a = *world.clients[0];
  DagClient& b = *world.clients[1];
  const auto read = [&](DagClient& client) {
    return world.run(client, [](Client& c) { return c.read(bytes_of("k"), 9); });
  };
  (void)world.run(a, [](Client& client) {
    return client.create(bytes_of("k"), bytes_of("one"), {.capacity = 10}, 1);
  });
  EXPECT_EQ(text_of(read(b)), "one");
  const std::uint64_t requests = a.client->counters().requests.value();
  for (int i = 0; i < 5; ++i) {
    const std::string value = "update " + std::to_string(i);
    const auto updated = world.run(
        a, [&](Client& client) { return client.update(bytes_of("k"), bytes_of(value), 2); });
    ASSERT_EQ(updated.result.status, Status::ok);
    EXPECT_EQ(text_of(read(b)), value);
  }
  EXPECT_EQ(a.client->counters().requests.value(), requests);
  EXPECT_EQ(world
                .run(a,
                     [](Client& client) {
                       return client.update(bytes_of("k"), bytes_of("eleven byte"), 3);
                     })
                .result.status,
            Status::too_long);
  EXPECT_EQ(world.run(a, [](Client& client) { return client.resize(bytes_of("k"), 11, 4); })
                .result.status,
            Status::ok);
  EXPECT_EQ(text_of(read(b)), "update 4");
  EXPECT_EQ(b.client->counters().stale.value(), 1u);
  EXPECT_EQ(world
                .run(a,
                     [](Client& client) {
                       return client.update(bytes_of("k"), bytes_of("eleven byte"), 5);
                     })
                .result.status,
            Status::ok);
  EXPECT_EQ(text_of(read(b)), "eleven byte");
  EXPECT_EQ(
      world.run(a, [](Client& client) { return client.erase(bytes_of("k"), 6); }).result.status,
      Status::ok);
  EXPECT_EQ(read(b).result.status, Status::not_found);
  EXPECT_EQ(b.client->counters().stale.value(), 2u);
  EXPECT_EQ(read(a).result.status, Status::not_found);
}

// Requests to the server as a capture has them: SENDs and WRITEs, READs, atomics. A connect may
// carry the first SEND or WRITE of its connection.
struct Seen {
  std::size_t messages = 0;
  std::size_t reads = 0;
  std::size_t atomics = 0;
};

Seen look_into(const std::filesystem::path& capture) {
  Seen seen;
  for (const test::RocePacket& packet : test::read_roce_packets(capture)) {
    const std::uint8_t opcode = packet.transport()[0];
    switch (static_cast<wire::Opcode>(opcode)) {
      case wire::Opcode::dc_rdma_read_request:
        ++seen.reads;
        break;
      case wire::Opcode::dc_compare_swap:
      case wire::Opcode::dc_fetch_add:
        ++seen.atomics;
        break;
      default:
        // First and only packets of messages, and connects with data.
        seen.messages +=
            opcode == 0xc0 || opcode == 0xc4 || opcode == 0xc6 || opcode == 0xca || opcode == 0xde;
        break;
    }
  }
  return seen;
}

/// A capture of its own, gone with the test.
class CaptureFile {
 public:
  CaptureFile()
      : path_(std::filesystem::path(::testing::TempDir()) /
              ("dag-" +
               std::string(::testing::UnitTest::GetInstance()->current_test_info()->name()) + "-" +
               std::to_string(::getpid()) + ".pcapng")) {}
  CaptureFile(const CaptureFile&) = delete;
  CaptureFile& operator=(const CaptureFile&) = delete;
  ~CaptureFile() { std::filesystem::remove(path_); }
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

// DG-9, DG-18: while the server's application stands still, reads go on, and the capture shows
// READs only.
TEST(StoreAccess, ReadsNeedNoServer) {
  constexpr unsigned kKeys = 100;
  const CaptureFile capture;
  std::size_t reads = 0;
  std::size_t messages = 0;
  {
    DagWorldConfig config = quiet(1);
    config.network.capture = capture.path();
    config.server.lease_ns = 3'600'000'000'000;
    DagWorld world(config);
    DagClient& client = *world.clients[0];
    for (unsigned i = 0; i < kKeys; ++i) {
      const std::string key = "key " + std::to_string(i);
      (void)world.run(client, [&](Client& c) {
        return c.create(bytes_of(key), bytes_of("value of " + key), {}, i);
      });
    }
    world.run_for(1'000'000);
    messages = client.client->counters().requests.value() +
               client.client->counters().renewals.value() +
               world.servers[0]->server->counters().tx_responses.value();
    world.servers[0]->stopped = true;
    for (unsigned i = 0; i < 10 * kKeys; ++i) {
      const std::string key = "key " + std::to_string(i % kKeys);
      const auto read = world.run(client, [&](Client& c) { return c.read(bytes_of(key), i); });
      ASSERT_EQ(text_of(read), "value of " + key);
    }
    reads = client.client->counters().reads.value();
    EXPECT_EQ(client.client->counters().hits.value(), 10 * kKeys);
  }
  const Seen seen = look_into(capture.path());
  EXPECT_EQ(seen.messages, messages);
  EXPECT_EQ(seen.reads, reads);
  EXPECT_EQ(seen.atomics, 0u);
}

// DG-19: updates too, by WRITEs and atomics.
TEST(StoreAccess, UpdatesNeedNoServer) {
  constexpr unsigned kUpdates = 200;
  const CaptureFile capture;
  std::size_t messages = 0;
  {
    DagWorldConfig config = quiet(1);
    config.network.capture = capture.path();
    config.server.lease_ns = 3'600'000'000'000;
    DagWorld world(config);
    DagClient& client = *world.clients[0];
    (void)world.run(client, [&](Client& c) {
      return c.create(bytes_of("k"), bytes_of("first"), {.capacity = 100}, 0);
    });
    world.run_for(1'000'000);
    messages = client.client->counters().requests.value() +
               client.client->counters().renewals.value() +
               world.servers[0]->server->counters().tx_responses.value() + kUpdates;
    world.servers[0]->stopped = true;
    for (unsigned i = 0; i < kUpdates; ++i) {
      const std::string value = "update " + std::to_string(i);
      ASSERT_EQ(
          world.run(client, [&](Client& c) { return c.update(bytes_of("k"), bytes_of(value), i); })
              .result.status,
          Status::ok);
      ASSERT_EQ(text_of(world.run(client, [&](Client& c) { return c.read(bytes_of("k"), i); })),
                value);
    }
    EXPECT_EQ(client.client->counters().updates.value(), kUpdates);
    world.run_for(1'000'000);
  }
  const Seen seen = look_into(capture.path());
  EXPECT_EQ(seen.messages, messages);
  EXPECT_EQ(seen.atomics, 3 * kUpdates);
}

// DG-20: a request that is not taken times out for good, however many there are, and whenever the
// server goes on; what needs no server is not held up.
TEST(StoreAccess, RequestsTimeOutForGood) {
  DagWorldConfig config = quiet(1);
  config.client.operations = 128;
  config.client.request_timeout_ns = 5'000'000;
  config.server.lease_ns = 1'000'000'000;
  DagWorld world(config);
  DagClient& client = *world.clients[0];
  (void)world.run(client,
                  [](Client& c) { return c.create(bytes_of("there"), bytes_of("value"), {}, 0); });
  world.servers[0]->stopped = true;
  for (unsigned i = 0; i < 100; ++i) {
    const std::string key = "new " + std::to_string(i);
    ASSERT_EQ(client.client->create(bytes_of(key), bytes_of("v"), {}, i), dag::Started::yes);
  }
  ASSERT_EQ(client.client->erase(bytes_of("there"), 100), dag::Started::yes);
  ASSERT_TRUE(world.run_until([&] { return client.kept.size() == 102; }));
  for (std::size_t i = 1; i < client.kept.size(); ++i) {
    EXPECT_EQ(client.kept[i].result.status, Status::timed_out);
  }
  EXPECT_EQ(text_of(world.run(client, [](Client& c) { return c.read(bytes_of("there"), 0); })),
            "value");
  world.servers[0]->stopped = false;
  world.run_for(50'000'000);
  EXPECT_EQ(world.servers[0]->store->size(), 1u);
  EXPECT_GT(world.servers[0]->server->counters().rx_canceled.value(), 0u);
  // And the client has all of its requests back.
  for (unsigned i = 0; i < 100; ++i) {
    const std::string key = "new " + std::to_string(i);
    ASSERT_EQ(client.client->create(bytes_of(key), bytes_of("v"), {}, i), dag::Started::yes);
  }
  ASSERT_TRUE(world.run_until([&] { return client.kept.size() == 203; }));
  for (std::size_t i = 103; i < client.kept.size(); ++i) {
    EXPECT_EQ(client.kept[i].result.status, Status::ok);
  }
  EXPECT_EQ(world.servers[0]->store->size(), 101u);
  EXPECT_EQ(text_of(world.run(client, [](Client& c) { return c.read(bytes_of("there"), 0); })),
            "value");
}

// DG-20: a request that the server has taken is not told to have timed out, only because the answer
// is late.
TEST(StoreAccess, ALateAnswerIsAwaited) {
  DagWorldConfig config = quiet(1);
  config.client.request_timeout_ns = 1'000'000;
  DagWorld world(config);
  DagClient& client = *world.clients[0];
  (void)world.run(client,
                  [](Client& c) { return c.create(bytes_of("first"), bytes_of("value"), {}, 0); });
  // What the server sends is lost for a while.
  world.network.node(0).cut(true);
  ASSERT_EQ(client.client->create(bytes_of("k"), bytes_of("value"), {}, 1), dag::Started::yes);
  world.run_for(3'000'000);
  EXPECT_EQ(world.servers[0]->store->size(), 2u);
  world.network.node(0).cut(false);
  ASSERT_TRUE(world.run_until([&] { return client.kept.size() == 2; }));
  EXPECT_EQ(client.kept[1].result.status, Status::ok);
}

// DG-6, DG-7, DG-8: entries with the right hash code that lead to other records.
TEST(StoreAccess, PoisonedEntriesAreRejected) {
  DagWorld world(quiet());
  DagClient& a = *world.clients[0];
  DagClient& b = *world.clients[1];
  std::vector<dag::Pointer> wrong;
  for (const char* key : {"x", "y1", "y2", "y3"}) {
    const auto made =
        world.run(a, [&](Client& c) { return c.create(bytes_of(key), bytes_of(key), {}, 0); });
    if (key[0] == 'y') wrong.push_back(made.result.pointer);
  }
  for (const char* key : {"x", "absent"}) {
    for (dag::Pointer pointer : wrong) {
      pointer.entry.hash = dag::cut_hash(dag::hash_of(bytes_of(key)), 64);
      b.client->remember(pointer);
    }
    const auto read = world.run(b, [&](Client& c) { return c.read(bytes_of(key), 0); });
    EXPECT_EQ(read.result.status, key[0] == 'x' ? Status::ok : Status::not_found);
    if (key[0] == 'x') {
      EXPECT_EQ(text_of(read), "x");
    }
  }
  EXPECT_EQ(b.client->counters().false_candidates.value(), 6u);
  // Beyond the memory, or of nobody's key: not even asked for.
  dag::Pointer beyond = wrong[0];
  beyond.entry.address = world.config.memory_bytes;
  b.client->remember(beyond);
  EXPECT_EQ(b.client->read(beyond, 0), dag::Started::invalid);
  EXPECT_EQ(b.client->read(wrong[0], 0), dag::Started::invalid);
  EXPECT_EQ(text_of(world.run(b, [&](Client& c) { return c.read(c.own(wrong[0]), 0); })), "y1");
}

// DG-30: a pointer that has been kept for long leads to nothing, wherever its memory is used now.
TEST(StoreAccess, AStalePointerTouchesNothing) {
  DagWorldConfig config = quiet();
  config.memory_bytes = 4096;
  config.store.quarantine_ns = 0;
  DagWorld world(config);
  DagClient& a = *world.clients[0];
  DagClient& b = *world.clients[1];
  (void)world.run(a,
                  [](Client& c) { return c.create(bytes_of("old"), {}, {.capacity = 1000}, 0); });
  const auto old = world.run(b, [](Client& c) { return c.read(bytes_of("old"), 0); });
  (void)world.run(a, [](Client& c) { return c.erase(bytes_of("old"), 0); });
  ASSERT_TRUE(world.run_until(
      [&] { return world.servers[0]->store->free_bytes() == config.memory_bytes; }));
  // Zeros all over the place, where an atomic would be seen.
  const std::vector<std::byte> zeros(dag::kCreateDataMax);
  ASSERT_EQ(world
                .run(a,
                     [&](Client& c) {
                       return c.create(bytes_of("new"), zeros, {.capacity = 1000, .fixed = true},
                                       0);
                     })
                .result.status,
            Status::ok);
  const std::vector<std::byte> before(world.servers[0]->store->memory().begin(),
                                      world.servers[0]->store->memory().end());
  EXPECT_EQ(world.run(b, [&](Client& c) { return c.fetch_add(old.result.pointer, 0, 1, 0); })
                .result.status,
            Status::not_found);
  EXPECT_EQ(world.run(b, [&](Client& c) { return c.read(old.result.pointer, 0); }).result.status,
            Status::not_found);
  EXPECT_EQ(world.run(b, [&](Client& c) { return c.update(bytes_of("old"), bytes_of("x"), 0); })
                .result.status,
            Status::not_found);
  const auto memory = world.servers[0]->store->memory();
  EXPECT_TRUE(std::equal(memory.begin(), memory.end(), before.begin()));
}

// DG-19, DG-32: whatever part of an update has arrived, the record in the server's memory is the
// old one or the new one. The data takes more packets than a turn.
TEST(StoreAccess, AtEveryMomentARecordIsWhole) {
  constexpr std::size_t kLength = 100'000;
  DagWorldConfig config = quiet(1);
  config.client.buffer_bytes = 2 * kLength;
  DagWorld world(config);
  DagClient& client = *world.clients[0];
  ASSERT_EQ(
      world
          .run(client,
               [](Client& c) { return c.create(bytes_of("k"), {}, {.capacity = kLength}, 0); })
          .result.status,
      Status::ok);
  const dag::Store& store = *world.servers[0]->store;
  const auto place = store.lookup(bytes_of("k")).place;
  for (unsigned i = 1; i < 5; ++i) {
    const std::vector<std::byte> data(kLength, static_cast<std::byte>(i));
    ASSERT_EQ(client.client->update(bytes_of("k"), data, 0), dag::Started::yes);
    std::uint64_t version = 0;
    unsigned moments = 0;
    ASSERT_TRUE(world.run_until([&] {
      const auto view = dag::examine_record(store.memory().subspan(place.address, place.length),
                                            place.incarnation, bytes_of("k"));
      EXPECT_EQ(view.verdict, dag::Verdict::match);
      EXPECT_TRUE(view.version == i || view.version == i + 1);
      if (view.version > 1 && !view.data.empty()) {
        EXPECT_EQ(view.data[0], static_cast<std::byte>(view.version - 1));
      }
      EXPECT_GE(view.version, version);
      version = view.version;
      ++moments;
      return client.client->in_use() == 0;
    }));
    EXPECT_EQ(version, i + 1);
    EXPECT_GT(moments, 4u);
  }
}

// DG-30: what a header says is not believed: no WRITE goes beyond the record, and none costs the
// connection.
TEST(StoreAccess, AScribbledHeaderLeadsNoUpdateAstray) {
  DagWorld world(quiet(1));
  DagClient& client = *world.clients[0];
  for (const char* key : {"k", "neighbour"}) {
    (void)world.run(client, [&](Client& c) {
      return c.create(bytes_of(key), bytes_of("value"), {.capacity = 100}, 0);
    });
  }
  const dag::Store& store = *world.servers[0]->store;
  const auto place = store.lookup(bytes_of("k")).place;
  for (const std::uint32_t capacity : {105u, 400u, 1u << 20, dag::kCapacityMax}) {
    std::memcpy(store.memory().data() + place.address + offsetof(dag::RecordHeader, capacity),
                &capacity, sizeof capacity);
    const std::vector<std::byte> before(store.memory().begin(), store.memory().end());
    EXPECT_EQ(
        world.run(client, [](Client& c) { return c.update(bytes_of("k"), bytes_of("new"), 0); })
            .result.status,
        Status::damaged);
    EXPECT_TRUE(std::equal(before.begin(), before.end(), store.memory().begin()));
  }
  EXPECT_EQ(text_of(world.run(client, [](Client& c) { return c.read(bytes_of("neighbour"), 0); })),
            "value");
  EXPECT_TRUE(client.lost.empty());
}

// DG-15, DG-32.
TEST(StoreAccess, UpdatesOfAnExpectedVersion) {
  DagWorld world(quiet());
  DagClient& a = *world.clients[0];
  DagClient& b = *world.clients[1];
  const auto made = world.run(
      a, [](Client& c) { return c.create(bytes_of("k"), bytes_of("1"), {.capacity = 10}, 0); });
  const auto update = [&](DagClient& client, const char* text, const dag::RecordVersion& version) {
    return world.run(
        client, [&](Client& c) { return c.update(bytes_of("k"), bytes_of(text), 0, version); });
  };
  const auto first = update(a, "2", made.result.version);
  ASSERT_EQ(first.result.status, Status::ok);
  EXPECT_EQ(update(b, "3", made.result.version).result.status, Status::version_mismatch);
  EXPECT_EQ(update(b, "3", first.result.version).result.status, Status::ok);
  EXPECT_EQ(text_of(world.run(a, [](Client& c) { return c.read(bytes_of("k"), 0); })), "3");
}

TEST(StoreAccess, AFixedRecordIsNotUpdated) {
  DagWorld world(quiet(1));
  DagClient& a = *world.clients[0];
  (void)world.run(
      a, [](Client& c) { return c.create(bytes_of("k"), bytes_of("1"), {.fixed = true}, 0); });
  EXPECT_EQ(world.run(a, [](Client& c) { return c.update(bytes_of("k"), bytes_of("2"), 0); })
                .result.status,
            Status::invalid);
  EXPECT_EQ(text_of(world.run(a, [](Client& c) { return c.read(bytes_of("k"), 0); })), "1");
}

// What clients agree on: each addition once, each swap by one.
TEST(StoreAccess, ControlWords) {
  DagWorld world(quiet(4));
  (void)world.run(*world.clients[0], [](Client& c) {
    return c.create(bytes_of("k"), {}, {.control = {0, 100, 0, 0}}, 0);
  });
  std::vector<dag::Pointer> pointers;
  for (const auto& client : world.clients) {
    pointers.push_back(
        world.run(*client, [](Client& c) { return c.read(bytes_of("k"), 0); }).result.pointer);
  }
  const std::uint64_t reads = world.clients[1]->client->counters().reads.value();
  std::size_t begun = 0;
  unsigned swapped = 0;
  for (unsigned i = 0; i < 4; ++i) {
    for (unsigned j = 0; j < 5; ++j, ++begun) {
      ASSERT_EQ(world.clients[i]->client->fetch_add(pointers[i], 1, 1 + j, 0), dag::Started::yes);
    }
    for (unsigned j = 0; j < 5; ++j, ++begun) {
      ASSERT_EQ(world.clients[i]->client->fetch_add(bytes_of("k"), 2, 1, 0), dag::Started::yes);
    }
    ASSERT_EQ(world.clients[i]->client->compare_swap(pointers[i], 3, 0, 10 + i, 0),
              dag::Started::yes);
    ++begun;
  }
  std::size_t ended = 0;
  ASSERT_TRUE(world.run_until([&] {
    ended = 0;
    for (const auto& client : world.clients) {
      ended += client->client->in_use();
    }
    return ended == 0;
  }));
  for (const auto& client : world.clients) {
    for (const auto& kept : client->kept) {
      EXPECT_EQ(kept.result.status, Status::ok);
      swapped += kept.result.kind == dag::Kind::compare_swap && kept.result.value == 0;
    }
  }
  EXPECT_EQ(swapped, 1u);
  const auto read =
      world.run(*world.clients[0], [](Client& c) { return c.read(bytes_of("k"), 0); });
  EXPECT_EQ(read.result.control[1], 100u + 4 * (1 + 2 + 3 + 4 + 5));
  EXPECT_EQ(read.result.control[2], 20u);
  EXPECT_GE(read.result.control[3], 10u);
  // One READ beside each: none before it by a pointer that is fresh, one before it by the key.
  EXPECT_EQ(world.clients[1]->client->counters().reads.value() - reads, 5u + 2 * 5u + 1u);
  EXPECT_EQ(world.clients[0]->client->fetch_add(pointers[0], 4, 1, 0), dag::Started::invalid);
}

// DG-20: records that a client makes by itself, found by others through a pointer or the map.
TEST(StoreAccess, Arenas) {
  DagWorld world(quiet());
  DagClient& a = *world.clients[0];
  DagClient& b = *world.clients[1];
  const auto arena = world.run(a, [](Client& c) { return c.allocate_arena(0, 4096, 0); });
  ASSERT_EQ(arena.result.status, Status::ok);
  std::vector<dag::Pointer> records;
  for (unsigned i = 0; i < 4; ++i) {
    const std::string key = "key " + std::to_string(i);
    const auto written = world.run(a, [&](Client& c) {
      return c.write_record({.arena = arena.result.pointer, .offset = 1024 * i, .number = i},
                            bytes_of(key), bytes_of("value " + key), {.capacity = 100}, i);
    });
    ASSERT_EQ(written.result.status, Status::ok);
    records.push_back(written.result.pointer);
  }
  const std::uint64_t requests = b.client->counters().requests.value();
  EXPECT_EQ(text_of(world.run(b, [&](Client& c) { return c.read(c.own(records[2]), 0); })),
            "value key 2");
  EXPECT_EQ(b.client->counters().requests.value(), requests);
  EXPECT_EQ(world.run(b, [](Client& c) { return c.read(bytes_of("key 2"), 0); }).result.status,
            Status::not_found);
  ASSERT_EQ(world.run(a, [&](Client& c) { return c.adopt(records[2], bytes_of("key 2"), 0); })
                .result.status,
            Status::ok);
  EXPECT_EQ(text_of(world.run(b, [](Client& c) { return c.read(bytes_of("key 2"), 0); })),
            "value key 2");
  EXPECT_EQ(world.run(b, [](Client& c) { return c.update(bytes_of("key 2"), bytes_of("new"), 0); })
                .result.status,
            Status::ok);
  EXPECT_EQ(text_of(world.run(a, [&](Client& c) { return c.read(records[2], 0); })), "new");
  EXPECT_EQ(world.run(a, [&](Client& c) { return c.update(records[1], bytes_of("by pointer"), 0); })
                .result.status,
            Status::ok);
  EXPECT_EQ(text_of(world.run(a, [&](Client& c) { return c.read(records[1], 0); })), "by pointer");
  // Another's arena cannot be adopted from.
  EXPECT_EQ(
      world.run(b, [&](Client& c) { return c.adopt(c.own(records[1]), bytes_of("key 1"), 0); })
          .result.status,
      Status::invalid);
  EXPECT_EQ(world.run(a, [&](Client& c) { return c.release_arena(arena.result.pointer, 0); })
                .result.status,
            Status::ok);
  EXPECT_EQ(world.run(a, [](Client& c) { return c.erase(bytes_of("key 2"), 0); }).result.status,
            Status::ok);
  EXPECT_TRUE(world.run_until(
      [&] { return world.servers[0]->store->free_bytes() == world.config.memory_bytes; }));
  EXPECT_EQ(a.client->write_record({.arena = arena.result.pointer, .offset = 4000}, bytes_of("k"),
                                   bytes_of("v"), {}, 0),
            dag::Started::invalid);
}

// DG-14: each record is where the placement says, and nowhere else.
TEST(StoreAccess, RecordsAreWhereThePlacementSays) {
  for (const auto policy :
       {dag::PlacementPolicy::hash, dag::PlacementPolicy::affinity, dag::PlacementPolicy::table}) {
    DagWorldConfig config = quiet();
    config.servers = 4;
    config.placement = policy;
    if (policy == dag::PlacementPolicy::table) config.rules = {{"k1", 3}, {"k2", 0}};
    DagWorld world(config);
    for (unsigned i = 0; i < 40; ++i) {
      const std::string key =
          "k" + std::to_string(i % 5) + "{" + std::to_string(i % 7) + "}" + std::to_string(i);
      ASSERT_EQ(world
                    .run(*world.clients[0],
                         [&](Client& c) { return c.create(bytes_of(key), bytes_of(key), {}, 0); })
                    .result.status,
                Status::ok);
      const std::uint16_t expected = world.clients[1]->client->server_of(bytes_of(key));
      if (policy == dag::PlacementPolicy::table && (i % 5 == 1 || i % 5 == 2)) {
        EXPECT_EQ(expected, i % 5 == 1 ? 3 : 0);
      }
      for (std::uint16_t server = 0; server < 4; ++server) {
        EXPECT_EQ(world.servers[server]->store->lookup(bytes_of(key)).status,
                  server == expected ? Status::ok : Status::not_found);
      }
      EXPECT_EQ(text_of(world.run(*world.clients[1],
                                  [&](Client& c) { return c.read(bytes_of(key), 0); })),
                key);
    }
  }
}

// DG-16, DG-17, DG-31: a client hears of the map, and of what becomes of it, from the server, and
// only by its own operations. With room for few entries each miss is one request.
TEST(StoreAccess, EntriesComeWithOwnOperationsOnly) {
  DagWorldConfig config = quiet();
  config.client.entries = 4;
  DagWorld world(config);
  DagClient& a = *world.clients[0];
  DagClient& b = *world.clients[1];
  constexpr unsigned kKeys = 100;
  for (unsigned i = 0; i < kKeys; ++i) {
    const std::string key = std::to_string(i);
    (void)world.run(a, [&](Client& c) { return c.create(bytes_of(key), bytes_of(key), {}, 0); });
  }
  EXPECT_EQ(b.client->counters().entries.value(), 0u);
  EXPECT_EQ(b.client->directory().size(), 0u);
  for (unsigned round = 0; round < 3; ++round) {
    for (unsigned i = 0; i < 4; ++i) {
      const std::string key = std::to_string(i);
      (void)world.run(b, [&](Client& c) { return c.read(bytes_of(key), 0); });
    }
  }
  EXPECT_EQ(b.client->counters().requests.value(), 4u);
  EXPECT_EQ(b.client->counters().hits.value(), 8u);
  for (unsigned i = 0; i < kKeys; ++i) {
    const std::string key = std::to_string(i);
    EXPECT_EQ(text_of(world.run(b, [&](Client& c) { return c.read(bytes_of(key), 0); })), key);
  }
  // The first four were there.
  EXPECT_EQ(b.client->counters().requests.value(), 4u + kKeys - 4u);
  EXPECT_EQ(b.client->counters().entries.value(), b.client->counters().requests.value());
  EXPECT_EQ(b.client->directory().size(), 4u);
  EXPECT_EQ(b.client->counters().evictions.value(), kKeys - 4u);
}

// Nothing is allocated on the data path.
TEST(StoreAccess, ReadsAndUpdatesAllocateNothing) {
  DagWorld world(quiet(1));
  DagClient& client = *world.clients[0];
  (void)world.run(client, [](Client& c) {
    return c.create(bytes_of("k"), bytes_of("v"), {.capacity = 500}, 0);
  });
  std::uint64_t results = 0;
  client.handler = [&](const dag::Result& result) { results += result.status == Status::ok; };
  const std::vector<std::byte> value(400, std::byte{7});
  const std::uint64_t allocated = forbidden_allocations();
  for (unsigned i = 0; i < 200; ++i) {
    {
      const AllocationsForbidden forbidden;
      (void)client.client->read(bytes_of("k"), i);
      (void)client.client->update(bytes_of("k"), value, i);
      (void)client.client->fetch_add(bytes_of("k"), 0, 1, i);
    }
    while (client.client->in_use() > 0) {
      {
        const AllocationsForbidden forbidden;
        client.client->progress(world.network.now_ns());
      }
      if (!world.network.poll()) world.pass_time(world.network.now_ns() + 1000);
      (void)(world.servers[0]->server->progress(world.network.now_ns()));
    }
  }
  EXPECT_EQ(results, 600u);
  EXPECT_EQ(forbidden_allocations(), allocated);
}

TEST(StoreAccess, RefusesWhatMakesNoSense) {
  DagWorld world(quiet(1));
  Client& client = *world.clients[0]->client;
  const std::string long_key(dag::kKeyMax + 1, 'k');
  const std::vector<std::byte> much(world.config.client.buffer_bytes);
  EXPECT_EQ(client.read(bytes_of(""), 0), dag::Started::invalid);
  EXPECT_EQ(client.read(bytes_of(long_key), 0), dag::Started::invalid);
  EXPECT_EQ(client.create(bytes_of(""), {}, {}, 0), dag::Started::invalid);
  EXPECT_EQ(client.create(bytes_of("k"), much, {}, 0), dag::Started::invalid);
  EXPECT_EQ(client.update(bytes_of("k"), much, 0), dag::Started::invalid);
  EXPECT_EQ(client.allocate_arena(1, 10, 0), dag::Started::invalid);
  for (unsigned i = 0; i < world.config.client.operations; ++i) {
    EXPECT_EQ(client.read(bytes_of("k"), i), dag::Started::yes);
  }
  EXPECT_EQ(client.read(bytes_of("k"), 0), dag::Started::no_room);
  EXPECT_FALSE(client.connect(1, {}, {}, 0));
  EXPECT_FALSE(client.connect(0, {}, {}, 0));
  // What the server refuses.
  DagClient& kept = *world.clients[0];
  ASSERT_TRUE(world.run_until([&] { return client.in_use() == 0; }));
  const auto too_large = world.run(kept, [&](Client& c) {
    return c.create(bytes_of("k"), {}, {.capacity = dag::kCapacityMax}, 0);
  });
  EXPECT_EQ(too_large.result.status, Status::too_long);
  const auto no_room = world.run(
      kept, [&](Client& c) { return c.create(bytes_of("k"), {}, {.capacity = 1 << 20}, 0); });
  EXPECT_EQ(no_room.result.status, Status::exhausted);
}

}  // namespace
}  // namespace rockhopper::sim::store_access_test
