// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
// A home by itself: what it takes and refuses, how runs begin and end, its pool.
#include "apps/services/dag/schedule/home.h"

#include <algorithm>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "apps/services/dag/graph/critical_path.h"
#include "apps/services/dag/schedule/run_group.h"
#include "tests/support/seed.h"
#include "tests/unit/dag_graph/graph_builders.h"
#include "tests/unit/dag_schedule/home_world.h"

namespace rockhopper::dag::test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr ClientId kClient{3};
constexpr ClientId kWorker{4};
constexpr ClientId kOther{5};

Graph chain() {
  return *simple_builder({"a", "b", "c"}, {{"a", "b"}, {"b", "c"}}).build(digest_registry());
}
/// So many nodes and no edges.
Graph heap(std::uint32_t nodes) {
  GraphBuilder builder;
  for (std::uint32_t i = 0; i < nodes; ++i) {
    const auto node = builder.add_node({.key = "n" + std::to_string(i), .work_ns = 1 + i});
    builder.add_function(node, kDigestFunction, DigestArguments{}.emit());
  }
  return *builder.build(digest_registry());
}

/// What must be as before when nothing was stored.
struct StoreMark {
  explicit StoreMark(const Store& store) : records(store.size()), free(store.free_bytes()) {}
  std::uint32_t records;
  std::uint64_t free;
  friend bool operator==(const StoreMark&, const StoreMark&) = default;
};

void expect_work_of(HomeWorld& world, std::string_view key, ClientId worker, NodePhase phase) {
  world.set_state(key, {.phase = phase, .owner = static_cast<std::uint32_t>(worker)});
}

// DG-1, DG-4, DG-34: an image that a client has uploaded becomes records, and those that depend on
// nothing are in the pool.
TEST(Home, ASubmittedGraphBecomesRecords) {
  const GraphPlan plan =
      random_plan({.seed = ::rockhopper::test::seed(), .nodes = 200, .constraints = false});
  const auto graph = build(plan, digest_registry());
  ASSERT_TRUE(graph);
  HomeWorld world({});
  const auto answer = world.submit_image(kClient, "first", to_image(*graph), 2);
  ASSERT_EQ(answer.status, Status::ok);
  EXPECT_EQ(world.run_slot(answer.value).phase, RunPhase::checking) << "at once";
  world.turn();
  const RunSlot slot = world.run_slot(answer.value);
  EXPECT_EQ(slot.phase, RunPhase::running);
  EXPECT_EQ(text_of(slot.name), "first");
  EXPECT_EQ(slot.nodes, plan.nodes.size());
  EXPECT_EQ(slot.edges, graph->edges());
  EXPECT_EQ(slot.priority, 2u);
  EXPECT_EQ(slot.completed, 0u);
  EXPECT_EQ(world.store->size(), plan.nodes.size());
  std::set<std::uint64_t> roots;
  for (const auto& [key, node] : plan.nodes) {
    const MapPlace place = world.place("first/" + key);
    ASSERT_NE(place.incarnation, 0u);
    EXPECT_EQ(place.incarnation, slot.first_incarnation + *graph->find(key));
    EXPECT_EQ(world.word(place.address, kDependenciesWord), node.predecessors.size());
    if (node.predecessors.empty()) roots.insert(place.address);
  }
  std::set<std::uint64_t> pool;
  while (const auto entry = world.take(2)) {
    EXPECT_EQ(entry->run, answer.value);
    EXPECT_EQ(entry->label, 0u);
    EXPECT_EQ(entry->address, world.place("first/" + std::string(graph->key(entry->node))).address);
    pool.insert(entry->address);
  }
  EXPECT_EQ(pool, roots);
  EXPECT_THAT(world.phases.begin()->second, ElementsAre(RunPhase::checking, RunPhase::running));
}

