// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
// What a server does for its clients besides keeping records: requests that it passes on, memory
// that it shows, arenas that outlive their client, leases that are held (DG-18, DG-20, DG-30,
// DG-36, DG-39, DG-40).
#include "apps/services/dag/application.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "apps/services/dag/client_area.h"
#include "apps/services/dag/message.h"
#include "dc/dci_pool.h"
#include "roce/completion_queue.h"
#include "tests/dag/world.h"
#include "tests/sim/rng.h"
#include "tests/sim/seeded_runs.h"
#include "tests/support/seed.h"

namespace rockhopper::sim::application_test {
namespace {

using dag::Client;
using dag::Status;

constexpr std::uint64_t kLeaseNs = 20'000'000;
constexpr std::uint64_t kMemory = 1 << 16;

std::string text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// Answers as the code says, and keeps what it has been asked.
class Desk final : public dag::ServerApplication {
 public:
  struct Asked {
    dag::ClientId client{};
    std::uint8_t code = 0;
    std::uint64_t value = 0;
    std::string name;
    std::string data;
  };
  [[nodiscard]] dag::ApplicationResponse on_request(dag::ClientId client,
                                                    const dag::ApplicationRequest& request,
                                                    std::uint64_t /*now_ns*/) override {
    asked.push_back({.client = client,
                     .code = request.code,
                     .value = request.value,
                     .name = text_of(request.name),
                     .data = text_of(request.data)});
    return {.status = static_cast<Status>(request.code), .value = ~request.value};
  }
  void on_client_gone(dag::ClientId client, std::uint64_t /*now_ns*/) override {
    gone.push_back(client);
    if (when_gone) when_gone(client);
  }

  std::vector<Asked> asked;
  std::vector<dag::ClientId> gone;
  std::function<void(dag::ClientId)> when_gone;
};

/// Sends a server what no client would, in a client's name.
class RawSender {
 public:
  RawSender(DagWorld& world, const dag::Grant& grant)
      : engine_(world.network.node(1).engine()), pd_(engine_.allocate_pd()) {
    cq_ = must(roce::CompletionQueue::create(kSends));
    pool_ = must(dc::DciPool::create(
        *world.endpoints[1],
        {.pd = pd_, .send_cq = cq_.get(), .max_send_wr = kSends, .max_inline_data = kInline},
        {.dcis = 1}, [](dc::PoolTarget&) {}));
    ah_ = must(engine_.create_ah(pd_, {.source = world.network.node(1).address(),
                                       .destination = world.network.node(0).address()}));
    target_.emplace(*ah_, grant.target, grant.access_key);
  }
  RawSender(const RawSender&) = delete;
  RawSender& operator=(const RawSender&) = delete;
  ~RawSender() {
    target_.reset();
    pool_.reset();
    engine_.destroy_ah(ah_);
    (void)engine_.deallocate_pd(pd_);
  }
  void send(std::span<const std::byte> bytes) {
    const roce::Sge sge{reinterpret_cast<std::uintptr_t>(bytes.data()),
                        static_cast<std::uint32_t>(bytes.size()),
                        {}};
    ASSERT_EQ(pool_->post_send(*target_, {.sg_list = {&sge, 1},
                                          .opcode = roce::WrOpcode::send,
                                          .send_flags = roce::kSendInline}),
              roce::PostResult::ok);
  }

 private:
  static constexpr std::uint32_t kSends = 16;
  static constexpr std::uint32_t kInline = 256;

  roce::Engine& engine_;
  roce::ProtectionDomain pd_;
  std::unique_ptr<roce::CompletionQueue> cq_;
  std::unique_ptr<dc::DciPool> pool_;
  roce::AddressHandle* ah_ = nullptr;
  std::optional<dc::PoolTarget> target_;
};

std::uint8_t code_of(Status status) { return static_cast<std::uint8_t>(status); }

class Applications : public ::testing::Test {
 protected:
  static constexpr std::size_t kShown = 4096;

