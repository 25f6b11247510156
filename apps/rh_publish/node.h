// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "apps/common/service_node.h"
#include "apps/rh_publish/greeting.h"
#include "apps/rh_publish/options.h"
#include "apps/rh_publish/served_store.h"
#include "apps/services/publisher/publisher.h"

namespace rockhopper::apps::publish {

/// The publisher's end: an endpoint, the stores, who gives access to them, and the turns of all.
class Node final : public ServiceNode {
 public:
  /// A subscriber with its way to us; the queue pair is with RC only.
  struct Admitted {
    publisher::SubscriberId id{};
    roce::QueuePair* qp = nullptr;
    QueueAddress side;
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

  [[nodiscard]] publisher::Publisher& publisher() { return *publisher_; }
  [[nodiscard]] const std::vector<std::unique_ptr<ServedStore>>& stores() const { return stores_; }
  [[nodiscard]] ServedStore* find_store(std::string_view name);

  /// The publisher's counters, by name.
  [[nodiscard]] nlohmann::json counters() const;

 private:
  Node(const Options& options, std::unique_ptr<Endpoint> endpoint)
      : ServiceNode(std::move(endpoint), options.endpoint), options_(options) {}
  /// Requests of subscribers, heart-beats.
  [[nodiscard]] bool progress(std::uint64_t now_ns) override;
  [[nodiscard]] Expected<publisher::MulticastConfig> multicast();
  [[nodiscard]] Expected<Admitted> admit_queue_pair(const Hello& hello,
                                                    const stack::IpAddress& own);
  [[nodiscard]] Expected<Admitted> admit_dc(const Hello& hello, const stack::IpAddress& own);

  const Options& options_;
  std::vector<std::unique_ptr<ServedStore>> stores_;
  std::unique_ptr<publisher::Publisher> publisher_;
};

}  // namespace rockhopper::apps::publish
