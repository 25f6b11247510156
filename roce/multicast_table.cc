// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "roce/multicast_table.h"

#include <algorithm>

namespace rockhopper::roce {

Expected<MulticastTable::Attached> MulticastTable::attach(QueuePair& qp,
                                                          const stack::IpAddress& group) {
  const auto found = groups_.find(group);
  const std::size_t members = found == groups_.end() ? 0 : found->second.size();
  if (members > 0 &&
      std::find(found->second.begin(), found->second.end(), &qp) != found->second.end()) {
    return Attached::already;
  }
  if (members == 0 && groups_.size() == kMaxMcastGrp) {
    return fail(ErrorCode::exhausted, "all {} multicast groups are in use", kMaxMcastGrp);
  }
  if (members == kMaxMcastQpAttach) {
    return fail(ErrorCode::exhausted, "{} has all {} queue pairs that can be attached",
                group.to_string(), kMaxMcastQpAttach);
  }
  if (attachments_ == kMaxTotalMcastQpAttach) {
    return fail(ErrorCode::exhausted, "all {} attachments to multicast groups are in use",
                kMaxTotalMcastQpAttach);
  }
  groups_[group].push_back(&qp);
  ++attachments_;
  return members == 0 ? Attached::first : Attached::further;
}

Expected<bool> MulticastTable::detach(const QueuePair& qp, const stack::IpAddress& group) {
  const auto found = groups_.find(group);
  if (found == groups_.end() || std::erase(found->second, &qp) == 0) {
    return fail(ErrorCode::not_found, "the queue pair is not attached to {}", group.to_string());
  }
  --attachments_;
  if (!found->second.empty()) return false;
  groups_.erase(found);
  return true;
}

std::vector<stack::IpAddress> MulticastTable::groups_of(const QueuePair& qp) const {
  std::vector<stack::IpAddress> all;
  for (const auto& [group, members] : groups_) {
    if (std::find(members.begin(), members.end(), &qp) != members.end()) all.push_back(group);
  }
  return all;
}

std::span<QueuePair* const> MulticastTable::find(const stack::IpAddress& group) const {
  const auto found = groups_.find(group);
  return found == groups_.end() ? std::span<QueuePair* const>() : std::span(found->second);
}

}  // namespace rockhopper::roce