// DG-33, DG-42: a graph with a cycle, an unknown function, an edge to nowhere, or no graph at all
// is refused with the reason, and the store is as it was.
TEST(Home, RefusalsLeaveTheStoreUnchanged) {
  const auto with = [](std::string_view what) {
    const Graph graph = chain();
    auto image = to_image(graph);
    const std::size_t edges =
        GraphImage::kHeaderBytes + 3 * GraphImage::kNodeBytes + 3 * GraphImage::kTaskBytes;
    const std::size_t tasks = GraphImage::kHeaderBytes + 3 * GraphImage::kNodeBytes;
    if (what == "cycle") image[edges + GraphImage::kEdgeBytes] = std::byte{0};  // b -> a
    if (what == "no node") image[edges] = std::byte{9};
    if (what == "function") image[tasks + 4] = std::byte{77};
    if (what == "version") image[tasks + 8] = std::byte{9};
    if (what == "cut") image.resize(image.size() - 1);
    if (what == "magic") image[0] = std::byte{0};
    return image;
  };
  const std::vector<std::pair<std::string_view, std::string_view>> cases{
      {"cycle", "cycle"}, {"no node", "node"}, {"function", "77"},
      {"version", "9"},   {"cut", "bytes"},    {"magic", "no graph's image"}};
  HomeWorld world({});
  const StoreMark before(*world.store);
  for (const auto& [what, text] : cases) {
    const auto answer = world.submit_image(kClient, "r", with(what));
    ASSERT_EQ(answer.status, Status::ok) << what;
    world.turn();
    const RunSlot slot = world.run_slot(answer.value);
    EXPECT_EQ(slot.phase, RunPhase::refused) << what;
    EXPECT_THAT(std::string(text_of(slot.text)), HasSubstr(std::string(text))) << what;
    EXPECT_THAT(world.take_all(), IsEmpty());
    world.pass_grace();  // the image's arena
    EXPECT_TRUE(StoreMark(*world.store) == before) << what;
  }
  // The name is not taken by what was refused.
  ASSERT_EQ(world.submit_image(kClient, "r", to_image(chain())).status, Status::ok);
  world.turn();
  EXPECT_EQ(world.run_named("r").phase, RunPhase::running);
}

// DG-33: what has no room is refused, and what was made of it meanwhile is gone again.
TEST(Home, WhatHasNoRoomIsRefused) {
  {
    HomeWorld world({.records = 2});
    const StoreMark before(*world.store);
    ASSERT_TRUE(world.home->submit("r", chain(), 1, {.failed = 1}));
    world.turn();
    EXPECT_EQ(world.run_named("r").phase, RunPhase::refused);
    EXPECT_THAT(std::string(text_of(world.run_named("r").text)), HasSubstr("3 nodes"));
    EXPECT_TRUE(StoreMark(*world.store) == before);
  }
  {
    HomeWorld world({.store_bytes = 512});
    const StoreMark before(*world.store);
    ASSERT_TRUE(world.home->submit("r", chain(), 1, {.failed = 1}));
    world.turn();
    EXPECT_EQ(world.run_named("r").phase, RunPhase::refused);
    EXPECT_TRUE(StoreMark(*world.store) == before);
  }
  {
    HomeWorld world({.capacity_max = 64});
    ASSERT_TRUE(world.home->submit("r", chain(), 1, {.failed = 1}));
    world.turn();
    EXPECT_EQ(world.run_named("r").phase, RunPhase::refused);
    EXPECT_THAT(std::string(text_of(world.run_named("r").text)), HasSubstr("'a'"));
  }
  {
    // Somebody has a record with the key of a node in the middle.
    HomeWorld world({.slice = 1});
    ASSERT_EQ(world.store->create({.key = bytes_of("r/b"), .capacity = 8}).status, Status::ok);
    const StoreMark before(*world.store);
    ASSERT_TRUE(world.home->submit("r", chain(), 1, {.failed = 1}));
    world.turn();
    EXPECT_EQ(world.run_named("r").phase, RunPhase::refused);
    EXPECT_THAT(std::string(text_of(world.run_named("r").text)), HasSubstr("'b'"));
    world.pass_grace();
    EXPECT_TRUE(StoreMark(*world.store) == before);
    EXPECT_EQ(world.store->lookup(bytes_of("r/b")).status, Status::ok);
  }
}

