// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "apps/node/node.h"
#include "apps/services/dag/graph/digest_task.h"
#include "apps/services/dag/schedule/home.h"
#include "apps/services/dag/schedule/worker.h"
#include "apps/services/dag/server.h"
#include "apps/services/dag/store.h"
#include "roce/random.h"
#include "stack/fault_config.h"
#include "stack/sim/network.h"
#include "stack/sim/station.h"
#include "tests/dag_graph/graph_plan.h"
#include "tests/dag_schedule/digest_executor.h"
#include "tests/sim/selective_drop.h"
#include "tests/sim/sim_network.h"

namespace rockhopper::sim {

struct ScheduleConfig {
  std::uint64_t seed = 1;
  unsigned servers = 1;  ///< the first one is the home
  unsigned workers = 2;
  unsigned executor_slots = 1;            ///< 0: nodes end when they are started
  std::uint64_t delay_ns = 1'000;         ///< one way, of each link
  stack::FaultRates faults{};             ///< of each direction of each link
  std::uint64_t memory_bytes = 16 << 20;  ///< of each server
  dag::StoreConfig store{.quarantine_ns = 1'000'000};
  dag::ServerConfig server{.lease_ns = 40'000'000, .timeout = 9};
  dag::ClientConfig client{.entries = 1024, .operations = 64, .buffer_bytes = 65536, .timeout = 9};
  dag::HomeConfig home{};
  dag::WorkerConfig worker{};
  dag::PlacementPolicy placement = dag::PlacementPolicy::hash;
  /// Of each worker, by its index; those behind the last one have none.
  std::vector<std::vector<std::uint32_t>> labels;
};

/// Servers, of which one is the home of runs, and workers around a switch, in virtual time.
class ScheduleWorld {
 public:
  explicit ScheduleWorld(const ScheduleConfig& config);
  ~ScheduleWorld();
  ScheduleWorld(const ScheduleWorld&) = delete;
  ScheduleWorld& operator=(const ScheduleWorld&) = delete;

  struct ServerNode;
  struct WorkerNode;

  /// A run of that plan. Aborts if the home does not take it.
  void submit(const std::string& name, const dag::test::GraphPlan& plan, std::uint32_t priority = 1,
              std::uint32_t attempts = 3);
  [[nodiscard]] dag::RunPhase phase(const std::string& name) const;
  [[nodiscard]] bool has_ended(const std::string& name) const;
  [[nodiscard]] std::string text(const std::string& name) const;
  /// The digest of what is in the stores; or what is wrong there.
  [[nodiscard]] std::string digest(const std::string& name) const;
  /// What is wrong with the times at which nodes began; empty: nothing.
  [[nodiscard]] std::string check_times(const std::string& name) const;
  void cancel(const std::string& name);
  /// How often a node's run counted.
  [[nodiscard]] std::map<std::string, unsigned> commits(const std::string& name) const;

  /// As when its process has been killed: nobody hears of it any more.
  void kill(unsigned worker);
  /// It stands still, its engine too, and goes on later.
  void pause(unsigned worker, bool paused);
  /// Has those who are asked for a turn in virtual time.
  void wake();
  /// Until that is true, which is looked at after each event. False: not before `limit_ns` from now
  /// have passed.
  [[nodiscard]] bool run_until(const std::function<bool()>& done, std::uint64_t limit_ns);
  [[nodiscard]] std::uint64_t now_ns() const { return network_.now_ns(); }

  [[nodiscard]] dag::Home& home();
  [[nodiscard]] WorkerNode& worker(unsigned index) { return *workers_.at(index); }
  [[nodiscard]] ServerNode& server(unsigned index) { return *servers_.at(index); }
  [[nodiscard]] unsigned workers() const { return static_cast<unsigned>(workers_.size()); }
  /// Of all workers together, those before a loss included.
  [[nodiscard]] std::map<std::string, std::uint64_t> counters() const;
  [[nodiscard]] std::string describe() const;

 private:
  struct Node;
  friend struct Node;

  ScheduleConfig config_;
  dag::FunctionRegistry registry_;
  stack::sim::Network network_;
  std::vector<std::unique_ptr<ServerNode>> servers_;
  std::vector<std::unique_ptr<WorkerNode>> workers_;
  std::map<std::string, dag::test::GraphPlan> plans_;
};

/// An endpoint at the switch.
struct ScheduleWorld::Node : stack::Application {
  Node(ScheduleWorld& of, unsigned number);
  [[nodiscard]] stack::sim::Nic& nic() const;
  [[nodiscard]] roce::AddressVector way_to(const Node& other) const;
  void start();
  void wake() const { station->wake(world.now_ns()); }

  ScheduleWorld& world;
  unsigned index;
  roce::SeededRandom random;
  SelectiveDrop link;
  stack::IpAddress address;
  std::unique_ptr<rockhopper::Node> endpoint;
  std::unique_ptr<stack::sim::Station> station;
};

struct ScheduleWorld::ServerNode final : Node, dag::ServerListener, dag::HomeListener {
  ServerNode(ScheduleWorld& of, unsigned number, bool is_home);
  ~ServerNode() override;
  std::uint64_t turn(std::uint64_t now_ns) override;
  void on_submitted(dag::RunId run, std::vector<std::byte> image) override;

  struct alignas(64) Line {
    std::byte bytes[64];
  };
  std::vector<Line> memory;
  std::vector<Line> board;
  std::unique_ptr<dag::Store> store;
  std::unique_ptr<dag::Home> home;
  std::unique_ptr<dag::Server> server;
  bool stopped = false;  ///< its application stands still; its engine does not
};

struct ScheduleWorld::WorkerNode final : Node, dag::ClientListener, dag::WorkerListener {
  WorkerNode(ScheduleWorld& of, unsigned number);
  ~WorkerNode() override;
  std::uint64_t turn(std::uint64_t now_ns) override;
  void on_result(const dag::Result& result) override;
  void on_server_lost(std::uint16_t server) override;
  void on_node(const dag::NodeReport& report) override;
  void on_lost(dag::Status why) override;
  /// Connects to all servers, and joins the home.
  void connect();
  void disconnect();

  DigestExecutor executor;
  std::unique_ptr<dag::Client> client;
  std::unique_ptr<dag::Worker> worker;
  std::vector<dag::ClientId> ids;  ///< by server
  bool killed = false;
  bool paused = false;
  bool lost = false;
  unsigned losses = 0;
  std::map<std::string, unsigned> commits;  ///< by "RUN/NODE"
  struct Times {
    std::uint64_t start_ns = 0;
    std::uint64_t end_ns = 0;
  };
  std::map<std::string, Times> times;             ///< by the same
  std::map<std::string, std::uint64_t> counters;  ///< of workers before
};

}  // namespace rockhopper::sim
