// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "tests/dag/record_run.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <set>
#include <vector>

#include <fmt/format.h>

#include "tests/dag/judge.h"
#include "tests/dag/world.h"
#include "tests/sim/rng.h"

namespace rockhopper::sim {
namespace {

using dag::Kind;
using dag::Result;
using dag::Started;
using dag::Status;

DagWorldConfig world_config(std::uint64_t seed, const RecordProfile& profile, PoolSet& pools) {
  DagWorldConfig config;
  config.network = {
      .seed = seed, .pools = &pools, .delay_ns = profile.delay_ns, .faults = profile.faults};
  config.network.capture_prefix = wanted_captures(seed);
  config.servers = profile.servers;
  config.clients = profile.clients;
  config.memory_bytes = profile.memory_bytes;
  config.contexts = profile.contexts;
  config.server.lease_ns = profile.lease_ns;
  config.store.quarantine_ns = profile.lease_ns / 2;
  config.store.records = 4 * profile.keys;
  config.store.hash_bits = profile.hash_bits;
  config.store.capacity_max = 2 * profile.length_max;
  config.client.entries = profile.entries;
  config.client.dcis = profile.dcis;
  config.client.request_timeout_ns = 5'000'000;
  config.client.update_timeout_ns = 50'000'000;
  return config;
}

/// Clients that do everything to a few keys at the same time.
class RecordRun {
 public:
  RecordRun(std::uint64_t seed, const RecordProfile& profile, PoolSet& pools)
      : profile_(profile),
        world_(world_config(seed, profile, pools)),
        judge_(seed),
        rng_(seed * 31 + 7) {
    for (std::size_t i = 0; i < world_.clients.size(); ++i) {
      world_.clients[i]->handler = [this, i](const Result& result) { on_result(i, result); };
    }
  }

  [[nodiscard]] std::string run();
  void count(RecordTotals& totals) const;

 private:
  struct Doing {
    std::size_t client = 0;
    Kind kind = Kind::read;
    std::uint64_t key = 0;
    std::uint64_t serial = 0;
    std::uint64_t add = 0;
    Judge::Before before;
  };
  [[nodiscard]] static std::string name_of(std::uint64_t key) { return fmt::format("key {}", key); }
  void begin(std::size_t client);
  void on_result(std::size_t client, const Result& result);
  void check(const Doing& doing, const Result& result);
  void disturb();
  void fail(std::string why) {
    if (error_.empty()) error_ = std::move(why);
  }
  [[nodiscard]] std::string check_end();
  [[nodiscard]] std::string check_sum(const DagServer& server, std::uint64_t key);

