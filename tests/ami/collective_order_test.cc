// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
// Collectives over lanes without an adapter: messages come in any order, also between two ranks,
// and come again when nobody knows what became of them; a request ends once, with the model's
// result (AM-8, AM-22, AM-23, AM-28).
#include <algorithm>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "apps/services/ami/collectives.h"
#include "apps/services/ami/context.h"
#include "stack/telemetry.h"
#include "tests/ami/collective_script.h"
#include "tests/sim/rng.h"
#include "tests/sim/seeded_runs.h"

namespace rockhopper::sim::collective_order_test {
namespace {

using ami::EndpointId;
using ami::Injected;
using ami::Status;

constexpr std::uint32_t kVectorBytes = 64;
constexpr std::uint32_t kSteps = 2'000'000;

struct Totals {
  std::uint64_t ended = 0;
  std::uint64_t resent = 0;
  std::uint64_t repeated = 0;
  std::uint64_t early = 0;
};

/// A message between an injection FIFO and the peer's context.
struct UnderWay {
  EndpointId from = 0;
  std::uint64_t place = 0;  ///< of its completion descriptor
  ami::Descriptor descriptor;
  std::vector<std::byte> bytes;  ///< header, and payload if it was copied
};

struct Entry {
  explicit Entry(const ami::Callback& callback) : request(callback) {}
  ami::Request request;
  std::vector<std::byte> memory;
  bool ended = false;
};

struct Node {
  explicit Node(const ami::LaneConfig& config) : lane(config), context(lane, 4) {}
  ami::Lane lane;
  ami::Context context;
  std::unique_ptr<ami::Communicator> communicator;
  std::vector<std::unique_ptr<Entry>> entries;
  std::deque<std::vector<std::byte>> arrived;  ///< as long as handlers may look at it
  std::size_t next = 0;
  std::size_t ended = 0;
};

class OrderRun {
 public:
  OrderRun(std::uint64_t seed, Totals& totals);
  std::string run();

 private:
  void start(Node& node, std::size_t rank);
  void take(std::size_t from);
  void deliver(UnderWay& message);
  void on_end(Node& node, std::size_t index, Status status);
  void fail(std::string text) {
    if (error_.empty()) error_ = std::move(text);
  }

