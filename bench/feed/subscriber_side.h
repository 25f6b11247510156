// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "apps/common/control_channel.h"
#include "apps/common/endpoint.h"
#include "apps/services/publisher/subscriber.h"
#include "bench/feed/arrivals.h"
#include "bench/feed/exchange.h"

namespace rockhopper::bench {

struct SubscriberSideConfig {
  std::string host;
  std::uint16_t port = 0;
  std::uint16_t path_mtu = 4096;
  std::uint32_t subscribers = 1;
  double seconds = 1;  ///< of the measurement
  bool latency = false;
  bool stop = false;  ///< the process stops itself as soon as it reads (SIGSTOP)
  publisher::ReaderConfig reader{};
};

/// The process that subscribes, so many times: each has a queue pair and a buffer of its own.
class SubscriberSide final : public apps::Background {
 public:
  SubscriberSide(const SubscriberSideConfig& config, std::unique_ptr<apps::Endpoint> endpoint);
  ~SubscriberSide() override;

  /// Throws what ends it.
  void run();
  [[nodiscard]] nlohmann::json report() const { return arrivals_.report(); }

  bool turn() override;

 private:
  class Feed;

  void join(apps::ControlChannel& channel);
  /// Turns until all of the feeds are so. Throws if that takes longer than a peer may take.
  template <typename Condition>
  void await(const char* what, const Condition& condition);

  SubscriberSideConfig config_;
  std::unique_ptr<apps::Endpoint> endpoint_;
  Arrivals arrivals_;
  std::vector<std::unique_ptr<Feed>> feeds_;
  std::uint64_t turns_ = 0;
  std::uint64_t now_ns_ = 0;
};

}  // namespace rockhopper::bench
