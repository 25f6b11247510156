// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
// The host as the protocol that a worker drives, and a protocol above it that has packets of its
// own: who is called when, and whose packets go first.
#include <array>
#include <deque>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <netinet/in.h>

#include "tests/support/packets.h"
#include "tests/unit/stack/host_fixture.h"

namespace rockhopper::stack {
namespace {

using namespace frames;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr std::uint16_t kArp = 0x0806;
constexpr std::uint16_t kIpv4 = 0x0800;
constexpr const char* kUs = "192.0.2.1";
constexpr const char* kPeer = "192.0.2.2";

/// Notes each call, and sends what it is given.
class Client final : public UdpClient {
 public:
  explicit Client(rte_mempool* pool) : pool_(pool) {}

  void begin_receive(std::span<rte_mbuf* const> packets, std::uint64_t now_ns) override {
    calls.push_back("begin " + std::to_string(packets.size()));
    last_ns = now_ns;
  }
  void on_udp(const UdpDatagram& datagram, std::uint64_t now_ns) override {
    calls.push_back("datagram " + std::to_string(datagram.payload_length));
    EXPECT_EQ(now_ns, last_ns);
    rte_pktmbuf_free(datagram.packet);
  }
  void end_receive() override { calls.emplace_back("end"); }
  [[nodiscard]] std::uint16_t transmit(rte_mbuf** packets, std::uint16_t count,
                                       std::uint64_t now_ns) override {
    calls.push_back("room " + std::to_string(count));
    last_ns = now_ns;
    std::uint16_t taken = 0;
    for (; taken < count && !to_send.empty(); ++taken) {
      packets[taken] = test::make_packet(pool_, to_send.front());
      to_send.pop_front();
    }
    return taken;
  }
  [[nodiscard]] std::uint64_t next_deadline_ns() const override { return deadline_ns; }

  std::vector<std::string> calls;
  std::deque<Bytes> to_send;
  std::uint64_t deadline_ns = kNever;
  std::uint64_t last_ns = 0;

 private:
  rte_mempool* pool_;
};

class HostClient : public HostFixture {
 protected:
  void SetUp() override {
    HostFixture::SetUp();
    host_->bind_udp(kPort, &client_.emplace(pool_.get()));
  }
  [[nodiscard]] static Bytes datagram_of(std::size_t bytes, std::uint16_t port = kPort) {
    return ethernet(kOurMac, kPeerMac, kIpv4,
                    ip_packet(kPeer, kUs, IPPROTO_UDP, udp(9, port, Bytes(bytes))));
  }
  [[nodiscard]] static Bytes question() {
    return ethernet(kBroadcast, kPeerMac, kArp, arp(1, kPeerMac, kPeer, {}, kUs));
  }
  [[nodiscard]] static Bytes answer() {
    return ethernet(kPeerMac, kOurMac, kArp, arp(2, kOurMac, kUs, kPeerMac, kPeer));
  }
  /// What one call gives, of up to `count` packets.
  [[nodiscard]] std::vector<Bytes> sent_at_once(std::uint16_t count) {
    std::array<rte_mbuf*, 8> packets{};
    const std::uint16_t taken = host_->transmit(packets.data(), count, now_ns_);
    std::vector<Bytes> frames;
    for (std::uint16_t i = 0; i < taken; ++i) {
      frames.push_back(test::bytes_of(packets[i]));
      rte_pktmbuf_free(packets[i]);
    }
    return frames;
  }

  std::optional<Client> client_;
};

TEST_F(HostClient, HearsOfABurstBeforeAndAfterItsDatagrams) {
  std::array<rte_mbuf*, 3> burst{test::make_packet(pool_.get(), datagram_of(7)),
                                 test::make_packet(pool_.get(), question()),
                                 test::make_packet(pool_.get(), datagram_of(8))};
  host_->receive(burst.data(), burst.size(), now_ns_);
  EXPECT_THAT(client_->calls, ElementsAre("begin 3", "datagram 7", "datagram 8", "end"));
  EXPECT_EQ(client_->last_ns, now_ns_);
  EXPECT_EQ(sent_at_once(8), std::vector<Bytes>{answer()});
}

TEST_F(HostClient, TheHostsOwnPacketsGoInFrontOfItsClients) {
  client_->to_send = {Bytes(60, 1), Bytes(60, 2), Bytes(60, 3)};
  receive(question());
  client_->calls.clear();
  EXPECT_THAT(sent_at_once(3), ElementsAre(answer(), Bytes(60, 1), Bytes(60, 2)));
  EXPECT_THAT(client_->calls, ElementsAre("room 2"));
  EXPECT_THAT(sent_at_once(3), ElementsAre(Bytes(60, 3)));
}

TEST_F(HostClient, IsCalledWithoutRoomTooAsItsTimersRunThen) {
  client_->to_send = {Bytes(60, 1)};
  EXPECT_THAT(sent_at_once(0), IsEmpty());
  receive(question());
  client_->calls.clear();
  EXPECT_THAT(sent_at_once(1), ElementsAre(answer()));
  EXPECT_THAT(client_->calls, ElementsAre("room 0"));
  EXPECT_EQ(client_->last_ns, now_ns_);
  EXPECT_THAT(sent_at_once(1), ElementsAre(Bytes(60, 1)));
}

TEST_F(HostClient, TheEarliestDeadlineIsTheHosts) {
  const std::uint64_t own_ns = host_->next_deadline_ns();
  client_->deadline_ns = now_ns_ + 5;
  EXPECT_EQ(host_->next_deadline_ns(), now_ns_ + 5);
  client_->deadline_ns = kNever;
  EXPECT_EQ(host_->next_deadline_ns(), own_ns);
  receive(question());
  client_->deadline_ns = now_ns_ + 5;
  EXPECT_LE(host_->next_deadline_ns(), now_ns_) << "there is an answer to be sent";
  EXPECT_EQ(sent_at_once(8), std::vector<Bytes>{answer()});
}

TEST_F(HostClient, ClientsAreAskedInTheOrderInWhichTheyWereBound) {
  Client other(pool_.get());
  host_->bind_udp(53, &other);
  client_->to_send = {Bytes(60, 1)};
  other.to_send = {Bytes(60, 2)};
  EXPECT_THAT(sent_at_once(8), ElementsAre(Bytes(60, 1), Bytes(60, 2)));
  receive(datagram_of(7, 53));
  EXPECT_THAT(other.calls, ElementsAre("room 7", "begin 1", "datagram 7", "end"));
  EXPECT_THAT(client_->calls, ElementsAre("room 8", "begin 1", "end"));
  host_->bind_udp(53, nullptr);
  other.to_send = {Bytes(60, 2)};
  EXPECT_THAT(sent_at_once(8), IsEmpty());
}

}  // namespace
}  // namespace rockhopper::stack
