// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string_view>

#include "apps/cm/options.h"
#include "apps/common/endpoint.h"
#include "roce/cm/connection_manager.h"
#include "roce/cm/ip_service.h"
#include "stack/telemetry.h"

namespace rockhopper::apps::cm {

/// An endpoint with a connection manager, both served while the program waits for something.
class Node {
 public:
  [[nodiscard]] static Expected<std::unique_ptr<Node>> create(Endpoint& endpoint,
                                                              const Options& options);

  [[nodiscard]] roce::Engine& engine() { return endpoint_.engine(); }
  [[nodiscard]] roce::cm::ConnectionManager& manager() { return *manager_; }
  [[nodiscard]] const Options& options() const { return options_; }

  /// Serves all until `done` says so. Fails after the time that the options allow (`forever`: not
  /// for that), on a signal, or when the link goes down. `what` is what is waited for.
  [[nodiscard]] Expected<void> wait(const std::function<bool()>& done, std::string_view what,
                                    bool forever = false);
  [[nodiscard]] Expected<roce::cm::Event> wait_event(std::string_view what, bool forever = false);
  /// Serves all for that long, as peers may still ask. A signal ends it.
  void linger(double seconds);

  /// From here to the server of the options.
  [[nodiscard]] Expected<roce::AddressVector> path_to_server() const;
  [[nodiscard]] std::uint64_t service_id() const;
  /// Listens on the service ID of the options, and says so on standard error.
  [[nodiscard]] Expected<void> listen(std::uint32_t backlog);
  /// What librdmacm puts in front of private data, for a path of ours.
  [[nodiscard]] std::array<std::uint8_t, roce::cm::IpServiceHeader::kSize> ip_header(
      const roce::AddressVector& path);
  [[nodiscard]] roce::cm::QpParameters qp_parameters() const;

  void print_statistics(std::FILE* out) const;

 private:
  Node(Endpoint& endpoint, const Options& options) : endpoint_(endpoint), options_(options) {}
  void serve();

  Endpoint& endpoint_;
  const Options& options_;
  std::unique_ptr<roce::cm::ConnectionManager> manager_;
  std::optional<stack::CounterGroup> counters_;
};

/// One line about an event that ends what a program wants.
[[nodiscard]] Error describe(const roce::cm::Event& event);

}  // namespace rockhopper::apps::cm
