// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "stack/error.h"
#include "stack/ip_address.h"
#include "stack/membership_message.h"
#include "stack/random.h"
#include "stack/timing_wheel.h"

namespace rockhopper::stack {

/// Sends what a MulticastMembership has to say.
class MembershipReporter {
 public:
  MembershipReporter() = default;
  MembershipReporter(const MembershipReporter&) = delete;
  MembershipReporter& operator=(const MembershipReporter&) = delete;
  virtual ~MembershipReporter() = default;
  /// `records`: groups of one family, exactly one below version 3.
  virtual void report(std::uint8_t version, std::span<const MembershipRecord> records) = 0;
};

/// The groups of one family that a host is a member of, and the host's side of IGMP (RFC 3376) or
/// MLD (RFC 3810) for them, without source filters: changes reported `robustness` times, queries
/// answered after a random part of the time that they give, older versions spoken while an older
/// querier is about. A query for certain sources is answered as one for the group, which is as
/// true. Takes times, sends through the reporter. Single-threaded.
class MulticastMembership {
 public:
  static constexpr std::size_t kGroupsMax = 1024;
  static constexpr std::size_t kRecordsMax = 32;  ///< of one report

  /// References are not owned and outlive it.
  MulticastMembership(std::uint64_t seed, TimingWheel& timers, MembershipReporter& reporter);

  /// Members are counted: a group is left when as many have left as have joined. The first and the
  /// last are reported at the next TimingWheel::advance(). `exhausted` beyond kGroupsMax groups,
  /// those still to be reported as left included.
  [[nodiscard]] Expected<void> join(const IpAddress& group);
  [[nodiscard]] Expected<void> leave(const IpAddress& group);
  [[nodiscard]] bool contains(const IpAddress& group) const {
    const auto found = groups_.find(group);
    return found != groups_.end() && found->second.members > 0;
  }
  /// All that contains() is true for.
  [[nodiscard]] std::vector<IpAddress> groups() const;

  void on_query(const MembershipQuery& query, std::uint64_t now_ns);
  /// Another member has told of the group, in a version below 3: one is enough there.
  void on_report(const IpAddress& group, std::uint64_t now_ns);

  /// That is spoken now.
  [[nodiscard]] std::uint8_t version(std::uint64_t now_ns) const;

 private:
  struct Group {
    Group(MulticastMembership& membership, const IpAddress& group);
    MulticastMembership& owner;
    const IpAddress address;
    std::uint32_t members = 0;
    std::uint8_t changes_left = 0;  ///< reports of the last change still to be sent
    Timer change_timer;
    Timer response_timer;
  };

  void begin_change(Group& group);
  void report_change(Group& group, std::uint64_t now_ns);
  void report_all(std::uint64_t now_ns);
  void report_one(const Group& group, MembershipState state, std::uint64_t now_ns);
  /// Keeps an answer that is due earlier.
  void answer_by(Timer& timer, std::uint64_t deadline_ns);
  void cancel_answers();

  Random random_;
  TimingWheel& timers_;
  MembershipReporter& reporter_;
  std::uint8_t robustness_;
  std::uint64_t query_interval_ns_;
  /// Until when a querier of version 1, and of version 2, is taken to be there.
  std::array<std::uint64_t, kMembershipVersion - kMembershipVersionMin> older_querier_until_ns_{};
  std::map<IpAddress, Group> groups_;
  Timer general_timer_;
};

/// Groups that need no report: of all stations, and those that do not leave the node (RFC 3376,
/// section 4; RFC 3810, section 6).
[[nodiscard]] bool is_unreported_group(const IpAddress& group);

}  // namespace rockhopper::stack
