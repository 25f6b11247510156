// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "roce/cm/connection_table.h"

#include <cassert>
#include <utility>

namespace rockhopper::roce::cm {

ManagedConnection* ConnectionTable::find(std::uint32_t local_id) const {
  const auto found = connections_.find(local_id);
  return found == connections_.end() ? nullptr : found->second.get();
}

ManagedConnection* ConnectionTable::find(const ByPeer& table, const PeerKey& key) {
  const auto found = table.find(key);
  return found == table.end() ? nullptr : found->second;
}

ManagedConnection* ConnectionTable::find_by_remote_id(const PeerKey& key) const {
  return find(by_remote_id_, key);
}

ManagedConnection* ConnectionTable::find_by_remote_qpn(const PeerKey& key) const {
  return find(by_remote_qpn_, key);
}

const Connection* ConnectionTable::find_by_local_qpn(wire::Qpn qpn) const {
  const auto found = by_local_qpn_.find(qpn.value);
  return found == by_local_qpn_.end() ? nullptr : found->second;
}

ManagedConnection& ConnectionTable::add(std::unique_ptr<ManagedConnection> connection) {
  assert(!is_full() && find(connection->local_id_) == nullptr);
  auto& slot = connections_[connection->local_id_];
  slot = std::move(connection);
  return *slot;
}

void ConnectionTable::set_remote_id(ManagedConnection& connection) {
  by_remote_id_.insert_or_assign({connection.path_.destination, connection.remote_id}, &connection);
}

void ConnectionTable::set_remote_qpn(ManagedConnection& connection) {
  by_remote_qpn_.insert(
      {{connection.path_.destination, connection.remote_qpn_.value}, &connection});
}

void ConnectionTable::set_local_qpn(const Connection& connection) {
  by_local_qpn_[connection.local_qpn().value] = &connection;
}

/// Takes the connection out of a table, unless another one has its place.
void ConnectionTable::erase_from(ByPeer& table, const Connection& connection,
                                 std::uint32_t number) {
  const auto found = table.find({connection.path().destination, number});
  if (found != table.end() && found->second == &connection) table.erase(found);
}

void ConnectionTable::detach(const Connection& connection) {
  erase_from(by_remote_qpn_, connection, connection.remote_qpn().value);
  const auto own = by_local_qpn_.find(connection.local_qpn().value);
  if (own != by_local_qpn_.end() && own->second == &connection) by_local_qpn_.erase(own);
}

void ConnectionTable::erase(const ManagedConnection& connection) {
  erase_from(by_remote_id_, connection, connection.remote_id);
  connections_.erase(connection.local_id_);
}

}  // namespace rockhopper::roce::cm
