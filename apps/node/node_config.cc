// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/node/node_config.h"

namespace rockhopper {
namespace {

constexpr std::uint16_t kDeviceMtu = 1500;

}  // namespace

std::uint16_t mtu_of(const NodeConfig& config) {
  if (config.mtu != 0) return config.mtu;
  if (std::holds_alternative<MemifPort>(config.port) ||
      std::holds_alternative<SegmentPort>(config.port)) {
    return kMemifMtu;
  }
  if (const auto* port = std::get_if<LinkPort>(&config.port); port != nullptr) {
    return port->links.empty() ? kDeviceMtu : port->links.front()->mtu();
  }
  const auto* none = std::get_if<NoPort>(&config.port);
  return none != nullptr ? none->mtu : kDeviceMtu;
}

unsigned memory_mb(const NodeConfig& config) {
  const auto* memif = std::get_if<MemifPort>(&config.port);
  const unsigned mtu = mtu_of(config);
  // Two pools of about 8000 mbufs a shard with room for a frame each, and half as much again for
  // rings, caches and the holes that plain pages leave.
  const unsigned pools_mb = 2u * 8u * config.shards * (mtu + 512u) / 1000u;
  const unsigned links = memif != nullptr ? memif->links : 1;
  return 64u + (pools_mb + pools_mb / 2) * (links + 3u) / 4u;
}

}  // namespace rockhopper
