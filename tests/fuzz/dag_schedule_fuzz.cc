// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
//
// What a home takes from clients, and a worker from records. The first byte of an input says what
// the rest is: the data of a node's record; a request to submit or to join; a graph's records, and
// changes to one; requests to a home, whose records and board are scribbled over meanwhile.
#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "apps/services/dag/graph/digest_task.h"
#include "apps/services/dag/graph/graph_builder.h"
#include "apps/services/dag/graph/graph_image.h"
#include "apps/services/dag/schedule/home.h"
#include "apps/services/dag/schedule/node_record.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/fuzz/input.h"

namespace rockhopper::fuzz {
namespace {

using namespace dag;

enum Mode : std::uint8_t { kNode, kRequest, kRecord, kHome, kModes };

struct alignas(64) Line {
  std::byte bytes[64];
};
std::span<std::byte> bytes_of(std::vector<Line>& lines) {
  return {lines[0].bytes, lines.size() * sizeof(Line)};
}

const FunctionRegistry& registry() {
  static const FunctionRegistry kRegistry = [] {
    FunctionRegistry made;
    check(add_digest_function(made).has_value());
    return made;
  }();
  return kRegistry;
}

/// Up to 8 nodes in a chain, with edges beside it.
Graph small_graph(Input& input) {
  GraphBuilder builder;
  const NodeIndex nodes = 1 + input.u8() % 8u;
  for (NodeIndex node = 0; node < nodes; ++node) {
    const std::string key(1, static_cast<char>('a' + node));
    (void)builder.add_node({.key = key, .work_ns = input.u8()});
    builder.add_function(node, kDigestFunction, DigestArguments{}.emit());
    if (node > 0) builder.add_edge(node - 1, node, {.set = kData});
  }
  const std::uint8_t set = input.u8();
  for (NodeIndex node = 2; node < nodes; ++node) {
    if ((set >> node & 1) == 0) continue;
    builder.add_edge(node - 2, node,
                     {.set = kOrderOnly | kAffinity | kNotBefore,
                      .affinity = node,
                      .not_before_ns = input.u8()});
  }
  return *builder.build(registry());
}

/// Whatever it says, it lies in the bytes given, and can be followed.
void check_node(std::span<const std::byte> data) {
  NodeView view;
  if (!parse_node(data, view)) return;
  const auto lies_within = [data](const void* begin, std::size_t size) {
    const auto* from = static_cast<const std::byte*>(begin);
    return size == 0 || (from >= data.data() && from + size <= data.data() + data.size());
  };
  check(!view.tasks.empty());
  for (const Task& task : view.tasks) {
    check(lies_within(task.arguments.data(), task.arguments.size()));
  }
  for (const NodeLink& link : view.predecessors) {
    check(!link.key.empty() && link.key.size() <= kNodeKeyMax);
    check(lies_within(link.key.data(), link.key.size()));
  }
  for (const auto* links : {&view.predecessors, &view.successors}) {
    for (const NodeLink& link : *links) {
      check(link.address % kRecordAlignment == 0 && link.address < kRecordAddressEnd);
      check(link.length % kRecordAlignment == 0 && link.length < kRecordLengthEnd);
      check(link.length > 0 && link.incarnation != 0 && problem_of(link.constraints).empty());
    }
  }
}

void check_requests(std::span<const std::byte> bytes) {
  if (const auto request = parse_submit(bytes)) check(std::ranges::equal(emit(*request), bytes));
  if (const auto request = parse_join(bytes)) check(std::ranges::equal(emit(*request), bytes));
}

void check_record(Input& input) {
  const Graph graph = small_graph(input);
  NodeRecords records = *NodeRecords::create(graph, "run");
  records.set_place(0, 1);
  const NodeIndex node = input.u8() % graph.size();
  const MapPlace place = records.place(node);
  std::vector<std::byte> bytes(place.length);
  records.compose(node, bytes);
  const RecordView record = examine_record(bytes, place.incarnation, std::nullopt);
  check(record.verdict == Verdict::match);
  std::vector<std::byte> data(record.data.begin(), record.data.end());
  NodeView view;
  check(parse_node(data, view) && view.node == node);
  while (!input.empty()) {
    data[input.u16() % data.size()] = static_cast<std::byte>(input.u8());
  }
  check_node(data);
}

class Decider : public HomeListener {
 public:
  void on_submitted(RunId run, std::vector<std::byte> image) override {
    home->decide(run, parse_image(image, registry()));
  }
  Home* home = nullptr;
};

void check_home(Input& input) {
  const BoardLayout layout{.runs = 2, .workers = 2, .pool_entries = 16};
  std::vector<Line> lines(512);
  std::vector<Line> board_lines(layout.bytes() / sizeof(Line) + 1);
  const auto memory = bytes_of(lines);
  const auto board = bytes_of(board_lines);
  auto store = *Store::create(memory, {.records = 24, .capacity_max = 4096, .quarantine_ns = 3});
  Decider decider;
  auto home = *Home::create(*store, board, decider, {.board = layout, .slice = 3});
  decider.home = home.get();
  const std::array<std::string, 3> names{"x", "y", "z"};
  for (std::uint64_t now_ns = 1; !input.empty(); now_ns += input.u8()) {
    const ClientId client{1 + input.u8() % 4u};
    const std::string& name = names[input.u8() % names.size()];
    switch (input.u8() % 7) {
      case 0:
        (void)home->submit(name, small_graph(input), input.u8() % 5u, {.failed = input.u8() % 4u});
        break;
      case 1: {
        const auto image = to_image(small_graph(input));
        const auto owner = static_cast<std::uint32_t>(client);
        const auto arena = store->allocate_arena(owner, image.size());
        if (arena.status != Status::ok) break;
        std::copy(image.begin(), image.end(), memory.begin() + arena.place.address);
        memory[arena.place.address + input.u16() % image.size()] ^=
            static_cast<std::byte>(input.u8());
        const auto data = emit(SubmitRequest{.image_bytes = image.size() - input.u8() % 2u,
                                             .incarnation = arena.place.incarnation});
        (void)home->on_request(client,
                               {.code = 1,
                                .value = arena.place.address,
                                .name = std::as_bytes(std::span(name)),
                                .data = data},
                               now_ns);
        (void)store->release_arena(owner, arena.place.address, now_ns);
        break;
      }
      case 2: {
        const std::uint8_t code = input.u8() % 8;
        const std::uint64_t value = std::uint64_t{input.u8()} << 32 | input.u8();
        const auto join =
            emit(JoinRequest{.target = 1, .deque_capacity = 16, .path_mtu = 1024, .name = "w"});
        const auto noise = std::as_bytes(input.take(input.u8()));
        const bool joins = code == static_cast<std::uint8_t>(HomeRequest::join);
        const bool leaves = code == static_cast<std::uint8_t>(HomeRequest::leave);
        (void)home->on_request(
            client,
            {.code = code,
             .value = value,
             .name = leaves ? std::span<const std::byte>() : std::as_bytes(std::span(name)),
             .data = joins    ? std::span<const std::byte>(join)
                     : leaves ? std::span<const std::byte>()
                              : noise},
            now_ns);
        break;
      }
      case 3:
        home->on_client_gone(client, now_ns);
        break;
      case 4: {
        // A word of a record, or anything.
        const std::size_t at = input.u16() % memory.size();
        const std::uint64_t word =
            std::uint64_t{input.u8()} << 32 | std::uint64_t{input.u8()} << 8 | input.u8() % 8u;
        std::memcpy(memory.data() + at / 8 * 8, &word, sizeof word);
        break;
      }
      case 5:
        board[input.u16() % board.size()] = static_cast<std::byte>(input.u8());
        break;
      default:
        for (unsigned turns = input.u8() % 16; turns > 0; --turns) {
          (void)home->progress(now_ns);
        }
        if (store->quarantine().in_grace()) {
          store->quarantine().end_grace();
        } else if (store->quarantine().wants_grace()) {
          store->quarantine().begin_grace();
        }
        store->collect(now_ns);
        break;
    }
    check(home->runs().size() <= layout.runs && home->worker_count() <= layout.workers);
  }
}

void run(std::span<const std::uint8_t> bytes) {
  Input input(bytes);
  const auto rest = std::as_bytes(bytes.empty() ? bytes : bytes.subspan(1));
  switch (input.u8() % kModes) {
    case kNode:
      return check_node(rest);
    case kRequest:
      return check_requests(rest);
    case kRecord:
      return check_record(input);
    default:
      return check_home(input);
  }
}

/// What the packet has behind its first byte are the operations.
test::Bytes make_input(const test::RocePacket& packet) {
  const auto transport = packet.transport();
  test::Bytes input(1 + transport.size());
  input[0] = static_cast<std::uint8_t>(transport.size() % kModes);
  std::copy(transport.begin(), transport.end(), input.begin() + 1);
  return input;
}

const FuzzTarget kTarget("dag_schedule", run, make_input);

}  // namespace
}  // namespace rockhopper::fuzz
