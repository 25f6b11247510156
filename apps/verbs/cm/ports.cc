// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/verbs/cm/ports.h"

#include <algorithm>
#include <cerrno>

#include "apps/node/segment_management.h"

namespace rockhopper::verbs::cm {
namespace {

/// As the kernel chooses ports that nobody has asked for.
constexpr std::uint16_t kFirstPort = 32'768;
constexpr std::uint16_t kLastPort = 60'999;

bool covers(const Identifier& identifier, const stack::IpAddress& address) {
  if (identifier.local.address == address) return true;
  if (!identifier.local.is_any()) return false;
  if (address.is_ipv4() == (identifier.local.family == AF_INET)) return true;
  return identifier.local.family == AF_INET6 && !identifier.is_ipv6_only;
}

bool overlap(const Identifier& a, const Identifier& b) {
  if (a.space != b.space) return false;
  if (a.local.is_any() && b.local.is_any()) {
    return a.local.family == b.local.family || !(a.is_ipv6_only || b.is_ipv6_only);
  }
  return covers(a, b.local.address) || covers(b, a.local.address);
}

/// Both have agreed to share, which a listener cannot.
bool share(const Identifier& a, const Identifier& b) {
  return a.reuses_address && b.reuses_address && a.state != IdentifierState::listening &&
         b.state != IdentifierState::listening;
}

bool listens_for(const Identifier& identifier, std::uint64_t service_id) {
  return identifier.state == IdentifierState::listening &&
         identifier.local_service_id() == service_id;
}

std::uint32_t name_of(std::uint64_t service_id) { return service_name(service_id).value_or(0); }

std::uint32_t name_of(const Identifier& identifier) {
  return name_of(identifier.local_service_id());
}

}  // namespace

bool Ports::claim(std::uint32_t name) {
  if (members_.claim_service(name)) return true;
  members_.reap();
  return members_.claim_service(name);
}

int Ports::bind(Identifier& identifier) {
  if (identifier.local.port != 0) return claim_port(identifier);
  constexpr std::uint32_t kCount = kLastPort - kFirstPort + 1u;
  const auto first = static_cast<std::uint32_t>(random_.below(kCount));
  for (std::uint32_t i = 0; i < kCount; ++i) {
    identifier.local.port = static_cast<std::uint16_t>(kFirstPort + (first + i) % kCount);
    // A port of another identifier's is not taken for one that can be chosen freely.
    if (!users_.contains(name_of(identifier)) && claim_port(identifier) == 0) return 0;
  }
  identifier.local.port = 0;
  return EADDRNOTAVAIL;
}

int Ports::claim_port(Identifier& identifier) {
  const std::uint32_t name = name_of(identifier);
  const auto found = users_.find(name);
  if (found == users_.end()) {
    if (!claim(name)) return EADDRINUSE;
    users_[name].push_back(&identifier);
    return 0;
  }
  const bool taken = std::ranges::any_of(found->second, [&](const Identifier* other) {
    return overlap(*other, identifier) && !share(*other, identifier);
  });
  if (taken) return EADDRINUSE;
  found->second.push_back(&identifier);
  return 0;
}

int Ports::check_listener(const Identifier& identifier) const {
  const auto found = users_.find(name_of(identifier));
  if (found == users_.end()) return 0;
  const bool taken = std::ranges::any_of(found->second, [&](const Identifier* other) {
    return other != &identifier && overlap(*other, identifier);
  });
  return taken ? EADDRINUSE : 0;
}

void Ports::release(Identifier& identifier) {
  const auto found = users_.find(name_of(identifier));
  if (found == users_.end() || std::erase(found->second, &identifier) == 0) return;
  if (!found->second.empty()) return;
  members_.release_service(found->first);
  users_.erase(found);
}

int Ports::serve(std::uint64_t service_id) {
  return members_.serve(name_of(service_id)) ? 0 : EADDRINUSE;
}

void Ports::stop_serving(std::uint64_t service_id) { members_.stop_serving(name_of(service_id)); }

Identifier* Ports::listener(std::uint64_t service_id, const stack::IpAddress& address) const {
  const auto name = service_name(service_id);
  const auto found = name ? users_.find(*name) : users_.end();
  if (found == users_.end()) return nullptr;
  Identifier* best = nullptr;
  for (Identifier* user : found->second) {
    if (!listens_for(*user, service_id) || !covers(*user, address)) continue;
    // An address of its own goes before any.
    if (best == nullptr || best->local.is_any()) best = user;
  }
  return best;
}

bool Ports::has_listener(std::uint64_t service_id) const {
  const auto name = service_name(service_id);
  const auto found = name ? users_.find(*name) : users_.end();
  return found != users_.end() && std::ranges::any_of(found->second, [&](const Identifier* user) {
           return listens_for(*user, service_id);
         });
}

}  // namespace rockhopper::verbs::cm
