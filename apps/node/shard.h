// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>
#include <memory>

#include <rte_ether.h>
#include <rte_mempool.h>

#include "apps/node/node_config.h"
#include "apps/node/qp_telemetry.h"
#include "dc/endpoint.h"
#include "roce/engine.h"
#include "roce/random.h"
#include "stack/clock.h"
#include "stack/error.h"
#include "stack/host.h"
#include "stack/link.h"
#include "stack/worker.h"

namespace rockhopper {

/// One lcore's part of a node: a host with its engine, dynamic connections if they are wanted, and
/// the worker that moves packets between them and a link. After create() all calls come from one
/// thread at a time, which is the lcore's while the worker runs there.
class Shard {
 public:
  /// What the node has for its shard. None is owned.
  struct Place {
    stack::Link* link = nullptr;  ///< null: there is no worker, and `mac` and `mtu` count
    rte_ether_addr mac{};
    std::optional<stack::KernelSocket> socket{};
    std::uint16_t mtu = 0;
    bool ipv4_checksum_offload = false;
    bool omits_icrc = false;
    std::uint64_t line_rate = 0;  ///< bits/s; 0: not known
    rte_mempool* packet_pool = nullptr;
    stack::DropObserver* drop_observer = nullptr;  ///< may be null
    const stack::Clock* clock = nullptr;
    std::uint16_t index = 0;
    bool is_published = false;  ///< telemetry is to tell of the queue pairs
  };
  [[nodiscard]] static Expected<std::unique_ptr<Shard>> create(const NodeConfig& config,
                                                               const Place& place);
  Shard(const Shard&) = delete;
  Shard& operator=(const Shard&) = delete;
  /// Telemetry forgets the queue pairs before they go.
  ~Shard() { qp_telemetry_.withdraw(); }

  /// Fails with `busy` if they are there already.
  [[nodiscard]] Expected<void> open_dc(const dc::EndpointConfig& config);

  [[nodiscard]] stack::Host& host() { return *host_; }
  [[nodiscard]] const stack::Host& host() const { return *host_; }
  [[nodiscard]] roce::Engine& engine() { return *engine_; }
  [[nodiscard]] const roce::Engine& engine() const { return *engine_; }
  /// What tells of the engine's queue pairs.
  [[nodiscard]] QpTelemetry& qp_telemetry() { return qp_telemetry_; }
  [[nodiscard]] roce::Random& random() { return *random_; }
  /// Null: they have not been opened.
  [[nodiscard]] dc::Endpoint* dc() { return dc_.get(); }
  [[nodiscard]] const dc::Endpoint* dc() const { return dc_.get(); }
  /// Null: there is no link.
  [[nodiscard]] stack::Worker* worker() { return worker_.get(); }
  [[nodiscard]] const stack::Worker* worker() const { return worker_.get(); }

 private:
  Shard() = default;
  [[nodiscard]] Expected<void> make_host(const NodeConfig& config, const Place& place);
  [[nodiscard]] Expected<void> make_engine(const NodeConfig& config, const Place& place);

  roce::SystemRandom own_random_;
  roce::Random* random_ = nullptr;  ///< that one, or the configuration's
  QpTelemetry qp_telemetry_;
  // In order of construction: each stands on the ones before.
  std::unique_ptr<stack::Host> host_;
  std::unique_ptr<roce::Engine> engine_;
  std::unique_ptr<dc::Endpoint> dc_;
  std::unique_ptr<stack::Worker> worker_;
};

}  // namespace rockhopper
