// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/services/dag/schedule/node_record.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <cstring>
#include <utility>

#include "apps/services/dag/graph/critical_path.h"
#include "apps/services/dag/graph/little_endian.h"
#include "apps/services/dag/record.h"
#include "apps/services/dag/schedule/node_state.h"

namespace rockhopper::dag {
namespace {

constexpr std::size_t kNodeHeadBytes = 40;
constexpr std::size_t kTaskBytes = 16;
constexpr std::size_t kLinkBytes = 48;

std::uint64_t whole_pieces(std::uint64_t bytes) {
  return (bytes + kRecordAlignment - 1) / kRecordAlignment * kRecordAlignment;
}

// Parsing.

/// Takes from the front of bytes of which nothing is known; once they did not suffice, or were not
/// zero where they must be, it has failed.
class Parser {
 public:
  explicit Parser(std::span<const std::byte> bytes) : rest_(bytes) {}
  template <std::integral T>
  [[nodiscard]] T take() {
    const auto taken = take(sizeof(T));
    T value{};
    if (good_) std::memcpy(&value, taken.data(), sizeof value);
    return value;
  }
  [[nodiscard]] std::span<const std::byte> take(std::uint64_t bytes) {
    if (!good_ || bytes > rest_.size()) {
      good_ = false;
      return {};
    }
    const auto taken = rest_.first(bytes);
    rest_ = rest_.subspan(bytes);
    return taken;
  }
  void skip_zeros(std::uint64_t bytes) {
    const auto zeros = take(bytes);
    check(std::all_of(zeros.begin(), zeros.end(), [](std::byte b) { return b == std::byte{0}; }));
  }
  /// Bytes with zeros behind them to a multiple of 8.
  [[nodiscard]] std::span<const std::byte> take_padded(std::uint64_t bytes) {
    const auto taken = take(bytes);
    skip_zeros(aligned_8(bytes) - bytes);
    return taken;
  }
  void check(bool right) { good_ = good_ && right; }
  [[nodiscard]] bool good() const { return good_; }
  [[nodiscard]] std::uint64_t left() const { return rest_.size(); }

