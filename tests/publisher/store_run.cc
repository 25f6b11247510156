// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "tests/publisher/store_run.h"

#include <algorithm>
#include <memory>
#include <vector>

#include <fmt/format.h>

#include "tests/publisher/judge.h"
#include "tests/publisher/world.h"
#include "tests/sim/rng.h"

namespace rockhopper::sim {
namespace {

using publisher::Start;
using test::content;
using test::Judge;

constexpr std::uint64_t kTimeLimitNs = 120'000'000'000;
constexpr std::uint32_t kMaxTurns = 2'000'000;

/// A client's view of a store.
struct View {
  Client* client = nullptr;
  TestStore* store = nullptr;
  std::uint64_t store_seed = 0;
  std::unique_ptr<Judge> judge;
  publisher::SubscriptionId id{};
  bool paused = false;
  std::uint64_t change_ns = 0;  ///< when it pauses or goes on
};

class StoreRun {
 public:
  StoreRun(std::uint64_t seed, const StoreProfile& profile, PoolSet& pools)
      : seed_(seed), rng_(seed), profile_(profile), world_(draw(pools)) {}
  std::string run(StoreTotals& totals);

 private:
  WorldConfig draw(PoolSet& pools);
  void set_up();
  void subscribe(View& view, Start start);
  void publish();
  void pause(View& view);
  void disturb();
  [[nodiscard]] bool all_read() const;
  [[nodiscard]] std::string unfinished() const;
  void check(StoreTotals& totals);
  void add_up(const View& view, StoreTotals& totals);
  void fail(std::string text) {
    if (error_.empty()) error_ = std::move(text);
  }

