// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <unordered_map>

#include "roce/cm/managed_connection.h"
#include "stack/ip_address.h"

namespace rockhopper::roce::cm {

/// Something of a peer: its communication ID, its request ID or its QPN.
struct PeerKey {
  stack::IpAddress address;
  std::uint32_t number = 0;
  // clang-tidy 14 takes the 0 of a defaulted <=> for a pointer.
  // NOLINTNEXTLINE(modernize-use-nullptr)
  friend auto operator<=>(const PeerKey&, const PeerKey&) = default;
};

/// The connections of a manager, found by whatever messages and applications know of them.
class ConnectionTable {
 public:
  /// There are up to so many.
  explicit ConnectionTable(std::size_t most) : most_(most) {}

  [[nodiscard]] std::size_t size() const { return connections_.size(); }
  [[nodiscard]] bool is_full() const { return size() >= most_; }
  /// All of these return null if there is none.
  [[nodiscard]] ManagedConnection* find(std::uint32_t local_id) const;
  /// The passive one that the peer knows under that communication ID.
  [[nodiscard]] ManagedConnection* find_by_remote_id(const PeerKey& key) const;
  /// The one that is connected to that queue pair of the peer, or about to be.
  [[nodiscard]] ManagedConnection* find_by_remote_qpn(const PeerKey& key) const;
  /// The one that has that queue pair of ours.
  [[nodiscard]] const Connection* find_by_local_qpn(wire::Qpn qpn) const;
  template <typename Visit>
  void for_each(const Visit& visit) const {
    for (const auto& [id, connection] : connections_) {
      visit(*connection);
    }
  }

  /// Requires that there is room, and none with its local ID.
  ManagedConnection& add(std::unique_ptr<ManagedConnection> connection);
  /// It can be found by its remote_id from now on, in place of any other.
  void set_remote_id(ManagedConnection& connection);
  /// The same of its remote QPN, unless another one has that, and of its own.
  void set_remote_qpn(ManagedConnection& connection);
  void set_local_qpn(const Connection& connection);
  /// Both its queue pairs are free for another connection.
  void detach(const Connection& connection);
  /// It ends.
  void erase(const ManagedConnection& connection);

 private:
  using ByPeer = std::map<PeerKey, ManagedConnection*>;
  [[nodiscard]] static ManagedConnection* find(const ByPeer& table, const PeerKey& key);
  static void erase_from(ByPeer& table, const Connection& connection, std::uint32_t number);

  std::size_t most_;
  std::unordered_map<std::uint32_t, std::unique_ptr<ManagedConnection>> connections_;
  ByPeer by_remote_id_;
  ByPeer by_remote_qpn_;
  std::unordered_map<std::uint32_t, const Connection*> by_local_qpn_;
};

}  // namespace rockhopper::roce::cm