 private:
  std::span<const std::byte> rest_;
  bool good_ = true;
};

Task take_task(Parser& parser) {
  Task task;
  const auto kind = parser.take<std::uint32_t>();
  task.function.number = parser.take<std::uint32_t>();
  task.function.version = parser.take<std::uint32_t>();
  const auto length = parser.take<std::uint32_t>();
  parser.check(kind == static_cast<std::uint32_t>(TaskKind::function) ||
               kind == static_cast<std::uint32_t>(TaskKind::command));
  task.kind = static_cast<TaskKind>(kind & 3);
  task.arguments = parser.take_padded(length);
  return task;
}

/// Returns its `extra`.
std::uint32_t take_link(Parser& parser, NodeLink& link) {
  link.address = parser.take<std::uint64_t>();
  link.incarnation = parser.take<std::uint64_t>();
  link.length = parser.take<std::uint32_t>();
  link.node = parser.take<std::uint32_t>();
  const auto set = parser.take<std::uint32_t>();
  link.constraints.set = static_cast<std::uint8_t>(set);
  link.constraints.affinity = parser.take<std::uint32_t>();
  link.constraints.not_before_ns = parser.take<std::uint64_t>();
  const auto extra = parser.take<std::uint32_t>();
  parser.skip_zeros(4);
  parser.check(link.address % kRecordAlignment == 0 && link.address < kRecordAddressEnd);
  parser.check(link.length != 0 && link.length % kRecordAlignment == 0 &&
               link.length < kRecordLengthEnd);
  parser.check(link.incarnation != 0 && set <= UINT8_MAX && problem_of(link.constraints).empty());
  return extra;
}

NodeLink take_predecessor(Parser& parser) {
  NodeLink link;
  const std::uint32_t length = take_link(parser, link);
  parser.check(length > 0 && length <= kNodeKeyMax);
  const auto key = parser.take_padded(length);
  link.key = {reinterpret_cast<const char*>(key.data()), key.size()};
  return link;
}

NodeLink take_successor(Parser& parser) {
  NodeLink link;
  const std::uint32_t directed = take_link(parser, link);
  parser.check(directed <= 1);
  link.directed = directed != 0;
  return link;
}

// Emitting.

void put_zeros(LittleEndianWriter& writer, std::uint64_t bytes) {
  constexpr std::array<std::byte, 8> kZeros{};
  writer.put(std::span(kZeros).first(bytes));
}

void put_padded(LittleEndianWriter& writer, std::span<const std::byte> bytes) {
  writer.put(bytes);
  put_zeros(writer, aligned_8(bytes.size()) - bytes.size());
}

void put_link(LittleEndianWriter& writer, const MapPlace& place, NodeIndex node,
              const EdgeConstraints& constraints, std::uint32_t extra) {
  writer.put(place.address);
  writer.put(place.incarnation);
  writer.put(place.length);
  writer.put(node);
  writer.put(std::uint32_t{constraints.set});
  writer.put(constraints.affinity);
  writer.put(constraints.not_before_ns);
  writer.put(extra);
  writer.put(std::uint32_t{0});
}

}  // namespace

bool parse_node(std::span<const std::byte> data, NodeView& view) {
  view.tasks.clear();
  view.predecessors.clear();
  view.successors.clear();
  Parser parser(data);
  view.node = parser.take<std::uint32_t>();
  const auto tasks = parser.take<std::uint32_t>();
  const auto predecessors = parser.take<std::uint32_t>();
  const auto successors = parser.take<std::uint32_t>();
  view.priority = parser.take<std::uint64_t>();
  view.work_ns = parser.take<std::uint64_t>();
  const auto directed = parser.take<std::uint8_t>();
  parser.skip_zeros(7);
  view.directed = directed != 0;
  // Before memory is reserved for them.
  const std::uint64_t least =
      tasks * std::uint64_t{kTaskBytes} +
      (std::uint64_t{predecessors} + successors) * std::uint64_t{kLinkBytes};
  parser.check(directed <= 1 && tasks > 0 && least <= parser.left());
  if (!parser.good()) return false;
  view.tasks.reserve(tasks);
  view.predecessors.reserve(predecessors);
  view.successors.reserve(successors);
  for (std::uint32_t i = 0; i < tasks && parser.good(); ++i) {
    view.tasks.push_back(take_task(parser));
  }
  for (std::uint32_t i = 0; i < predecessors && parser.good(); ++i) {
    view.predecessors.push_back(take_predecessor(parser));
  }
  for (std::uint32_t i = 0; i < successors && parser.good(); ++i) {
    view.successors.push_back(take_successor(parser));
  }
  return parser.good() && parser.left() == 0;
}

bool is_run_name(std::string_view name) {
  const auto is_good = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '_' || c == '-';
  };
  return !name.empty() && name.size() <= kRunNameMax &&
         std::all_of(name.begin(), name.end(), is_good);
}

// All records of a graph.

std::size_t NodeRecords::key_bytes(NodeIndex node) const {
  return run_.size() + 1 + graph_->key(node).size();
}

std::uint64_t NodeRecords::data_bytes(NodeIndex node) const {
  std::uint64_t bytes = kNodeHeadBytes;
  for (std::uint32_t i = 0; i < graph_->tasks_of(node); ++i) {
    bytes += kTaskBytes + aligned_8(graph_->task(node, i).arguments.size());
  }
  for (const Predecessor& predecessor : graph_->predecessors(node)) {
    bytes += kLinkBytes + aligned_8(graph_->key(predecessor.from).size());
  }
  return bytes + graph_->edges_of(node).size() * kLinkBytes;
}