// DG-41: requests that make no sense have no effect, each with its counter.
TEST(Home, BadRequests) {
  HomeWorld world({});
  const auto image = to_image(chain());
  ASSERT_EQ(world.submit_image(kClient, "taken", image).status, Status::ok);
  world.turn();
  EXPECT_EQ(world.submit_image(kClient, "taken", image).status, Status::exists);
  EXPECT_EQ(world.home->counters().refused_exists.value(), 1u);
  EXPECT_EQ(world.submit_image(kClient, "no/name", image).status, Status::invalid);
  EXPECT_EQ(world.submit_image(kClient, "", image).status, Status::invalid);
  EXPECT_EQ(world.home->counters().refused_name.value(), 2u);
  EXPECT_EQ(world.submit_image(kClient, "r", image, kPriorityClasses).status, Status::invalid);
  EXPECT_EQ(world.submit_image(kClient, "r", image, 1, {.failed = 0}).status, Status::invalid);
  EXPECT_EQ(world.ask(kClient, HomeRequest::submit, "r").status, Status::invalid);
  EXPECT_EQ(world.ask(kClient, HomeRequest::join).status, Status::invalid);
  EXPECT_EQ(world.home->counters().refused_data.value(), 4u);
  // Another one's arena, a part of one, more than there is, one that is not there any more.
  const auto arena = world.store->allocate_arena(static_cast<std::uint32_t>(kOther), 4096);
  const auto submit = [&](ClientId client, std::uint64_t address, std::uint64_t bytes,
                          std::uint64_t incarnation) {
    return world
        .ask(client, HomeRequest::submit, "r",
             emit(SubmitRequest{.image_bytes = bytes, .incarnation = incarnation}), address)
        .status;
  };
  EXPECT_EQ(submit(kClient, arena.place.address, 64, arena.place.incarnation), Status::invalid);
  EXPECT_EQ(submit(kOther, arena.place.address + 64, 64, arena.place.incarnation), Status::invalid);
  EXPECT_EQ(submit(kOther, arena.place.address, 4097, arena.place.incarnation), Status::invalid);
  EXPECT_EQ(submit(kOther, arena.place.address, 64, arena.place.incarnation + 1), Status::invalid);
  EXPECT_EQ(submit(kOther, ~std::uint64_t{0}, ~std::uint64_t{0}, 1), Status::invalid);
  EXPECT_EQ(world.home->counters().refused_image.value(), 5u);
  EXPECT_EQ(world.ask(kClient, HomeRequest::cancel, "r").status, Status::not_found);
  EXPECT_EQ(world.ask(kClient, HomeRequest::drop, "r").status, Status::not_found);
  EXPECT_EQ(world.ask(kClient, HomeRequest::node_failed, "r").status, Status::not_found);
  EXPECT_EQ(world.home->counters().refused_not_found.value(), 3u);
  EXPECT_EQ(world.ask(kClient, HomeRequest::drop, "taken").status, Status::invalid);
  EXPECT_EQ(world.home->counters().refused_not_ended.value(), 1u);
  EXPECT_EQ(world.ask(kClient, static_cast<HomeRequest>(0)).status, Status::invalid);
  EXPECT_EQ(world.ask(kClient, static_cast<HomeRequest>(99)).status, Status::invalid);
  EXPECT_EQ(world.home->counters().refused_code.value(), 2u);
  EXPECT_EQ(world.ask(kClient, HomeRequest::leave).status, Status::not_found);
  // A failure of a node that the client does not run.
  EXPECT_EQ(world.join(kWorker).status, Status::ok);
  EXPECT_EQ(world.ask(kWorker, HomeRequest::node_failed, "taken").status, Status::invalid);
  EXPECT_EQ(world.ask(kWorker, HomeRequest::node_failed, "taken", {}, ~std::uint64_t{0}).status,
            Status::invalid);
  EXPECT_EQ(world.home->counters().refused_failure.value(), 2u);
  EXPECT_EQ(world.run_named("taken").phase, RunPhase::running);
}

