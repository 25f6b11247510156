// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "tests/ami/collective_run.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <numeric>
#include <vector>

#include <fmt/format.h>

#include "apps/node/node.h"
#include "apps/services/ami/adapter.h"
#include "apps/services/ami/collectives.h"
#include "apps/services/ami/context.h"
#include "stack/sim/network.h"
#include "stack/sim/station.h"
#include "tests/ami/collective_script.h"
#include "tests/sim/rng.h"
#include "tests/sim/selective_drop.h"

namespace rockhopper::sim {
namespace {

using ami::EndpointId;
using ami::Injected;
using ami::Status;

constexpr std::uint32_t kVectorBytes = 64;
constexpr std::uint32_t kLongBytes = 6000;
constexpr std::uint32_t kEagerBytes = 1024;
constexpr std::size_t kGap = 8;
constexpr std::byte kCanary{0xc5};
constexpr std::uint64_t kIdlePollNs = 50'000;
constexpr std::uint64_t kTimeLimitNs = 60'000'000'000;
constexpr std::uint64_t kStepNs = 1'000'000;

/// Ranks that have a communicator together, and what they start.
struct Group {
  std::vector<unsigned> hosts;  ///< by rank
  std::vector<Planned> script;
  std::vector<std::vector<std::byte>> expected;
  std::vector<std::vector<std::uint32_t>> started;  ///< by rank: how many it has started
  std::uint16_t window = 2;
};

/// A collective at one rank.
struct Entry {
  explicit Entry(const ami::Callback& callback) : request(callback) {}
  ami::Request request;
  std::size_t at = 0;  ///< its memory, in the member's
  bool started = false;
  unsigned ended = 0;
};

class Rank;

/// A rank's part in a group.
struct Member {
  Rank* owner = nullptr;
  Group* group = nullptr;
  unsigned rank = 0;
  std::uint32_t next = 0;
  std::uint32_t ended = 0;
  std::uint32_t most_in_flight = 1;
  std::unique_ptr<ami::Communicator> communicator;
  std::vector<std::byte> memory;
  roce::MemoryKey key{};
  std::vector<std::unique_ptr<Entry>> entries;
};

struct World {
  const CollectiveProfile& profile;
  Rng rng;
  CollectiveTotals totals{};
  std::string error{};
  bool broken = false;  ///< errors are expected from now on

  void fail(std::string text) {
    if (error.empty()) error = std::move(text);
  }
};

/// A host of the network with everything from its link to its application.
class Rank final : public stack::Application {
 public:
  Rank(World& world, unsigned index, unsigned ranks, stack::sim::Network& network, PoolSet& pools,
       bool ipv6);