  Rng rng_;
  Totals& totals_;
  std::vector<Planned> script_;
  std::vector<std::unique_ptr<Node>> nodes_;
  std::vector<std::pair<OrderRun*, Node*>> contexts_;
  std::vector<UnderWay> under_way_;
  std::string error_;
};

OrderRun::OrderRun(std::uint64_t seed, Totals& totals) : rng_(seed), totals_(totals) {
  const unsigned ranks = rng_.between32(1, 12);
  const auto window = rng_.pick<std::uint16_t>({2, 4, 16});
  for (unsigned i = 0; i < 40; ++i) {
    script_.push_back(draw_collective(rng_, ranks, kVectorBytes, 5000, rng_.chance(20)));
  }
  ami::CommunicatorConfig config;
  config.window = window;
  config.vector_bytes = kVectorBytes;
  for (unsigned i = 0; i < ranks; ++i) {
    config.members.push_back(static_cast<EndpointId>(i));
  }
  contexts_.reserve(ranks);
  for (unsigned i = 0; i < ranks; ++i) {
    ami::LaneConfig lane;
    lane.self = static_cast<EndpointId>(i);
    lane.max_endpoints = static_cast<std::uint16_t>(ranks);
    lane.fifo.slots = 16;
    nodes_.push_back(std::make_unique<Node>(lane));
    Node& node = *nodes_.back();
    config.rank = static_cast<ami::Rank>(i);
    node.communicator = must(ami::Communicator::create(node.context, config));
    contexts_.emplace_back(this, &node);
    for (std::size_t at = 0; at < script_.size(); ++at) {
      node.entries.push_back(std::make_unique<Entry>(ami::Callback{
          .function =
              [](void* context, std::uint64_t cookie, Status status) {
                auto& [run, self] = *static_cast<std::pair<OrderRun*, Node*>*>(context);
                run->on_end(*self, cookie, status);
              },
          .context = &contexts_.back(),
          .cookie = at}));
    }
  }
}

void OrderRun::start(Node& node, std::size_t rank) {
  if (node.next == script_.size()) return;
  const Planned& planned = script_[node.next];
  Entry& entry = *node.entries[node.next];
  entry.memory = given(planned, static_cast<unsigned>(rank));
  ami::Communicator& communicator = *node.communicator;
  Injected injected = Injected::again;
  const std::size_t count = entry.memory.size() / 8;
  if (planned.kind == Planned::Kind::barrier) {
    injected = communicator.barrier(entry.request);
  } else if (planned.kind == Planned::Kind::broadcast) {
    injected =
        communicator.broadcast({.addr = reinterpret_cast<std::uintptr_t>(entry.memory.data()),
                                .length = static_cast<std::uint32_t>(entry.memory.size())},
                               static_cast<ami::Rank>(planned.root), entry.request);
  } else if (planned.element == ami::ElementType::int64) {
    injected = communicator.all_reduce(
        std::span(reinterpret_cast<std::int64_t*>(entry.memory.data()), count), planned.reduction,
        entry.request);
  } else if (planned.element == ami::ElementType::uint64) {
    injected = communicator.all_reduce(
        std::span(reinterpret_cast<std::uint64_t*>(entry.memory.data()), count), planned.reduction,
        entry.request);
  } else {
    injected =
        communicator.all_reduce(std::span(reinterpret_cast<double*>(entry.memory.data()), count),
                                planned.reduction, entry.request);
  }
  if (injected == Injected::yes) ++node.next;
}

/// One transfer and its completion descriptor from the FIFO.
void OrderRun::take(std::size_t from) {
  ami::InjectionFifo<>& fifo = nodes_[from]->lane.fifo;
  const ami::Descriptor* descriptor = fifo.front();
  if (descriptor == nullptr) return;
  UnderWay message{.from = static_cast<EndpointId>(from), .descriptor = *descriptor};
  const bool copied = (descriptor->flags & ami::Descriptor::kImmediate) != 0;
  const std::byte* bytes = fifo.immediate();
  message.bytes.assign(bytes,
                       bytes + descriptor->header_length + (copied ? descriptor->length : 0));
  fifo.pop();
  message.place = fifo.front_place();
  if (fifo.front() == nullptr || fifo.front()->type != ami::Descriptor::Type::completion) {
    return fail("a message of a collective without a callback");
  }
  fifo.pop();
  under_way_.push_back(std::move(message));
}

void OrderRun::deliver(UnderWay& message) {
  const ami::Descriptor& descriptor = message.descriptor;
  std::vector<std::byte> bytes = message.bytes;
  if ((descriptor.flags & ami::Descriptor::kImmediate) == 0) {
    const auto* payload = reinterpret_cast<const std::byte*>(descriptor.local_addr);
    bytes.insert(bytes.end(), payload, payload + descriptor.length);
  }
  Node& to = *nodes_.at(descriptor.endpoint);
  to.arrived.push_back(std::move(bytes));
  const std::byte* header = to.arrived.back().data();
  if (!to.lane.arrivals.push({.kind = ami::Arrival::Kind::rendezvous,
                              .source = message.from,
                              .handler = descriptor.handler,
                              .header_length = descriptor.header_length,
                              .length = descriptor.length,
                              .bytes = header + descriptor.header_length,
                              .header = header})) {
    fail("no room for an arrival");
  }
}

void OrderRun::on_end(Node& node, std::size_t index, Status status) {
  Entry& entry = *node.entries[index];
  if (entry.ended) fail(fmt::format("collective {} ended again", index));
  entry.ended = true;
  ++node.ended;
  ++totals_.ended;
  if (status != Status::ok) fail(fmt::format("collective {}: {}", index, to_string(status)));
  if (script_[index].kind == Planned::Kind::barrier) return;
  if (entry.memory != expected(script_[index], static_cast<unsigned>(nodes_.size()))) {
    fail(fmt::format("collective {} has another result", index));
  }
  // Nobody reads it any more.
  std::fill(entry.memory.begin(), entry.memory.end(), std::byte{0xee});
}

std::string OrderRun::run() {
  const auto finished = [this](const auto& node) {
    return node->ended == script_.size() && node->communicator->idle();
  };
  std::uint32_t steps = 0;
  while (error_.empty() && !std::all_of(nodes_.begin(), nodes_.end(), finished)) {
    if (++steps > kSteps) fail("not finished");
    const std::size_t rank = rng_.between(0, nodes_.size() - 1);
    Node& node = *nodes_[rank];
    start(node, rank);
    take(rank);
    if (!under_way_.empty() && rng_.chance(70)) {
      const std::size_t which = rng_.between(0, under_way_.size() - 1);
      UnderWay message = std::move(under_way_[which]);
      under_way_.erase(under_way_.begin() + static_cast<std::ptrdiff_t>(which));
      Status status = Status::ok;
      if (rng_.chance(10)) status = rng_.pick({Status::outcome_unknown, Status::flushed});
      if (status == Status::ok || (status == Status::outcome_unknown && rng_.chance(60))) {
        deliver(message);
      }
      nodes_[message.from]->lane.fifo.complete(message.place, status);
    }
    (void)node.context.advance();
    ami::Handled handled;
    while (node.lane.handled.pop(handled)) {
      node.arrived.pop_front();
    }
  }
  for (const auto& node : nodes_) {
    const ami::CollectiveCounters& counters = node->communicator->counters();
    totals_.resent += counters.tx_again.value();
    totals_.repeated += counters.rx_repeated.value();
    totals_.early += counters.rx_early.value();
    if (error_.empty() && counters.rx_unexpected.value() + counters.rx_mismatch.value() > 0) {
      fail("a message was refused");
    }
  }
  return error_;
}

TEST(CollectiveOrder, AnyOrderAndMessagesThatComeAgain) {
  Totals totals;
  run_seeds("any order", seeds_or(1'000), 200, [&](std::uint64_t seed) {
    auto run = std::make_unique<OrderRun>(seed, totals);
    std::string error = run->run();
    if (!error.empty()) (void)run.release();
    return error;
  });
  expect_met(totals.resent);
  expect_met(totals.repeated);
  expect_met(totals.early);
}

/// One rank, whose peers are the test: what it says of messages that should not have come.
class CollectiveRefusals : public testing::Test {
 protected:
  CollectiveRefusals() {
    config_.max_endpoints = 5;
    node_ = std::make_unique<Node>(config_);
    ami::CommunicatorConfig config;
    config.members = {0, 1, 2, 3};
    config.window = 4;
    config.vector_bytes = kVectorBytes;
    node_->communicator = must(ami::Communicator::create(node_->context, config));
  }
  ~CollectiveRefusals() override {
    // As when the adapter closes the lane.
    node_->communicator->cancel();
    while (!node_->communicator->idle()) {
      advance();
    }
  }

