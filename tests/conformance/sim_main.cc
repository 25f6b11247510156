// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors

/// The engine as a device in virtual time: packets come in and go out as lines too. Time stands
/// still but for `run`.
#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <span>
#include <type_traits>

#include <nlohmann/json.hpp>

#include "apps/node/node.h"
#include "roce/random.h"
#include "stack/eal.h"
#include "stack/mbuf_pool.h"
#include "tests/conformance/device_server.h"
#include "tests/conformance/engine_device.h"

namespace rockhopper::conformance {
namespace {

using nlohmann::json;

constexpr std::uint16_t kMtu = 4300;  // a path MTU of 4096 fits
constexpr unsigned kTurnsMax = 1000;  // of an engine that wants to be called again at once
constexpr rte_ether_addr kMac{{0x02, 0x52, 0x48, 0x00, 0x00, 0x01}};

template <typename T>
T must(Expected<T> result) {
  if (!result) {
    std::fprintf(stderr, "conformance-sim: %s\n", result.error().message.c_str());
    std::exit(1);
  }
  if constexpr (!std::is_void_v<T>) return std::move(*result);
}

class Simulation {
 public:
  Simulation()
      : pool_(must(stack::MbufPool::create({.size = 4095, .cache = 0, .data_room = 4608}))),
        random_(1),
        node_(must(Node::open({.port = NoPort{.mac = kMac, .mtu = kMtu},
                               .addresses = {must(InterfaceAddress::parse("192.0.2.1/24")),
                                             must(InterfaceAddress::parse("2001:db8::1/64"))},
                               .engine = {.random = &random_},
                               .packet_pool = pool_.get()}))) {}

  [[nodiscard]] EngineDevice::Config device_config() {
    EngineDevice::Config config{.engine = &node_->engine(), .host = &node_->host(), .mac = kMac};
    for (const InterfaceAddress& own : node_->addresses()) {
      config.addresses.push_back(own.address);
    }
    return config;
  }

  [[nodiscard]] std::uint32_t mbufs() const { return pool_.in_use(); }

  /// One frame arrives now, in a chain of buffers that end at the offsets given. What is sent at
  /// once is in the answer.
  [[nodiscard]] json packet(const json& command) {
    const std::vector<std::uint8_t> bytes = from_hex(command.at("frame"));
    rte_mbuf* packet = nullptr;
    std::size_t begin = 0;
    for (const std::size_t end : command.at("segments_end")) {
      if (end <= begin || end > bytes.size()) throw Failure("segments do not follow each other");
      rte_mbuf* segment = segment_of(std::span(bytes).subspan(begin, end - begin));
      if (packet == nullptr) {
        packet = segment;
      } else if (rte_pktmbuf_chain(packet, segment) != 0) {
        throw Failure("too many segments");
      }
      begin = end;
    }
    if (begin != bytes.size() || packet == nullptr) {
      throw Failure("the last segment does not end with the frame");
    }
    node_->host().receive(&packet, 1, now_ns_);
    return answer(take_sent());
  }

  /// Lets time pass, but only until something is sent.
  [[nodiscard]] json run(const json& command) {
    const std::uint64_t until_ns = command.at("until_ns");
    json frames = take_sent();
    while (frames.empty() && now_ns_ < until_ns) {
      now_ns_ = std::min(until_ns, std::max(node_->host().next_deadline_ns(), now_ns_ + 1));
      frames = take_sent();
    }
    return answer(std::move(frames));
  }

 private:
  [[nodiscard]] rte_mbuf* segment_of(std::span<const std::uint8_t> bytes) {
    rte_mbuf* segment = rte_pktmbuf_alloc(pool_.get());
    const auto length = static_cast<std::uint16_t>(std::min<std::size_t>(bytes.size(), UINT16_MAX));
    char* data = segment == nullptr ? nullptr : rte_pktmbuf_append(segment, length);
    if (data == nullptr) throw Failure("the frame does not fit a buffer");
    std::memcpy(data, bytes.data(), bytes.size());
    return segment;
  }

  [[nodiscard]] json answer(json frames) const {
    return {{"now_ns", now_ns_}, {"frames", std::move(frames)}};
  }

  [[nodiscard]] json take_sent() {
    json frames = json::array();
    for (unsigned turn = 0;; ++turn) {
      std::array<rte_mbuf*, 32> packets;
      const std::uint16_t count = node_->host().transmit(packets.data(), packets.size(), now_ns_);
      for (std::uint16_t i = 0; i < count; ++i) {
        frames.push_back(frame_of(packets[i]));
        rte_pktmbuf_free(packets[i]);
      }
      if (count == 0 && node_->host().next_deadline_ns() > now_ns_) return frames;
      if (turn == kTurnsMax) throw Failure("the engine does not come to rest");
    }
  }

  [[nodiscard]] static std::string frame_of(const rte_mbuf* packet) {
    std::vector<std::uint8_t> bytes(packet->pkt_len);
    const void* data = rte_pktmbuf_read(packet, 0, packet->pkt_len, bytes.data());
    if (data != bytes.data()) std::memcpy(bytes.data(), data, bytes.size());
    return to_hex(bytes);
  }

  std::uint64_t now_ns_ = 1'000'000'000;  // not 0: nothing may depend on it
  stack::MbufPool pool_;
  roce::SeededRandom random_;
  std::unique_ptr<Node> node_;
};

}  // namespace
}  // namespace rockhopper::conformance

int main() {
  using namespace rockhopper;
  using namespace rockhopper::conformance;
  const auto eal = must(stack::Eal::start(stack::Arguments{}, {.memory_mb = 64}));
  Simulation simulation;
  EngineDevice device(simulation.device_config());
  DeviceServer server(device);
  server.add("packet", [&](const nlohmann::json& command) { return simulation.packet(command); });
  server.add("run", [&](const nlohmann::json& command) { return simulation.run(command); });
  const auto mbufs = [&](const nlohmann::json&) -> nlohmann::json {
    return {{"mbufs", simulation.mbufs()}};
  };
  server.add("mbufs", mbufs);
  serve(server, nullptr);
  return 0;
}
