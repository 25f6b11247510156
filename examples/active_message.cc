// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
//
// Active messages: a message names a function of the receiver, a handler, which is called with what
// came. Here one node asks another to add numbers, whose handler answers with a message of its own;
// and it is told, by callback, when the peer's handler has run. No call waits for anything.
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <memory>
#include <span>
#include <vector>

#include "apps/services/ami/adapter.h"
#include "apps/services/ami/context.h"
#include "support.h"

using example::must;
using namespace rockhopper;

namespace {

constexpr unsigned kQuestions = 100;
constexpr std::uint64_t kTimeoutNs = 60'000'000'000;

enum Handler : std::uint16_t { kAdd = 1, kSum = 2 };
constexpr ami::EndpointId kAsker = 0;
constexpr ami::EndpointId kAdder = 1;

/// The adapter belongs to the engine's thread and a context to the application's, which may be
/// another one; a lane is what they share.
struct Messenger {
  Messenger(Node& on, ami::EndpointId self)
      : node(on),
        adapter(must(ami::Adapter::create(on.engine(), &on.dc(), {}))),
        lane(must(adapter->add_lane({.self = self}))),
        context(*lane) {}
  [[nodiscard]] const dc::Dct& target() const { return adapter->target(*lane); }
  void turn() {
    adapter->progress(node.now_ns());
    context.advance();  // calls callbacks and handlers
  }

  Node& node;
  std::unique_ptr<ami::Adapter> adapter;
  ami::Lane* lane;
  ami::Context context;
};

/// A question is a list of numbers behind its own number.
std::vector<std::uint64_t> question(std::uint64_t number) {
  return {number, number, 2 * number, 3 * number};
}

}  // namespace

int main() {
  example::TwoNodes nodes;
  Messenger asker(*nodes.near, kAsker);
  Messenger adder(*nodes.far, kAdder);
  must(asker.adapter->add_peer(*asker.lane, kAdder,
                               example::address_of(adder.target(), *nodes.far, *nodes.near)));
  must(adder.adapter->add_peer(*adder.lane, kAsker,
                               example::address_of(asker.target(), *nodes.near, *nodes.far)));

  // The header says which question it is, the payload has the numbers.
  adder.context.set_handler(kAdd, [&](const ami::Message& message) {
    std::array<std::uint64_t, 3> numbers{};
    std::memcpy(numbers.data(), message.payload.data(), sizeof numbers);
    const std::uint64_t sum = numbers[0] + numbers[1] + numbers[2];
    (void)adder.context.send(message.source, kSum, message.header,
                             std::as_bytes(std::span(&sum, 1)));
  });
  unsigned right = 0;
  asker.context.set_handler(kSum, [&](const ami::Message& message) {
    std::uint64_t number = 0;
    std::uint64_t sum = 0;
    std::memcpy(&number, message.header.data(), sizeof number);
    std::memcpy(&sum, message.payload.data(), sizeof sum);
    if (sum == 6 * number) ++right;
  });
  must(asker.adapter->open(*asker.lane));
  must(adder.adapter->open(*adder.lane));

  unsigned handled = 0;
  const ami::Callback on_handled{.function =
                                     [](void* count, std::uint64_t /*cookie*/, ami::Status status) {
                                       if (status == ami::Status::ok) {
                                         ++*static_cast<unsigned*>(count);
                                       }
                                     },
                                 .context = &handled};
  unsigned asked = 0;
  const std::uint64_t end_ns = nodes.near->now_ns() + kTimeoutNs;
  while ((right < kQuestions || handled < kQuestions) && nodes.near->now_ns() < end_ns) {
    if (asked < kQuestions) {
      const auto words = question(asked + 1);
      const auto bytes = std::as_bytes(std::span(words));
      // `again` means that there is no room now: advance() makes some.
      if (asker.context.send(kAdder, kAdd, bytes.first(8), bytes.subspan(8),
                             {.level = ami::Level::handled, .callback = on_handled}) ==
          ami::Injected::yes) {
        ++asked;
      }
    }
    nodes.turn();
    asker.turn();
    adder.turn();
  }
  example::verify(right == kQuestions, "every question was answered with its sum");
  example::verify(handled == kQuestions, "and every callback told that the handler had run");
  return 0;
}
