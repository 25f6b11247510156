// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/node/shard.h"

namespace rockhopper {

Expected<std::unique_ptr<Shard>> Shard::create(const NodeConfig& config, const Place& place) {
  std::unique_ptr<Shard> shard(new Shard);
  ROCKHOPPER_TRY(shard->make_host(config, place));
  ROCKHOPPER_TRY(shard->make_engine(config, place));
  if (config.dc) ROCKHOPPER_TRY(shard->open_dc(*config.dc));
  if (place.link != nullptr) {
    shard->worker_ = std::make_unique<stack::Worker>(*place.link, *shard->host_, *place.clock,
                                                     stack::WorkerConfig{.idle = config.idle});
  }
  return shard;
}

Expected<void> Shard::make_host(const NodeConfig& config, const Place& place) {
  stack::HostConfig host = config.host;
  host.mac = place.mac;
  host.mtu = place.mtu;
  host.ipv4_checksum_offload = place.ipv4_checksum_offload;
  host.omits_icrc = place.omits_icrc;
  // One of the shards answers the neighbours for all.
  host.silent = host.silent || place.index > 0;
  if (place.socket) {
    host.silent = true;
    host.socket = place.socket;
  }
  if (host.packet_pool == nullptr) host.packet_pool = place.packet_pool;
  if (host.drop_observer == nullptr) host.drop_observer = place.drop_observer;
  ROCKHOPPER_TRY(host_, stack::Host::create(host));
  for (const InterfaceAddress& own : config.addresses) {
    ROCKHOPPER_TRY(host_->add_address(own.address, own.prefix_length));
  }
  for (const StaticNeighbour& neighbour : config.neighbours) {
    ROCKHOPPER_TRY(host_->add_static_neighbour(neighbour.address, neighbour.mac));
  }
  if (config.gateway) return host_->set_gateway(*config.gateway);
  return {};
}

Expected<void> Shard::make_engine(const NodeConfig& config, const Place& place) {
  roce::EngineConfig engine = config.engine;
  random_ = engine.random != nullptr ? engine.random : &own_random_;
  engine.host = host_.get();
  engine.random = random_;
  engine.shards = config.shards;
  engine.shard = place.index;
  if (engine.line_rate == 0) engine.line_rate = place.line_rate;
  if (engine.packet_pool == nullptr) engine.packet_pool = place.packet_pool;
  if (engine.drop_observer == nullptr) engine.drop_observer = place.drop_observer;
  if (engine.qp_observer == nullptr && place.is_published) engine.qp_observer = &qp_telemetry_;
  ROCKHOPPER_TRY(engine_, roce::Engine::create(engine));
  return {};
}

Expected<void> Shard::open_dc(const dc::EndpointConfig& config) {
  if (dc_ != nullptr) {
    return fail(ErrorCode::busy, "the node's dynamic connections have been opened already");
  }
  ROCKHOPPER_TRY(dc_, dc::Endpoint::create(*engine_, config));
  return {};
}

}  // namespace rockhopper
