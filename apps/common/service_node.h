// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <concepts>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "apps/common/counters.h"
#include "apps/common/dc_endpoint.h"
#include "apps/common/endpoint.h"
#include "apps/common/queue_address.h"
#include "apps/common/signals.h"
#include "apps/common/steady_clock.h"
#include "dc/target_address.h"

namespace rockhopper::apps {

/// One end of a service of the library, in a program with one thread: the endpoint, dynamic
/// connections if there are any, the service's counters, and the turns of all.
class ServiceNode : public Background {
 public:
  /// Moves packets, then the service has its turn.
  bool turn() final;
  [[nodiscard]] std::string link_name() const final { return endpoint_->link_name(); }
  [[nodiscard]] Expected<void> wait_for_link() { return endpoint_->wait_for_link(); }
  [[nodiscard]] bool link_alive() { return endpoint_->link_alive(); }
  [[nodiscard]] Endpoint& endpoint() { return *endpoint_; }
  /// The time of a turn that is not long ago.
  [[nodiscard]] std::uint64_t now_ns() const { return now_ns_; }
  /// The time of this moment, which turns have from now on.
  std::uint64_t update_time() { return now_ns_ = endpoint_->now_ns(); }
  /// For the other end to appear.
  [[nodiscard]] std::uint64_t timeout_ns() const;
  /// The largest path MTU that queue pairs can have, or dynamic connections if there are any.
  [[nodiscard]] std::uint32_t path_mtu_max() const;
  /// Turns until `done()`; false if that has not come within the time. Fails when a stop is
  /// requested.
  template <std::predicate Done>
  [[nodiscard]] Expected<bool> turn_until(const Done& done, std::uint64_t timeout_ns = UINT64_MAX) {
    const std::uint64_t begin_ns = steady_now_ns();
    while (!done()) {
      if (stop_requested()) return tl::make_unexpected(interrupted());
      if (steady_now_ns() - begin_ns >= timeout_ns) return false;
      (void)turn();
    }
    return true;
  }
  /// Turns for so long. Fails when a stop is requested.
  [[nodiscard]] Expected<void> turn_for(std::uint64_t duration_ns);
  /// Every counter that is not 0, a line each.
  void print_statistics(std::FILE* out) const;

 protected:
  /// `options` must outlive it.
  ServiceNode(std::unique_ptr<Endpoint> endpoint, const EndpointOptions& options)
      : endpoint_(std::move(endpoint)), endpoint_options_(options) {}

  /// The service's turn; true if there was something to do.
  [[nodiscard]] virtual bool progress(std::uint64_t now_ns) = 0;

  [[nodiscard]] Expected<void> open_dc(const dc::EndpointConfig& config = {});
  /// Null without dynamic connections.
  [[nodiscard]] dc::Endpoint* dc() const { return dc_ ? dc_->get() : nullptr; }
  [[nodiscard]] roce::Engine& engine() const { return endpoint_->engine(); }

  /// Makes the counters of `source` a group of telemetry, and prints them with the statistics under
  /// another name. No source may end before unpublish().
  template <typename Source>
  [[nodiscard]] Expected<void> publish(const char* group, const char* printed,
                                       const Source& source) {
    ROCKHOPPER_TRY(auto made, stack::add_counter_group(group, source));
    groups_.push_back(std::move(made));
    prints_.push_back([=, &source](std::FILE* out) { print_counters(out, printed, source); });
    return {};
  }
  void unpublish() {
    groups_.clear();
    prints_.clear();
  }

  /// What the user asks for, 0 for the largest, within what this end has.
  [[nodiscard]] std::uint16_t own_path_mtu(std::uint16_t wanted) const;
  /// From an own address to the peer's.
  [[nodiscard]] roce::AddressVector path(const stack::IpAddress& own,
                                         const stack::IpAddress& remote) const;
  /// A peer's DC target, for an own address.
  [[nodiscard]] dc::TargetAddress target_address(const stack::IpAddress& own,
                                                 const QueueAddress& remote) const;
  /// Those of a reliable connection between two queue pairs. Access rights, READs at a time and the
  /// RNR timer are the service's.
  [[nodiscard]] roce::QpAttributes rc_attributes(const QueueAddress& own,
                                                 const QueueAddress& remote, std::uint16_t path_mtu,
                                                 unsigned ack_timeout) const;

 private:
  // In order of construction; what a service has made of them ends before.
  std::unique_ptr<Endpoint> endpoint_;
  std::optional<DcEndpoint> dc_;
  const EndpointOptions& endpoint_options_;
  std::vector<stack::CounterGroup> groups_;
  std::vector<std::function<void(std::FILE*)>> prints_;
  std::uint64_t turns_ = 0;
  std::uint64_t now_ns_ = 0;
};

}  // namespace rockhopper::apps
