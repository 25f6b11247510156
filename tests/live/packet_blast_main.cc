// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
// Sends forged packets as fast as a port takes them, each with a right ICRC: DC connects, or
// packets of any opcodes. Sources are made up, and ARP requests for them are answered, so that the
// answers of whoever believes in them arrive here and are counted. Ends with one line of JSON.
#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <rte_byteorder.h>
#include <rte_ether.h>
#include <rte_ip.h>
#include <rte_mbuf.h>
#include <rte_udp.h>
#include <sched.h>

#include "apps/common/command_line.h"
#include "apps/common/option_set.h"
#include "apps/common/signals.h"
#include "apps/common/steady_clock.h"
#include "dc/message.h"
#include "roce/engine.h"
#include "roce/wire/packet.h"
#include "stack/arp.h"
#include "stack/ethernet.h"
#include "stack/memif.h"
#include "stack/port.h"
#include "stack/random.h"
#include "stack/roce_locator.h"

namespace {

using namespace rockhopper;

constexpr std::uint16_t kBurst = 32;
constexpr std::uint32_t kLinkTimeoutMs = 20'000;
/// Different frames, sent in turn.
constexpr std::size_t kFrames = 1 << 16;
constexpr std::size_t kPayload = 64;  ///< of packets that are no connects
constexpr std::size_t kIpUdp = sizeof(rte_ipv4_hdr) + sizeof(rte_udp_hdr);

const apps::ProgramText kText{
    "packet-blast", "Forged packets with a right ICRC, as fast as a port takes them.",
    "  packet-blast --memif-socket switch2.sock --to-mac 02:.. --to 10.42.0.1 --from 10.42.1.0\n"
    "      --kind wrong-key --number 0xd01234 --seconds 5\n"};

struct Options {
  std::string device;
  std::string memif_socket;
  std::uint16_t link_mtu = 1500;
  std::string to_mac;
  std::string to;
  std::string from;
  std::uint32_t sources = 1;
  std::vector<std::string> kinds;
  std::vector<std::uint32_t> numbers;
  std::uint64_t access_key = 0;
  unsigned first_opcode = 0xC0;
  unsigned last_opcode = 0xDF;
  std::uint64_t packets = 0;
  double seconds = 0;
  double rate = 0;
  std::uint64_t seed = 1;
};

void add_options(apps::OptionSet app, Options& options) {
  app.add_option("--device", options.device);
  app.add_option("--memif-socket", options.memif_socket);
  app.add_option("--link-mtu", options.link_mtu);
  app.add_option("--to-mac", options.to_mac, "or self").required();
  app.add_option("--to", options.to, "IPv4 address").required();
  app.add_option("--from", options.from, "first of the sources").required();
  app.add_option("--sources", options.sources, "how many, from that one on").range(1, 1 << 24);
  app.add_option("--kind", options.kinds,
                 "what is sent, in turn: connects without a target (no-target), with a wrong key, "
                 "with the right one from initiators that are none, or opcodes")
      .one_of({"no-target", "wrong-key", "right-key", "opcodes"})
      .required();
  app.add_option("--number", options.numbers, "destinations: DC targets, or queue pairs");
  app.add_option("--access-key", options.access_key);
  app.add_option("--first-opcode", options.first_opcode).range(0, 255);
  app.add_option("--last-opcode", options.last_opcode).range(0, 255);
  app.add_option("--packets", options.packets, "0: no end");
  app.add_option("--seconds", options.seconds, "0: no end");
  app.add_option("--rate", options.rate, "packets a second; 0: as many as there can be");
  app.add_option("--seed", options.seed);
}

class Blast {
 public:
  Blast(const Options& options, stack::Port& port)
      : options_(options), port_(port), random_(options.seed) {}

  [[nodiscard]] Expected<void> run();

 private:
  using Frame = std::vector<std::uint8_t>;

