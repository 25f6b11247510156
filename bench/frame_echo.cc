// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
//
// How long a bare frame takes from one process to another: the floor under every latency.
//   frame-echo echo DEVARGS              sends each frame back, until it is ended
//   frame-echo ping DEVARGS BYTES COUNT  one frame to and fro; prints half of the round trips'
//                                        median, average and 99th percentile as JSON
#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <numeric>
#include <string_view>
#include <system_error>
#include <vector>

#include <fmt/format.h>
#include <rte_cycles.h>
#include <rte_ether.h>
#include <rte_mbuf.h>

#include "apps/common/signals.h"
#include "stack/eal.h"
#include "stack/port.h"

namespace {

using namespace rockhopper;

constexpr std::uint16_t kEtherType = 0x88B5;            // IEEE 802: local experiments
constexpr rte_ether_addr kPeerMac{{2, 0, 0, 0, 0, 2}};  // nobody's: both sides take all frames
constexpr std::uint32_t kLinkTimeoutMs = 10'000;
constexpr std::uint16_t kBurst = 32;
constexpr std::uint32_t kWarmUp = 1000;

void transmit(stack::PortQueue& queue, rte_mbuf* packet) {
  while (queue.tx_burst(&packet, 1, 0) == 0 && !apps::stop_requested()) {
  }
}

bool is_ours(const rte_mbuf* packet) {
  return rte_pktmbuf_mtod(packet, const rte_ether_hdr*)->ether_type == rte_cpu_to_be_16(kEtherType);
}

void echo(stack::PortQueue& queue) {
  std::array<rte_mbuf*, kBurst> packets;
  while (!apps::stop_requested()) {
    const std::uint16_t count = queue.rx_burst(packets.data(), kBurst, 0);
    for (std::uint16_t i = 0; i < count; ++i) {
      transmit(queue, packets[i]);
    }
  }
}

/// False when stopped.
bool receive(stack::PortQueue& queue) {
  std::array<rte_mbuf*, kBurst> packets;
  bool found = false;
  while (!found && !apps::stop_requested()) {
    const std::uint16_t count = queue.rx_burst(packets.data(), kBurst, 0);
    for (std::uint16_t i = 0; i < count; ++i) {
      found = found || is_ours(packets[i]);
      rte_pktmbuf_free(packets[i]);
    }
  }
  return found;
}

Expected<void> ping(stack::Port& port, std::uint16_t bytes, std::uint32_t count) {
  std::vector<double> halves_us;
  halves_us.reserve(count);
  const double us_per_cycle = 1e6 / static_cast<double>(rte_get_tsc_hz());
  for (std::uint32_t i = 0; i < kWarmUp + count; ++i) {
    rte_mbuf* packet = rte_pktmbuf_alloc(port.pool());
    if (packet == nullptr) return fail(ErrorCode::exhausted, "no mbuf");
    char* data = rte_pktmbuf_append(packet, bytes);
    std::memset(data, 0, bytes);
    const rte_ether_hdr header{kPeerMac, port.mac(), rte_cpu_to_be_16(kEtherType)};
    std::memcpy(data, &header, sizeof header);
    const std::uint64_t start = rte_rdtsc();
    transmit(port.queue(0), packet);
    if (!receive(port.queue(0))) return tl::make_unexpected(apps::interrupted());
    const auto cycles = static_cast<double>(rte_rdtsc() - start);
    if (i >= kWarmUp) halves_us.push_back(cycles * us_per_cycle / 2);
  }
  std::sort(halves_us.begin(), halves_us.end());
  fmt::print(R"({{"bytes": {}, "count": {}, "p50": {:.3f}, "avg": {:.3f}, "p99": {:.3f}}})"
             "\n",
             bytes, count, halves_us[count / 2],
             std::accumulate(halves_us.begin(), halves_us.end(), 0.0) / count,
             halves_us[count - 1 - count / 100]);
  return {};
}

template <typename T>
bool parse(std::string_view text, T least, T most, T& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc{} && end == text.data() + text.size() && value >= least &&
         value <= most;
}

Expected<void> run(const std::string& devargs, bool pings, std::uint16_t bytes,
                   std::uint32_t count) {
  auto eal = stack::Eal::start({});
  if (!eal) return tl::make_unexpected(eal.error());
  auto port = stack::Port::open({.devargs = devargs});
  if (!port) return tl::make_unexpected(port.error());
  if (!pings) {
    echo((*port)->queue(0));
    return {};
  }
  if (!(*port)->wait_for_link(kLinkTimeoutMs)) return fail(ErrorCode::timeout, "no link");
  return ping(**port, bytes, count);
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string_view> arguments(argv + 1, argv + argc);
  std::uint16_t bytes = 0;
  std::uint32_t count = 0;
  const bool echoes = arguments.size() == 2 && arguments[0] == "echo";
  const bool pings = arguments.size() == 4 && arguments[0] == "ping" &&
                     parse<std::uint16_t>(arguments[2], 60, 1500, bytes) &&
                     parse<std::uint32_t>(arguments[3], 1, 100'000'000, count);
  if (!echoes && !pings) {
    fmt::print(stderr,
               "usage: frame-echo echo DEVARGS\n"
               "       frame-echo ping DEVARGS BYTES COUNT   BYTES 60 to 1500\n");
    return 2;
  }
  apps::catch_stop_signals();
  if (auto done = run(std::string(arguments[1]), pings, bytes, count); !done) {
    fmt::print(stderr, "frame-echo: {}\n", done.error().message);
    return 1;
  }
  return 0;
}
