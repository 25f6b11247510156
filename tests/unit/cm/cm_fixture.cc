// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "tests/unit/cm/cm_fixture.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "tests/sim/seeded_runs.h"

namespace rockhopper::roce::cm {

using sim::must;

void PrintTo(State state, std::ostream* out) { *out << to_string(state); }
void PrintTo(EventType type, std::ostream* out) { *out << to_string(type); }

void CmTest::start(sim::CmNetworkConfig config, bool listening) {
  config.network.pools = &sim::pools();
  bare_peer_ = config.bare_peer;
  net_ = std::make_unique<sim::CmNetwork>(config);
  net_->on_event = [this](unsigned node, const Event& event) {
    events_[node].push_back(event);
    if (event.connection != nullptr && event.type == EventType::connect_request) {
      connections_[node].push_back(event.connection);
    }
  };
  if (listening && !config.bare_peer) must(manager(1).listen(kService));
}

/// Whatever a test did: once the application has released everything, nothing is kept, no timer
/// runs, no mbuf is held.
void CmTest::TearDown() {
  if (net_ == nullptr) return;
  for (unsigned node = 0; node < 2; ++node) {
    for (Connection* connection : std::exchange(connections_[node], {})) {
      manager(node).release(*connection);
    }
  }
  EXPECT_TRUE(net_->run_to_rest(net_->now_ns() + kLongNs));
  EXPECT_EQ(manager(0).connection_count(), 0u);
  if (!bare_peer_) {
    EXPECT_EQ(manager(1).connection_count(), 0u);
  }
  EXPECT_EQ(net_->busy_deadlines(), 0u);
  net_.reset();
  EXPECT_EQ(pools_in_use(), mbufs_before_);
}

std::uint32_t CmTest::pools_in_use() { return sim::pools().in_use(); }

std::vector<EventType> CmTest::types(unsigned node) const {
  std::vector<EventType> result;
  for (const Event& event : events_[node]) {
    result.push_back(event.type);
  }
  return result;
}

std::size_t CmTest::count(unsigned node, EventType type) const {
  const auto all = types(node);
  return static_cast<std::size_t>(std::count(all.begin(), all.end(), type));
}

Event CmTest::await(unsigned node, EventType type) {
  std::size_t& next = awaited_[node];
  const auto found = [&] {
    while (next < events_[node].size() && events_[node][next].type != type) {
      ++next;
    }
    return next < events_[node].size();
  };
  if (!net_->run_until(found, net_->now_ns() + kLongNs)) {
    throw std::runtime_error("node " + std::to_string(node) + " waits for " +
                             std::string(to_string(type)) + " and got " +
                             ::testing::PrintToString(types(node)));
  }
  return events_[node][next++];
}

void CmTest::forget_events() {
  for (unsigned node = 0; node < 2; ++node) {
    events_[node].clear();
    awaited_[node] = 0;
  }
}

ConnectParameters CmTest::to_peer(ConnectParameters parameters) {
  parameters.path = net_->path(0);
  parameters.service_id = kService;
  return parameters;
}

Connection* CmTest::connect(QueuePair& qp, ConnectParameters parameters) {
  if (parameters.service_id == 0) parameters = to_peer(parameters);
  Connection* connection = must(manager(0).connect(qp, parameters));
  connections_[0].push_back(connection);
  return connection;
}

Connection* CmTest::connect_external(const ExternalQp& qp, ConnectParameters parameters) {
  if (parameters.service_id == 0) parameters = to_peer(parameters);
  Connection* connection = must(manager(0).connect(qp, parameters));
  connections_[0].push_back(connection);
  return connection;
}

CmTest::Pair CmTest::request(QpType type) {
  Pair pair{.active_qp = &net_->make_qp(0, type), .passive_qp = &net_->make_qp(1, type)};
  pair.active = connect(*pair.active_qp);
  pair.passive = await(1, EventType::connect_request).connection;
  return pair;
}

CmTest::Pair CmTest::establish(QpType type) {
  Pair pair = request(type);
  must(manager(1).accept(*pair.passive, *pair.passive_qp, {}));
  await(0, EventType::established);
  await(1, EventType::established);
  return pair;
}

void CmTest::disconnect(Pair& pair, unsigned node) {
  must(manager(node).disconnect(node == 0 ? *pair.active : *pair.passive));
  await(0, EventType::timewait_exit);
  await(1, EventType::timewait_exit);
}

void CmTest::release(unsigned node, Connection* connection) {
  std::erase(connections_[node], connection);
  manager(node).release(*connection);
}

}  // namespace rockhopper::roce::cm