  [[nodiscard]] Expected<void> read_addresses();
  [[nodiscard]] Frame make_frame(std::size_t index);
  [[nodiscard]] Frame frame_of(const wire::Bth& bth, std::span<const std::uint8_t> payload);
  [[nodiscard]] dc::Connect make_connect(const std::string& kind);
  [[nodiscard]] std::uint32_t a_number() {
    return options_.numbers.empty()
               ? wire::kExtensionQpnFirst.value + static_cast<std::uint32_t>(random_.below(1 << 20))
               : options_.numbers[random_.below(options_.numbers.size())];
  }
  [[nodiscard]] bool send_some(std::uint64_t most);
  void receive();
  void answer(const rte_mbuf* packet);

  const Options& options_;
  stack::Port& port_;
  stack::Random random_;
  rte_ether_addr to_mac_{};
  std::uint32_t to_ = 0;  ///< host order
  std::uint32_t from_ = 0;
  std::vector<Frame> frames_;
  std::uint64_t sent_ = 0;
  std::uint64_t answers_ = 0;
};

Expected<void> Blast::read_addresses() {
  const auto to = stack::IpAddress::parse(options_.to);
  const auto from = stack::IpAddress::parse(options_.from);
  to_mac_ = port_.mac();
  if (!to || !to->is_ipv4() || !from || !from->is_ipv4() ||
      (options_.to_mac != "self" &&
       rte_ether_unformat_addr(options_.to_mac.c_str(), &to_mac_) != 0)) {
    return fail(ErrorCode::invalid_argument, "--to, --from: IPv4 addresses; --to-mac: a MAC");
  }
  to_ = wire::load_be32(&to->bytes[12]);
  from_ = wire::load_be32(&from->bytes[12]);
  return {};
}

dc::Connect Blast::make_connect(const std::string& kind) {
  dc::Connect connect;
  connect.data_follows = true;
  connect.mtu_code = 3;
  connect.initiator = wire::Qpn{static_cast<std::uint32_t>(random_.below(1 << 24))};
  connect.first_psn = wire::Psn{static_cast<std::uint32_t>(random_.below(1 << 24))};
  connect.nonce = static_cast<std::uint32_t>(random_.next());
  connect.lease_us = 1'000'000;
  connect.access_key = kind == "right-key" ? options_.access_key : random_.next();
  connect.incarnation = random_.next();
  connect.stream = static_cast<std::uint8_t>(random_.below(wire::Dcsh::kStreamMax + 1));
  connect.responder_resources = 1;
  return connect;
}

Blast::Frame Blast::make_frame(std::size_t index) {
  const std::string& kind = options_.kinds[index % options_.kinds.size()];
  wire::Bth bth;
  bth.mig_req = true;
  bth.destination = wire::Qpn{a_number()};
  if (kind == "opcodes") {
    const unsigned count = options_.last_opcode - options_.first_opcode + 1;
    bth.opcode = static_cast<std::uint8_t>(options_.first_opcode + random_.below(count));
    bth.ack_request = random_.chance(0.5);
    bth.psn = wire::Psn{static_cast<std::uint32_t>(random_.below(1 << 24))};
    std::array<std::uint8_t, kPayload> payload;
    for (std::uint8_t& byte : payload) {
      byte = static_cast<std::uint8_t>(random_.next());
    }
    return frame_of(bth, std::span(payload).first(4 * random_.below(kPayload / 4 + 1)));
  }
  bth.opcode = static_cast<std::uint8_t>(wire::Opcode::dc_control);
  if (kind == "no-target") bth.destination.value ^= 0x0f0000;  // the same place, another number
  std::array<std::uint8_t, dc::kMessageMax> payload;
  const std::size_t length = dc::emit_message(make_connect(kind), payload);
  return frame_of(bth, std::span(payload).first(length));
}

Blast::Frame Blast::frame_of(const wire::Bth& bth, std::span<const std::uint8_t> payload) {
  const std::size_t udp_length =
      sizeof(rte_udp_hdr) + wire::Bth::kSize + payload.size() + wire::Icrc::kSize;
  Frame frame(RTE_ETHER_HDR_LEN + sizeof(rte_ipv4_hdr) + udp_length);
  stack::emit_ethernet(frame.data(), to_mac_, port_.mac(), std::nullopt, RTE_ETHER_TYPE_IPV4);
  rte_ipv4_hdr ip{};
  ip.version_ihl = RTE_IPV4_VHL_DEF;
  ip.total_length = rte_cpu_to_be_16(static_cast<std::uint16_t>(sizeof ip + udp_length));
  ip.fragment_offset = rte_cpu_to_be_16(RTE_IPV4_HDR_DF_FLAG);
  ip.time_to_live = 64;
  ip.next_proto_id = IPPROTO_UDP;
  ip.src_addr =
      rte_cpu_to_be_32(from_ + static_cast<std::uint32_t>(random_.below(options_.sources)));
  ip.dst_addr = rte_cpu_to_be_32(to_);
  ip.hdr_checksum = rte_ipv4_cksum(&ip);
  rte_udp_hdr udp{};
  udp.src_port = rte_cpu_to_be_16(static_cast<std::uint16_t>(0xC000 | random_.below(0x4000)));
  udp.dst_port = rte_cpu_to_be_16(stack::kRoceUdpPort);
  udp.dgram_len = rte_cpu_to_be_16(static_cast<std::uint16_t>(udp_length));
  std::uint8_t* l3 = frame.data() + RTE_ETHER_HDR_LEN;
  std::memcpy(l3, &ip, sizeof ip);
  std::memcpy(l3 + sizeof ip, &udp, sizeof udp);
  bth.emit(std::span<std::uint8_t, wire::Bth::kSize>(l3 + kIpUdp, wire::Bth::kSize));
  std::memcpy(l3 + kIpUdp + wire::Bth::kSize, payload.data(), payload.size());
  wire::Icrc icrc;
  const std::size_t covered = kIpUdp + wire::Bth::kSize + payload.size();
  icrc.add_packet({l3, covered}, kIpUdp + wire::Bth::kSize);
  wire::store_icrc(icrc.value(),
                   std::span<std::uint8_t, wire::Icrc::kSize>(l3 + covered, wire::Icrc::kSize));
  return frame;
}

/// False: no mbufs, or no room in the port's queue.
bool Blast::send_some(std::uint64_t most) {
  std::array<rte_mbuf*, kBurst> packets;
  const auto count = static_cast<std::uint16_t>(std::min<std::uint64_t>(most, kBurst));
  if (rte_pktmbuf_alloc_bulk(port_.pool(), packets.data(), count) != 0) return false;
  for (std::uint16_t i = 0; i < count; ++i) {
    const Frame& frame = frames_[(sent_ + i) % frames_.size()];
    std::memcpy(rte_pktmbuf_append(packets[i], static_cast<std::uint16_t>(frame.size())),
                frame.data(), frame.size());
  }
  const std::uint16_t taken = port_.queue(0).tx_burst(packets.data(), count, 0);
  rte_pktmbuf_free_bulk(packets.data() + taken, count - taken);
  sent_ += taken;
  return taken == count;
}

void Blast::receive() {
  std::array<rte_mbuf*, kBurst> packets;
  const std::uint16_t count = port_.queue(0).rx_burst(packets.data(), kBurst, 0);
  for (std::uint16_t i = 0; i < count; ++i) {
    answer(packets[i]);
  }
  rte_pktmbuf_free_bulk(packets.data(), count);
}

void Blast::answer(const rte_mbuf* packet) {
  const auto* data = rte_pktmbuf_mtod(packet, const std::uint8_t*);
  stack::EthernetHeader ether;
  if (!stack::parse_ethernet({data, packet->data_len}, packet, ether)) return;
  const std::span body{data + ether.length, packet->data_len - std::size_t{ether.length}};
  if (ether.ether_type == RTE_ETHER_TYPE_IPV4 && body.size() >= kIpUdp && body[9] == IPPROTO_UDP &&
      wire::load_be16(&body[22]) == stack::kRoceUdpPort) {
    ++answers_;
    return;
  }
  stack::ArpMessage asked;
  if (ether.ether_type != RTE_ETHER_TYPE_ARP ||
      stack::ArpMessage::parse(body, asked) != stack::HostDrop::none || !asked.is_request ||
      wire::load_be32(&asked.target_ip.bytes[12]) - from_ >= options_.sources) {
    return;
  }
  const stack::ArpMessage reply{.is_request = false,
                                .sender_mac = port_.mac(),
                                .sender_ip = asked.target_ip,
                                .target_mac = asked.sender_mac,
                                .target_ip = asked.sender_ip};
  rte_mbuf* out = rte_pktmbuf_alloc(port_.pool());
  if (out == nullptr) return;
  constexpr std::uint16_t kLength = RTE_ETHER_HDR_LEN + stack::ArpMessage::kSize;
  auto* to = reinterpret_cast<std::uint8_t*>(rte_pktmbuf_append(out, kLength));
  stack::emit_ethernet(to, asked.sender_mac, port_.mac(), std::nullopt, RTE_ETHER_TYPE_ARP);
  reply.emit(std::span<std::uint8_t, stack::ArpMessage::kSize>(to + RTE_ETHER_HDR_LEN,
                                                               stack::ArpMessage::kSize));
  if (port_.queue(0).tx_burst(&out, 1, 0) == 0) rte_pktmbuf_free(out);
}

Expected<void> Blast::run() {
  if (auto read = read_addresses(); !read) return read;
  for (std::size_t i = 0; i < kFrames; ++i) {
    frames_.push_back(make_frame(i));
  }
  if (!port_.wait_for_link(kLinkTimeoutMs)) return fail(ErrorCode::timeout, "no link");
  fmt::print(stderr, "packet-blast: begins\n");
  const std::uint64_t began_ns = apps::steady_now_ns();
  double seconds = 0;
  while (!apps::stop_requested() && (options_.packets == 0 || sent_ < options_.packets) &&
         (options_.seconds == 0 || seconds < options_.seconds)) {
    seconds = static_cast<double>(apps::steady_now_ns() - began_ns) * 1e-9;
    receive();
    std::uint64_t most = options_.packets == 0 ? kBurst : options_.packets - sent_;
    if (options_.rate > 0) {
      const auto due = static_cast<std::uint64_t>(seconds * options_.rate);
      most = std::min(most, due - std::min(due, sent_));
    }
    if (most == 0 || !send_some(most)) sched_yield();
  }
  fmt::print("{}\n",
             nlohmann::json{{"sent", sent_}, {"answers", answers_}, {"seconds", seconds}}.dump());
  return {};
}

Expected<void> run(const Options& options, const stack::Arguments& arguments) {
  auto eal = stack::Eal::start(arguments);
  if (!eal) return tl::make_unexpected(eal.error());
  stack::PortConfig config;
  config.devargs = options.device;
  config.mtu = options.link_mtu;
  if (!options.memif_socket.empty()) {
    auto devargs =
        stack::memif_devargs({.role = stack::MemifRole::client, .socket = options.memif_socket});
    if (!devargs) return tl::make_unexpected(devargs.error());
    config.devargs = *devargs;
  }
  auto port = stack::Port::open(config);
  if (!port) return tl::make_unexpected(port.error());
  return Blast(options, **port).run();
}

}  // namespace

int main(int argc, char** argv) {
  apps::CommandLine line(argc, argv, kText);
  Options options;
  add_options(line.app(), options);
  if (const auto status = line.parse()) return *status;
  apps::catch_stop_signals();
  return line.finish(run(options, line.arguments()));
}
