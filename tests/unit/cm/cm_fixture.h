// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/sim/cm_network.h"

namespace rockhopper::roce::cm {

void PrintTo(State state, std::ostream* out);
void PrintTo(EventType type, std::ostream* out);

inline constexpr std::uint64_t kService = 0x0000000001061234;
inline constexpr std::uint64_t kSecondNs = 1'000'000'000;
/// Longer than all that these tests let a connection manager wait for.
inline constexpr std::uint64_t kLongNs = 1'000 * kSecondNs;

/// Node 0 connects, node 1 listens. At the end everything is released and must be gone.
class CmTest : public ::testing::Test {
 protected:
  void SetUp() override { mbufs_before_ = pools_in_use(); }
  void TearDown() override;

  /// Makes the two nodes; `listening`: node 1 serves kService.
  void start(sim::CmNetworkConfig config = {}, bool listening = true);
  [[nodiscard]] sim::CmNetwork& net() { return *net_; }
  [[nodiscard]] Engine& engine(unsigned node) { return net_->engine(node); }
  [[nodiscard]] ConnectionManager& manager(unsigned node) { return net_->manager(node); }
  [[nodiscard]] std::uint64_t counter(unsigned node, const char* name) const {
    return net_->counter(node, name);
  }

  /// The types of the events of a node until now.
  [[nodiscard]] std::vector<EventType> types(unsigned node) const;
  [[nodiscard]] const std::vector<Event>& events(unsigned node) const { return events_[node]; }
  [[nodiscard]] std::size_t count(unsigned node, EventType type) const;
  /// Waits for the next event of that type that has not been waited for; its copy. Ends the test if
  /// it does not come.
  Event await(unsigned node, EventType type);
  void forget_events();

  /// Node 0 asks for kService of node 1.
  Connection* connect(QueuePair& qp, ConnectParameters parameters = {});
  Connection* connect_external(const ExternalQp& qp, ConnectParameters parameters = {});
  [[nodiscard]] ConnectParameters to_peer(ConnectParameters parameters = {});

  struct Pair {
    QueuePair* active_qp = nullptr;
    QueuePair* passive_qp = nullptr;
    Connection* active = nullptr;
    Connection* passive = nullptr;
  };
  /// A request that node 1 has been told of.
  Pair request(QpType type = QpType::rc);
  /// Both ends established.
  Pair establish(QpType type = QpType::rc);
  /// Both ends disconnected by `node` and out of TIMEWAIT.
  void disconnect(Pair& pair, unsigned node = 0);

  [[nodiscard]] static std::uint32_t pools_in_use();
  /// Releases a connection at the end of the test unless release() has been called for it.
  void release(unsigned node, Connection* connection);

  std::unique_ptr<sim::CmNetwork> net_;

 private:
  std::array<std::vector<Event>, 2> events_;
  std::array<std::size_t, 2> awaited_{};
  std::array<std::vector<Connection*>, 2> connections_;  ///< not released
  std::uint32_t mbufs_before_ = 0;
  bool bare_peer_ = false;
};

}  // namespace rockhopper::roce::cm
