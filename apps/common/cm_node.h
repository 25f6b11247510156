// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <array>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <memory>
#include <optional>
#include <string_view>

#include "apps/common/endpoint.h"
#include "roce/cm/connection_manager.h"
#include "roce/cm/ip_service.h"
#include "stack/telemetry.h"

namespace rockhopper::apps {

struct CmNodeConfig {
  std::uint8_t response_timeout = 18;  ///< as in roce::cm::ConnectionManagerConfig
  std::uint8_t max_retries = 15;       ///< the same
  double timeout_s = 10;               ///< of each wait
  std::uint16_t pkey_index = 0;        ///< the partition of what it connects
};

/// An endpoint with a connection manager, both served while the program waits for something.
class CmNode {
 public:
  /// The endpoint must outlive it.
  [[nodiscard]] static Expected<std::unique_ptr<CmNode>> create(Endpoint& endpoint,
                                                                const CmNodeConfig& config);

  [[nodiscard]] roce::Engine& engine() { return endpoint_.engine(); }
  [[nodiscard]] roce::cm::ConnectionManager& manager() { return *manager_; }
  [[nodiscard]] Endpoint& endpoint() { return endpoint_; }
  [[nodiscard]] std::uint16_t pkey_index() const { return config_.pkey_index; }

  /// From now on `background`, which must move the endpoint's packets, has its turn in its place.
  /// Not owned.
  void serve_with(Background& background) { background_ = &background; }
  /// One turn without waiting.
  void serve();
  /// Serves all until `done` says so. Fails after the configured time (`forever`: not for that), on
  /// a signal, or when the link goes down. `what` is what is waited for.
  [[nodiscard]] Expected<void> wait(const std::function<bool()>& done, std::string_view what,
                                    bool forever = false) {
    return wait(done, what, forever, true);
  }
  /// A program that waits `forever` is a server without a client. Its link may come and go: a peer
  /// may join it and leave before it asks for anything.
  [[nodiscard]] Expected<roce::cm::Event> wait_event(std::string_view what, bool forever = false);
  /// Serves all for that long, as peers may still ask. A signal ends it.
  void linger(double seconds);

  /// Listens on a service ID of librdmacm, and says so on standard error.
  [[nodiscard]] Expected<void> listen(std::uint64_t service_id, std::uint32_t backlog,
                                      roce::cm::Capabilities offer = roce::cm::kNoCapabilities);
  /// What librdmacm puts in front of private data, for a path of ours.
  [[nodiscard]] std::array<std::uint8_t, roce::cm::IpServiceHeader::kSize> ip_header(
      const roce::AddressVector& path);

  void print_statistics(std::FILE* out) const;

 protected:
  CmNode(Endpoint& endpoint, const CmNodeConfig& config)
      : endpoint_(endpoint), config_(config), background_(&endpoint) {}
  [[nodiscard]] Expected<void> open();

  Endpoint& endpoint_;

 private:
  [[nodiscard]] Expected<void> wait(const std::function<bool()>& done, std::string_view what,
                                    bool forever, bool needs_link);
  const CmNodeConfig config_;
  Background* background_;
  std::unique_ptr<roce::cm::ConnectionManager> manager_;
  std::optional<stack::CounterGroup> counters_;
};

/// One line about an event that ends what a program wants.
[[nodiscard]] Error describe(const roce::cm::Event& event);

}  // namespace rockhopper::apps