  RecordProfile profile_;
  DagWorld world_;
  Judge judge_;
  Rng rng_;
  std::string error_;
  std::map<std::uint64_t, Doing> doing_;
  std::uint64_t next_ = 1;
  std::uint64_t begun_ = 0;
  std::uint64_t next_stop_ns_ = 0;                   ///< or of going on
  std::set<std::uint64_t> created_;                  ///< incarnations that began with sum 0
  std::map<std::uint64_t, std::uint64_t> sums_;      ///< added for sure, by incarnation
  std::map<std::uint64_t, std::uint64_t> possible_;  ///< of which nobody knows, by key
  RecordTotals totals_;
};

void RecordRun::begin(std::size_t index) {
  DagClient& client = *world_.clients[index];
  const std::uint64_t id = next_++;
  Doing doing{.client = index, .key = rng_.between(0, profile_.keys - 1), .serial = id};
  doing.before = judge_.before(doing.key);
  const std::string name = name_of(doing.key);
  const auto key = bytes_of(name);
  const std::size_t length = rng_.between(0, profile_.length_max);
  const std::uint64_t dice = rng_.between(0, 99);
  Started started = Started::invalid;
  const bool reader = profile_.readers_only && index != 0 && begun_ > 8 * profile_.keys;
  if (profile_.readers_only && index == 0 && begun_ > 8 * profile_.keys) {
    doing.kind = Kind::update;
    started = client.client->update(key, judge_.content(doing.key, id, profile_.length_max), id);
  } else if (dice < 50 || reader) {
    doing.kind = Kind::read;
    started = client.client->read(key, id);
  } else if (dice < 70) {
    doing.kind = Kind::update;
    started = client.client->update(key, judge_.content(doing.key, id, length), id);
  } else if (dice < 77) {
    doing.kind = Kind::fetch_add;
    doing.add = rng_.between(1, 9);
    started = client.client->fetch_add(key, 1, doing.add, id);
  } else if (dice < 93) {
    doing.kind = Kind::create;
    const auto data = judge_.content(doing.key, id, length % 900);
    started = client.client->create(
        key, data, {.capacity = static_cast<std::uint32_t>(profile_.length_max)}, id);
  } else if (dice < 98) {
    doing.kind = Kind::erase;
    started = client.client->erase(key, id);
  } else {
    doing.kind = Kind::resize;
    started = client.client->resize(
        key, static_cast<std::uint32_t>(profile_.length_max + rng_.between(24, 900)), id);
  }
  if (started != Started::yes) return;
  ++begun_;
  doing_.emplace(id, doing);
}

void RecordRun::on_result(std::size_t client, const Result& result) {
  const auto found = doing_.find(result.context);
  if (found == doing_.end() || found->second.client != client ||
      found->second.kind != result.kind) {
    return fail("a result of an operation that is none, or was told of twice");
  }
  const Doing doing = found->second;
  doing_.erase(found);
  check(doing, result);
}

void RecordRun::check(const Doing& doing, const Result& result) {
  const bool ok = result.status == Status::ok;
  const bool writes = doing.kind == Kind::update || doing.kind == Kind::create;
  if (result.status == Status::damaged || result.status == Status::invalid) {
    return fail(fmt::format("key {}: {}", doing.key, to_string(result.status)));
  }
  // A client whose connection is lost does not know what has become of its writes.
  const bool open = result.status == Status::outcome_unknown ||
                    (result.status == Status::unreachable && profile_.dies);
  if (writes && !ok && !open) judge_.on_refused(doing.serial);
  totals_.unknown += result.status == Status::outcome_unknown;
  switch (doing.kind) {
    case Kind::read:
      if (!ok) return;
      ++totals_.reads;
      if (auto wrong = judge_.on_read(doing.key, doing.before, result.version, result.data);
          !wrong.empty()) {
        fail(std::move(wrong));
      }
      return;
    case Kind::update:
    case Kind::create:
      if (!ok) return;
      ++(doing.kind == Kind::update ? totals_.updates : totals_.creates);
      if (doing.kind == Kind::create) created_.insert(result.version.incarnation);
      if (auto wrong = judge_.on_written(doing.key, result.version, doing.serial); !wrong.empty()) {
        fail(std::move(wrong));
      }
      return;
    case Kind::erase:
      if (!ok) return;
      ++totals_.erases;
      return judge_.on_erased(doing.key, result.version.incarnation);
    case Kind::resize:
      if (ok) judge_.on_moved(doing.key, result.version.incarnation);
      return;
    case Kind::fetch_add:
      if (ok) {
        ++totals_.adds;
        sums_[result.version.incarnation] += doing.add;
      } else if (open) {
        possible_[doing.key] += doing.add;
      }
      return;
    default:
      return;
  }
}

void RecordRun::disturb() {
  const std::uint64_t now_ns = world_.network.now_ns();
  if (profile_.stops && now_ns >= next_stop_ns_) {
    DagServer& server = *world_.servers[rng_.between(0, world_.servers.size() - 1)];
    server.stopped = !server.stopped;
    next_stop_ns_ = now_ns + rng_.between(1, 15'000'000);
  }
  if (!profile_.dies) return;
  const std::size_t index = rng_.between(0, world_.clients.size() - 1);
  DagClient& client = *world_.clients[index];
  if (!client.stopped && rng_.chance(2)) {
    client.stopped = true;
  } else if (client.stopped) {
    const bool fenced = std::any_of(world_.servers.begin(), world_.servers.end(), [&](auto& one) {
      return std::find(one->fenced.begin(), one->fenced.end(), client.ids[0]) != one->fenced.end();
    });
    if (fenced) client.stopped = false;
  }
  for (const std::uint16_t server : client.lost) {
    if (client.client->connected(server) || client.client->in_use() > 0) return;
    world_.connect(client, server);
  }
  client.lost.clear();
}

/// What was added to a record that is still the one that was created.
std::string RecordRun::check_sum(const DagServer& server, std::uint64_t key) {
  const std::string name = name_of(key);
  const auto found = server.store->lookup(bytes_of(name));
  // Incarnations are a server's own.
  if (found.status != Status::ok || profile_.servers > 1 ||
      created_.count(found.place.incarnation) == 0) {
    return {};
  }
  dag::RecordHeader header;
  std::memcpy(&header, server.store->memory().data() + found.place.address, sizeof header);
  const std::uint64_t sum = header.control[1];
  const std::uint64_t sure = sums_[found.place.incarnation];
  if (sum >= sure && sum <= sure + possible_[key]) return {};
  return fmt::format("key {}: a sum of {}, with {} added and {} of which nobody knows", key, sum,
                     sure, possible_[key]);
}

std::string RecordRun::check_end() {
  for (const auto& server : world_.servers) {
    server->stopped = false;
  }
  for (const auto& client : world_.clients) {
    client->stopped = false;
  }
  if (!world_.run_until([&] { return doing_.empty(); }, 60'000'000'000)) {
    return fmt::format("{} operations did not end", doing_.size());
  }
  if (!error_.empty()) return error_;
  for (const auto& client : world_.clients) {
    if (client->client->in_use() != 0 &&
        !world_.run_until([&] { return client->client->in_use() == 0; })) {
      return "a client's operations are not free again";
    }
  }
  for (const auto& server : world_.servers) {
    for (std::uint64_t key = 0; key < profile_.keys; ++key) {
      if (auto wrong = check_sum(*server, key); !wrong.empty()) return wrong;
    }
    // All memory is where it belongs once it has rested.
    for (std::uint64_t key = 0; key < profile_.keys; ++key) {
      (void)server->store->erase(bytes_of(name_of(key)), world_.network.now_ns());
    }
    if (server->store->size() != 0) return "the map has entries that no key leads to";
    const auto whole = [&] { return server->store->free_bytes() == profile_.memory_bytes; };
    if (!world_.run_until(whole, 10'000'000'000)) {
      return fmt::format("{} of {} bytes are free in the end", server->store->free_bytes(),
                         profile_.memory_bytes);
    }
  }
  return {};
}

std::string RecordRun::run() {
  const auto all_done = [&] { return begun_ >= profile_.operations || !error_.empty(); };
  const std::uint64_t limit_ns = 600'000'000'000;
  while (!all_done() && world_.network.now_ns() < limit_ns) {
    for (std::size_t i = 0; i < world_.clients.size(); ++i) {
      DagClient& client = *world_.clients[i];
      if (!client.stopped && rng_.chance(40)) begin(i);
    }
    disturb();
    if (!world_.turn()) world_.pass_time(world_.network.now_ns() + 100'000);
  }
  if (error_.empty() && !all_done()) return "the run does not end";
  if (error_.empty()) error_ = check_end();
  return error_;
}

void RecordRun::count(RecordTotals& totals) const {
  ++totals.runs;
  totals.reads += totals_.reads;
  totals.updates += totals_.updates;
  totals.creates += totals_.creates;
  totals.erases += totals_.erases;
  totals.adds += totals_.adds;
  totals.unknown += totals_.unknown;
  for (const auto& client : world_.clients) {
    const dag::ClientCounters& counters = client->client->counters();
    totals.stale += counters.stale.value();
    totals.torn += counters.torn.value();
    totals.false_candidates += counters.false_candidates.value();
    totals.hits += counters.hits.value();
    totals.lookups += counters.lookups.value();
    totals.conflicts += counters.lock_conflicts.value();
    totals.overtaken += counters.overtaken.value();
    totals.timeouts += counters.timeouts.value();
  }
  for (const auto& server : world_.servers) {
    const dag::ServerCounters& counters = server->server->counters();
    totals.fenced += counters.fenced_lease.value() + counters.fenced_gone.value();
    totals.locks_released += counters.locks_released.value();
    totals.reused += counters.grace_periods.value();
  }
}

}  // namespace

std::string run_records(std::uint64_t seed, const RecordProfile& profile, PoolSet& pools,
                        RecordTotals& totals) {
  RecordRun run(seed, profile, pools);
  std::string error = run.run();
  run.count(totals);
  return error;
}

}  // namespace rockhopper::sim