  void make(DagWorldConfig config = {}) {
    config.network.pools = &pools();
    config.memory_bytes = kMemory;
    config.store.quarantine_ns = 0;
    config.server.lease_ns = kLeaseNs;
    config.server.application = &desk;
    config.server.application_memory = shown();
    world = std::make_unique<DagWorld>(config);
    a = world->clients[0].get();
    if (world->clients.size() > 1) b = world->clients[1].get();
  }
  [[nodiscard]] std::span<std::byte> shown() {
    return {lines[0].bytes, lines.size() * sizeof(DagServer::Line)};
  }
  [[nodiscard]] DagServer& server() { return *world->servers[0]; }
  [[nodiscard]] DagClient::Kept ask(std::uint8_t code, std::string_view name, std::string_view data,
                                    std::uint64_t value) {
    return world->run(
        *a, [&](Client& c) { return c.ask(0, code, bytes_of(name), bytes_of(data), value, 7); });
  }

  Desk desk;
  std::vector<DagServer::Line> lines{kShown / sizeof(DagServer::Line)};
  std::unique_ptr<DagWorld> world;
  DagClient* a = nullptr;
  DagClient* b = nullptr;
};

// DG-20: what is asked arrives as it was given, and so does the answer, refusals too.
TEST_F(Applications, AreAskedThroughTheServer) {
  make();
  const std::string name(dag::kKeyMax, 'n');
  const std::string data(dag::kCreateDataMax, 'd');
  const auto full = ask(code_of(Status::ok), name, data, 0x0123456789abcdef);
  EXPECT_EQ(full.result.status, Status::ok);
  EXPECT_EQ(full.result.kind, dag::Kind::ask);
  EXPECT_EQ(full.result.context, 7u);
  EXPECT_EQ(full.result.value, ~std::uint64_t{0x0123456789abcdef});
  ASSERT_EQ(desk.asked.size(), 1u);
  EXPECT_EQ(desk.asked[0].client, a->ids[0]);
  EXPECT_EQ(desk.asked[0].value, 0x0123456789abcdefu);
  EXPECT_EQ(desk.asked[0].name, name);
  EXPECT_EQ(desk.asked[0].data, data);
  const auto refused = ask(code_of(Status::exists), "", "", 0);
  EXPECT_EQ(refused.result.status, Status::exists);
  EXPECT_EQ(refused.result.value, ~std::uint64_t{0});
  EXPECT_EQ(desk.asked[1].code, code_of(Status::exists));
  EXPECT_TRUE(desk.asked[1].name.empty() && desk.asked[1].data.empty());
  // An answer that means something else is not passed on.
  EXPECT_EQ(ask(code_of(Status::canceled), "n", "", 0).result.status, Status::invalid);
  EXPECT_EQ(ask(code_of(Status::ok), "n", "", 0).result.status, Status::ok);
  EXPECT_EQ(server().server->counters().application_requests.value(), 2u);
  EXPECT_EQ(server().server->counters().application_refused.value(), 2u);
  EXPECT_EQ(a->client->ask(0, 0, bytes_of(name + "n"), {}, 0, 0), dag::Started::invalid);
  EXPECT_EQ(a->client->ask(0, 0, {}, bytes_of(data + "d"), 0, 0), dag::Started::invalid);
  EXPECT_EQ(a->client->ask(1, 0, {}, {}, 0, 0), dag::Started::invalid);
  EXPECT_EQ(a->client->in_use(), 0u);
}

// DG-20: without an application there is a definite answer.
TEST_F(Applications, AServerWithoutOneRefuses) {
  DagWorldConfig config;
  config.network.pools = &pools();
  DagWorld plain(config);
  const auto asked = plain.run(*plain.clients[0],
                               [](Client& c) { return c.ask(0, 1, bytes_of("name"), {}, 0, 0); });
  EXPECT_EQ(asked.result.status, Status::invalid);
  EXPECT_EQ(plain.servers[0]->server->counters().application_refused.value(), 1u);
}

// DG-20: what has timed out is never executed.
TEST_F(Applications, AreNotAskedLate) {
  DagWorldConfig config;
  config.client.request_timeout_ns = 2'000'000;
  make(config);
  server().stopped = true;
  EXPECT_EQ(ask(code_of(Status::ok), "n", "", 0).result.status, Status::timed_out);
  server().stopped = false;
  world->run_for(5'000'000);
  EXPECT_TRUE(desk.asked.empty());
  EXPECT_EQ(ask(code_of(Status::ok), "n", "", 0).result.status, Status::ok);
}

// DG-20: once, however often the same request is sent, as after connections that were lost.
TEST_F(Applications, AreAskedOnce) {
  make();
  dag::Grant grant;
  server().server->remove_client(a->ids[0], world->network.now_ns());
  ASSERT_TRUE(world->run_until([&] { return !a->lost.empty() && a->client->in_use() == 0; }));
  world->connect(*a, 0, [&](const dag::Grant& given) { grant = given; });
  RawSender sender(*world, grant);
  const auto send = [&](std::uint64_t id, std::uint64_t value) {
    std::vector<std::byte> bytes(dag::kRequestMax);
    bytes.resize(
        dag::emit({.type = dag::RequestType::application, .id = id, .value = value}, bytes));
    sender.send(bytes);
  };
  const auto& counters = server().server->counters();
  const std::uint64_t id = 5 * dag::kRequestWords + 3;
  for (int i = 0; i < 3; ++i) {
    send(id, 1);
  }
  ASSERT_TRUE(world->run_until([&] { return counters.tx_responses.value() == 3; }));
  EXPECT_EQ(counters.rx_repeated.value(), 2u);
  send(id + dag::kRequestWords, 2);
  send(id, 3);  // too late
  ASSERT_TRUE(world->run_until([&] { return counters.rx_bad_word.value() == 1; }));
  ASSERT_EQ(desk.asked.size(), 2u);
  EXPECT_EQ(desk.asked[0].value, 1u);
  EXPECT_EQ(desk.asked[1].value, 2u);
  sender.send(bytes_of("none of this kind"));
  ASSERT_TRUE(world->run_until([&] { return counters.rx_malformed.value() == 1; }));
}

// DG-39, DG-40: the memory of an application can be READ and counted in while the server's
// application stands still; it cannot be written.
TEST_F(Applications, ShowMemoryThatIsChangedByAtomicsAlone) {
  make();
  constexpr std::uint64_t kAddress = 128;
  constexpr std::uint64_t kCount = 41;
  const std::uint64_t length = dag::record_bytes(1, 100, 1);
  dag::compose_record({.key = bytes_of("k"),
                       .incarnation = 5,
                       .capacity = 100,
                       .slots = 1,
                       .control = {0, 0, kCount, 0},
                       .data = bytes_of("shown")},
                      shown().subspan(kAddress, length));
  // A client that takes this memory for that of the records.
  server().server->remove_client(a->ids[0], world->network.now_ns());
  ASSERT_TRUE(world->run_until([&] { return !a->lost.empty() && a->client->in_use() == 0; }));
  world->connect(*a, 0, [](dag::Grant& grant) {
    EXPECT_EQ(grant.application_bytes, kShown);
    grant.records_key = grant.application_key;
    grant.records_bytes = grant.application_bytes;
  });
  server().stopped = true;
  const dag::Pointer pointer = a->client->own(
      {.entry = {
           .incarnation = 5, .address = kAddress, .length = static_cast<std::uint32_t>(length)}});
  const auto read = world->run(*a, [&](Client& c) { return c.read(pointer, 0); });
  EXPECT_EQ(text_of(read.data), "shown");
  EXPECT_EQ(read.result.control[2], kCount);
  const auto added = world->run(*a, [&](Client& c) { return c.fetch_add(pointer, 2, 7, 0); });
  EXPECT_EQ(added.result.status, Status::ok);
  EXPECT_EQ(added.result.value, kCount);
  dag::RecordHeader header;
  std::memcpy(&header, shown().data() + kAddress, sizeof header);
  EXPECT_EQ(header.control[2], kCount + 7);
  const std::vector<std::byte> before(shown().begin(), shown().end());
  EXPECT_NE(world->run(*a, [&](Client& c) { return c.write_arena(pointer, 0, bytes_of("no"), 0); })
                .result.status,
            Status::ok);
  EXPECT_EQ(a->lost.size(), 2u);
  EXPECT_TRUE(std::equal(before.begin(), before.end(), shown().begin()));
  // Atomics need whole words.
  dag::ServerConfig odd = world->config.server;
  odd.application_memory = shown().subspan(8);
  EXPECT_FALSE(dag::Server::create(world->network.node(0).engine(), *world->endpoints[0],
                                   *server().store, server(), odd));
}

// DG-36: it learns of a client's end when the client has nothing any more, once.
TEST_F(Applications, LearnWhichClientsAreGone) {
  make();
  const auto arena = world->run(*a, [](Client& c) { return c.allocate_arena(0, 4096, 0); });
  const auto kept =
      world->run(*a, [](Client& c) { return c.allocate_arena(0, 4096, 0, bytes_of("run")); });
  const auto owner = static_cast<std::uint32_t>(a->ids[0]);
  const auto has = [&](const DagClient::Kept& which) {
    const dag::Entry& entry = which.result.pointer.entry;
    return server().store->arena_bytes(owner, entry.address, entry.incarnation).has_value();
  };
  ASSERT_TRUE(has(arena) && has(kept));
  bool released = false;
  desk.when_gone = [&](dag::ClientId) { released = !has(arena) && has(kept); };
  a->stopped = true;
  ASSERT_TRUE(world->run_until([&] { return !server().fenced.empty(); }));
  EXPECT_EQ(desk.gone, std::vector{a->ids[0]});
  EXPECT_TRUE(released);
  server().server->remove_client(a->ids[0], world->network.now_ns());
  EXPECT_EQ(desk.gone.size(), 1u);
  server().server->remove_client(b->ids[0], world->network.now_ns());
  EXPECT_EQ(desk.gone, (std::vector{a->ids[0], b->ids[0]}));
}

// DG-36: what a client has made in an arena of a group is there when it is gone, until somebody
// releases the group; then its memory rests.
TEST_F(Applications, AGroupOutlivesItsClients) {
  make();
  const auto arena =
      world->run(*a, [](Client& c) { return c.allocate_arena(0, 4096, 0, bytes_of("run 1")); });
  const auto other =
      world->run(*b, [](Client& c) { return c.allocate_arena(0, 4096, 0, bytes_of("run 2")); });
  ASSERT_EQ(arena.result.status, Status::ok);
  ASSERT_EQ(other.result.status, Status::ok);
  const auto written = world->run(*a, [&](Client& c) {
    return c.write_record({.arena = arena.result.pointer, .offset = 64, .number = 1},
                          bytes_of("key"), bytes_of("value"), {.fixed = true}, 0);
  });
  ASSERT_EQ(written.result.status, Status::ok);
  server().server->remove_client(a->ids[0], world->network.now_ns());
  world->run_for(3 * kLeaseNs);
  const auto read = [&] {
    return world->run(*b, [&](Client& c) { return c.read(c.own(written.result.pointer), 0); });
  };
  EXPECT_EQ(text_of(read().data), "value");
  EXPECT_EQ(server().store->free_bytes(), kMemory - 2 * 4096);
  const auto release = [&](std::string_view group) {
    return world->run(*b, [&](Client& c) { return c.release_group(0, bytes_of(group), 3); });
  };
  EXPECT_EQ(release("run").result.status, Status::ok);
  EXPECT_EQ(server().server->counters().group_arenas_released.value(), 0u);
  const auto released = release("run 1");
  EXPECT_EQ(released.result.status, Status::ok);
  EXPECT_EQ(released.result.kind, dag::Kind::release_group);
  EXPECT_EQ(server().store->free_bytes(), kMemory - 2 * 4096);
  ASSERT_TRUE(world->run_until([&] { return server().store->free_bytes() == kMemory - 4096; }));
  EXPECT_EQ(release("run 1").result.status, Status::ok);
  EXPECT_EQ(server().server->counters().group_arenas_released.value(), 1u);
  EXPECT_EQ(b->client->release_group(0, {}, 0), dag::Started::invalid);
  EXPECT_EQ(b->client->release_group(1, bytes_of("run"), 0), dag::Started::invalid);
  // The other one is as before, for its client too.
  EXPECT_EQ(world
                ->run(*b,
                      [&](Client& c) {
                        return c.write_record({.arena = other.result.pointer}, bytes_of("key"),
                                              bytes_of("value"), {}, 0);
                      })
                .result.status,
            Status::ok);
  EXPECT_EQ(world->run(*b, [&](Client& c) { return c.release_arena(other.result.pointer, 0); })
                .result.status,
            Status::ok);
  ASSERT_TRUE(world->run_until([&] { return server().store->free_bytes() == kMemory; }));
}

// DG-20: raw bytes lie in an arena where they were to be, and nowhere else.
TEST_F(Applications, AnImageComesInPieces) {
  make();
  constexpr std::uint64_t kBytes = 9001;
  const auto arena = world->run(*a, [](Client& c) { return c.allocate_arena(0, kBytes, 0); });
  ASSERT_EQ(arena.result.status, Status::ok);
  const dag::Entry& entry = arena.result.pointer.entry;
  Rng rng(test::seed());
  std::vector<std::byte> image(kBytes);
  for (std::byte& byte : image) {
    byte = static_cast<std::byte>(rng.next());
  }
  const std::vector<std::byte> before(server().store->memory().begin(),
                                      server().store->memory().end());
  for (std::uint64_t at = 0; at < kBytes;) {
    const std::uint64_t length = std::min<std::uint64_t>(kBytes - at, rng.between(1, 3000));
    const auto written = world->run(*a, [&](Client& c) {
      return c.write_arena(arena.result.pointer, at, std::span(image).subspan(at, length), at);
    });
    ASSERT_EQ(written.result.status, Status::ok);
    EXPECT_EQ(written.result.kind, dag::Kind::write_arena);
    at += length;
  }
  const auto owner = static_cast<std::uint32_t>(a->ids[0]);
  const auto found = server().store->arena_bytes(owner, entry.address, entry.incarnation);
  ASSERT_TRUE(found.has_value());
  EXPECT_TRUE(std::equal(found->begin(), found->end(), image.begin(), image.end()));
  const auto memory = server().store->memory();
  EXPECT_TRUE(std::equal(memory.begin() + static_cast<std::ptrdiff_t>(entry.address + kBytes),
                         memory.end(),
                         before.begin() + static_cast<std::ptrdiff_t>(entry.address + kBytes)));
  const std::vector<std::byte> much(world->config.client.buffer_bytes + 1);
  const auto write = [&](std::uint64_t at, std::size_t length) {
    return a->client->write_arena(arena.result.pointer, at, std::span(much).first(length), 0);
  };
  EXPECT_EQ(write(0, 0), dag::Started::invalid);
  EXPECT_EQ(write(kBytes, 1), dag::Started::invalid);
  EXPECT_EQ(write(kBytes - 1, 2), dag::Started::invalid);
  EXPECT_EQ(write(UINT64_MAX, 2), dag::Started::invalid);
  EXPECT_EQ(write(0, much.size()), dag::Started::invalid);
}

}  // namespace
}  // namespace rockhopper::sim::application_test