  std::uint64_t seed_;
  Rng rng_;
  const StoreProfile& profile_;
  World world_;
  std::vector<View> views_;
  std::uint64_t epoch_ = 1;
  bool publishing_ = true;
  std::uint64_t next_publish_ns_ = 0;
  std::uint64_t reconnects_ = 0;
  std::uint64_t published_ = 0;
  std::string error_;
};

WorldConfig StoreRun::draw(PoolSet& pools) {
  WorldConfig config{.network = {.seed = seed_, .pools = &pools, .faults = profile_.faults}};
  config.network.ipv6 = rng_.chance(40);
  config.network.delay_ns = rng_.pick<std::uint64_t>({300, 2'000, 20'000});
  config.network.capture_prefix = wanted_captures(seed_);
  config.dynamic_connections = profile_.dynamic_connections;
  config.path_mtu = rng_.pick({roce::PathMtu::mtu_256, roce::PathMtu::mtu_1024});
  if (profile_.selective_repeat) {
    config.recovery.algorithm = roce::RecoveryAlgorithm::selective_repeat;
  }
  config.multicast = profile_.multicast;
  config.publisher.heartbeat_ns = profile_.multicast ? 2'000'000 : 200'000'000;
  return config;
}

void StoreRun::set_up() {
  world_.policy.allow_all = true;
  for (unsigned i = 0; i < profile_.stores; ++i) {
    world_.add_store(fmt::format("store {}", i), profile_.ring_bytes, epoch_, profile_.message_max);
  }
  for (unsigned i = 0; i < profile_.subscribers; ++i) {
    Client& client = world_.add_client(fmt::format("subscriber {}", i));
    world_.connect(client);
  }
  for (const auto& client : world_.clients) {
    for (std::size_t i = 0; i < world_.stores.size(); ++i) {
      if (rng_.chance(30) && i > 0) continue;
      views_.push_back(
          {.client = client.get(), .store = world_.stores[i].get(), .store_seed = seed_ * 100 + i});
    }
  }
  for (View& view : views_) {
    subscribe(view, {.at = Start::At::sequence, .value = 0});
  }
}

void StoreRun::subscribe(View& view, Start start) {
  view.judge = std::make_unique<Judge>(view.store_seed, profile_.message_max);
  publisher::Subscriber::Options options;
  options.reader = {.start = start,
                    .batch_bytes = rng_.pick<std::uint32_t>({4096, 16384, 65536}),
                    .poll_max_ns = rng_.pick<std::uint64_t>({0, 10'000, 200'000}),
                    .reads_per_second = rng_.chance(10) ? 20'000u : 0u,
                    .watch = profile_.watches && rng_.chance(50)};
  view.id = must(view.client->subscriber->subscribe(view.store->name, options, *view.judge));
}

void StoreRun::publish() {
  if (publishing_ && world_.network.now_ns() < next_publish_ns_) return;
  next_publish_ns_ = world_.network.now_ns() + profile_.interval_ns;
  publishing_ = false;
  for (std::size_t i = 0; i < world_.stores.size(); ++i) {
    publisher::Store& store = *world_.stores[i]->store;
    if (published_ >= profile_.messages * world_.stores.size()) continue;
    publishing_ = true;
    for (std::uint64_t count = rng_.between(0, profile_.pace); count > 0; --count) {
      const auto bytes =
          content(seed_ * 100 + i + store.epoch(), store.next_sequence(), profile_.message_max);
      const auto published = rng_.chance(50) ? store.publish(bytes, 0, world_.network.now_ns())
                                             : store.append(bytes, 0, world_.network.now_ns());
      if (published != publisher::Published::yes) fail("a message was refused");
      ++published_;
    }
    if (rng_.chance(70)) store.commit();
  }
  if (!publishing_) {
    for (const auto& store : world_.stores) {
      store->store->commit();
    }
  }
}

/// Paces from full speed to almost none.
void StoreRun::pause(View& view) {
  const std::uint64_t now_ns = world_.network.now_ns();
  if (publishing_ && now_ns < view.change_ns) return;
  view.paused = publishing_ && profile_.pauses && !view.paused && rng_.chance(30);
  view.change_ns = now_ns + rng_.pick<std::uint64_t>({1'000, 20'000, 300'000});
  view.client->subscriber->pause(view.id, view.paused);
}

/// What happens to connections and epochs.
void StoreRun::disturb() {
  if (profile_.reconnects && rng_.chance(1) && rng_.chance(20)) {
    Client& client = *world_.clients[rng_.between(0, world_.clients.size() - 1)];
    world_.disconnect(client);
    world_.connect(client);
    ++reconnects_;
  }
  if (profile_.restarts && rng_.chance(1) && rng_.chance(30)) {
    world_.restart(rng_.chance(50), ++epoch_);
    ++reconnects_;
  }
  if (profile_.leaves && rng_.chance(1)) {
    View& view = views_[rng_.between(0, views_.size() - 1)];
    if (!view.judge->good()) fail("a message came that was not published so");
    view.client->subscriber->leave(view.id);
    subscribe(view, {.at = Start::At::oldest});
  }
}

bool StoreRun::all_read() const {
  return std::all_of(views_.begin(), views_.end(), [](const View& view) {
    return view.judge->next.value_or(0) == view.store->store->next_sequence() &&
           (view.judge->epoch == 0 || view.judge->epoch == view.store->store->epoch());
  });
}

/// Who has not read all, for people.
std::string StoreRun::unfinished() const {
  std::string text;
  for (const View& view : views_) {
    if (view.judge->next == view.store->store->next_sequence()) continue;
    const auto* reader = view.client->subscriber->reader(view.id);
    text += fmt::format("\n  {} of {}: next {} of {}, {}", view.store->name, view.client->name,
                        view.judge->next.value_or(0), view.store->store->next_sequence(),
                        reader == nullptr ? "not granted" : to_string(reader->state()));
  }
  return text;
}

std::string StoreRun::run(StoreTotals& totals) {
  set_up();
  const std::uint64_t began_ns = world_.network.now_ns();
  std::uint32_t turns = 0;
  while (error_.empty() && (publishing_ || !all_read())) {
    if (++turns > kMaxTurns || world_.network.now_ns() > began_ns + kTimeLimitNs) {
      fail(fmt::format("not finished after {} ms, {} turns: {}",
                       (world_.network.now_ns() - began_ns) / 1'000'000, turns, unfinished()));
      break;
    }
    publish();
    for (View& view : views_) {
      pause(view);
    }
    if (publishing_) disturb();
    if (!world_.turn()) world_.pass_time(world_.network.now_ns() + 10'000);
    for (const auto& client : world_.clients) {
      if (client->disconnected > 0 && !client->subscriber->connected()) {
        fail(fmt::format("{} has lost its connection", client->name));
      }
      if (!client->refused.empty()) fail(client->refused.front());
    }
  }
  check(totals);
  return error_;
}

void StoreRun::check(StoreTotals& totals) {
  for (const View& view : views_) {
    const Judge& judge = *view.judge;
    if (!judge.good()) {
      fail(fmt::format("{} of {}: {} corrupted, {} not in order, {} of another epoch",
                       view.store->name, view.client->name, judge.corrupted, judge.out_of_order,
                       judge.epoch_mixed));
    }
    if (!profile_.leaves && !profile_.restarts && judge.first && judge.first != 0u) {
      fail(fmt::format("{} of {} begins with {}", view.store->name, view.client->name,
                       *judge.first));
    }
    add_up(view, totals);
  }
  for (const auto& store : world_.stores) {
    if (!store->memory.intact()) fail("a store has written beside its memory");
  }
  totals.runs += 1;
  totals.published += published_;
  totals.reconnects += reconnects_;
  for (unsigned i = 0; i < 2; ++i) {
    totals.packets_lost += world_.network.node(i).faults().tx_counters().lost.value() +
                           world_.network.node(i).selectively_dropped();
  }
}

void StoreRun::add_up(const View& view, StoreTotals& totals) {
  totals.delivered += view.judge->messages;
  totals.restarts += view.judge->restarts;
  for (const auto& [first, last] : view.judge->lost) {
    totals.lost += last - first + 1;
  }
  const publisher::StoreReader* reader = view.client->subscriber->reader(view.id);
  if (reader == nullptr) return;
  const publisher::ReaderCounters& counters = reader->counters();
  if (const auto* copies = view.client->subscriber->copy_counters(view.id); copies != nullptr) {
    totals.copies_taken += copies->taken.value();
    totals.copies_repaired += copies->repaired.value();
    totals.copies_dropped += copies->dropped.value();
  }
  totals.lapped += counters.lapped.value();
  totals.rounds += counters.rounds.value();
  totals.wake_ups += counters.wake_ups.value();
  totals.torn += counters.invalid_position.value() + counters.invalid_sequence.value() +
                 counters.invalid_length.value() + counters.invalid_trailer.value() +
                 counters.invalid_checksum.value();
}

}  // namespace

std::string run_stores(std::uint64_t seed, const StoreProfile& profile, PoolSet& pools,
                       StoreTotals& totals) {
  return StoreRun(seed, profile, pools).run(totals);
}

}  // namespace rockhopper::sim
