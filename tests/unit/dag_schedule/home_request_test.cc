// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
// What clients ask of a home, and what it shows, as bytes.
#include "apps/services/dag/schedule/home_request.h"

#include <algorithm>
#include <cstring>
#include <string>

#include <gtest/gtest.h>

#include "apps/services/dag/schedule/board_writer.h"
#include "tests/sim/rng.h"
#include "tests/support/seed.h"

namespace rockhopper::dag {
namespace {

// DG-41: what is asked comes as it was meant, or not at all.
TEST(HomeRequest, Submit) {
  sim::Rng rng(test::seed());
  for (int i = 0; i < 1000; ++i) {
    const SubmitRequest request{.image_bytes = rng.next(),
                                .incarnation = rng.next(),
                                .priority = rng.between32(0, kPriorityClasses - 1),
                                .attempts = {.failed = rng.between32(1, kAttemptsMax),
                                             .lost = rng.between32(1, kAttemptsMax)}};
    const auto parsed = parse_submit(emit(request));
    ASSERT_TRUE(parsed);
    EXPECT_EQ(parsed->image_bytes, request.image_bytes);
    EXPECT_EQ(parsed->incarnation, request.incarnation);
    EXPECT_EQ(parsed->priority, request.priority);
    EXPECT_EQ(parsed->attempts.failed, request.attempts.failed);
    EXPECT_EQ(parsed->attempts.lost, request.attempts.lost);
  }
  EXPECT_FALSE(parse_submit(emit(SubmitRequest{.priority = kPriorityClasses})));
  for (const std::uint32_t bad : {0u, kAttemptsMax + 1}) {
    EXPECT_FALSE(parse_submit(emit(SubmitRequest{.attempts = {.failed = bad}})));
    EXPECT_FALSE(parse_submit(emit(SubmitRequest{.attempts = {.lost = bad}})));
  }
  const auto bytes = emit(SubmitRequest{});
  EXPECT_FALSE(parse_submit(std::span(bytes).first(bytes.size() - 1)));
  EXPECT_FALSE(parse_submit({}));
}

JoinRequest good_join() {
  return {.target = 5, .deque_capacity = 16, .path_mtu = 4096, .name = "w"};
}

// DG-38: as it is shown, others reach the worker.
TEST(HomeRequest, Join) {
  JoinRequest request = good_join();
  request.gid[3] = std::byte{9};
  request.access_key = 0x123456789abcdef0;
  request.deque_key = 77;
  request.name = "worker 31 bytes long, no more!!";
  ASSERT_EQ(request.name.size(), 31u);
  const auto bytes = emit(request);
  const auto parsed = parse_join(bytes);
  ASSERT_TRUE(parsed);
  EXPECT_EQ(parsed->gid, request.gid);
  EXPECT_EQ(parsed->target, request.target);
  EXPECT_EQ(parsed->access_key, request.access_key);
  EXPECT_EQ(parsed->deque_key, request.deque_key);
  EXPECT_EQ(parsed->deque_capacity, request.deque_capacity);
  EXPECT_EQ(parsed->path_mtu, request.path_mtu);
  EXPECT_EQ(parsed->name, request.name);
}

TEST(HomeRequest, JoinOutOfRange) {
  ASSERT_TRUE(parse_join(emit(good_join())));
  const auto refused = [](auto change) {
    JoinRequest request = good_join();
    change(request);
    return !parse_join(emit(request));
  };
  EXPECT_TRUE(refused([](JoinRequest& r) { r.target = 0; }));
  EXPECT_TRUE(refused([](JoinRequest& r) { r.deque_capacity = 0; }));
  EXPECT_TRUE(refused([](JoinRequest& r) { r.deque_capacity = 8; }));
  EXPECT_TRUE(refused([](JoinRequest& r) { r.deque_capacity = 100; }));
  EXPECT_TRUE(refused([](JoinRequest& r) { r.deque_capacity = 131072; }));
  EXPECT_TRUE(refused([](JoinRequest& r) { r.path_mtu = 0; }));
  EXPECT_TRUE(refused([](JoinRequest& r) { r.path_mtu = 1500; }));
  EXPECT_TRUE(refused([](JoinRequest& r) { r.path_mtu = 8192; }));
  EXPECT_TRUE(refused([](JoinRequest& r) { r.name = ""; }));
  EXPECT_TRUE(refused([](JoinRequest& r) { r.name = "a\nb"; }));
  EXPECT_TRUE(refused([](JoinRequest& r) { r.name = std::string_view("a\0b", 3); }));
  auto bytes = emit(good_join());
  EXPECT_FALSE(parse_join(std::span(bytes).first(bytes.size() - 1)));
  std::fill(bytes.end() - 32, bytes.end(), std::byte{'x'});
  EXPECT_FALSE(parse_join(bytes)) << "no zero behind the name";
}

TEST(Board, Texts) {
  std::array<char, 8> text;
  put_text("abc", text);
  EXPECT_EQ(text_of(text), "abc");
  put_text("a\nb\x80", text);
  EXPECT_EQ(text_of(text), "a?b?");
  put_text("longer than that", text);
  EXPECT_EQ(text_of(text), "longer ");
  text.fill('x');
  EXPECT_EQ(text_of(text), "xxxxxxxx") << "whatever its bytes are";
  for (std::uint32_t phase = 0; phase < 8; ++phase) {
    EXPECT_NE(to_string(static_cast<RunPhase>(phase)), "unknown");
  }
  EXPECT_EQ(to_string(static_cast<RunPhase>(8)), "unknown");
}

// DG-40: a slot's sequence is even, and another one after each change, whatever clients have
// written over it; what workers have counted stays.
TEST(Board, SlotsHaveASequence) {
  const BoardLayout layout{.runs = 2, .workers = 2, .pool_entries = 16};
  struct alignas(64) Line {
    std::byte bytes[64];
  };
  std::vector<Line> lines(layout.bytes() / 64 + 1);
  std::byte* memory = lines[0].bytes;
  BoardWriter board({memory, lines.size() * 64}, layout);
  const auto head = [&] {
    BoardHead read;
    std::memcpy(&read, memory, sizeof read);
    return read;
  };
  const auto run = [&] {
    RunSlot read;
    std::memcpy(&read, memory + layout.run_offset(1), sizeof read);
    return read;
  };
  EXPECT_EQ(head().magic, kBoardMagic);
  EXPECT_EQ(head().runs, 2u);
  EXPECT_EQ(head().pool_entries, 16u);
  std::uint64_t last = run().sequence;
  std::uint64_t generation = head().generation;
  for (std::uint64_t id = 1; id < 5; ++id) {
    const std::uint64_t counted = 100 + id;
    std::memcpy(memory + layout.run_offset(1) + kRunCompletedOffset, &counted, sizeof counted);
    board.show(1, RunSlot{.id = id});
    EXPECT_EQ(run().id, id);
    EXPECT_EQ(run().completed, counted);
    EXPECT_EQ(run().sequence % 2, 0u);
    EXPECT_GT(run().sequence, last);
    EXPECT_GT(head().generation, generation);
    last = run().sequence;
    generation = head().generation;
    const std::uint64_t nonsense = 3;
    std::memcpy(memory + layout.run_offset(1), &nonsense, sizeof nonsense);
  }
}

}  // namespace
}  // namespace rockhopper::dag
