// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
// What a run is like, drawn from its seed.
#include <cstdlib>

#include "tests/sim/rc_run.h"

namespace rockhopper::sim {
namespace {

std::uint8_t pick8(Rng& rng, std::uint32_t low, std::uint32_t high) {
  return static_cast<std::uint8_t>(rng.between32(low, high));
}

}  // namespace

RcSettings draw_rc_settings(Rng& rng, const RcProfile& profile) {
  RcSettings s;
  s.path_mtu = rng.pick({roce::PathMtu::mtu_256, roce::PathMtu::mtu_512, roce::PathMtu::mtu_1024,
                         roce::PathMtu::mtu_2048, roce::PathMtu::mtu_4096});
  const std::uint32_t mtu = roce::bytes(s.path_mtu);
  s.max_message = mtu * rng.between32(1, 6) + rng.between32(0, mtu);
  s.ops = rng.between32(1, 40);
  if (profile.short_script) s.ops = rng.between32(1, 5);
  if (profile.long_messages) {
    s.max_message = 65536 + rng.between32(0, 40000);
    s.ops = rng.between32(1, 12);
  }
  s.target_size = s.max_message + rng.between32(8, 2048);
  s.send_depth = rng.between32(1, 24);
  s.recv_depth = rng.between32(1, 24);
  s.max_send_sge = rng.between32(1, 5);
  s.max_recv_sge = rng.between32(1, 5);
  s.max_inline = rng.between32(0, 200);
  s.sq_sig_all = rng.chance(20);
  s.signal_percent = rng.pick<unsigned>({0, 20, 50, 100});
  s.read_percent = rng.pick<unsigned>({0, 10, 30, 60});
  s.atomic_percent = rng.pick<unsigned>({0, 10, 30});
  s.placement_percent = rng.pick<unsigned>({0, 10, 40});
  s.local_percent = rng.pick<unsigned>({0, 5, 20});
  s.extended_atomics = rng.chance(50);
  s.late_receive_percent = profile.late_receives ? rng.pick<unsigned>({50, 90, 98}) : 10;
  s.max_rd_atomic = pick8(rng, 1, 16);
  s.max_dest_rd_atomic = pick8(rng, s.max_rd_atomic, 16);
  s.timeout = pick8(rng, profile.timeout_min, profile.timeout_min + 3u);
  s.min_rnr_timer = pick8(rng, 1, 14);
  if (profile.lossless && !profile.late_receives) s.retry_cnt = pick8(rng, 0, 7);
  if (profile.windows) s.window_percent = rng.pick<unsigned>({10, 30, 60});
  s.extended_atomics = s.extended_atomics && !profile.xrc;
  s.recovery.algorithm = profile.recovery;
  s.recovery.adaptive_timeout = profile.adaptive_timeout;
  if (profile.recovery == roce::RecoveryAlgorithm::selective_repeat) {
    s.recovery.selective_repeat = {.window = rng.between32(1, roce::HeldPackets::kWindow),
                                   .reordering = rng.pick<std::uint32_t>({1, 2, 3, 3, 8, 30})};
  }
  if (profile.short_messages) {
    s.max_message = rng.between32(8, 200);
    s.ops = rng.between32(20, 200);
    s.extended_atomics = false;
    s.target_size = s.max_message + rng.between32(8, 2048);
  }
  s.fatal_request = profile.ending == Ending::fatal;
  s.nak_may_be_lost = !profile.lossless;
  s.drain = profile.ending == Ending::complete && rng.chance(20);
  return s;
}

NetworkConfig draw_network_config(std::uint64_t seed, Rng& rng, const RcProfile& profile,
                                  PoolSet& pools) {
  NetworkConfig config{.seed = seed, .pools = &pools, .faults = profile.faults};
  config.ipv6 = rng.chance(40);
  config.static_neighbours = !profile.resolve_neighbours;
  config.segment_arrivals = rng.chance(25);
  config.delay_ns = rng.pick<std::uint64_t>({0, 300, 2'000, 20'000});
  config.wire_packets = rng.pick<std::uint32_t>({8, 64, 4096});
  config.max_held_packets = profile.max_held_packets;
  config.plain_bursts = profile.plain_bursts;
  config.max_unacked_packets = rng.pick<std::uint32_t>({1, 2, 7, 32, 128});
  if (const char* path = std::getenv("ROCKHOPPER_PCAP"); path != nullptr) config.capture = path;
  return config;
}

}  // namespace rockhopper::sim
