// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "apps/common/dc_endpoint.h"
#include "apps/common/endpoint.h"
#include "apps/rh_publish/greeting.h"
#include "apps/rh_publish/options.h"
#include "apps/rh_publish/served_store.h"
#include "apps/services/publisher/publisher.h"

namespace rockhopper::apps::publish {

/// The publisher's end: an endpoint, the stores, who gives access to them, and the turns of all.
class Node final : public Background {
 public:
  /// A subscriber with its way to us; the queue pair is with RC only.
  struct Admitted {
    publisher::SubscriberId id{};
    roce::QueuePair* qp = nullptr;
    Side side;
  };

  /// `options` must outlive it.
  [[nodiscard]] static Expected<std::unique_ptr<Node>> create(const Options& options,
                                                              const EndpointConfig& config,
                                                              const stack::Arguments& arguments);
  ~Node() override;

  /// Offers the stores. `policy` and `listener` must outlive it.
  [[nodiscard]] Expected<void> open(publisher::Policy& policy,
                                    publisher::PublisherListener& listener);
  [[nodiscard]] Challenge challenge(std::string nonce) const;
  /// Whoever has said this hello is one of our subscribers from now on.
  [[nodiscard]] Expected<Admitted> admit(const Hello& hello);
  void dismiss(const Admitted& subscriber);

  /// Packets, requests of subscribers, heart-beats.
  bool turn() override;

  [[nodiscard]] publisher::Publisher& publisher() { return *publisher_; }
  [[nodiscard]] const std::vector<std::unique_ptr<ServedStore>>& stores() const { return stores_; }
  [[nodiscard]] ServedStore* find_store(std::string_view name);
  [[nodiscard]] std::uint64_t now_ns() const { return endpoint_->now_ns(); }

  /// The publisher's counters, by name.
  [[nodiscard]] nlohmann::json counters() const;
  void print_statistics(std::FILE* out) const;

 private:
  Node(const Options& options, std::unique_ptr<Endpoint> endpoint);
  [[nodiscard]] Expected<publisher::MulticastConfig> multicast() const;
  [[nodiscard]] Expected<Admitted> admit_queue_pair(const Hello& hello,
                                                    const stack::IpAddress& own);
  [[nodiscard]] Expected<Admitted> admit_dc(const Hello& hello, const stack::IpAddress& own);

  const Options& options_;
  std::unique_ptr<Endpoint> endpoint_;
  std::optional<DcEndpoint> dc_;
  std::vector<std::unique_ptr<ServedStore>> stores_;
  std::unique_ptr<publisher::Publisher> publisher_;
  std::optional<stack::CounterGroup> counters_;
  std::uint64_t turns_ = 0;
  std::uint64_t now_ns_ = 0;
};

}  // namespace rockhopper::apps::publish
