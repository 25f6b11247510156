// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "stack/port.h"

#include <array>
#include <chrono>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rte_cycles.h>
#include <rte_ethdev.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "stack/clock.h"
#include "stack/device_limits.h"
#include "stack/memif.h"
#include "tests/support/child_process.h"
#include "tests/support/packets.h"
#include "tests/support/seed.h"

namespace rockhopper::stack::port_test {
namespace {

using test::bytes_of;
using test::make_packet;
using test::random_bytes;
using ::testing::HasSubstr;

std::unique_ptr<Port> open_port(const PortConfig& config) {
  auto port = Port::open(config);
  EXPECT_TRUE(port.has_value()) << port.error().message;
  return port ? std::move(*port) : nullptr;
}

std::string error_of(const PortConfig& config) {
  const auto port = Port::open(config);
  EXPECT_FALSE(port.has_value());
  return port ? "" : port.error().message;
}

TEST(SetDevice, NumberNamesAPort) {
  PortConfig config;
  ASSERT_TRUE(set_device(config, "7"));
  EXPECT_EQ(config.port_id, 7);
  EXPECT_EQ(config.devargs, "");
}

TEST(SetDevice, EverythingElseIsDevargs) {
  for (const char* device : {"net_ring0", "0000:00:01.0", "7,a=1", "0x7", "-1", ""}) {
    PortConfig config;
    ASSERT_TRUE(set_device(config, device));
    EXPECT_EQ(config.port_id, 0);
    EXPECT_EQ(config.devargs, device);
  }
}

TEST(SetDevice, NumbersBeyondAllPortsAreRefused) {
  for (const std::string& device : {std::to_string(RTE_MAX_ETHPORTS), std::string("65537"),
                                    std::string("99999999999999999999")}) {
    PortConfig config;
    const auto set = set_device(config, device);
    ASSERT_FALSE(set) << device;
    EXPECT_EQ(set.error().code, ErrorCode::not_found);
    EXPECT_THAT(set.error().message, HasSubstr(device));
  }
}

/// Whether the device sends chains of mbufs: net_pcap does since DPDK 24.
bool sends_chains(const Port& port) {
  rte_eth_dev_info info{};
  EXPECT_EQ(rte_eth_dev_info_get(port.port_id(), &info), 0);
  return (info.tx_offload_capa & RTE_ETH_TX_OFFLOAD_MULTI_SEGS) != 0;
}

/// Receives one packet; polls for at most ten seconds.
rte_mbuf* receive(Link& link) {
  rte_mbuf* packet = nullptr;
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (link.rx_burst(&packet, 1, 0) == 0) {
    if (std::chrono::steady_clock::now() > end) return nullptr;
  }
  return packet;
}

std::map<std::string, std::uint64_t> counters_of(const Port& port) {
  std::map<std::string, std::uint64_t> counters;
  port.visit_counters(
      [](void* context, const char* name, std::uint64_t value) {
        (*static_cast<std::map<std::string, std::uint64_t>*>(context))[name] = value;
      },
      &counters);
  return counters;
}

// Each test has a ring device of its own, as DPDK's driver leaves rings with packets behind.
TEST(Port, RingCarriesEverySizeUpToMtu9000AsOneBufferAndAsChains) {
  const auto port = open_port({.devargs = "net_ring0", .mtu = 9000});
  ASSERT_NE(port, nullptr);
  EXPECT_TRUE(port->link_up());
  const rte_ether_addr mac = port->queue(0).mac();
  EXPECT_TRUE(rte_is_valid_assigned_ether_addr(&mac) != 0);
  EXPECT_EQ(port->queue(0).mtu(), 9000);
  Random random(test::seed());
  for (const std::size_t size : {60, 64, 1514, 2048, 4170, 9013, 9014, 9018}) {
    for (const std::size_t segment : {0, 1000, 37}) {
      const auto bytes = random_bytes(random, size);
      rte_mbuf* packet = make_packet(port->pool(), bytes, segment);
      if (segment == 0) {
        EXPECT_EQ(packet->nb_segs, 1) << "a frame of the MTU fits one mbuf";
      }
      ASSERT_EQ(port->queue(0).tx_burst(&packet, 1, 0), 1);
      rte_mbuf* received = receive(port->queue(0));
      ASSERT_NE(received, nullptr);
      EXPECT_EQ(bytes_of(received), bytes);
      rte_pktmbuf_free(received);
    }
  }
  EXPECT_EQ(port->queue(0).counters().tx_linearised.value(), 0u);
  EXPECT_EQ(counters_of(*port)["opackets"], 24u);
}

TEST(Port, FreesFramesLongerThanTheMtuAndSendsTheOthersInOrder) {
  const auto port = open_port({.devargs = "net_ring1", .mtu = 1500});
  ASSERT_NE(port, nullptr);
  PortQueue& queue = port->queue(0);
  std::array<rte_mbuf*, 6> packets{};
  for (std::size_t i = 0; i < packets.size(); ++i) {
    const std::size_t size = i == 0 || i == 3 || i == 5 ? 1519 : 100 + i;
    packets[i] = make_packet(port->pool(), test::Bytes(size, static_cast<std::uint8_t>(i)));
  }
  EXPECT_EQ(queue.tx_burst(packets.data(), 6, 0), 6);
  for (const unsigned i : {1, 2, 4}) {
    rte_mbuf* received = receive(queue);
    ASSERT_NE(received, nullptr);
    EXPECT_EQ(bytes_of(received), test::Bytes(100 + i, static_cast<std::uint8_t>(i)));
    rte_pktmbuf_free(received);
  }
  EXPECT_EQ(queue.counters().tx_oversize.value(), 3u);
  EXPECT_EQ(queue.counters().tx_packets.value(), 3u);
  EXPECT_EQ(queue.counters().tx_bytes.value(), 101u + 102u + 104u);
  EXPECT_EQ(queue.counters().rx_bytes.value(), 101u + 102u + 104u);
  EXPECT_EQ(counters_of(*port)["tx_oversize"], 3u);
}

TEST(Port, HandsBackWhatTheDeviceDoesNotTake) {
  const auto port = open_port({.devargs = "net_ring2", .pool_size = 4095});
  ASSERT_NE(port, nullptr);
  PortQueue& queue = port->queue(0);
  constexpr std::uint16_t kMore = 1500;  // the device's ring holds 1023
  std::vector<rte_mbuf*> packets(kMore);
  for (auto& packet : packets) {
    packet = make_packet(port->pool(), test::Bytes(60));
  }
  const std::uint16_t taken = queue.tx_burst(packets.data(), kMore, 0);
  ASSERT_LT(taken, kMore);
  EXPECT_EQ(queue.counters().tx_backpressure.value(), static_cast<std::uint64_t>(kMore - taken));
  for (std::uint16_t i = 0; i < taken; ++i) {
    rte_mbuf* received = receive(queue);
    EXPECT_EQ(received, packets[i]);
    rte_pktmbuf_free(received);
  }
  EXPECT_EQ(queue.tx_burst(packets.data() + taken, static_cast<std::uint16_t>(kMore - taken), 0),
            kMore - taken);
}

TEST(Port, WritesAndReadsCaptureFilesAndLinearisesChainsForTheDriver) {
  const test::TemporaryDirectory directory;
  const std::string file = directory.path() + "/frames.pcap";
  Random random(test::seed());
  std::vector<test::Bytes> sent;
  {
    const auto port = open_port({.devargs = "net_pcap0,tx_pcap=" + file, .mtu = 9000});
    ASSERT_NE(port, nullptr);
    for (const std::size_t size : {60, 1514, 4170, 9014}) {
      for (const std::size_t segment : {0, 500}) {
        sent.push_back(random_bytes(random, size));
        rte_mbuf* packet = make_packet(port->pool(), sent.back(), segment);
        ASSERT_EQ(port->queue(0).tx_burst(&packet, 1, 0), 1);
      }
    }
    // 60 bytes are no chain.
    EXPECT_EQ(port->queue(0).counters().tx_linearised.value(), sends_chains(*port) ? 0u : 3u);
  }
  const auto port = open_port({.devargs = "net_pcap0,rx_pcap=" + file, .mtu = 9000});
  ASSERT_NE(port, nullptr);
  for (const auto& bytes : sent) {
    rte_mbuf* received = receive(port->queue(0));
    ASSERT_NE(received, nullptr);
    EXPECT_EQ(bytes_of(received), bytes);
    rte_pktmbuf_free(received);
  }
}

TEST(Port, NullDeviceReceivesAndSwallows) {
  const auto port = open_port({.devargs = "net_null0,size=100"});
  ASSERT_NE(port, nullptr);
  std::array<rte_mbuf*, 32> packets;
  ASSERT_EQ(port->queue(0).rx_burst(packets.data(), 32, 0), 32);
  EXPECT_EQ(packets[0]->pkt_len, 100u);
  EXPECT_EQ(port->queue(0).tx_burst(packets.data(), 32, 0), 32);
}

TEST(Port, SeveralQueuesEachCarryTheirOwn) {
  const auto port = open_port({.devargs = "net_null0", .queues = 3});
  ASSERT_NE(port, nullptr);
  ASSERT_EQ(port->queue_count(), 3);
  rte_mbuf* packet = nullptr;
  ASSERT_EQ(port->queue(2).rx_burst(&packet, 1, 0), 1);
  rte_pktmbuf_free(packet);
  EXPECT_EQ(port->queue(2).counters().rx_packets.value(), 1u);
  EXPECT_EQ(port->queue(0).counters().rx_packets.value(), 0u);
}

TEST(Port, SaysInOneLineWhatIsWrong) {
  EXPECT_THAT(error_of({.devargs = "net_ring3", .mtu = 9001}), HasSubstr("MTU 9001: 576 to 9000"));
  EXPECT_THAT(error_of({.devargs = "net_ring3", .mtu = 100}), HasSubstr("576 to 9000"));
  EXPECT_THAT(error_of({.devargs = "net_ring3", .queues = 0}), HasSubstr("needs a queue"));
  EXPECT_THAT(error_of({.devargs = "net_memif0,role=server,bsize=2048", .mtu = 4200}),
              HasSubstr("bsize=2048 does not hold a frame of 4218 bytes"));
  EXPECT_THAT(error_of({.devargs = "net_af_packet0,iface=lo,framesz=2048", .mtu = 4200}),
              HasSubstr("framesz=2048 does not hold"));
  EXPECT_THAT(error_of({.devargs = "net_ring3", .queues = 200}), HasSubstr("at most"));
  EXPECT_THAT(error_of({.devargs = "net_nonesuch0,a=b"}),
              HasSubstr("cannot plug net_nonesuch0,a=b: DPDK has no driver of that name"));
  EXPECT_THAT(error_of({.devargs = "net_ring3", .pool_size = 1 << 24}),
              HasSubstr("give the EAL more memory"));
  EXPECT_THAT(error_of({.port_id = 31}), HasSubstr("there is no port 31"));
}

TEST(Port, ADeviceThatSendsNoChainsNeedsRoomForAFrame) {
  const bool chains = sends_chains(*open_port({.devargs = "net_pcap0,tx_pcap=/dev/null"}));
  const auto port =
      Port::open({.devargs = "net_pcap1,tx_pcap=/dev/null", .mtu = 9000, .data_room = 1024});
  EXPECT_EQ(port.has_value(), chains);
  if (!port) {
    EXPECT_THAT(port.error().message, HasSubstr("data room must be 9018 bytes"));
  }
}

TEST(Port, ArgumentsMayBeLong) {
  const test::TemporaryDirectory directory;
  const std::string file = directory.path() + "/" + std::string(200, 'f') + ".pcap";
  EXPECT_NE(open_port({.devargs = "net_pcap0,tx_pcap=" + file}), nullptr);
  EXPECT_TRUE(std::filesystem::exists(file));
}

TEST(Port, BelongsToOneOwner) {
  const auto port = open_port({.devargs = "net_ring4"});
  ASSERT_NE(port, nullptr);
  EXPECT_THAT(error_of({.devargs = "net_ring4"}), HasSubstr("in use"));
  EXPECT_THAT(error_of({.port_id = port->port_id()}), HasSubstr("in use"));
  EXPECT_THAT(error_of({.devargs = "net_ring4,other=1"}), HasSubstr("there already"));
}

TEST(Port, GivesEverythingBackWhenItEnds) {
  for (int i = 0; i < 20; ++i) {
    const auto port = open_port({.devargs = "net_null0"});
    ASSERT_NE(port, nullptr);
    EXPECT_EQ(port->port_id(), 0);
  }
}

class MemifPair : public ::testing::Test {
 protected:
  std::unique_ptr<Port> open_end(MemifRole role, std::uint16_t mtu = 9000,
                                 std::uint8_t ring_size_log2 = 10) {
    const bool server = role == MemifRole::server;
    auto devargs = memif_devargs({.role = role,
                                  .device = server ? "net_memif0" : "net_memif1",
                                  .socket = directory_.path() + "/memif.sock",
                                  .ring_size_log2 = ring_size_log2});
    EXPECT_TRUE(devargs.has_value());
    return open_port({.devargs = *devargs, .mtu = mtu, .pool_size = 2047});
  }