  /// A message of rank `source`.
  void hear(EndpointId source, const ami::CollectiveMessage& message, std::size_t payload = 0) {
    std::vector<std::byte> bytes(ami::CollectiveMessage::kSize + payload, std::byte{1});
    message.emit(std::span<std::byte, ami::CollectiveMessage::kSize>(
        bytes.data(), ami::CollectiveMessage::kSize));
    hear_bytes(source, bytes, payload);
  }
  void hear_bytes(EndpointId source, const std::vector<std::byte>& bytes, std::size_t payload) {
    ASSERT_TRUE(node_->lane.arrivals.push(
        {.kind = ami::Arrival::Kind::rendezvous,
         .source = source,
         .handler = ami::Context::kHandlers,
         .header_length = static_cast<std::uint16_t>(bytes.size() - payload),
         .length = static_cast<std::uint32_t>(payload),
         .bytes = bytes.data() + bytes.size() - payload,
         .header = bytes.data()}));
    advance();
  }
  void advance() {
    (void)node_->context.advance();
    ami::InjectionFifo<>& fifo = node_->lane.fifo;
    for (; fifo.front() != nullptr; fifo.pop()) {
      if (fifo.front()->type == ami::Descriptor::Type::completion) {
        fifo.complete(fifo.front_place(), Status::ok);
      }
    }
    (void)node_->context.advance();
    ami::Handled handled;
    while (node_->lane.handled.pop(handled)) {
    }
  }
  [[nodiscard]] const ami::CollectiveCounters& counters() const {
    return node_->communicator->counters();
  }