// DG-41: as many runs as there are slots; one that was refused makes room, one that was dropped
// does when all of its memory has rested.
TEST(Home, SlotsOfRuns) {
  HomeWorld world({.board = {.runs = 2, .workers = 1, .pool_entries = 16}});
  const auto image = to_image(chain());
  const auto first = world.submit_image(kClient, "first", image);
  ASSERT_EQ(first.status, Status::ok);
  ASSERT_EQ(world.submit_image(kClient, "refused", {}).status, Status::ok);
  world.turn();
  EXPECT_EQ(world.run_named("refused").phase, RunPhase::refused);
  ASSERT_EQ(world.submit_image(kClient, "second", image).status, Status::ok);
  world.turn();
  EXPECT_EQ(world.run_named("refused").phase, RunPhase::none);
  EXPECT_EQ(world.submit_image(kClient, "third", image).status, Status::exhausted);
  EXPECT_EQ(world.home->counters().refused_runs.value(), 1u);

  world.pass_grace();
  ASSERT_EQ(world.ask(kClient, HomeRequest::cancel, "first").status, Status::ok);
  world.turn();
  ASSERT_EQ(world.ask(kClient, HomeRequest::drop, "first").status, Status::ok);
  EXPECT_EQ(world.run_slot(first.value).phase, RunPhase::none) << "at once";
  EXPECT_EQ(world.run_slot(first.value).id, 0u);
  world.turn();
  EXPECT_EQ(world.submit_image(kClient, "third", image).status, Status::exhausted)
      << "a worker may have an entry with that slot in hand still";
  world.pass_grace();
  world.turn();
  const auto third = world.submit_image(kClient, "third", image);
  ASSERT_EQ(third.status, Status::ok);
  EXPECT_EQ(third.value, first.value);
  world.turn();
  const auto entries = world.take_all();
  EXPECT_EQ(entries.size(), 2u) << "the roots of two runs, and nothing of the first one";
}

// DG-40: the end of a run is seen from the nodes' states alone.
TEST(Home, ARunIsCompleteWhenEachNodeIsReleased) {
  HomeWorld world({.slice = 2});
  ASSERT_TRUE(world.home->submit("r", chain(), 1, {.failed = 1}));
  ASSERT_EQ(world.join(kWorker).status, Status::ok);
  world.turn();
  expect_work_of(world, "r/a", kWorker, NodePhase::released);
  expect_work_of(world, "r/b", kWorker, NodePhase::released);
  expect_work_of(world, "r/c", kWorker, NodePhase::done);
  world.turn();
  EXPECT_EQ(world.run_named("r").phase, RunPhase::running) << "c may have told nobody yet";
  expect_work_of(world, "r/c", kWorker, NodePhase::released);
  world.turn();
  EXPECT_EQ(world.run_named("r").phase, RunPhase::complete);
  EXPECT_EQ(world.run_named("r").completed, 3u);
  for (const std::uint64_t late : {1u, 2u}) {
    world.completed(0) += late;
    world.turn(1);
    EXPECT_EQ(world.run_named("r").completed, 3u) << "a worker counts late";
  }
  const auto runs = world.home->runs();
  ASSERT_EQ(runs.size(), 1u);
  EXPECT_EQ(runs[0].phase, RunPhase::complete);
  EXPECT_EQ(runs[0].name, "r");
  EXPECT_EQ(runs[0].completed, 3u);
  EXPECT_EQ(world.store->size(), 3u) << "its records stay";
}

