// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
//
// IGMP and MLD: messages of any bytes to the parsers, and what they make of them to the groups of a
// host as time passes. Input: records of one byte, what to do, and its operands; a message is a
// byte of circumstances, one of length, and the bytes.
#include <algorithm>
#include <array>

#include "stack/igmp.h"
#include "stack/mld.h"
#include "stack/multicast_membership.h"
#include "stack/timing_wheel.h"
#include "tests/fuzz/fuzz_target.h"

namespace rockhopper::fuzz {
namespace {

using stack::HostDrop;
using stack::IpAddress;
using stack::MembershipState;

enum Action : std::uint8_t { kIgmp, kMld, kJoin, kLeave, kPassTime, kActions };

constexpr std::uint64_t kTickNs = 1 << 20;
constexpr IpAddress kRouter{{0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2}};

IpAddress ipv4_group(std::uint8_t last) { return IpAddress::from_ipv4(0xe0000000u + last % 8); }

/// Writes each report, and checks what it is about.
class Reporter final : public stack::MembershipReporter {
 public:
  void report(std::uint8_t version, std::span<const stack::MembershipRecord> records) override {
    check(version >= 1 && version <= 3 && !records.empty());
    check(records.size() <= stack::MulticastMembership::kRecordsMax);
    check(version == 3 || records.size() == 1);
    for (const stack::MembershipRecord& record : records) {
      check(record.group.is_multicast() && !stack::is_unreported_group(record.group));
      check(version > 1 || record.state != MembershipState::left);
    }
    std::array<std::uint8_t, 2048> bytes;
    check(stack::emit_igmp(version, records, bytes) >= stack::kIgmpHeaderSize);
    check(stack::igmp_destination(version, records[0]).is_multicast());
    check(stack::emit_mld(std::max<std::uint8_t>(version, 2), records, bytes) >=
          stack::kMldHeaderSize);
  }
};

void run(std::span<const std::uint8_t> input) {
  stack::TimingWheel timers(kTickNs);
  Reporter reporter;
  stack::MulticastMembership groups(1, timers, reporter);
  std::uint64_t now_ns = 1'000'000'000;
  std::array<std::uint32_t, 8> members{};
  while (input.size() >= 3) {
    const std::uint8_t action = input[0] % kActions;
    const std::uint8_t operand = input[1];
    const auto rest = input.subspan(3);
    const auto message = rest.first(std::min<std::size_t>(input[2], rest.size()));
    input = rest.subspan(action <= kMld ? message.size() : 0);
    switch (action) {
      case kIgmp: {
        stack::IgmpMessage parsed;
        const IpAddress destination =
            (operand & 2) != 0 ? stack::kAllSystemsGroup : ipv4_group(operand >> 2);
        if (parse_igmp(message, destination, (operand & 1) != 0, parsed) != HostDrop::none) break;
        parsed.is_query ? groups.on_query(parsed.query, now_ns)
                        : groups.on_report(parsed.group, now_ns);
        break;
      }
      case kMld: {
        stack::MldMessage parsed;
        if (parse_mld(message, kRouter, kRouter, 1, (operand & 1) != 0, parsed) == HostDrop::none &&
            parsed.is_query) {
          groups.on_query(parsed.query, now_ns);
        }
        break;
      }
      case kJoin:
        check(groups.join(ipv4_group(operand)).has_value());
        ++members[operand % members.size()];
        break;
      case kLeave:
        check(groups.leave(ipv4_group(operand)).has_value() ==
              (members[operand % members.size()] > 0));
        members[operand % members.size()] -= members[operand % members.size()] > 0 ? 1 : 0;
        break;
      default:
        now_ns += std::uint64_t{operand} << 28;
        timers.advance(now_ns);
        break;
    }
    for (std::uint8_t i = 0; i < members.size(); ++i) {
      check(groups.contains(ipv4_group(i)) == (members[i] > 0));
    }
  }
}

/// A member of some groups, queries of each version, and the captured packet as a message.
test::Bytes make_input(const test::RocePacket& packet) {
  test::Bytes input{kJoin, 1, 0, kJoin, 2, 0, kPassTime, 1, 0};
  const auto append = [&input](std::uint8_t action, const test::Bytes& message) {
    input.insert(input.end(), {action, 3, static_cast<std::uint8_t>(message.size())});
    input.insert(input.end(), message.begin(), message.end());
    input.insert(input.end(), {kPassTime, 40, 0});
  };
  append(kIgmp, {0x11, 10, 0, 0, 0, 0, 0, 0, 2, 125, 0, 0});
  append(kIgmp, {0x11, 100, 0, 0, 0, 0, 0, 0});
  append(kIgmp, {0x11, 0, 0, 0, 0, 0, 0, 0});
  append(kMld, {130, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0});
  append(kIgmp,
         test::Bytes(packet.bytes.begin(),
                     packet.bytes.begin() + static_cast<std::ptrdiff_t>(
                                                std::min<std::size_t>(packet.bytes.size(), 200))));
  input.insert(input.end(), {kLeave, 1, 0, kPassTime, 250, 0});
  return input;
}

const FuzzTarget kTarget("membership", run, make_input);

}  // namespace
}  // namespace rockhopper::fuzz
