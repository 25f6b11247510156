// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors

/// The engine as a device in virtual time: packets come in and go out as lines too. Time stands
/// still but for `run`.
#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "apps/common/personality_file.h"
#include "apps/node/node.h"
#include "apps/node/personality/personality_link.h"
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

/// The wire: what arrives is put there, and what is sent taken from there.
class Wire final : public stack::Link {
 public:
  std::uint16_t rx_burst(rte_mbuf** packets, std::uint16_t count,
                         std::uint64_t /*now_ns*/) override {
    const auto given = static_cast<std::uint16_t>(std::min<std::size_t>(count, arriving.size()));
    std::copy_n(arriving.begin(), given, packets);
    arriving.erase(arriving.begin(), arriving.begin() + given);
    return given;
  }
  std::uint16_t tx_burst(rte_mbuf** packets, std::uint16_t count,
                         std::uint64_t /*now_ns*/) override {
    sent.insert(sent.end(), packets, packets + count);
    return count;
  }
  [[nodiscard]] rte_ether_addr mac() const override { return kMac; }
  [[nodiscard]] std::uint16_t mtu() const override { return kMtu; }

  std::vector<rte_mbuf*> arriving;
  std::vector<rte_mbuf*> sent;
};

class Simulation {
 public:
  explicit Simulation(const std::optional<Personality>& personality)
      : pool_(must(stack::MbufPool::create({.size = 4095, .cache = 0, .data_room = 4608}))),
        random_(1) {
    NodeConfig config{.port = NoPort{.mac = kMac, .mtu = kMtu},
                      .addresses = {must(InterfaceAddress::parse("192.0.2.1/24")),
                                    must(InterfaceAddress::parse("2001:db8::1/64"))},
                      .engine = {.random = &random_},
                      .packet_pool = pool_.get()};
    if (personality) personality->apply(config);
    node_ = must(Node::open(std::move(config)));
    if (personality) {
      look_.emplace(wire_, pool_.get(), *personality);
      look_->attach(node_->engine());
      link_ = &*look_;
    }
  }

  [[nodiscard]] EngineDevice::Config device_config() {
    EngineDevice::Config config{.engine = &node_->engine(), .host = &node_->host(), .mac = kMac};
    for (const InterfaceAddress& own : node_->addresses()) {
      config.addresses.push_back(own.address);
    }
    return config;
  }

  [[nodiscard]] std::size_t mbufs() const {
    return pool_.in_use() - (look_ ? look_->mbufs_held() : 0);
  }

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
    wire_.arriving.push_back(packet);
    return answer(take_sent());
  }

  /// Lets time pass, but only until something is sent.
  [[nodiscard]] json run(const json& command) {
    const std::uint64_t until_ns = command.at("until_ns");
    json frames = take_sent();
    while (frames.empty() && now_ns_ < until_ns) {
      now_ns_ = std::min(until_ns, std::max(next_deadline_ns(), now_ns_ + 1));
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
      const std::uint16_t arrived = link_->rx_burst(packets.data(), packets.size(), now_ns_);
      node_->host().receive(packets.data(), arrived, now_ns_);
      const std::uint16_t count = node_->host().transmit(packets.data(), packets.size(), now_ns_);
      if (link_->tx_burst(packets.data(), count, now_ns_) != count) throw Failure("lost packets");
      for (rte_mbuf* packet : std::exchange(wire_.sent, {})) {
        frames.push_back(frame_of(packet));
        rte_pktmbuf_free(packet);
      }
      if (arrived == 0 && count == 0 && next_deadline_ns() > now_ns_) return frames;
      if (turn == kTurnsMax) throw Failure("the engine does not come to rest");
    }
  }

  [[nodiscard]] std::uint64_t next_deadline_ns() const {
    return std::min(node_->host().next_deadline_ns(), link_->next_deadline_ns());
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
  Wire wire_;
  std::optional<PersonalityLink> look_;
  stack::Link* link_ = &wire_;
  std::unique_ptr<Node> node_;
};

}  // namespace
}  // namespace rockhopper::conformance

int main(int argc, char** argv) {
  using namespace rockhopper;
  using namespace rockhopper::conformance;
  const auto eal = must(stack::Eal::start(stack::Arguments{}, {.memory_mb = 64}));
  // An argument is the personality of another device.
  std::optional<Personality> personality;
  if (argc > 1) personality = must(apps::parse_personality(argv[1]));
  Simulation simulation(personality);
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
