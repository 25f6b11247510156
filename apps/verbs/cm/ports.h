// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "apps/verbs/cm/identifier.h"
#include "roce/random.h"
#include "stack/segment/membership.h"

namespace rockhopper::verbs::cm {

/// Which identifiers of this process have which ports. A port that one of them has, no other
/// process of the host has, whatever their addresses. In a Section.
class Ports {
 public:
  /// Neither is owned.
  Ports(stack::segment::Membership& members, roce::Random& random)
      : members_(members), random_(random) {}
  Ports(const Ports&) = delete;
  Ports& operator=(const Ports&) = delete;

  /// Gives the identifier its port: that of `identifier.local`, or for 0 one that is free, which
  /// is written there. Returns 0, EADDRINUSE or EADDRNOTAVAIL.
  [[nodiscard]] int bind(Identifier& identifier);
  /// It is to listen: it may no longer share its port with others of its address. 0 or EADDRINUSE.
  [[nodiscard]] int check_listener(const Identifier& identifier) const;
  /// Harmless if it has none.
  void release(Identifier& identifier);

  /// Requests for the service come to this process until stop_serving(). Requires that an
  /// identifier has its port. Returns 0 or EADDRINUSE.
  [[nodiscard]] int serve(std::uint64_t service_id);
  void stop_serving(std::uint64_t service_id);

  /// The one that listens there: of the service, for requests to that address. Null: none.
  [[nodiscard]] Identifier* listener(std::uint64_t service_id,
                                     const stack::IpAddress& address) const;
  /// Others listen for the same service.
  [[nodiscard]] bool has_listener(std::uint64_t service_id) const;

 private:
  /// Gives it the port of `identifier.local`. 0 or EADDRINUSE.
  [[nodiscard]] int claim_port(Identifier& identifier);
  [[nodiscard]] bool claim(std::uint32_t name);

  stack::segment::Membership& members_;
  roce::Random& random_;
  std::map<std::uint32_t, std::vector<Identifier*>> users_;  ///< by the service's name
};

}  // namespace rockhopper::verbs::cm
