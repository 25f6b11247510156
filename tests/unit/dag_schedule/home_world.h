// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "apps/services/dag/graph/graph_image.h"
#include "apps/services/dag/schedule/home.h"
#include "apps/services/dag/schedule/node_state.h"
#include "tests/dag_graph/graph_plan.h"

namespace rockhopper::dag::test {

inline std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}

/// A home with its store and board, and clients that are nothing but numbers: what a client would
/// do by RDMA, tests do in the memory. Nothing here asks the home where anything is: records are
/// found by key, the rest by the board's layout.
class HomeWorld : public HomeListener {
 public:
  struct Options {
    std::uint64_t store_bytes = 4 << 20;
    std::uint32_t records = 4096;
    std::uint32_t capacity_max = 1 << 20;
    BoardLayout board{.runs = 4, .workers = 4, .pool_entries = 1024};
    std::uint32_t slice = 16;
    bool decides = true;  ///< about graphs, at once
  };
  explicit HomeWorld(const Options& options)
      : options_(options),
        memory_(options.store_bytes / sizeof(Line)),
        board_(options.board.bytes() / sizeof(Line) + 1) {
    store = *Store::create(bytes(memory_), {.records = options.records,
                                            .capacity_max = options.capacity_max,
                                            .quarantine_ns = kQuarantineNs});
    home = *Home::create(*store, bytes(board_), *this,
                         {.board = options.board, .slice = options.slice});
  }

  void on_submitted(RunId run, std::vector<std::byte> image) override {
    submitted.emplace_back(run, std::move(image));
    if (options_.decides) decide();
  }
  void on_run_changed(RunId run, RunPhase phase) override { phases[run].push_back(phase); }
  /// About the graph that was submitted last, as a program would.
  void decide() {
    const auto& [run, image] = submitted.back();
    home->decide(run, parse_image(image, registry, {.key_bytes = 200}));
  }

  // Requests.
  ApplicationResponse ask(ClientId client, HomeRequest code, std::string_view name = {},
                          std::span<const std::byte> data = {}, std::uint64_t value = 0) {
    return home->on_request(client,
                            {.code = static_cast<std::uint8_t>(code),
                             .value = value,
                             .name = bytes_of(name),
                             .data = data},
                            now_ns);
  }
  ApplicationResponse join(ClientId client) {
    return ask(
        client, HomeRequest::join, {},
        emit(JoinRequest{.target = 7, .deque_capacity = 64, .path_mtu = 1024, .name = "worker"}));
  }
  /// Puts an image into an arena of the client, and submits it.
  ApplicationResponse submit_image(ClientId client, std::string_view name,
                                   std::span<const std::byte> image, std::uint32_t priority = 1,
                                   const RunAttempts& attempts = {}) {
    const auto arena = store->allocate_arena(static_cast<std::uint32_t>(client), image.size() + 64);
    if (arena.status != Status::ok) return {.status = arena.status};
    std::copy(image.begin(), image.end(), store->memory().begin() + arena.place.address);
    const auto answer = ask(client, HomeRequest::submit, name,
                            emit(SubmitRequest{.image_bytes = image.size(),
                                               .incarnation = arena.place.incarnation,
                                               .priority = priority,
                                               .attempts = attempts}),
                            arena.place.address);
    (void)store->release_arena(static_cast<std::uint32_t>(client), arena.place.address, now_ns);
    return answer;
  }
  /// So many turns that all has been done which needs no worker.
  void turn(unsigned count = 300) {
    for (unsigned i = 0; i < count; ++i) {
      now_ns += 1000;
      (void)home->progress(now_ns);
    }
  }
  /// As if all clients had finished what they had begun, and freed memory had rested.
  void pass_grace() {
    for (unsigned i = 0; i < 2; ++i) {
      Quarantine& quarantine = store->quarantine();
      if (quarantine.wants_grace()) quarantine.begin_grace();
      if (quarantine.in_grace()) quarantine.end_grace();
      now_ns += kQuarantineNs;
      store->collect(now_ns);
    }
  }