// DG-41: a run that is canceled waits for those who run something of it, and for nothing else.
TEST(Home, Cancel) {
  HomeWorld world({.slice = 2});
  ASSERT_TRUE(world.home->submit("r", chain(), 1, {.failed = 1}));
  ASSERT_EQ(world.join(kWorker).status, Status::ok);
  ASSERT_EQ(world.join(kOther).status, Status::ok);
  world.turn();
  expect_work_of(world, "r/a", kWorker, NodePhase::running);
  expect_work_of(world, "r/b", kOther, NodePhase::done);
  ASSERT_EQ(world.ask(kClient, HomeRequest::cancel, "r").status, Status::ok);
  EXPECT_EQ(world.run_named("r").phase, RunPhase::ending) << "at once";
  world.turn();
  EXPECT_EQ(world.run_named("r").phase, RunPhase::ending);
  EXPECT_EQ(world.state("r/a").phase, NodePhase::running);
  EXPECT_EQ(world.state("r/c").phase, NodePhase::canceled);
  EXPECT_EQ(world.ask(kClient, HomeRequest::drop, "r").status, Status::invalid);
  expect_work_of(world, "r/a", kWorker, NodePhase::canceled);
  world.turn();
  EXPECT_EQ(world.run_named("r").phase, RunPhase::ending) << "the other one has b";
  world.home->on_client_gone(kOther, world.now_ns);
  world.turn();
  EXPECT_EQ(world.run_named("r").phase, RunPhase::canceled);
  EXPECT_THAT(world.phases.begin()->second, ElementsAre(RunPhase::checking, RunPhase::running,
                                                        RunPhase::ending, RunPhase::canceled));
  EXPECT_EQ(world.ask(kClient, HomeRequest::cancel, "r").status, Status::ok) << "harmless";
  EXPECT_EQ(world.run_named("r").phase, RunPhase::canceled);
}

// DG-41: at every moment before it runs, and nothing is left of it.
TEST(Home, CancelBeforeItRuns) {
  HomeWorld world({.slice = 1, .decides = false});
  const StoreMark before(*world.store);
  for (unsigned turns = 0; turns < 8; ++turns) {
    ASSERT_EQ(world.submit_image(kClient, "r", to_image(chain())).status, Status::ok);
    world.turn(1);
    if (turns > 1) {
      world.decide();
      world.turn(std::min(turns - 2, 2u));
    }
    ASSERT_EQ(world.ask(kClient, HomeRequest::cancel, "r").status, Status::ok);
    world.turn();
    if (turns < 2) {
      world.decide();  // too late
      world.turn();
    }
    EXPECT_EQ(world.run_named("r").phase, RunPhase::canceled) << turns;
    ASSERT_EQ(world.ask(kClient, HomeRequest::drop, "r").status, Status::ok);
    world.turn();
    world.pass_grace();
    world.turn();
    EXPECT_TRUE(StoreMark(*world.store) == before) << turns;
    EXPECT_THAT(world.take_all(), IsEmpty());
  }
}

// DG-30, DG-41: a run that is dropped leaves nothing, whatever has been written over its records;
// and its name can be used again at once.
TEST(Home, DropLeavesNothing) {
  HomeWorld world({.slice = 1});
  const StoreMark before(*world.store);
  const auto run = world.home->submit("r", chain(), 1, {.failed = 1});
  ASSERT_TRUE(run);
  ASSERT_EQ(
      world.store
          ->allocate_arena(static_cast<std::uint32_t>(kClient), 640, RunGroup("r", *run).bytes())
          .status,
      Status::ok);
  world.turn();
  ASSERT_EQ(world.ask(kClient, HomeRequest::cancel, "r").status, Status::ok);
  world.turn();
  // The key, the incarnation, all of a head.
  const auto memory = world.store->memory();
  memory[world.place("r/a").address + sizeof(RecordHeader)] = std::byte{'x'};
  std::fill_n(memory.begin() + static_cast<std::ptrdiff_t>(world.place("r/b").address), 96,
              std::byte{0xff});
  ASSERT_EQ(world.ask(kClient, HomeRequest::drop, "r").status, Status::ok);
  ASSERT_TRUE(world.home->submit("r", chain(), 1, {.failed = 1}));
  world.turn();
  EXPECT_EQ(world.run_named("r").phase, RunPhase::running);
  EXPECT_EQ(world.store->size(), 3u);
  ASSERT_EQ(world.ask(kClient, HomeRequest::cancel, "r").status, Status::ok);
  world.turn();
  ASSERT_EQ(world.ask(kClient, HomeRequest::drop, "r").status, Status::ok);
  world.turn();
  world.pass_grace();
  EXPECT_TRUE(StoreMark(*world.store) == before);
  EXPECT_EQ(world.store->quarantine().bytes(), 0u);
  EXPECT_THAT(world.home->runs(), IsEmpty());
}

