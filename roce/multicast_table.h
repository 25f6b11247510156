// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "stack/error.h"
#include "stack/ip_address.h"
#include "stack/multicast_membership.h"

namespace rockhopper::roce {

class QueuePair;

/// Limits of an engine, as ibv_device_attr names them. The host's groups have limits of their own.
inline constexpr std::uint32_t kMaxMcastGrp = stack::MulticastMembership::kGroupsMax;
inline constexpr std::uint32_t kMaxMcastQpAttach = 256;  ///< to one group
inline constexpr std::uint32_t kMaxTotalMcastQpAttach = 8192;

/// Which queue pairs are attached to which groups. Control path: allocates; find() does not.
class MulticastTable {
 public:
  enum class Attached : std::uint8_t { first, further, already };

  /// `first`: the group had no queue pair. `exhausted` beyond the limits.
  [[nodiscard]] Expected<Attached> attach(QueuePair& qp, const stack::IpAddress& group);
  /// Returns true if it was the group's last queue pair. Fails with `not_found`.
  [[nodiscard]] Expected<bool> detach(const QueuePair& qp, const stack::IpAddress& group);
  /// The groups of a queue pair.
  [[nodiscard]] std::vector<stack::IpAddress> groups_of(const QueuePair& qp) const;

  /// In the order in which they were attached; valid until the next change.
  [[nodiscard]] std::span<QueuePair* const> find(const stack::IpAddress& group) const;

 private:
  std::map<stack::IpAddress, std::vector<QueuePair*>> groups_;
  std::size_t attachments_ = 0;
};

}  // namespace rockhopper::roce
