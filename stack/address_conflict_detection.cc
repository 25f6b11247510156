// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "stack/address_conflict_detection.h"

#include <algorithm>

namespace rockhopper::stack {
namespace {

// RFC 5227, section 1.1, has all of them; RFC 4861, section 10, and RFC 4862, section 5.1, those
// that IPv6 has too, with the same times.
constexpr std::uint64_t kProbeWaitNs = 1'000'000'000;
constexpr std::uint8_t kIpv4Probes = 3;
constexpr std::uint8_t kIpv6Probes = 1;
constexpr std::uint64_t kProbeMinNs = 1'000'000'000;
constexpr std::uint64_t kProbeMaxNs = 2'000'000'000;
constexpr std::uint64_t kAnnounceWaitNs = 2'000'000'000;
constexpr std::uint8_t kAnnouncements = 2;
constexpr std::uint64_t kAnnounceIntervalNs = 2'000'000'000;
constexpr std::uint8_t kMaxConflicts = 10;
constexpr std::uint64_t kRateLimitIntervalNs = 60'000'000'000;
constexpr std::uint64_t kDefendIntervalNs = 10'000'000'000;

std::uint8_t probes_of(const IpAddress& address) {
  return address.is_ipv4() ? kIpv4Probes : kIpv6Probes;
}

/// So that what is random here says nothing of other parts.
constexpr std::uint64_t kProbeStream = 0x4d07;

}  // namespace

AddressConflictDetection::AddressConflictDetection(HostContext& host, NeighbourSender& sender,
                                                   NeighbourTable& neighbours)
    : host_(host),
      sender_(sender),
      neighbours_(neighbours),
      announce_timer_(
          [](void* self, std::uint64_t now_ns) {
            static_cast<AddressConflictDetection*>(self)->announce_due(now_ns);
          },
          this),
      probe_timer_(
          [](void* self, std::uint64_t now_ns) {
            static_cast<AddressConflictDetection*>(self)->probe_due(now_ns);
          },
          this),
      jitter_(host.config.seed ^ kProbeStream) {}

void AddressConflictDetection::begin(const IpAddress& address, AddressUse use) {
  AddressTable::Entry& entry = *host_.addresses.find(address);
  if (use == AddressUse::at_once || host_.config.silent) return start_using(entry);
  entry.probes = probes_of(address);
  host_.timers.arm(probe_timer_, 0);
}

void AddressConflictDetection::start_using(AddressTable::Entry& entry) {
  entry.state = AddressState::preferred;
  entry.announcements = kAnnouncements;
  entry.next_announcement_ns = 0;
  host_.known_headers.forget();
  neighbours_.invalidate();
  host_.timers.arm(announce_timer_, 0);
  if (host_.observer != nullptr) host_.observer->on_address_change();
}

void AddressConflictDetection::probe_due(std::uint64_t now_ns) {
  std::uint64_t next_ns = kNever;
  for (AddressTable::Entry& entry : host_.addresses.entries()) {
    if (entry.state != AddressState::tentative) continue;
    if (now_ns >= entry.next_probe_ns) probe(entry, now_ns);
    if (entry.state == AddressState::tentative) next_ns = std::min(next_ns, entry.next_probe_ns);
  }
  host_.timers.arm(probe_timer_, next_ns);
}

/// The next step: to wait, to ask, or to be content. RFC 5227, section 2.1.1; RFC 4862, section
/// 5.4.2, where a second without an answer is enough.
void AddressConflictDetection::probe(AddressTable::Entry& entry, std::uint64_t now_ns) {
  if (entry.next_probe_ns == 0) {
    entry.next_probe_ns = now_ns + jitter_.below(kProbeWaitNs) + 1;
    return;
  }
  if (entry.probes == 0) return start_using(entry);
  const bool begins = entry.probes == probes_of(entry.address);
  if (begins && conflicts_ >= kMaxConflicts && now_ns < next_attempt_ns_) {
    entry.next_probe_ns = next_attempt_ns_;
    return;
  }
  // One that was not sent is made up for.
  if (sender_.probe(entry.address)) {
    if (begins) next_attempt_ns_ = now_ns + kRateLimitIntervalNs;
    host_.counters.add(HostEvent::address_probes_sent);
    --entry.probes;
  }
  std::uint64_t wait_ns = kProbeMinNs;
  if (entry.address.is_ipv4()) {
    wait_ns =
        entry.probes == 0 ? kAnnounceWaitNs : wait_ns + jitter_.below(kProbeMaxNs - kProbeMinNs);
  }
  entry.next_probe_ns = now_ns + wait_ns;
}

bool AddressConflictDetection::on_claim(const IpAddress& address) {
  AddressTable::Entry* entry = host_.addresses.find(address);
  if (entry == nullptr || entry->state != AddressState::tentative) return false;
  entry->state = AddressState::duplicate;
  if (conflicts_ < kMaxConflicts) ++conflicts_;
  host_.counters.add(HostEvent::addresses_given_up);
  if (host_.observer != nullptr) host_.observer->on_duplicate_address(address);
  return true;
}

/// RFC 5227, section 2.4 (c), for both families: the address is kept, as connections would die with
/// it and two forged packets could take it away. Two stations do not quarrel faster than this.
void AddressConflictDetection::defend(const IpAddress& address, std::uint64_t now_ns) {
  AddressTable::Entry& entry = *host_.addresses.find(address);
  if (now_ns < entry.next_defence_ns) return;
  entry.next_defence_ns = now_ns + kDefendIntervalNs;
  if (!host_.config.silent) host_.counters.add(HostEvent::addresses_defended);
  sender_.announce(address);
  if (host_.observer != nullptr) host_.observer->on_duplicate_address(address);
}

void AddressConflictDetection::announce_due(std::uint64_t now_ns) {
  std::uint64_t next_ns = kNever;
  for (AddressTable::Entry& entry : host_.addresses.entries()) {
    if (entry.announcements == 0) continue;
    if (now_ns >= entry.next_announcement_ns) {
      --entry.announcements;
      entry.next_announcement_ns = now_ns + kAnnounceIntervalNs;
      sender_.announce(entry.address);
    }
    if (entry.announcements > 0) next_ns = std::min(next_ns, entry.next_announcement_ns);
  }
  host_.timers.arm(announce_timer_, next_ns);
}

}  // namespace rockhopper::stack