  static constexpr ami::CollectiveCall kBarrier{.type = ami::CollectiveType::barrier};
  ami::LaneConfig config_;
  std::unique_ptr<Node> node_;
};

TEST_F(CollectiveRefusals, EachHasItsCounter) {
  hear_bytes(1, std::vector<std::byte>(15), 0);
  hear_bytes(1, std::vector<std::byte>(16), 0);
  EXPECT_EQ(counters().rx_malformed.value(), 2u);
  hear(4, {.call = kBarrier, .round = 0});
  EXPECT_EQ(counters().rx_not_member.value(), 1u);
  hear(1, {.call = {.type = ami::CollectiveType::broadcast, .root = 1, .length = 72}}, 72);
  EXPECT_EQ(counters().rx_too_long.value(), 1u);
  hear(2, {.call = kBarrier, .round = 0});                 // rank 3 is whom round 0 awaits
  hear(3, {.call = kBarrier, .round = 7});                 // no such round
  hear(3, {.call = kBarrier, .round = 0, .sequence = 4});  // beyond the window
  EXPECT_EQ(counters().rx_unexpected.value(), 3u);
  hear(3, {.call = kBarrier, .round = 0, .sequence = UINT32_MAX, .again = true});
  EXPECT_EQ(counters().rx_repeated.value(), 1u);
  hear(3, {.call = kBarrier, .round = 0});
  hear(3, {.call = kBarrier, .round = 0});
  EXPECT_EQ(counters().rx_repeated.value(), 2u);
  EXPECT_EQ(counters().rx_early.value(), 1u);
  // A long broadcast's bytes have no place before its start.
  const ami::CollectiveCall call{
      .type = ami::CollectiveType::long_broadcast, .root = 3, .length = 100};
  hear(3, {.call = call, .round = 0, .sequence = 1}, 100);
  EXPECT_EQ(counters().rx_unexpected.value(), 4u);
  EXPECT_EQ(node_->communicator->status(), Status::ok);
}

/// As telemetry sees them (SYS-2).
TEST_F(CollectiveRefusals, CountersAreVisitedByName) {
  hear(4, {.call = kBarrier, .round = 0});
  std::map<std::string, std::uint64_t> found;
  const auto add = [](void* to, const char* name, std::uint64_t value) {
    (*static_cast<std::map<std::string, std::uint64_t>*>(to))[name] = value;
  };
  node_->communicator->visit_counters(add, &found);
  EXPECT_EQ(found.at("rx_not_member"), 1u);
  EXPECT_EQ(found.at("rx_repeated"), 0u);
  found.clear();
  node_->context.visit_counters(add, &found);
  EXPECT_EQ(found.at("messages"), 1u);
  EXPECT_EQ(found.at("unknown_handlers"), 0u);
  must(stack::add_counter_group("ami_context", node_->context));
  must(stack::add_counter_group("ami_collectives", *node_->communicator));
}

TEST_F(CollectiveRefusals, AnotherCollectiveThanOursBreaksTheCommunicatorOnce) {
  ami::Request first;
  ami::Request second;
  EXPECT_EQ(node_->communicator->barrier(first), Injected::yes);
  EXPECT_EQ(node_->communicator->barrier(second), Injected::yes);
  hear(3, {.call = {.type = ami::CollectiveType::broadcast, .root = 3, .length = 8}, .round = 0},
       8);
  EXPECT_EQ(counters().rx_mismatch.value(), 1u);
  EXPECT_TRUE(first.done() && second.done());
  EXPECT_EQ(first.status(), Status::invalid);
  ami::Request later;
  EXPECT_EQ(node_->communicator->barrier(later), Injected::yes);
  EXPECT_FALSE(later.done());
  advance();
  EXPECT_TRUE(later.done());
  EXPECT_EQ(later.status(), Status::invalid);
  EXPECT_EQ(counters().failed.value(), 3u);
  // Four ranks: all others may wait for this one.
  EXPECT_EQ(counters().tx_aborts.value(), 3u);
}

/// Its sender waits in vain for an answer.
TEST_F(CollectiveRefusals, AMessageOfACollectiveThatHasEndedBreaksTheCommunicator) {
  hear(3, {.call = kBarrier, .round = 0, .sequence = UINT32_MAX});
  EXPECT_EQ(counters().rx_mismatch.value(), 1u);
  EXPECT_EQ(node_->communicator->status(), Status::invalid);
  EXPECT_EQ(counters().tx_aborts.value(), 3u);
}

TEST_F(CollectiveRefusals, WrongArgumentsBreakTheCommunicator) {
  std::vector<double> vector(2);
  ami::Request request;
  EXPECT_EQ(node_->communicator->all_reduce(std::span(vector), ami::Reduction::bit_or, request),
            Injected::yes);
  advance();
  EXPECT_TRUE(request.done());
  EXPECT_EQ(request.status(), Status::invalid);
}

TEST_F(CollectiveRefusals, APeerThatFailsAndAClosedLane) {
  ami::Request request;
  EXPECT_EQ(node_->communicator->barrier(request), Injected::yes);
  EXPECT_TRUE(node_->lane.watches.contains(3));
  EXPECT_TRUE(node_->lane.watches.contains(2));
  EXPECT_FALSE(node_->lane.watches.contains(1));
  ASSERT_TRUE(node_->lane.arrivals.push({.kind = ami::Arrival::Kind::peer_failed, .source = 4}));
  advance();
  EXPECT_FALSE(request.done()) << "it is not in the communicator";
  ASSERT_TRUE(node_->lane.arrivals.push({.kind = ami::Arrival::Kind::peer_failed, .source = 1}));
  advance();
  EXPECT_EQ(request.status(), Status::unreachable);
  EXPECT_TRUE(request.done());
  EXPECT_FALSE(node_->lane.watches.any());
  ASSERT_TRUE(node_->lane.arrivals.push({.kind = ami::Arrival::Kind::closed}));
  advance();
  EXPECT_EQ(node_->communicator->status(), Status::unreachable);
  // Another one with that rank is broken from the beginning.
  const auto next = must(ami::Communicator::create(node_->context, {.id = 1, .members = {0, 1}}));
  EXPECT_EQ(next->status(), Status::unreachable);
}

}  // namespace
}  // namespace rockhopper::sim::collective_order_test
