// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "tests/dag_schedule/world.h"

#include <algorithm>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "apps/services/dag/graph/graph_image.h"
#include "apps/services/dag/schedule/node_state.h"
#include "tests/sim/seeded_runs.h"

namespace rockhopper::sim {
namespace {

stack::IpAddress address_of(unsigned index) {
  return stack::IpAddress::from_ipv4(0x0a000001 + index);
}

void add_counter(void* context, const char* name, std::uint64_t value) {
  (*static_cast<std::map<std::string, std::uint64_t>*>(context))[name] += value;
}

}  // namespace

// Nodes.

ScheduleWorld::Node::Node(ScheduleWorld& of, unsigned number)
    : world(of),
      index(number),
      random(of.config_.seed * 1024 + number),
      link(nic(), number, {}, 0, {}, 0),
      address(address_of(number)) {
  NodeConfig config{.port = LinkPort{{&link}},
                    .addresses = {{address, 24}},
                    .engine = {.random = &random, .max_qp = 512},
                    .clock = &world.network_.clock(),
                    .packet_pool = pools().node(index % 2)};
  for (unsigned other = 0; other < world.config_.servers + world.config_.workers; ++other) {
    if (other == index) continue;
    config.neighbours.push_back(
        {address_of(other),
         stack::sim::Network::mac_of(static_cast<stack::sim::NodeIndex>(other + 1))});
  }
  config.dc.emplace().sessions.contexts = 256;
  endpoint = must(rockhopper::Node::open(std::move(config)));
}

stack::sim::Nic& ScheduleWorld::Node::nic() const {
  return world.network_.nic(static_cast<stack::sim::NodeIndex>(index + 1));
}

roce::AddressVector ScheduleWorld::Node::way_to(const Node& other) const {
  return {.source = address, .destination = other.address};
}

void ScheduleWorld::Node::start() {
  station = std::make_unique<stack::sim::Station>(world.network_.events(), world.network_.clock(),
                                                  nic(), link, endpoint->host(), this);
  wake();
}

ScheduleWorld::ServerNode::ServerNode(ScheduleWorld& of, unsigned number, bool is_home)
    : Node(of, number), memory(of.config_.memory_bytes / sizeof(Line)) {
  const ScheduleConfig& config = of.config_;
  store = must(dag::Store::create({memory[0].bytes, memory.size() * sizeof(Line)}, config.store));
  dag::ServerConfig server_config = config.server;
  if (is_home) {
    board.resize((config.home.board.bytes() + sizeof(Line) - 1) / sizeof(Line));
    const std::span<std::byte> bytes(board[0].bytes, config.home.board.bytes());
    home = must(dag::Home::create(*store, bytes, *this, config.home));
    server_config.application = home.get();
    server_config.application_memory = bytes;
  }
  server =
      must(dag::Server::create(endpoint->engine(), endpoint->dc(), *store, *this, server_config));
  start();
}

ScheduleWorld::ServerNode::~ServerNode() { server.reset(); }

std::uint64_t ScheduleWorld::ServerNode::turn(std::uint64_t now_ns) {
  if (stopped) return stack::kNever;
  for (bool moved = true; moved;) {
    moved = server->progress(now_ns);
    if (home != nullptr) moved = home->progress(now_ns) || moved;
  }
  std::uint64_t next_ns = server->next_deadline_ns();
  if (home != nullptr) next_ns = std::min(next_ns, home->next_deadline_ns());
  return std::max(next_ns, now_ns + 100);
}

void ScheduleWorld::ServerNode::on_submitted(dag::RunId run, std::vector<std::byte> image) {
  home->decide(run, dag::parse_image(image, world.registry_, world.config_.home.limits));
}

ScheduleWorld::WorkerNode::WorkerNode(ScheduleWorld& of, unsigned number)
    : Node(of, number), executor(of.registry_, of.config_.executor_slots) {
  executor.work_ns = [this](std::string_view key) -> std::uint64_t {
    for (const auto& [name, plan] : world.plans_) {
      const auto node = plan.nodes.find(std::string(key));
      if (node != plan.nodes.end()) return node->second.work_ns;
    }
    return 0;
  };
  connect();
  start();
}

ScheduleWorld::WorkerNode::~WorkerNode() { disconnect(); }

void ScheduleWorld::WorkerNode::connect() {
  const ScheduleConfig& config = world.config_;
  const auto servers = static_cast<std::uint16_t>(config.servers);
  client = must(dag::Client::create(endpoint->engine(), endpoint->dc(),
                                    must(dag::Placement::create(config.placement, servers)), *this,
                                    config.client));
  ids.resize(servers);
  dag::Grant home_grant;
  for (std::uint16_t i = 0; i < servers; ++i) {
    ServerNode& to = *world.servers_[i];
    const dc::Dct& target = client->target(i);
    const dag::Grant grant = must(to.server->add_client(
        {.av = to.way_to(*this), .number = target.number(), .access_key = target.access_key()},
        world.now_ns()));
    ids[i] = dag::ClientId{grant.client};
    must(client->connect(i, way_to(to), grant, world.now_ns()));
    if (i == 0) home_grant = grant;
  }
  dag::WorkerConfig worker_config = config.worker;
  const unsigned number = index - config.servers;
  worker_config.name = fmt::format("worker-{}", number);
  worker_config.seed = config.seed * 64 + number;
  if (number < config.labels.size()) worker_config.labels = config.labels[number];
  worker =
      must(dag::Worker::create({.engine = endpoint->engine(),
                                .endpoint = endpoint->dc(),
                                .client = *client,
                                .home = 0,
                                .home_av = way_to(*world.servers_[0]),
                                .grant = home_grant,
                                .outputs = must(dag::Placement::create(config.placement, servers)),
                                .executor = executor,
                                .listener = *this},
                               worker_config));
  executor.worker = worker.get();
  lost = false;
}

/// The servers fence it at once, as a program's control channel would tell them.
void ScheduleWorld::WorkerNode::disconnect() {
  if (worker != nullptr) worker->visit_counters(add_counter, &counters);
  worker.reset();
  client.reset();
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (world.servers_[i]->server != nullptr) {
      world.servers_[i]->server->remove_client(ids[i], world.now_ns());
      if (world.servers_[i]->station != nullptr) world.servers_[i]->wake();
    }
  }
}