Expected<NodeRecords> NodeRecords::create(const Graph& graph, std::string_view run,
                                          std::uint32_t capacity_max) {
  if (!is_run_name(run)) {
    return fail(ErrorCode::invalid_argument,
                "a run's name has 1 to {} letters, digits and any of . _ -", kRunNameMax);
  }
  NodeRecords records;
  records.graph_ = &graph;
  records.run_ = run;
  records.offsets_.reserve(std::size_t{graph.size()} + 1);
  records.directed_.resize(graph.size());
  std::uint64_t end = 0;
  for (NodeIndex node = 0; node < graph.size(); ++node) {
    records.offsets_.push_back(end);
    if (graph.key(node).size() > kNodeKeyMax) {
      return fail(ErrorCode::invalid_argument, "node {} has a key of {} bytes, {} is the limit",
                  key_text(graph.key(node)), graph.key(node).size(), kNodeKeyMax);
    }
    const std::uint64_t data = records.data_bytes(node);
    if (data > capacity_max) {
      return fail(ErrorCode::exhausted,
                  "the record of node {} has {} bytes with {} tasks and {} edges, {} is the limit",
                  key_text(graph.key(node)), data, graph.tasks_of(node),
                  graph.predecessors(node).size() + graph.edges_of(node).size(), capacity_max);
    }
    const std::uint64_t length =
        whole_pieces(record_bytes(records.key_bytes(node), static_cast<std::uint32_t>(data), 1));
    if (length >= kRecordLengthEnd) {
      return fail(ErrorCode::exhausted, "the record of node {} is too long",
                  key_text(graph.key(node)));
    }
    end += length;
    for (const Edge& edge : graph.edges_of(node)) {
      if ((edge.constraints.set & kAffinity) != 0) records.directed_[edge.to] = true;
    }
  }
  records.offsets_.push_back(end);
  if (end > UINT32_MAX) {
    return fail(ErrorCode::exhausted, "the graph's records have {} bytes, {} is the limit", end,
                UINT32_MAX);
  }
  auto work = work_of(graph);
  for (std::uint64_t& ns : work) {
    ns = std::max<std::uint64_t>(ns, 1);
  }
  records.priority_ = urgencies(graph, work);
  return records;
}

void NodeRecords::set_place(std::uint64_t address, std::uint64_t first_incarnation) {
  address_ = address;
  first_incarnation_ = first_incarnation;
}

std::string NodeRecords::key(NodeIndex node) const {
  std::string key = run_;
  key += '/';
  key += graph_->key(node);
  return key;
}

MapPlace NodeRecords::place(NodeIndex node) const {
  return {.incarnation = first_incarnation_ + node,
          .address = address(node),
          .length = static_cast<std::uint32_t>(offsets_[node + 1] - offsets_[node])};
}

void NodeRecords::compose(NodeIndex node, std::span<std::byte> out) const {
  const auto bytes = static_cast<std::uint32_t>(data_bytes(node));
  // Where compose_record() would put them.
  const auto data = out.subspan(slot_offset(key_bytes(node), bytes, 0) + sizeof(SlotHeader), bytes);
  const auto predecessors = graph_->predecessors(node);
  const auto successors = graph_->edges_of(node);
  LittleEndianWriter writer(data);
  writer.put(node);
  writer.put(graph_->tasks_of(node));
  writer.put(static_cast<std::uint32_t>(predecessors.size()));
  writer.put(static_cast<std::uint32_t>(successors.size()));
  writer.put(priority_[node]);
  writer.put(graph_->work_ns(node));
  writer.put(static_cast<std::uint8_t>(directed_[node] ? 1 : 0));
  put_zeros(writer, 7);
  for (std::uint32_t i = 0; i < graph_->tasks_of(node); ++i) {
    const Task task = graph_->task(node, i);
    writer.put(static_cast<std::uint32_t>(task.kind));
    writer.put(task.function.number);
    writer.put(task.function.version);
    writer.put(static_cast<std::uint32_t>(task.arguments.size()));
    put_padded(writer, task.arguments);
  }
  for (const Predecessor& predecessor : predecessors) {
    const std::string_view key = graph_->key(predecessor.from);
    put_link(writer, place(predecessor.from), predecessor.from,
             graph_->edge(predecessor.edge).constraints, static_cast<std::uint32_t>(key.size()));
    put_padded(writer, bytes_of(key));
  }
  for (const Edge& edge : successors) {
    put_link(writer, place(edge.to), edge.to, edge.constraints, directed_[edge.to] ? 1 : 0);
  }
  const std::string key = this->key(node);
  ControlWords control{};
  control[kStateWord] = NodeState{}.bits();
  control[kDependenciesWord] = predecessors.size();
  compose_record({.key = bytes_of(key),
                  .incarnation = place(node).incarnation,
                  .capacity = bytes,
                  .slots = 1,
                  .control = control,
                  .data = data},
                 out);
}

}  // namespace rockhopper::dag
