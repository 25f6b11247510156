// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <optional>
#include <vector>

#include "apps/verbs/cm/socket_address.h"
#include "apps/verbs/node/settings.h"
#include "roce/address_vector.h"

namespace rockhopper::verbs::cm {

/// Which of the device's addresses leads where. The device's addresses are those of all processes
/// of the host; that of the loopback device stands for the first one.
class Routes {
 public:
  /// `settings` must outlive it.
  explicit Routes(const Settings& settings) : settings_(settings) {}

  /// The device's address behind one that a program calls local; nothing if it is not.
  [[nodiscard]] std::optional<stack::IpAddress> local(const stack::IpAddress& address) const;

  struct Route {
    stack::IpAddress source;   ///< as a program sees it
    roce::AddressVector path;  ///< as packets have it
  };
  /// From `source`, if that is not any, to `destination`. Returns an errno if there is no way.
  [[nodiscard]] int find(const SocketAddress& source, const SocketAddress& destination,
                         Route& route) const;

  /// The device's address from which what is sent to a group comes; nothing: none of its family.
  [[nodiscard]] std::optional<stack::IpAddress> source_for_group(const SocketAddress& group) const;

 private:
  [[nodiscard]] bool owns(const stack::IpAddress& address) const;
  [[nodiscard]] std::optional<stack::IpAddress> first_of_family(bool ipv4) const;
  [[nodiscard]] std::optional<stack::IpAddress> routed_source(
      const SocketAddress& destination) const;
  [[nodiscard]] std::optional<stack::IpAddress> on_link_with(
      const stack::IpAddress& destination) const;

  const Settings& settings_;
};

/// The address from which the kernel would send there; nothing if it has no route.
[[nodiscard]] std::optional<stack::IpAddress> kernel_source(const SocketAddress& destination);

}  // namespace rockhopper::verbs::cm