std::uint64_t ScheduleWorld::WorkerNode::turn(std::uint64_t now_ns) {
  if (killed || paused) return stack::kNever;
  for (bool moved = true; moved;) {
    moved = client->progress(now_ns);
    moved = executor.progress(now_ns) || moved;
    moved = worker->progress(now_ns) || moved;
  }
  if (lost && worker->idle()) {
    disconnect();
    connect();
    return now_ns + 1000;
  }
  return std::max(std::min({client->next_deadline_ns(), executor.next_deadline_ns(),
                            worker->next_deadline_ns()}),
                  now_ns + 100);
}

void ScheduleWorld::WorkerNode::on_result(const dag::Result& result) {
  if (worker != nullptr && (result.context & dag::Worker::kContext) != 0) worker->on_result(result);
}

void ScheduleWorld::WorkerNode::on_server_lost(std::uint16_t server) {
  if (worker != nullptr) worker->on_server_lost(server);
}

void ScheduleWorld::WorkerNode::on_node(const dag::NodeReport& report) {
  if (!report.committed) return;
  const std::string key = fmt::format("{}/{}", report.run, report.key);
  ++commits[key];
  times[key] = {.start_ns = report.start_ns, .end_ns = report.end_ns};
}

void ScheduleWorld::WorkerNode::on_lost(dag::Status) {
  lost = true;
  ++losses;
}

// The world.

ScheduleWorld::ScheduleWorld(const ScheduleConfig& config)
    : config_(config), registry_(dag::test::digest_registry()) {
  const stack::sim::NodeIndex fabric = network_.add_switch({.pool = pools().arriving()});
  for (unsigned i = 0; i < config.servers + config.workers; ++i) {
    network_.add_link(network_.add_host(), fabric,
                      {.delay_ns = config.delay_ns,
                       .faults = stack::FaultConfig{.rx = config.faults,
                                                    .tx = config.faults,
                                                    .seed = config.seed * 512 + i + 1},
                       .pool = pools().node(0),
                       .copy_pool = pools().arriving()});
  }
  must(network_.build());
  for (unsigned i = 0; i < config.servers; ++i) {
    servers_.push_back(std::make_unique<ServerNode>(*this, i, i == 0));
  }
  for (unsigned i = 0; i < config.workers; ++i) {
    workers_.push_back(std::make_unique<WorkerNode>(*this, config.servers + i));
  }
}

ScheduleWorld::~ScheduleWorld() {
  workers_.clear();
  servers_.clear();
}

dag::Home& ScheduleWorld::home() { return *servers_[0]->home; }

void ScheduleWorld::wake() {
  for (const auto& server : servers_) {
    server->wake();
  }
  for (const auto& worker : workers_) {
    worker->wake();
  }
}

bool ScheduleWorld::run_until(const std::function<bool()>& done, std::uint64_t limit_ns) {
  const std::uint64_t limit_at_ns = now_ns() + limit_ns;
  while (!done()) {
    if (now_ns() >= limit_at_ns) return false;
    if (network_.run_some(limit_at_ns, 16)) return done();
  }
  return true;
}

void ScheduleWorld::submit(const std::string& name, const dag::test::GraphPlan& plan,
                           std::uint32_t priority, std::uint32_t attempts) {
  plans_.emplace(name, plan);
  (void)must(home().submit(name, must(dag::test::build(plan, registry_)), priority,
                           {.failed = attempts, .lost = dag::kAttemptsMax}));
  wake();
}

dag::RunPhase ScheduleWorld::phase(const std::string& name) const {
  for (const auto& run : servers_[0]->home->runs()) {
    if (run.name == name) return run.phase;
  }
  return dag::RunPhase::none;
}