  test::TemporaryDirectory directory_;
};

TEST_F(MemifPair, LinkComesUpWithThePeerAndGoesDownWithIt) {
  const auto server = open_end(MemifRole::server);
  ASSERT_NE(server, nullptr);
  EXPECT_FALSE(server->link_up());
  EXPECT_FALSE(server->wait_for_link(20));
  for (int i = 0; i < 3; ++i) {
    const auto client = open_end(MemifRole::client);
    ASSERT_NE(client, nullptr);
    ASSERT_TRUE(client->wait_for_link(10'000));
    ASSERT_TRUE(server->wait_for_link(10'000));
    const test::Bytes bytes(9014, static_cast<std::uint8_t>(i));
    rte_mbuf* packet = make_packet(client->pool(), bytes);
    ASSERT_EQ(client->queue(0).tx_burst(&packet, 1, 0), 1);
    rte_mbuf* received = receive(server->queue(0));
    ASSERT_NE(received, nullptr);
    EXPECT_EQ(bytes_of(received), bytes);
    EXPECT_EQ(received->nb_segs, 1);
    rte_pktmbuf_free(received);
  }
  for (int waited_ms = 0; server->link_up() && waited_ms < 10'000; ++waited_ms) {
    rte_delay_us_sleep(1000);
  }
  EXPECT_FALSE(server->link_up());
  rte_mbuf* packet = make_packet(server->pool(), test::Bytes(60));
  EXPECT_EQ(server->queue(0).tx_burst(&packet, 1, 0), 0) << "kept for a peer to come";
  rte_pktmbuf_free(packet);
}

TEST_F(MemifPair, NearlyFullRingHurtsNoPacket) {
  const auto server = open_end(MemifRole::server, 9000, 4);
  const auto client = open_end(MemifRole::client, 9000, 4);
  ASSERT_TRUE(client->wait_for_link(10'000) && server->wait_for_link(10'000));
  Random random(test::seed());
  for (Port* sender : {client.get(), server.get()}) {
    Port& receiver = sender == client.get() ? *server : *client;
    (void)receiver.queue(0).rx_burst(nullptr, 0, 0);
    for (int round = 0; round < 50; ++round) {
      std::vector<test::Bytes> sent;
      for (;;) {
        const auto bytes = random_bytes(random, 60 + random.below(8955));
        rte_mbuf* packet = make_packet(sender->pool(), bytes, 600 + random.below(8400));
        if (sender->queue(0).tx_burst(&packet, 1, 0) == 0) {
          rte_pktmbuf_free(packet);
          break;
        }
        sent.push_back(bytes);
      }
      ASSERT_LE(sent.size(), 16u);
      for (const auto& bytes : sent) {
        rte_mbuf* received = receive(receiver.queue(0));
        ASSERT_NE(received, nullptr);
        ASSERT_EQ(bytes_of(received), bytes);
        rte_pktmbuf_free(received);
      }
    }
  }
}

TEST(MemifSocket, RefusalsNameTheirCause) {
  test::TemporaryDirectory directory;
  const std::string path = directory.path() + "/memif.sock";
  const auto error = [](MemifRole role, const std::string& socket) {
    const auto checked = check_memif_socket({.role = role, .socket = socket});
    return checked ? std::string() : checked.error().message;
  };
  for (const MemifRole role : {MemifRole::server, MemifRole::client}) {
    EXPECT_EQ(error(role, path), "");
    EXPECT_THAT(error(role, directory.path()), HasSubstr("something else of that name"));
  }
  const std::string nowhere = directory.path() + "/none/memif.sock";
  EXPECT_THAT(error(MemifRole::server, nowhere), HasSubstr("no such folder"));
  EXPECT_EQ(error(MemifRole::client, nowhere), "") << "its server may make it";
  const auto serve = [&path] {
    const int socket = ::socket(AF_UNIX, SOCK_SEQPACKET, 0);
    sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
    path.copy(static_cast<char*>(address.sun_path), path.size());
    if (::bind(socket, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
        ::listen(socket, 1) != 0) {
      _exit(1);
    }
  };
  {
    const test::ForkedProcess other(serve);
    EXPECT_THAT(error(MemifRole::server, path), HasSubstr("another program serves it"));
    EXPECT_EQ(error(MemifRole::client, path), "");
  }
  EXPECT_EQ(error(MemifRole::server, path), "") << "a dead server's socket is taken over";
}

TEST_F(MemifPair, TwoServersShareASocket) {
  const std::string path = directory_.path() + "/memif.sock";
  const auto server = open_end(MemifRole::server);
  ASSERT_NE(server, nullptr);
  auto devargs =
      memif_devargs({.role = MemifRole::server, .device = "net_memif2", .socket = path, .id = 7});
  ASSERT_TRUE(devargs.has_value());
  const auto second = open_port({.devargs = *devargs, .pool_size = 1023});
  ASSERT_NE(second, nullptr);
  const auto client = open_end(MemifRole::client);
  EXPECT_TRUE(client->wait_for_link(10'000));
  EXPECT_FALSE(second->link_up());
}

TEST(DeviceLimits, OnlyDevicesThatAreKnownNotToShareBuffersLeaveTheMemoryOfTheEal) {
  for (const char* keeps : {"net_memif0,role=client,zero-copy=no", "eth_vhost1,iface=/x", "net_tap",
                            "net_af_packet12,iface=eth0", "net_ring0", "net_null3"}) {
    EXPECT_FALSE(shares_buffers(keeps)) << keeps;
  }
  for (const char* shares : {"net_memif0,role=client,zero-copy=yes", "net_virtio_user0,path=/x",
                             "net_af_xdp0,iface=eth0", "0000:01:00.0", "net_tape0", "", "0"}) {
    EXPECT_TRUE(shares_buffers(shares)) << shares;
  }
}

TEST(MemifDevargs, RefusesWhatMemifCannotTake) {
  EXPECT_FALSE(memif_devargs({.socket = std::string(108, 'x')}).has_value());
  EXPECT_FALSE(memif_devargs({.socket = "/tmp/a,b"}).has_value());
  EXPECT_FALSE(memif_devargs({.socket = "/tmp/a", .ring_size_log2 = 15}).has_value());
  EXPECT_FALSE(memif_devargs({.socket = "/tmp/a", .ring_size_log2 = 0}).has_value());
  EXPECT_EQ(*memif_devargs({.role = MemifRole::client, .socket = "/tmp/a", .id = 3}),
            "net_memif0,role=client,socket=/tmp/a,socket-abstract=no,id=3,rsize=10");
}

}  // namespace
}  // namespace rockhopper::stack::port_test
