// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/common/service_node.h"

#include <algorithm>

namespace rockhopper::apps {
namespace {

/// A look at the clock takes longer than a turn without work.
constexpr std::uint64_t kTurnsPerUpdate = 4;
constexpr std::uint8_t kRetries = 7;

}  // namespace

bool ServiceNode::turn() {
  const bool moved = endpoint_->turn();
  if (turns_++ % kTurnsPerUpdate == 0) update_time();
  return progress(now_ns_) || moved;
}

Expected<void> ServiceNode::turn_for(std::uint64_t duration_ns) {
  ROCKHOPPER_TRY(turn_until([] { return false; }, duration_ns));
  return {};
}

std::uint64_t ServiceNode::timeout_ns() const {
  return endpoint_->config().connect_timeout_ms * kNsPerMs;
}

Expected<void> ServiceNode::open_dc(const dc::EndpointConfig& config) {
  ROCKHOPPER_TRY(auto made, DcEndpoint::create(engine(), config));
  dc_.emplace(std::move(made));
  return {};
}

std::uint32_t ServiceNode::path_mtu_max() const {
  return dc_ ? (*dc_)->max_path_mtu() : engine().max_path_mtu();
}

std::uint16_t ServiceNode::own_path_mtu(std::uint16_t wanted) const {
  const std::uint32_t largest = path_mtu_max();
  return static_cast<std::uint16_t>(wanted == 0 ? largest
                                                : std::min<std::uint32_t>(largest, wanted));
}

roce::AddressVector ServiceNode::path(const stack::IpAddress& own,
                                      const stack::IpAddress& remote) const {
  return {.source = own,
          .destination = remote,
          .traffic_class = static_cast<std::uint8_t>(endpoint_options_.traffic_class)};
}

dc::TargetAddress ServiceNode::target_address(const stack::IpAddress& own,
                                              const QueueAddress& remote) const {
  return {.av = path(own, remote.gid),
          .number = wire::Qpn::make(remote.qpn),
          .access_key = remote.access_key};
}

roce::QpAttributes ServiceNode::rc_attributes(const QueueAddress& own, const QueueAddress& remote,
                                              std::uint16_t path_mtu, unsigned ack_timeout) const {
  roce::QpAttributes attributes;
  attributes.pkey_index = endpoint_options_.pkey_index;
  attributes.path_mtu = static_cast<roce::PathMtu>(path_mtu);
  attributes.dest_qp_num = wire::Qpn::make(remote.qpn);
  attributes.rq_psn = wire::Psn::make(remote.psn);
  attributes.sq_psn = wire::Psn::make(own.psn);
  attributes.ah_attr = path(own.gid, remote.gid);
  attributes.timeout = static_cast<std::uint8_t>(ack_timeout);
  attributes.retry_cnt = attributes.rnr_retry = kRetries;
  return attributes;
}

void ServiceNode::print_statistics(std::FILE* out) const {
  endpoint_->print_statistics(out);
  if (dc_) dc_->print_statistics(out);
  for (const auto& print : prints_) {
    print(out);
  }
}

}  // namespace rockhopper::apps
