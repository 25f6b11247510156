// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
// Addresses that come and go: duplicate address detection before an address is used, announcements
// when it begins to be, defence while it is (RFC 5227 for IPv4, RFC 4862 for IPv6).
#include <algorithm>

#include "stack/ethernet.h"
#include "stack/host.h"

namespace rockhopper::stack {
namespace {

constexpr std::uint8_t kLinkLocalPrefixLength = 64;
// RFC 5227, section 1.1, has all of them; RFC 4861, section 10, and RFC 4862, section 5.1, those
// that IPv6 has too, with the same times.
constexpr std::uint64_t kProbeWait_ns = 1'000'000'000;
constexpr std::uint8_t kIpv4Probes = 3;
constexpr std::uint8_t kIpv6Probes = 1;
constexpr std::uint64_t kProbeMin_ns = 1'000'000'000;
constexpr std::uint64_t kProbeMax_ns = 2'000'000'000;
constexpr std::uint64_t kAnnounceWait_ns = 2'000'000'000;
constexpr std::uint8_t kAnnouncements = 2;
constexpr std::uint64_t kAnnounceInterval_ns = 2'000'000'000;
constexpr std::uint8_t kMaxConflicts = 10;
constexpr std::uint64_t kRateLimitInterval_ns = 60'000'000'000;
constexpr std::uint64_t kDefendInterval_ns = 10'000'000'000;

std::uint8_t probes_of(const IpAddress& address) {
  return address.is_ipv4() ? kIpv4Probes : kIpv6Probes;
}

}  // namespace

Expected<void> Host::add_address(const IpAddress& address, std::uint8_t prefix_length,
                                 AddressUse use) {
  const IpAddress link_local = link_local_address(config_.mac);
  const bool brings_link_local =
      !address.is_ipv4() && !addresses_.has_ipv6() && address != link_local;
  ROCKHOPPER_TRY(add_one_address(address, prefix_length));
  if (brings_link_local) {
    if (auto added = add_one_address(link_local, kLinkLocalPrefixLength); !added) {
      (void)remove_address(address);
      return added;
    }
  }
  begin_use(address, use);
  if (brings_link_local) begin_use(link_local, use);
  return {};
}

Expected<void> Host::add_one_address(const IpAddress& address, std::uint8_t prefix_length) {
  ROCKHOPPER_TRY(addresses_.add(address, prefix_length));
  // RFC 4861, section 7.2.1, and for probing RFC 4862, section 5.4.2; the host that answers tells
  // of it.
  if (!address.is_ipv4() && !config_.silent) {
    if (auto joined = join(solicited_node_group(address)); !joined) {
      (void)addresses_.remove(address);
      return joined;
    }
  }
  return {};
}

Expected<void> Host::remove_address(const IpAddress& address) {
  const bool used = owns(address);
  ROCKHOPPER_TRY(addresses_.remove(address));
  known_headers_.forget();
  neighbours_.invalidate();
  if (used && observer_ != nullptr) observer_->on_address_change();
  if (address.is_ipv4() || config_.silent) return {};
  return leave(solicited_node_group(address));
}

std::optional<AddressState> Host::address_state(const IpAddress& address) const {
  const AddressTable::Entry* entry = addresses_.find(address);
  return entry == nullptr ? std::nullopt : std::optional(entry->state);
}

std::optional<IpAddress> Host::address_at(std::uint16_t index) const {
  const AddressTable::Entry* entry = addresses_.at(index);
  return entry == nullptr || !entry->usable() ? std::nullopt : std::optional(entry->address);
}

Expected<void> Host::set_gateway(const IpAddress& gateway) {
  neighbours_.invalidate();
  return addresses_.set_gateway(gateway);
}

void Host::begin_use(const IpAddress& address, AddressUse use) {
  AddressTable::Entry& entry = *addresses_.find(address);
  if (use == AddressUse::at_once || config_.silent) return start_using(entry);
  entry.probes = probes_of(address);
  timers_.arm(probe_timer_, 0);
}

void Host::start_using(AddressTable::Entry& entry) {
  entry.state = AddressState::preferred;
  entry.announcements = kAnnouncements;
  entry.next_announcement_ns = 0;
  known_headers_.forget();
  neighbours_.invalidate();
  timers_.arm(announce_timer_, 0);
  if (observer_ != nullptr) observer_->on_address_change();
}

void Host::probe_due(std::uint64_t now_ns) {
  std::uint64_t next_ns = kNever;
  for (AddressTable::Entry& entry : addresses_.entries()) {
    if (entry.state != AddressState::tentative) continue;
    if (now_ns >= entry.next_probe_ns) probe(entry, now_ns);
    if (entry.state == AddressState::tentative) next_ns = std::min(next_ns, entry.next_probe_ns);
  }
  timers_.arm(probe_timer_, next_ns);
}

/// The next step: to wait, to ask, or to be content. RFC 5227, section 2.1.1; RFC 4862, section
/// 5.4.2, where a second without an answer is enough.
void Host::probe(AddressTable::Entry& entry, std::uint64_t now_ns) {
  if (entry.next_probe_ns == 0) {
    entry.next_probe_ns = now_ns + probe_jitter_.below(kProbeWait_ns) + 1;
    return;
  }
  if (entry.probes == 0) return start_using(entry);
  const bool begins = entry.probes == probes_of(entry.address);
  if (begins && probe_conflicts_ >= kMaxConflicts && now_ns < next_attempt_ns_) {
    entry.next_probe_ns = next_attempt_ns_;
    return;
  }
  // One that was not sent is made up for.
  if (send_probe(entry.address)) {
    if (begins) next_attempt_ns_ = now_ns + kRateLimitInterval_ns;
    counters_.add(HostEvent::address_probes_sent);
    --entry.probes;
  }
  std::uint64_t wait_ns = kProbeMin_ns;
  if (entry.address.is_ipv4()) {
    wait_ns = entry.probes == 0 ? kAnnounceWait_ns
                                : wait_ns + probe_jitter_.below(kProbeMax_ns - kProbeMin_ns);
  }
  entry.next_probe_ns = now_ns + wait_ns;
}

bool Host::claimed_by_another(const IpAddress& address) {
  AddressTable::Entry* entry = addresses_.find(address);
  if (entry == nullptr || entry->state != AddressState::tentative) return false;
  entry->state = AddressState::duplicate;
  if (probe_conflicts_ < kMaxConflicts) ++probe_conflicts_;
  counters_.add(HostEvent::addresses_given_up);
  if (observer_ != nullptr) observer_->on_duplicate_address(address);
  return true;
}

/// RFC 5227, section 2.4 (c), for both families: the address is kept, as connections would die with
/// it and two forged packets could take it away. Two stations do not quarrel faster than this.
void Host::defend(const IpAddress& address, std::uint64_t now_ns) {
  AddressTable::Entry& entry = *addresses_.find(address);
  if (now_ns < entry.next_defence_ns) return;
  entry.next_defence_ns = now_ns + kDefendInterval_ns;
  if (!config_.silent) counters_.add(HostEvent::addresses_defended);
  announce(address);
  if (observer_ != nullptr) observer_->on_duplicate_address(address);
}

void Host::announce_due(std::uint64_t now_ns) {
  std::uint64_t next_ns = kNever;
  for (AddressTable::Entry& entry : addresses_.entries()) {
    if (entry.announcements == 0) continue;
    if (now_ns >= entry.next_announcement_ns) {
      --entry.announcements;
      entry.next_announcement_ns = now_ns + kAnnounceInterval_ns;
      announce(entry.address);
    }
    if (entry.announcements > 0) next_ns = std::min(next_ns, entry.next_announcement_ns);
  }
  timers_.arm(announce_timer_, next_ns);
}

}  // namespace rockhopper::stack