bool ScheduleWorld::has_ended(const std::string& name) const {
  switch (phase(name)) {
    case dag::RunPhase::complete:
    case dag::RunPhase::failed:
    case dag::RunPhase::canceled:
    case dag::RunPhase::refused:
      return true;
    default:
      return false;
  }
}

std::string ScheduleWorld::text(const std::string& name) const {
  for (const auto& run : servers_[0]->home->runs()) {
    if (run.name == name) return std::string(run.text);
  }
  return {};
}

std::string ScheduleWorld::digest(const std::string& name) const {
  dag::GraphDigest digest;
  dag::Sha256 sha256;
  for (const auto& [key, node] : plans_.at(name).nodes) {
    const std::string full = fmt::format("{}/{}", name, key);
    const auto found = servers_[0]->store->lookup(std::as_bytes(std::span(full)));
    if (found.status != dag::Status::ok) return fmt::format("{} is not there", full);
    const auto record = dag::examine_record(
        servers_[0]->store->memory().subspan(found.place.address, found.place.length),
        found.place.incarnation, std::nullopt);
    if (record.verdict != dag::Verdict::match) return fmt::format("{} is damaged", full);
    const auto& control = record.header.control;
    if (dag::NodeState::from(control[dag::kStateWord]).phase != dag::NodePhase::released) {
      return fmt::format("{} is not released", full);
    }
    const auto place =
        dag::OutputPlace::from(control[dag::kOutputWord], control[dag::kOutputWord + 1]);
    if (place.server >= servers_.size()) return fmt::format("{}'s output is nowhere", full);
    const auto memory = servers_[place.server]->store->memory();
    if (place.address > memory.size() || place.length > memory.size() - place.address) {
      return fmt::format("{}'s output is nowhere", full);
    }
    const auto output = dag::examine_record(memory.subspan(place.address, place.length),
                                            place.incarnation, std::as_bytes(std::span(full)));
    if (output.verdict != dag::Verdict::match) return fmt::format("{} has no output", full);
    sha256.add(output.data);
    digest.add(key, sha256.finish());
  }
  return dag::to_hex(digest.finish());
}

std::string ScheduleWorld::check_times(const std::string& name) const {
  std::map<std::string, WorkerNode::Times> all;
  for (const auto& worker : workers_) {
    all.insert(worker->times.begin(), worker->times.end());
  }
  for (const auto& [key, node] : plans_.at(name).nodes) {
    const auto own = all.find(fmt::format("{}/{}", name, key));
    if (own == all.end()) continue;
    for (const auto& [from, constraints] : node.predecessors) {
      const auto before = all.find(fmt::format("{}/{}", name, from));
      if (before == all.end()) continue;
      if (own->second.start_ns < before->second.end_ns + constraints.not_before_ns) {
        return fmt::format(
            "{} began {} ns after the begin of {}, which took {} ns, and is to wait {}", key,
            own->second.start_ns - before->second.start_ns, from,
            before->second.end_ns - before->second.start_ns, constraints.not_before_ns);
      }
    }
  }
  return {};
}

void ScheduleWorld::cancel(const std::string& name) {
  (void)home().on_request(dag::ClientId{0},
                          {.code = static_cast<std::uint8_t>(dag::HomeRequest::cancel),
                           .name = std::as_bytes(std::span(name))},
                          now_ns());
  wake();
}

std::map<std::string, unsigned> ScheduleWorld::commits(const std::string& name) const {
  std::map<std::string, unsigned> all;
  for (const auto& worker : workers_) {
    for (const auto& [key, count] : worker->commits) {
      if (key.starts_with(name + "/")) all[key.substr(name.size() + 1)] += count;
    }
  }
  return all;
}

void ScheduleWorld::kill(unsigned worker) {
  WorkerNode& node = *workers_.at(worker);
  node.killed = true;
  node.link.cut(true);
}

void ScheduleWorld::pause(unsigned worker, bool paused) {
  WorkerNode& node = *workers_.at(worker);
  node.paused = paused;
  node.link.cut(paused);
  if (!paused) node.wake();
}

std::map<std::string, std::uint64_t> ScheduleWorld::counters() const {
  std::map<std::string, std::uint64_t> all;
  for (const auto& worker : workers_) {
    for (const auto& [name, value] : worker->counters) {
      all[name] += value;
    }
    if (worker->worker != nullptr) worker->worker->visit_counters(add_counter, &all);
  }
  return all;
}

std::string ScheduleWorld::describe() const {
  std::string text;
  for (const auto& run : servers_[0]->home->runs()) {
    text += fmt::format("{}: phase {}, {} of {} '{}'\n", run.name, static_cast<unsigned>(run.phase),
                        run.completed, run.nodes, run.text);
  }
  for (const auto& [name, value] : counters()) {
    if (value > 0) text += fmt::format("{} {}; ", name, value);
  }
  return text + '\n';
}

}  // namespace rockhopper::sim
