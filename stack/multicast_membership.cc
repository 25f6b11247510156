// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "stack/multicast_membership.h"

#include <algorithm>
#include <cassert>
#include <tuple>
#include <utility>

#include "stack/igmp.h"
#include "stack/neighbour_discovery.h"
#include "stack/time_units.h"

namespace rockhopper::stack {
namespace {

// RFC 3376, section 8; RFC 3810, section 9.
constexpr std::uint8_t kRobustness = 2;
constexpr std::uint64_t kQueryIntervalNs = 125 * kNsPerSecond;
constexpr std::uint64_t kUnsolicitedIntervalNs = 1 * kNsPerSecond;
constexpr std::uint64_t kUnsolicitedIntervalOlderNs = 10 * kNsPerSecond;

constexpr std::uint8_t kScopeMask = 0x0f;
constexpr std::uint8_t kScopeInterface = 1;

}  // namespace

bool is_unreported_group(const IpAddress& group) {
  if (group.is_ipv4()) return group == kAllSystemsGroup;
  return group == kAllNodesGroup || (group.bytes[1] & kScopeMask) <= kScopeInterface;
}

MulticastMembership::Group::Group(MulticastMembership& membership, const IpAddress& group)
    : owner(membership),
      address(group),
      change_timer(
          [](void* context, std::uint64_t now_ns) {
            auto& self = *static_cast<Group*>(context);
            self.owner.report_change(self, now_ns);
          },
          this),
      response_timer(
          [](void* context, std::uint64_t now_ns) {
            auto& self = *static_cast<Group*>(context);
            if (self.members > 0) self.owner.report_one(self, MembershipState::current, now_ns);
          },
          this) {}

MulticastMembership::MulticastMembership(std::uint64_t seed, TimingWheel& timers,
                                         MembershipReporter& reporter)
    : random_(seed),
      timers_(timers),
      reporter_(reporter),
      robustness_(kRobustness),
      query_interval_ns_(kQueryIntervalNs),
      general_timer_(
          [](void* context, std::uint64_t now_ns) {
            static_cast<MulticastMembership*>(context)->report_all(now_ns);
          },
          this) {}

Expected<void> MulticastMembership::join(const IpAddress& group) {
  if (!group.is_multicast()) {
    return fail(ErrorCode::invalid_argument, "{} is no multicast group", group.to_string());
  }
  if (groups_.size() == kGroupsMax && groups_.find(group) == groups_.end()) {
    return fail(ErrorCode::exhausted, "no more than {} multicast groups", kGroupsMax);
  }
  Group& entry = groups_
                     .emplace(std::piecewise_construct, std::forward_as_tuple(group),
                              std::forward_as_tuple(*this, group))
                     .first->second;
  if (++entry.members == 1) begin_change(entry);
  return {};
}

Expected<void> MulticastMembership::leave(const IpAddress& group) {
  const auto found = groups_.find(group);
  if (found == groups_.end() || found->second.members == 0) {
    return fail(ErrorCode::not_found, "{} has not been joined", group.to_string());
  }
  if (--found->second.members == 0) {
    timers_.cancel(found->second.response_timer);
    begin_change(found->second);
  }
  return {};
}

std::vector<IpAddress> MulticastMembership::groups() const {
  std::vector<IpAddress> all;
  for (const auto& [address, group] : groups_) {
    if (group.members > 0) all.push_back(address);
  }
  return all;
}

std::uint8_t MulticastMembership::version(std::uint64_t now_ns) const {
  std::uint8_t version = kMembershipVersionMin;
  for (const std::uint64_t until_ns : older_querier_until_ns_) {
    if (now_ns < until_ns) return version;
    ++version;
  }
  return version;
}

void MulticastMembership::begin_change(Group& group) {
  group.changes_left = robustness_;
  timers_.arm(group.change_timer, 0);
}

/// RFC 3376, section 5.1; the older versions say once that they leave, and version 1 does not.
void MulticastMembership::report_change(Group& group, std::uint64_t now_ns) {
  const bool member = group.members > 0;
  const std::uint8_t spoken = version(now_ns);
  const bool older = spoken < kMembershipVersion;
  if (!is_unreported_group(group.address) && (member || spoken > kMembershipVersionMin)) {
    report_one(group, member ? MembershipState::joined : MembershipState::left, now_ns);
  }
  assert(group.changes_left > 0);
  --group.changes_left;
  if (older && !member) group.changes_left = 0;
  if (group.changes_left > 0) {
    const std::uint64_t interval_ns = older ? kUnsolicitedIntervalOlderNs : kUnsolicitedIntervalNs;
    timers_.arm(group.change_timer, now_ns + 1 + random_.below(interval_ns));
  } else if (!member) {
    const IpAddress address = group.address;
    groups_.erase(address);
  }
}

void MulticastMembership::report_one(const Group& group, MembershipState state,
                                     std::uint64_t now_ns) {
  const MembershipRecord record{state, group.address};
  reporter_.report(version(now_ns), {&record, 1});
}

void MulticastMembership::report_all(std::uint64_t now_ns) {
  std::array<MembershipRecord, kRecordsMax> records;
  std::size_t count = 0;
  const std::uint8_t spoken = version(now_ns);
  const auto flush = [&] {
    if (count > 0) reporter_.report(spoken, std::span(records).first(count));
    count = 0;
  };
  for (auto& [address, group] : groups_) {
    if (group.members == 0 || is_unreported_group(address)) continue;
    timers_.cancel(group.response_timer);
    records[count++] = {MembershipState::current, address};
    if (count == records.size()) flush();
  }
  flush();
}

void MulticastMembership::on_query(const MembershipQuery& query, std::uint64_t now_ns) {
  const std::uint8_t before = version(now_ns);
  if (query.version < kMembershipVersion) {
    // "Older Version Querier Present": RFC 3376, section 8.12; RFC 3810, section 9.12.
    older_querier_until_ns_[query.version - kMembershipVersionMin] =
        now_ns + robustness_ * query_interval_ns_ + query.max_response_ns;
  } else {
    robustness_ = query.robustness == 0 ? kRobustness : query.robustness;
    query_interval_ns_ = query.query_interval_ns == 0 ? kQueryIntervalNs : query.query_interval_ns;
  }
  const std::uint8_t spoken = version(now_ns);
  if (spoken != before) cancel_answers();
  const auto deadline_ns = [&] { return now_ns + random_.below(query.max_response_ns + 1); };
  if (!query.group.is_unspecified()) {
    const auto found = groups_.find(query.group);
    if (found != groups_.end() && found->second.members > 0 && !is_unreported_group(query.group)) {
      answer_by(found->second.response_timer, deadline_ns());
    }
  } else if (spoken == kMembershipVersion) {
    answer_by(general_timer_, deadline_ns());
  } else {
    for (auto& [address, group] : groups_) {
      if (group.members > 0 && !is_unreported_group(address)) {
        answer_by(group.response_timer, deadline_ns());
      }
    }
  }
}

void MulticastMembership::on_report(const IpAddress& group, std::uint64_t now_ns) {
  const auto found = groups_.find(group);
  if (found != groups_.end() && version(now_ns) < kMembershipVersion) {
    timers_.cancel(found->second.response_timer);
  }
}

void MulticastMembership::answer_by(Timer& timer, std::uint64_t deadline_ns) {
  // RFC 3376, section 5.2: an answer to all that is due earlier serves this question too.
  if (general_timer_.armed() && general_timer_.deadline_ns() <= deadline_ns) return;
  if (timer.armed() && timer.deadline_ns() <= deadline_ns) return;
  timers_.arm(timer, deadline_ns);
}

void MulticastMembership::cancel_answers() {
  timers_.cancel(general_timer_);
  for (auto& [address, group] : groups_) {
    timers_.cancel(group.response_timer);
  }
}

}  // namespace rockhopper::stack
