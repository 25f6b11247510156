// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
// Each way to a record, one at a time (DG-4 to DG-9, DG-14 to DG-20, DG-30 to DG-32).
#include <cstring>
#include <string>

#include <gtest/gtest.h>

#include "tests/dag/world.h"
#include "tests/sim/seeded_runs.h"

namespace rockhopper::sim {
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
    EXPECT_EQ(
        text_of(world.run(b, [](Client& client) { return client.read(bytes_of("k"), 3); })),
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
  static_cast<void>(world.run(a, [](Client& client) {
    return client.create(bytes_of("k"), bytes_of("one"), {.capacity = 10}, 1);
  }));
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
  EXPECT_EQ(
      world.run(a, [](Client& client) { return client.resize(bytes_of("k"), 11, 4); }).result.status,
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
  EXPECT_EQ(world.run(a, [](Client& client) { return client.erase(bytes_of("k"), 6); })
                .result.status,
            Status::ok);
  EXPECT_EQ(read(b).result.status, Status::not_found);
  EXPECT_EQ(b.client->counters().stale.value(), 2u);
  EXPECT_EQ(read(a).result.status, Status::not_found);
}

}  // namespace
}  // namespace rockhopper::sim
