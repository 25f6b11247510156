// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
//
// A publisher and a subscriber. The publisher writes messages into a store, which is a ring in its
// memory; subscribers READ them from there, each at its own pace, by a key that the publisher has
// granted to it alone. Publishing knows nothing of who reads.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "apps/services/publisher/layout.h"
#include "apps/services/publisher/publisher.h"
#include "apps/services/publisher/store.h"
#include "apps/services/publisher/subscriber.h"
#include "support.h"

using example::must;
using namespace rockhopper;

namespace {

constexpr unsigned kMessages = 1000;
constexpr std::uint64_t kRing = 1 << 20;
constexpr std::uint64_t kTimeoutNs = 60'000'000'000;

/// The application decides who may read what.
struct Guests final : publisher::Policy {
  [[nodiscard]] bool may_read(std::string_view subscriber, const publisher::StoreInfo& store,
                              std::span<const std::byte> /*credentials*/) override {
    return subscriber == "alice" && store.name == "prices";
  }
};

struct Door final : publisher::PublisherListener {
  void on_granted(publisher::SubscriberId /*id*/, const publisher::StoreInfo& store) override {
    std::printf("the publisher has granted \"%s\"\n", store.name.c_str());
  }
};

/// What the subscriber hears of its connection, and of one store.
struct Reader final : publisher::SubscriberListener, publisher::Listener {
  void on_refused(publisher::SubscriptionId /*id*/, const Error& error) override {
    refused = error.message;
  }
  void on_message(const publisher::Message& message) override {
    const auto* bytes = reinterpret_cast<const char*>(message.payload.data());
    in_order = in_order && std::string_view(bytes, message.payload.size()) ==
                               "price " + std::to_string(message.sequence);
    ++messages;
  }
  void on_lost(std::uint64_t first, std::uint64_t last) override { lost += last - first + 1; }

  unsigned messages = 0;
  std::uint64_t lost = 0;
  bool in_order = true;
  std::string refused;
};

}  // namespace

int main() {
  Guests policy;
  Door door;
  Reader alice;
  Reader mallory;
  example::Memory memory(publisher::store_bytes(kRing));
  const auto store = must(publisher::Store::create(memory.span(), {.id = 1, .epoch = 20261126}));
  example::TwoNodes nodes;

  const auto publisher =
      must(publisher::Publisher::create(nodes.far->engine(), &nodes.far->dc(), policy, door, {}));
  must(publisher->add_store("prices", *store));

  // Each subscriber and the publisher tell each other of a DC target by which they are reached.
  const auto join = [&](const char* name, Reader& reader) {
    auto subscriber =
        must(publisher::Subscriber::create(nodes.near->engine(), &nodes.near->dc(), reader, {}));
    const publisher::SubscriberId id = must(publisher->add_subscriber(
        name, example::address_of(*subscriber->target(), *nodes.near, *nodes.far)));
    must(subscriber->connect(example::address_of(*publisher->target(id), *nodes.far, *nodes.near)));
    const publisher::Subscriber::Options options{
        .reader = {.start = {.at = publisher::Start::At::oldest}}, .credentials = {}};
    (void)must(subscriber->subscribe("prices", options, reader));
    return subscriber;
  };
  const auto subscriber = join("alice", alice);
  const auto intruder = join("mallory", mallory);

  unsigned published = 0;
  const std::uint64_t end_ns = nodes.near->now_ns() + kTimeoutNs;
  while ((alice.messages + alice.lost < kMessages || mallory.refused.empty()) &&
         nodes.near->now_ns() < end_ns) {
    nodes.turn();
    const std::uint64_t now_ns = nodes.near->now_ns();
    publisher->progress(now_ns);
    subscriber->progress(now_ns);
    intruder->progress(now_ns);
    if (published == kMessages) continue;
    const std::string text = "price " + std::to_string(published++);
    (void)store->publish(std::as_bytes(std::span(text)), 0, now_ns);
  }
  example::verify(alice.messages == kMessages, "the subscriber has read every message");
  example::verify(alice.in_order && alice.lost == 0, "in order, and none was overwritten before");
  example::verify(!mallory.refused.empty() && mallory.messages == 0, "who may not read is refused");
  std::printf("refused with: %s\n", mallory.refused.c_str());
  return 0;
}
