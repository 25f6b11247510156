// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
// By what a connection is found: without an engine.
#include "roce/cm/connection_table.h"

#include <cstdint>
#include <memory>

#include <gtest/gtest.h>

namespace rockhopper::roce::cm {
namespace {

const stack::IpAddress kPeer = stack::IpAddress::from_ipv4(0x0a000001);
const stack::IpAddress kOther = stack::IpAddress::from_ipv4(0x0a000002);

class ConnectionTableTest : public ::testing::Test, public ConnectionTimers {
 protected:
  ManagedConnection& add(std::uint32_t local_id, std::uint32_t remote_id = 0,
                         std::uint32_t remote_qpn = 0) {
    ManagedConnection& connection =
        table_.add(std::make_unique<ManagedConnection>(*this, local_id, false));
    connection.path_.destination = kPeer;
    connection.remote_id = remote_id;
    connection.remote_qpn_ = wire::Qpn{remote_qpn};
    connection.local_qpn_ = wire::Qpn{local_id + 100};
    return connection;
  }
  void on_timer(ManagedConnection& /*connection*/) override {}

  ConnectionTable table_{3};
};

TEST_F(ConnectionTableTest, HasSoMany) {
  for (std::uint32_t id = 1; id <= 3; ++id) {
    EXPECT_FALSE(table_.is_full());
    add(id);
  }
  EXPECT_TRUE(table_.is_full());
  EXPECT_EQ(table_.size(), 3u);
  table_.erase(*table_.find(2));
  EXPECT_FALSE(table_.is_full());
  EXPECT_EQ(table_.find(2), nullptr);
  EXPECT_NE(table_.find(3), nullptr);
}

TEST_F(ConnectionTableTest, IsFoundByWhatThePeerKnows) {
  ManagedConnection& connection = add(1, 77, 33);
  EXPECT_EQ(table_.find_by_remote_id({kPeer, 77}), nullptr) << "not before it is set";
  table_.set_remote_id(connection);
  table_.set_remote_qpn(connection);
  EXPECT_EQ(table_.find_by_remote_id({kPeer, 77}), &connection);
  EXPECT_EQ(table_.find_by_remote_qpn({kPeer, 33}), &connection);
  EXPECT_EQ(table_.find_by_remote_id({kOther, 77}), nullptr) << "numbers are the peer's own";
  EXPECT_EQ(table_.find_by_remote_qpn({kOther, 33}), nullptr);
}

TEST_F(ConnectionTableTest, ACommunicationIdIsTheLatestConnections) {
  ManagedConnection& first = add(1, 77);
  ManagedConnection& second = add(2, 77);
  table_.set_remote_id(first);
  table_.set_remote_id(second);
  EXPECT_EQ(table_.find_by_remote_id({kPeer, 77}), &second);
  table_.erase(first);
  EXPECT_EQ(table_.find_by_remote_id({kPeer, 77}), &second) << "it is not the first one's any more";
  table_.erase(second);
  EXPECT_EQ(table_.find_by_remote_id({kPeer, 77}), nullptr);
}

TEST_F(ConnectionTableTest, AQueuePairOfThePeerIsTheFirstConnectionsUntilThatIsOver) {
  ManagedConnection& first = add(1, 1, 33);
  ManagedConnection& second = add(2, 2, 33);
  table_.set_remote_qpn(first);
  table_.set_remote_qpn(second);
  EXPECT_EQ(table_.find_by_remote_qpn({kPeer, 33}), &first);
  table_.detach(second);
  EXPECT_EQ(table_.find_by_remote_qpn({kPeer, 33}), &first);
  table_.detach(first);
  EXPECT_EQ(table_.find_by_remote_qpn({kPeer, 33}), nullptr);
}

TEST_F(ConnectionTableTest, AQueuePairOfOursIsTheLatestConnections) {
  ManagedConnection& first = add(1);
  ManagedConnection& second = add(2);
  second.local_qpn_ = first.local_qpn_;
  table_.set_local_qpn(first);
  table_.set_local_qpn(second);
  EXPECT_EQ(table_.find_by_local_qpn(first.local_qpn_), &second);
  table_.detach(first);
  EXPECT_EQ(table_.find_by_local_qpn(first.local_qpn_), &second);
  table_.detach(second);
  EXPECT_EQ(table_.find_by_local_qpn(first.local_qpn_), nullptr);
}

}  // namespace
}  // namespace rockhopper::roce::cm