  void add_lane(unsigned ranks);
  static void connect(Rank& a, Rank& b);
  void join(Group& group, unsigned rank, std::uint8_t id);
  void open() {
    must(adapter_->open(*lane_));
    station_->wake(1'000'000'000);
  }
  std::uint64_t turn(std::uint64_t now_ns) override;
  /// Nobody hears of it any more.
  void die() { link_->cut(true); }
  void cancel() { members_.front()->communicator->cancel(); }
  /// From some collective on it does not do what the others do.
  void disagree() { disagrees_ = true; }
  [[nodiscard]] bool finished() const;
  [[nodiscard]] std::string what_is_left() const;
  void count();

 private:
  [[nodiscard]] bool start(Member& member);
  [[nodiscard]] Injected start(Member& member, Entry& entry, const Planned& planned);
  void on_end(Member& member, std::uint64_t index, Status status);

  World& world_;
  unsigned index_;
  stack::IpAddress address_;
  roce::SeededRandom random_;
  std::unique_ptr<SelectiveDrop> link_;
  std::unique_ptr<Node> node_;
  std::unique_ptr<ami::Adapter> adapter_;
  ami::Lane* lane_ = nullptr;
  std::unique_ptr<ami::Context> context_;
  std::vector<std::unique_ptr<Member>> members_;
  std::unique_ptr<stack::sim::Station> station_;
  std::uint64_t sleeps_until_ns_ = 0;
  bool disagrees_ = false;
};

stack::IpAddress address_of(unsigned index, bool ipv6) {
  return stack::IpAddress::parse(ipv6 ? fmt::format("fd42::{:x}", index + 1)
                                      : fmt::format("10.42.0.{}", index + 1))
      .value();
}

Rank::Rank(World& world, unsigned index, unsigned ranks, stack::sim::Network& network,
           PoolSet& pools, bool ipv6)
    : world_(world), index_(index), address_(address_of(index, ipv6)), random_(world.rng.next()) {
  // The switch is the first node.
  stack::sim::Nic& nic = network.nic(static_cast<stack::sim::NodeIndex>(index + 1));
  link_ = std::make_unique<SelectiveDrop>(nic, world.rng.next(), std::set<std::uint8_t>{}, 0,
                                          std::set<std::uint64_t>{}, 0);
  NodeConfig node{.port = LinkPort{{link_.get()}},
                  .mtu = 1500,
                  .addresses = {{address_, static_cast<std::uint8_t>(ipv6 ? 64 : 24)}},
                  .engine = {.random = &random_, .max_qp = 256},
                  .clock = &network.clock(),
                  .packet_pool = pools.node(1)};
  node.host.seed = world.rng.next();
  // A lost ARP message is repeated later than the transport gives up.
  for (unsigned other = 0; other < ranks; ++other) {
    if (other == index) continue;
    node.neighbours.push_back(
        {address_of(other, ipv6),
         stack::sim::Network::mac_of(static_cast<stack::sim::NodeIndex>(other + 1))});
  }
  if (world.profile.dynamic_connections) node.dc.emplace().sessions.contexts = 64;
  node_ = must(Node::open(std::move(node)));
  ami::AdapterConfig config;
  config.transfers = 256;
  config.dcis = static_cast<std::uint16_t>(world.rng.between(1, 4));
  config.timeout = 9;  // 2 ms
  config.probe_ns = 5'000'000;
  adapter_ = must(ami::Adapter::create(node_->engine(), node_->shard(0).dc(), config));
  station_ = std::make_unique<stack::sim::Station>(network.events(), network.clock(), nic, *link_,
                                                   node_->host(), this);
}

void Rank::add_lane(unsigned ranks) {
  ami::LaneConfig config;
  config.self = static_cast<EndpointId>(index_);
  config.max_endpoints = static_cast<std::uint16_t>(ranks);
  config.fifo.completion =
      world_.rng.pick({ami::CompletionMode::mask, ami::CompletionMode::counter});
  config.fifo.slots = world_.profile.slots;
  config.receive_buffers = world_.rng.pick<std::uint16_t>({2, 16, 64});
  config.eager_bytes = kEagerBytes;
  config.rendezvous_buffers = 2;
  config.max_message_bytes = kLongBytes;
  lane_ = must(adapter_->add_lane(config));
  context_ = std::make_unique<ami::Context>(*lane_, world_.profile.queue);
}

void Rank::connect(Rank& a, Rank& b) {
  const std::array<Rank*, 2> ends{&a, &b};
  if (a.world_.profile.dynamic_connections) {
    for (unsigned i = 0; i < 2; ++i) {
      const Rank& peer = *ends[1 - i];
      const dc::Dct& target = peer.adapter_->target(*peer.lane_);
      must(ends[i]->adapter_->add_peer(
          *ends[i]->lane_, static_cast<EndpointId>(peer.index_),
          {.av = {.source = ends[i]->address_, .destination = peer.address_},
           .number = target.number(),
           .access_key = target.access_key()}));
    }
    return;
  }
  std::array<roce::QueuePair*, 2> qps{};
  for (unsigned i = 0; i < 2; ++i) {
    qps[i] = must(ends[i]->node_->engine().create_qp(ends[i]->adapter_->qp_init(*ends[i]->lane_)));
  }
  for (unsigned i = 0; i < 2; ++i) {
    roce::QpAttributes attributes;
    attributes.path_mtu = roce::PathMtu::mtu_1024;
    attributes.max_rd_atomic = attributes.max_dest_rd_atomic = 16;
    attributes.min_rnr_timer = 1;
    attributes.timeout = 9;
    attributes.retry_cnt = 7;
    attributes.rnr_retry = 7;
    attributes.qp_access_flags = roce::kAccessAll;
    attributes.ah_attr = {.source = ends[i]->address_, .destination = ends[1 - i]->address_};
    attributes.dest_qp_num = qps[1 - i]->number();
    must(qps[i]->bring_up(attributes, roce::QpState::rts));
    must(ends[i]->adapter_->add_peer(*ends[i]->lane_, static_cast<EndpointId>(ends[1 - i]->index_),
                                     *qps[i]));
  }
}

void Rank::join(Group& group, unsigned rank, std::uint8_t id) {
  auto member = std::make_unique<Member>();
  member->owner = this;
  member->group = &group;
  member->rank = rank;
  member->most_in_flight = world_.rng.between32(1, group.window + 1u);
  ami::CommunicatorConfig config;
  config.id = id;
  for (const unsigned host : group.hosts) {
    config.members.push_back(static_cast<EndpointId>(host));
  }
  config.rank = static_cast<ami::Rank>(rank);
  config.window = group.window;
  config.vector_bytes = kVectorBytes;
  member->communicator = must(ami::Communicator::create(*context_, config));
  std::size_t at = kGap;
  for (std::size_t i = 0; i < group.script.size(); ++i) {
    auto entry = std::make_unique<Entry>(
        ami::Callback{.function =
                          [](void* context, std::uint64_t cookie, Status status) {
                            Member& self = *static_cast<Member*>(context);
                            self.owner->on_end(self, cookie, status);
                          },
                      .context = member.get(),
                      .cookie = i});
    entry->at = at;
    at += (group.script[i].length + kGap - 1) / kGap * kGap + kGap;
    member->entries.push_back(std::move(entry));
  }
  member->memory.assign(at, kCanary);
  member->key = must(node_->engine().register_memory(adapter_->pd(), member->memory.data(),
                                                     member->memory.size(), roce::kAccessAll))
                    .key;
  members_.push_back(std::move(member));
}

std::uint64_t Rank::turn(std::uint64_t now_ns) {
  bool worked = adapter_->progress(now_ns);
  if (now_ns >= sleeps_until_ns_) {
    if (world_.profile.max_sleep_ns > 0 && world_.rng.chance(3)) {
      sleeps_until_ns_ = now_ns + world_.rng.between(1'000, world_.profile.max_sleep_ns);
    }
    for (const auto& member : members_) {
      for (std::uint64_t burst = world_.rng.between(0, 3); burst > 0; --burst) {
        if (!start(*member)) break;
        worked = true;
      }
    }
    worked = context_->advance() > 0 || worked;
    worked = adapter_->progress(now_ns) || worked;
  }
  if (worked) return now_ns + 200;
  return std::max(now_ns + 200, std::min(adapter_->next_deadline_ns(), now_ns + kIdlePollNs));
}

bool Rank::start(Member& member) {
  if (member.next == member.entries.size() || member.next - member.ended >= member.most_in_flight) {
    return false;
  }
  Entry& entry = *member.entries[member.next];
  Planned planned = member.group->script[member.next];
  if (disagrees_ && member.next + 2 > member.entries.size() / 2) {
    disagrees_ = false;
    world_.broken = true;
    // The memory is the same, so it is something shorter.
    planned.kind =
        planned.kind == Planned::Kind::barrier ? Planned::Kind::all_reduce : Planned::Kind::barrier;
    planned.length = 0;
  }
  if (start(member, entry, planned) == Injected::again) {
    ++world_.totals.again;
    return false;
  }
  ++world_.totals.started;
  return true;
}

Injected Rank::start(Member& member, Entry& entry, const Planned& planned) {
  std::byte* memory = member.memory.data() + entry.at;
  const std::vector<std::byte> bytes = given(planned, member.rank);
  std::copy(bytes.begin(), bytes.end(), memory);
  ami::Communicator& communicator = *member.communicator;
  // With room in the FIFO it may end while it starts.
  entry.started = true;
  Injected injected = Injected::again;
  switch (planned.kind) {
    case Planned::Kind::barrier:
      injected = communicator.barrier(entry.request);
      break;
    case Planned::Kind::broadcast:
      injected = communicator.broadcast({.addr = reinterpret_cast<std::uintptr_t>(memory),
                                         .length = planned.length,
                                         .lkey = member.key},
                                        static_cast<ami::Rank>(planned.root), entry.request);
      break;
    case Planned::Kind::all_reduce: {
      const std::size_t count = planned.length / 8;
      if (planned.element == ami::ElementType::int64) {
        injected =
            communicator.all_reduce(std::span(reinterpret_cast<std::int64_t*>(memory), count),
                                    planned.reduction, entry.request);
      } else if (planned.element == ami::ElementType::uint64) {
        injected =
            communicator.all_reduce(std::span(reinterpret_cast<std::uint64_t*>(memory), count),
                                    planned.reduction, entry.request);
      } else {
        injected = communicator.all_reduce(std::span(reinterpret_cast<double*>(memory), count),
                                           planned.reduction, entry.request);
      }
      break;
    }
  }
  if (injected == Injected::again) {
    entry.started = false;
    return injected;
  }
  if (entry.request.done()) world_.fail("a collective was done before advance()");
  member.group->started[member.rank].push_back(member.next);
  ++member.next;
  return injected;
}

void Rank::on_end(Member& member, std::uint64_t index, Status status) {
  Entry& entry = *member.entries[index];
  const Group& group = *member.group;
  const Planned& planned = group.script[index];
  const auto name = [&] {
    return fmt::format("collective {} of rank {} of {}, kind {}", index, member.rank,
                       group.hosts.size(), static_cast<int>(planned.kind));
  };
  ++world_.totals.ended;
  if (++entry.ended > 1 || !entry.started) world_.fail(name() + " ended again");
  if (!entry.request.done() || entry.request.status() != status) {
    world_.fail(name() + " says something else than its callback");
  }
  if (index != member.ended) ++world_.totals.overtaken;
  ++member.ended;
  if (status != Status::ok) {
    ++world_.totals.failed;
    if (!world_.broken) world_.fail(fmt::format("{} failed: {}", name(), to_string(status)));
    return;
  }
  const auto has_started = [&](const std::vector<std::uint32_t>& started) {
    return started.size() > index;
  };
  if (planned.kind != Planned::Kind::broadcast &&
      !std::all_of(group.started.begin(), group.started.end(), has_started)) {
    world_.fail(name() + " ended before all ranks had started it");
  }
  if (!has_started(group.started[planned.root])) {
    world_.fail(name() + " ended before its root had started it");
  }
  const auto* memory = member.memory.data() + entry.at;
  if (!std::equal(group.expected[index].begin(), group.expected[index].end(), memory)) {
    world_.fail(name() + " has another result");
  }
  if (!std::all_of(memory - kGap, memory, [](std::byte byte) { return byte == kCanary; }) ||
      !std::all_of(memory + planned.length, memory + planned.length + kGap,
                   [](std::byte byte) { return byte == kCanary; })) {
    world_.fail(name() + " wrote beside its memory");
  }
}

bool Rank::finished() const {
  return std::all_of(members_.begin(), members_.end(), [](const auto& member) {
    return member->ended == member->entries.size() && member->communicator->idle();
  });
}

std::string Rank::what_is_left() const {
  std::string text;
  for (const auto& member : members_) {
    text += fmt::format(" rank {}: {} started, {} ended, {}, {};", member->rank, member->next,
                        member->ended, to_string(member->communicator->status()),
                        member->communicator->idle() ? "idle" : "not idle");
  }
  return text;
}

void Rank::count() {
  CollectiveTotals& totals = world_.totals;
  for (const auto& member : members_) {
    const ami::CollectiveCounters& counters = member->communicator->counters();
    totals.early += counters.rx_early.value();
    totals.syncs += counters.syncs.value();
    totals.repeated += counters.rx_repeated.value();
    totals.aborts += counters.rx_aborts.value();
    if (counters.started.value() != counters.completed.value() + counters.failed.value()) {
      world_.fail("what was started is not what ended");
    }
    if (counters.rx_malformed.value() + counters.rx_not_member.value() +
            counters.rx_too_long.value() + counters.rx_unexpected.value() >
        0) {
      world_.fail("a rank refused another one's message");
    }
    if (counters.rx_mismatch.value() > 0 && !world_.profile.disagrees) {
      world_.fail("ranks did not agree");
    }
    for (unsigned host : member->group->hosts) {
      if (member->communicator->idle() && lane_->watches.contains(static_cast<EndpointId>(host)) &&
          member->communicator->status() != Status::ok) {
        world_.fail("a broken communicator watches a peer");
      }
    }
  }
  totals.probes += adapter_->counters().tx_probes.value();
}

class CollectiveRun {
 public:
  CollectiveRun(std::uint64_t seed, const CollectiveProfile& profile, PoolSet& pools);
  std::string run(CollectiveTotals& totals);

 private:
  void add_group(const std::vector<unsigned>& hosts);
  void upset();

  World world_;
  stack::sim::Network network_;
  std::vector<std::unique_ptr<Group>> groups_;
  std::vector<std::unique_ptr<Rank>> ranks_;
  std::uint64_t upset_at_ns_ = UINT64_MAX;
};

CollectiveRun::CollectiveRun(std::uint64_t seed, const CollectiveProfile& profile, PoolSet& pools)
    : world_{.profile = profile, .rng = Rng(seed)} {
  Rng& rng = world_.rng;
  const unsigned count = rng.between32(profile.min_ranks, profile.max_ranks);
  const stack::sim::NodeIndex fabric = network_.add_switch({.pool = pools.arriving()});
  const auto delay_ns = rng.pick<std::uint64_t>({300, 2'000, 20'000});
  for (unsigned i = 0; i < count; ++i) {
    const stack::sim::NodeIndex host = network_.add_host();
    network_.add_link(
        host, fabric,
        {.rate_bits_per_s = 10'000'000'000,
         .delay_ns = rng.between(delay_ns / 2, delay_ns),
         .faults = stack::FaultConfig{.rx = profile.rates, .tx = profile.rates, .seed = rng.next()},
         .pool = pools.node(0),
         .copy_pool = pools.arriving()});
  }
  must(network_.build());
  const bool ipv6 = rng.chance(40);
  for (unsigned i = 0; i < count; ++i) {
    ranks_.push_back(std::make_unique<Rank>(world_, i, count, network_, pools, ipv6));
    ranks_.back()->add_lane(count);
  }
  for (unsigned a = 0; a < count; ++a) {
    for (unsigned b = a + 1; b < count; ++b) {
      Rank::connect(*ranks_[a], *ranks_[b]);
    }
  }
  std::vector<unsigned> hosts(count);
  std::iota(hosts.begin(), hosts.end(), 0u);
  add_group(hosts);
  if (profile.second_group) {
    for (std::size_t i = hosts.size(); i > 1; --i) {
      std::swap(hosts[i - 1], hosts[rng.between(0, i - 1)]);
    }
    hosts.resize(rng.between(1, hosts.size()));
    add_group(hosts);
  }
  for (const auto& rank : ranks_) {
    rank->open();
  }
  if (profile.deaths || profile.cancels) {
    upset_at_ns_ = network_.now_ns() + rng.between(0, 1'500'000);
  }
  if (profile.disagrees) ranks_[rng.between(0, count - 1)]->disagree();
}

void CollectiveRun::add_group(const std::vector<unsigned>& hosts) {
  auto group = std::make_unique<Group>();
  group->hosts = hosts;
  const auto ranks = static_cast<unsigned>(hosts.size());
  do {
    group->window = world_.rng.pick<std::uint16_t>({2, 4, 8, 16});
  } while (group->window > world_.profile.max_window);
  for (std::uint32_t i = 0; i < world_.profile.collectives; ++i) {
    group->script.push_back(draw_collective(world_.rng, ranks, kVectorBytes, kLongBytes,
                                            world_.profile.broadcasts_only));
    const Planned& planned = group->script.back();
    group->expected.push_back(expected(planned, ranks));
    if (planned.kind == Planned::Kind::all_reduce) ++world_.totals.reductions;
    if (planned.length > kEagerBytes) ++world_.totals.long_broadcasts;
  }
  group->started.resize(ranks);
  groups_.push_back(std::move(group));
  const auto id = static_cast<std::uint8_t>(groups_.size() - 1);
  for (unsigned rank = 0; rank < ranks; ++rank) {
    ranks_[hosts[rank]]->join(*groups_.back(), rank, id);
  }
}

void CollectiveRun::upset() {
  world_.broken = true;
  if (world_.profile.cancels) return ranks_[world_.rng.between(0, ranks_.size() - 1)]->cancel();
  const std::size_t most = world_.rng.chance(70) ? 1 : ranks_.size() - 1;
  for (std::uint64_t deaths = world_.rng.between(1, most); deaths > 0; --deaths) {
    ranks_[world_.rng.between(0, ranks_.size() - 1)]->die();
  }
}

std::string CollectiveRun::run(CollectiveTotals& totals) {
  const std::uint64_t limit_ns = network_.now_ns() + kTimeLimitNs;
  const auto finished = [](const auto& rank) { return rank->finished(); };
  while (world_.error.empty() && !std::all_of(ranks_.begin(), ranks_.end(), finished)) {
    if (network_.now_ns() > limit_ns) {
      std::string text = "not finished:";
      for (const auto& rank : ranks_) {
        text += rank->what_is_left();
      }
      world_.fail(text);
      break;
    }
    if (network_.now_ns() >= upset_at_ns_) {
      upset_at_ns_ = UINT64_MAX;
      upset();
    }
    (void)network_.run_until(
        std::min(network_.now_ns() + kStepNs, std::max(upset_at_ns_, network_.now_ns() + 1)));
  }
  if (world_.error.empty()) {
    for (const auto& rank : ranks_) {
      rank->count();
    }
  }
  world_.totals.lost = 0;
  for (std::size_t link = 0; link < network_.link_count(); ++link) {
    for (const unsigned direction : {0u, 1u}) {
      const auto* faults =
          network_.channel(static_cast<stack::sim::LinkIndex>(link), direction).fault_counters();
      if (faults != nullptr) world_.totals.lost += faults->lost.value();
    }
  }
  CollectiveTotals& from = world_.totals;
  totals.runs += 1;
  totals.started += from.started;
  totals.ended += from.ended;
  totals.failed += from.failed;
  totals.reductions += from.reductions;
  totals.long_broadcasts += from.long_broadcasts;
  totals.early += from.early;
  totals.again += from.again;
  totals.overtaken += from.overtaken;
  totals.syncs += from.syncs;
  totals.repeated += from.repeated;
  totals.probes += from.probes;
  totals.aborts += from.aborts;
  totals.lost += from.lost;
  return world_.error;
}

}  // namespace

std::string run_collectives(std::uint64_t seed, const CollectiveProfile& profile, PoolSet& pools,
                            CollectiveTotals& totals) {
  const std::uint32_t before = pools.in_use();  // by a run that has failed
  auto run = std::make_unique<CollectiveRun>(seed, profile, pools);
  std::string error = run->run(totals);
  // What is under way cannot be taken down.
  if (!error.empty()) {
    (void)run.release();
    return error;
  }
  run.reset();
  if (pools.in_use() != before) {
    error = fmt::format("{} mbufs have not come back", pools.in_use() - before);
  }
  return error;
}

}  // namespace rockhopper::sim