  // What is in the memory.
  [[nodiscard]] MapPlace place(std::string_view key) const {
    return store->lookup(bytes_of(key)).place;
  }
  [[nodiscard]] std::uint64_t& word(std::string_view key, unsigned which) const {
    return word(place(key).address, which);
  }
  [[nodiscard]] std::uint64_t& word(std::uint64_t record, unsigned which) const {
    return *reinterpret_cast<std::uint64_t*>(store->memory().data() + word_address(record, which));
  }
  [[nodiscard]] NodeState state(std::string_view key) const {
    return NodeState::from(word(key, kStateWord));
  }
  void set_state(std::string_view key, const NodeState& state) const {
    word(key, kStateWord) = state.bits();
  }
  [[nodiscard]] std::byte* board(std::uint64_t offset = 0) { return bytes(board_).data() + offset; }
  [[nodiscard]] RunSlot run_slot(std::uint64_t slot) {
    return at<RunSlot>(options_.board.run_offset(static_cast<std::uint32_t>(slot)));
  }
  [[nodiscard]] std::uint64_t& completed(std::uint32_t slot) {
    return *reinterpret_cast<std::uint64_t*>(
        board(options_.board.run_offset(slot) + kRunCompletedOffset));
  }
  [[nodiscard]] WorkerSlot worker_slot(std::uint64_t slot) {
    return at<WorkerSlot>(options_.board.worker_offset(static_cast<std::uint32_t>(slot)));
  }
  [[nodiscard]] BoardHead head() { return at<BoardHead>(0); }
  /// The slot of the run with that name, or an empty one.
  [[nodiscard]] RunSlot run_named(std::string_view name) {
    for (std::uint32_t slot = 0; slot < options_.board.runs; ++slot) {
      if (text_of(run_slot(slot).name) == name) return run_slot(slot);
    }
    return {};
  }
  [[nodiscard]] DequeEnds& pool_ends(unsigned priority) {
    return *reinterpret_cast<DequeEnds*>(
        board(options_.board.pool_offset() + DequeLayout::top_offset(priority)));
  }
  /// The entry at the top, taken as by CAS.
  [[nodiscard]] std::optional<DequeEntry> take(unsigned priority) {
    DequeEnds& ends = pool_ends(priority);
    if (ends.size() == 0) return std::nullopt;
    const auto words = at<std::array<std::uint64_t, 2>>(
        options_.board.pool_offset() + options_.board.pool().entry_offset(priority, ends.top++));
    return DequeEntry::from(words[0], words[1]);
  }
  [[nodiscard]] std::vector<NodeIndex> take_all(unsigned priority = 1) {
    std::vector<NodeIndex> nodes;
    while (const auto entry = take(priority)) {
      nodes.push_back(entry->node);
    }
    return nodes;
  }

  static constexpr std::uint64_t kQuarantineNs = 1'000'000;
  FunctionRegistry registry = digest_registry();
  std::unique_ptr<Store> store;
  std::unique_ptr<Home> home;
  std::vector<std::pair<RunId, std::vector<std::byte>>> submitted;
  std::map<RunId, std::vector<RunPhase>> phases;
  std::uint64_t now_ns = 1;

 private:
  struct alignas(64) Line {
    std::byte bytes[64];
  };
  [[nodiscard]] static std::span<std::byte> bytes(std::vector<Line>& lines) {
    return {lines[0].bytes, lines.size() * sizeof(Line)};
  }
  template <typename T>
  [[nodiscard]] T at(std::uint64_t offset) {
    T value;
    std::memcpy(&value, board(offset), sizeof value);
    return value;
  }

  Options options_;
  std::vector<Line> memory_;
  std::vector<Line> board_;
};

}  // namespace rockhopper::dag::test
