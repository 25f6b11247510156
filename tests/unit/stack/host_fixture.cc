// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "tests/unit/stack/host_fixture.h"

#include "tests/support/exact_packet.h"
#include "tests/support/packets.h"

namespace rockhopper::stack {

void HostFixture::SetUp() {
  auto pool = MbufPool::create({.size = 1023, .cache = 0});
  ASSERT_TRUE(pool.has_value()) << pool.error().message;
  pool_ = std::move(*pool);
  create(default_config());
}

void HostFixture::TearDown() {
  host_.reset();
  EXPECT_EQ(pool_.in_use(), 0u) << "mbufs leaked";
}

HostConfig HostFixture::default_config() {
  HostConfig config;
  config.mac = mac(frames::kOurMac);
  config.packet_pool = pool_.get();
  config.drop_observer = this;
  return config;
}

void HostFixture::create(HostConfig config) {
  auto host = Host::create(config);
  ASSERT_TRUE(host.has_value()) << host.error().message;
  host_ = std::move(*host);
  ASSERT_TRUE(host_->add_address(address("192.0.2.1"), 24).has_value());
  ASSERT_TRUE(host_->add_address(address("2001:db8::1"), 64).has_value());
  host_->bind_udp(kPort, this);
  (void)run_until(now_ns_ + 10 * kSecondNs);
}

void HostFixture::receive(const Bytes& frame, const std::vector<std::size_t>& lengths,
                          std::uint64_t offload_flags) {
  const std::vector<std::size_t> whole{frame.size()};
  rte_mbuf* packet = test::make_exact_packet(pool_.get(), frame, lengths.empty() ? whole : lengths);
  ASSERT_NE(packet, nullptr);
  packet->ol_flags |= offload_flags;
  host_->receive(&packet, 1, now_ns_);
}

std::vector<Bytes> HostFixture::sent() {
  std::vector<Bytes> all;
  rte_mbuf* packet = nullptr;
  while (host_->transmit(&packet, 1, now_ns_) == 1) {
    all.push_back(test::bytes_of(packet));
    rte_pktmbuf_free(packet);
  }
  return all;
}

std::vector<std::pair<std::uint64_t, Bytes>> HostFixture::run_until(std::uint64_t until_ns) {
  std::vector<std::pair<std::uint64_t, Bytes>> all;
  while (true) {
    for (Bytes& frame : sent()) {
      all.emplace_back(now_ns_, std::move(frame));
    }
    const std::uint64_t next_ns = host_->next_deadline_ns();
    if (next_ns > until_ns) break;
    // A deadline that has passed although transmit() ran would never end.
    if (next_ns < now_ns_) {
      ADD_FAILURE() << "the host's deadline stays in the past";
      break;
    }
    now_ns_ = next_ns;
  }
  now_ns_ = until_ns;
  for (Bytes& frame : sent()) {
    all.emplace_back(now_ns_, std::move(frame));
  }
  return all;
}

std::uint64_t HostFixture::counter(const std::string& name) const {
  std::map<std::string, std::uint64_t> counters;
  host_->visit_counters(
      [](void* context, const char* counter_name, std::uint64_t value) {
        (*static_cast<std::map<std::string, std::uint64_t>*>(context))[counter_name] = value;
      },
      &counters);
  EXPECT_EQ(counters.count(name), 1u) << name;
  return counters[name];
}

void HostFixture::expect_drop(const Bytes& frame, const std::string& reason) {
  const std::uint64_t before = counter(reason);
  drops_.clear();
  datagrams_.clear();
  receive(frame);
  EXPECT_EQ(drops_, std::vector<std::string>{reason});
  EXPECT_EQ(counter(reason), before + 1);
  EXPECT_TRUE(datagrams_.empty());
  EXPECT_TRUE(sent().empty());
}

Flow HostFixture::flow_to(const std::string& destination) const {
  Flow flow;
  flow.config.destination = address(destination);
  flow.config.source = address(flow.config.destination.is_ipv4() ? "192.0.2.1" : "2001:db8::1");
  flow.config.source_port = 0xc123;
  flow.config.destination_port = kPort;
  return flow;
}

Bytes HostFixture::encapsulated(const Flow& flow, const Bytes& payload, std::uint16_t trailer) {
  rte_mbuf* packet = rte_pktmbuf_alloc(pool_.get());
  host_->encapsulate(flow, packet, static_cast<std::uint32_t>(payload.size() + trailer));
  if (!payload.empty()) {
    EXPECT_EQ(rte_pktmbuf_chain(packet, test::make_packet(pool_.get(), payload, 300)), 0);
  }
  Bytes frame = test::bytes_of(packet);
  rte_pktmbuf_free(packet);
  return frame;
}

void HostFixture::on_udp(const UdpDatagram& datagram, std::uint64_t now_ns) {
  EXPECT_EQ(now_ns, now_ns_);
  const Bytes frame = test::bytes_of(datagram.packet);
  rte_pktmbuf_free(datagram.packet);
  ASSERT_LE(std::size_t{datagram.payload_offset} + datagram.payload_length, frame.size());
  const auto begin = frame.begin() + datagram.payload_offset;
  datagrams_.push_back({datagram.source,
                        datagram.destination,
                        datagram.source_port,
                        datagram.destination_port,
                        datagram.l3_offset,
                        datagram.traffic_class,
                        datagram.hop_limit,
                        {begin, begin + datagram.payload_length}});
}

void HostFixture::on_drop(const rte_mbuf* packet, const char* reason) {
  EXPECT_NE(packet, nullptr);
  drops_.emplace_back(reason);
}

}  // namespace rockhopper::stack
