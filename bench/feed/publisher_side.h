// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "apps/common/control_channel.h"
#include "apps/common/endpoint.h"
#include "apps/common/page_memory.h"
#include "apps/services/publisher/policy.h"
#include "apps/services/publisher/publisher.h"
#include "bench/feed/exchange.h"
#include "bench/feed/writer.h"

namespace rockhopper::bench {

struct PublisherSideConfig {
  std::uint16_t port = 0;
  double seconds = 1;        ///< of each measurement
  std::uint32_t rounds = 1;  ///< processes of subscribers, one after the other
  bool alone = false;        ///< measures before each of them, too
  std::uint64_t ring_bytes = 16u << 20;
  WriterConfig writer;
};

/// The process that publishes: a store, its writer, and an engine that answers READs. Prints a line
/// of JSON for each window: what the writer and the engine have done in it.
class PublisherSide final : public apps::Background, public publisher::Policy {
 public:
  PublisherSide(const PublisherSideConfig& config, std::unique_ptr<apps::Endpoint> endpoint);
  ~PublisherSide() override;

  /// Throws what ends it.
  void run();

  bool turn() override;
  [[nodiscard]] bool may_read(std::string_view subscriber, const publisher::StoreInfo& store,
                              std::span<const std::byte> credentials) override;

 private:
  struct Client {
    publisher::SubscriberId id{};
    FeedQueuePair queue_pair;
  };

  void round(apps::TcpListener& listener);
  void admit(apps::ControlChannel& channel);
  void dismiss();
  /// A window from now on.
  void measure();
  void turn_for(std::uint64_t duration_ns);

  PublisherSideConfig config_;
  std::unique_ptr<apps::Endpoint> endpoint_;
  apps::PageMemory memory_;
  std::unique_ptr<publisher::Store> store_;
  publisher::PublisherListener listener_;
  std::unique_ptr<publisher::Publisher> publisher_;
  std::unique_ptr<Writer> writer_;
  std::vector<Client> clients_;
  std::uint64_t turns_ = 0;
  std::uint64_t now_ns_ = 0;
  std::uint64_t busy_cycles_ = 0;  ///< of the engine's turns in which there was something to do
};

}  // namespace rockhopper::bench