// DG-41: a node that fails is tried again, as often as the run allows; then the run fails, and says
// why.
TEST(Home, FailuresOfNodes) {
  HomeWorld world({});
  ASSERT_TRUE(world.home->submit("r", chain(), 1, {.failed = 3}));
  ASSERT_EQ(world.join(kWorker).status, Status::ok);
  world.turn();
  EXPECT_EQ(world.take_all().size(), 1u);
  const auto fail = [&](std::uint32_t attempt) {
    return world
        .ask(kWorker, HomeRequest::node_failed, "r", bytes_of("no such\nfile"),
             std::uint64_t{world.place("r/a").incarnation - world.run_named("r").first_incarnation}
                     << 32 |
                 attempt)
        .status;
  };
  for (std::uint32_t attempt = 0; attempt < 3; ++attempt) {
    EXPECT_EQ(fail(attempt), Status::invalid) << "it does not run it";
    world.set_state("r/a", {.phase = NodePhase::running,
                            .attempt = attempt,
                            .owner = static_cast<std::uint32_t>(kWorker)});
    EXPECT_EQ(fail(attempt + 1), Status::invalid) << "nor that attempt";
    EXPECT_EQ(fail(attempt), Status::ok);
    if (attempt == 2) break;
    EXPECT_EQ(world.state("r/a"), (NodeState{.phase = NodePhase::pending, .attempt = attempt + 1}));
    world.turn();
    EXPECT_EQ(world.take_all().size(), 1u) << "in the pool again";
    EXPECT_EQ(world.run_named("r").retried, attempt + 1);
  }
  world.turn();
  const RunSlot slot = world.run_named("r");
  EXPECT_EQ(slot.phase, RunPhase::failed);
  EXPECT_EQ(text_of(slot.text), "node 'a': no such?file");
  for (const std::string_view key : {"r/a", "r/b", "r/c"}) {
    EXPECT_EQ(world.state(key).phase, NodePhase::canceled) << key;
  }
}

// DG-36, DG-41: a node that takes its worker along is run again, as often as the run allows; then
// the run fails, and says why. Workers that leave by themselves, and nodes that a lost worker had
// finished, say nothing against a node.
TEST(Home, NodesThatWereLostWithTheirWorkers) {
  HomeWorld world({});
  ASSERT_TRUE(world.home->submit("r", chain(), 1, {.lost = 3}));
  ASSERT_TRUE(world.home->submit("other", chain(), 1, {.lost = 3}));
  world.turn();
  std::uint32_t number = 100;
  const auto run_and = [&](bool lose) {
    const ClientId worker{++number};
    ASSERT_EQ(world.join(worker).status, Status::ok);
    world.set_state(
        "r/a",
        {.phase = NodePhase::running, .attempt = world.state("r/a").attempt, .owner = number});
    if (!lose) {
      ASSERT_EQ(world.ask(worker, HomeRequest::leave).status, Status::ok);
    }
    world.home->on_client_gone(worker, world.now_ns);
    world.turn();
  };
  for (const bool lose : {true, false, false, false, true}) {
    run_and(lose);
    EXPECT_EQ(world.state("r/a").phase, NodePhase::pending);
    EXPECT_EQ(world.run_named("r").phase, RunPhase::running);
  }
  EXPECT_EQ(world.run_named("r").lost, 5u);
  run_and(true);
  const RunSlot slot = world.run_named("r");
  EXPECT_EQ(slot.phase, RunPhase::failed);
  EXPECT_EQ(text_of(slot.text), "node 'a': 3 workers were lost while running it");
  EXPECT_EQ(world.state("r/a").phase, NodePhase::canceled);
  EXPECT_EQ(world.run_named("other").phase, RunPhase::running) << "it has no part in that";
}

// DG-38: ready nodes that the pool has no room for wait, and come when there is; the most urgent
// ones first.
TEST(Home, ThePoolOverflows) {
  constexpr std::uint32_t kNodes = 100;
  HomeWorld world({.board = {.runs = 1, .workers = 1, .pool_entries = 16}});
  ASSERT_TRUE(world.home->submit("r", heap(kNodes), 1, {.failed = 1}));
  world.turn();
  EXPECT_EQ(world.pool_ends(1).size(), 16u);
  EXPECT_GT(world.home->counters().pool_full.value(), 0u);
  std::vector<NodeIndex> order;
  for (std::uint32_t taken = 0; taken < kNodes; ++taken) {
    const auto entry = world.take(1);
    ASSERT_TRUE(entry);
    order.push_back(entry->node);
    world.turn(taken % 7);
  }
  std::vector<NodeIndex> expected;  // the longest one first, by how the graph was made
  for (NodeIndex node = kNodes; node-- > 0;) {
    expected.push_back(node);
  }
  EXPECT_EQ(order, expected);
  world.turn();
  EXPECT_THAT(world.take_all(), IsEmpty());
}

// DG-41: runs of one class have their turns; those of another one have a deque of their own.
TEST(Home, RunsShareThePool) {
  HomeWorld world({.board = {.runs = 3, .workers = 1, .pool_entries = 16}, .slice = 1000});
  ASSERT_TRUE(world.home->submit("x", heap(100), 1, {.failed = 1}));
  ASSERT_TRUE(world.home->submit("y", heap(100), 1, {.failed = 1}));
  ASSERT_TRUE(world.home->submit("z", heap(5), 0, {.failed = 1}));
  world.turn(1);
  std::map<unsigned, unsigned> count;
  while (const auto entry = world.take(1)) {
    ++count[entry->run];
  }
  EXPECT_EQ(count.size(), 2u);
  world.turn();
  EXPECT_EQ(world.take_all(0).size(), 5u);
  for (int i = 0; i < 4; ++i) {
    while (const auto entry = world.take(1)) {
      ++count[entry->run];
    }
    world.turn(1);
  }
  const auto [least, most] = std::minmax_element(
      count.begin(), count.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  EXPECT_LE(most->second - least->second, 16u);
}

// DG-38: whatever workers write over the pool's ends, the home neither crashes nor loops.
TEST(Home, ScribbledPool) {
  HomeWorld world({.board = {.runs = 1, .workers = 1, .pool_entries = 16}});
  ASSERT_TRUE(world.home->submit("r", heap(200), 1, {.failed = 1}));
  world.turn();
  for (const std::uint64_t top :
       {~std::uint64_t{0}, std::uint64_t{1} << 63, std::uint64_t{0}, std::uint64_t{1000}}) {
    world.pool_ends(1).top = top;
    world.turn(5);
    world.pool_ends(1).bottom = top;
    world.turn(5);
  }
  ASSERT_EQ(world.ask(kClient, HomeRequest::cancel, "r").status, Status::ok);
  world.turn();
  ASSERT_EQ(world.ask(kClient, HomeRequest::drop, "r").status, Status::ok);
}

// DG-3: an entry says that there is an affinity, and to which worker as long as it is there.
TEST(Home, EntriesOfDirectedNodes) {
  for (const std::uint32_t label : {0u, 5u, 1u << 23, kSameWorker}) {
    GraphBuilder builder = simple_builder({"a", "b"}, {});
    builder.add_edge("a", "b", {.set = kOrderOnly | kAffinity, .affinity = label});
    HomeWorld world({});
    ASSERT_TRUE(
        world.home->submit("r", *builder.build(digest_registry()), 1, {.lost = kAttemptsMax}));
    ASSERT_EQ(world.join(kWorker).status, Status::ok);
    ASSERT_EQ(world.join(kOther).status, Status::ok);
    world.turn();
    EXPECT_EQ(world.take_all().size(), 1u);
    expect_work_of(world, "r/a", kWorker, NodePhase::released);
    world.word("r/b", kDependenciesWord) = 0;
    world.home->on_client_gone(kOther, world.now_ns);
    world.turn();
    auto entry = world.take(1);
    ASSERT_TRUE(entry);
    EXPECT_NE(entry->label, 0u) << "somebody has to look at it";
    if (label == 5) {
      EXPECT_EQ(entry->label, 5u);
    }
    if (label == kSameWorker) {
      EXPECT_EQ(entry->label, kWorkerLabel | static_cast<std::uint32_t>(kWorker));
    }
    world.home->on_client_gone(kWorker, world.now_ns);
    world.turn();
    entry = world.take(1);
    ASSERT_TRUE(entry);
    EXPECT_EQ(entry->label == 0, label == kSameWorker) << "anybody may, when the worker is gone";
  }
}

// DG-38: workers have slots, one for each; a client joins once.
TEST(Home, Workers) {
  HomeWorld world({.board = {.runs = 1, .workers = 2, .pool_entries = 16}});
  const auto first = world.join(kWorker);
  ASSERT_EQ(first.status, Status::ok);
  const std::uint64_t generation = world.head().generation;
  const WorkerSlot slot = world.worker_slot(first.value);
  EXPECT_EQ(slot.client, static_cast<std::uint32_t>(kWorker));
  EXPECT_EQ(slot.target, 7u);
  EXPECT_EQ(slot.deque_capacity, 64u);
  EXPECT_EQ(text_of(slot.name), "worker");
  EXPECT_EQ(slot.sequence % 2, 0u);
  EXPECT_EQ(world.join(kWorker).status, Status::exists);
  const auto second = world.join(kOther);
  ASSERT_EQ(second.status, Status::ok);
  EXPECT_GT(world.head().generation, generation);
  EXPECT_NE(second.value, first.value);
  EXPECT_EQ(world.join(kClient).status, Status::exhausted);
  EXPECT_EQ(world.home->worker_count(), 2u);
  EXPECT_EQ(world.ask(kWorker, HomeRequest::leave).status, Status::ok);
  EXPECT_EQ(world.worker_slot(first.value).client, 0u);
  EXPECT_GT(world.worker_slot(first.value).sequence, slot.sequence);
  EXPECT_EQ(world.ask(kWorker, HomeRequest::leave).status, Status::not_found);
  EXPECT_EQ(world.join(kWorker).status, Status::exists) << "only as another client";
  EXPECT_EQ(world.join(kClient).value, first.value);
  world.home->on_client_gone(kOther, world.now_ns);
  EXPECT_EQ(world.worker_slot(second.value).client, 0u);
  EXPECT_EQ(world.home->worker_count(), 1u);
}

TEST(Home, Configurations) {
  HomeWorld world({});
  struct alignas(64) Line {
    std::byte bytes[64];
  };
  std::vector<Line> lines(HomeConfig{}.board.bytes() / 64 + 1);
  const std::span<std::byte> board(lines[0].bytes, lines.size() * 64);
  const auto refused = [&](const HomeConfig& config, std::span<std::byte> memory) {
    return !Home::create(*world.store, memory, world, config);
  };
  EXPECT_FALSE(refused({}, board));
  EXPECT_TRUE(refused({}, board.first(HomeConfig{}.board.bytes() - 1)));
  EXPECT_TRUE(refused({}, board.subspan(8)));
  EXPECT_TRUE(refused({.board = {.runs = 0}}, board));
  EXPECT_TRUE(refused({.board = {.runs = 257}}, board));
  EXPECT_TRUE(refused({.board = {.workers = 0}}, board));
  EXPECT_TRUE(refused({.board = {.workers = 4097}}, board));
  EXPECT_TRUE(refused({.board = {.pool_entries = 100}}, board));
  EXPECT_TRUE(refused({.board = {.pool_entries = 8}}, board));
  EXPECT_TRUE(refused({.slice = 0}, board));
  EXPECT_FALSE(world.home->submit("no name", chain(), 1, {.failed = 1}));
  EXPECT_FALSE(world.home->submit("r", chain(), kPriorityClasses, {}));
  EXPECT_FALSE(world.home->submit("r", chain(), 1, {.failed = 0}));
  ASSERT_TRUE(world.home->submit("r", chain(), 1, {.failed = 1}));
  EXPECT_FALSE(world.home->submit("r", chain(), 1, {.failed = 1}));
}

}  // namespace
}  // namespace rockhopper::dag::test
