// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
//
// The connection manager messages that the stock tools exchange over Soft-RoCE. What is expected of
// their fields is what tshark says; but of SIDR messages, which it does not dissect, and of flow
// label and packet rate, which version 4.0 takes from the wrong bits, what the bytes say.
#include <array>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "roce/wire/cm.h"
#include "tests/support/capture.h"

namespace rockhopper::wire::cm {
namespace {

using test::Bytes;
using ::testing::Each;
using ::testing::ElementsAre;

constexpr Gid kClient{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 9, 0, 2};
constexpr Gid kServer{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 9, 0, 1};

/// A management datagram of a capture.
struct Captured {
  Bytes bytes;
  [[nodiscard]] MadHeader header() const {
    return MadHeader::parse(std::span(bytes).first<MadHeader::kSize>());
  }
  [[nodiscard]] Body body() const { return std::span(bytes).last<kBodyBytes>(); }
};

std::vector<Captured> read_mads(const char* name) {
  constexpr std::size_t kBthAndDeth = 20;
  constexpr std::size_t kIcrc = 4;
  std::vector<Captured> mads;
  for (const auto& packet : test::read_roce_packets(test::captures_directory() / name)) {
    const auto transport = packet.transport();
    const bool to_qp1 = transport[5] == 0 && transport[6] == 0 && transport[7] == 1;
    if (transport[0] != 0x64 || !to_qp1) continue;  // UD SEND Only
    EXPECT_EQ(transport.size(), kBthAndDeth + kMadBytes + kIcrc);
    const auto mad = transport.subspan(kBthAndDeth, kMadBytes);
    mads.push_back({Bytes(mad.begin(), mad.end())});
  }
  return mads;
}

std::vector<std::string> names(const std::vector<Captured>& mads) {
  std::vector<std::string> result;
  for (const Captured& mad : mads) {
    result.emplace_back(to_string(static_cast<Attribute>(mad.header().attribute_id)));
  }
  return result;
}

TEST(CmCaptures, Rping) {
  const auto mads = read_mads("cm-rping-ipv4.pcap");
  ASSERT_THAT(names(mads), ElementsAre("REQ", "REP", "RTU", "DREQ", "DREP"));
  for (const Captured& mad : mads) {
    const MadHeader header = mad.header();
    EXPECT_EQ(header.base_version, 1);
    EXPECT_EQ(header.management_class, 7);
    EXPECT_EQ(header.class_version, 2);
    EXPECT_EQ(header.method, 3);
    EXPECT_EQ(header.status, 0);
    EXPECT_EQ(header.transaction_id, 0x000000028ad0349du);
    EXPECT_EQ(header.attribute_modifier, 0u);
  }

  const Req req = Req::parse(mads[0].body());
  EXPECT_EQ(req.local_communication_id, 0x9d34d08au);
  EXPECT_EQ(req.service_id, 0x0000000001061c06u);
  EXPECT_EQ(req.local_ca_guid, 0x505400fffeaa0002u);
  EXPECT_EQ(req.local_qkey, 0u);
  EXPECT_EQ(req.local_qpn.value, 0x000012u);
  EXPECT_EQ(req.responder_resources, 1);
  EXPECT_EQ(req.initiator_depth, 1);
  EXPECT_EQ(req.remote_cm_response_timeout, 0x14);
  EXPECT_EQ(req.transport_service, TransportService::rc);
  EXPECT_FALSE(req.end_to_end_flow_control);
  EXPECT_EQ(req.starting_psn.value, 0xd16754u);
  EXPECT_EQ(req.local_cm_response_timeout, 0x14);
  EXPECT_EQ(req.retry_count, 7);
  EXPECT_EQ(req.pkey, 0xffff);
  EXPECT_EQ(mtu_bytes(req.path_mtu_code), 4096u);
  EXPECT_FALSE(req.rdc_exists);
  EXPECT_EQ(req.rnr_retry_count, 7);
  EXPECT_EQ(req.max_cm_retries, 15);
  EXPECT_FALSE(req.srq);
  EXPECT_EQ(req.extended_transport, 0);
  EXPECT_EQ(req.primary_local_gid, kClient);
  EXPECT_EQ(req.primary_remote_gid, kServer);
  EXPECT_EQ(req.primary_flow_label, 0x8d978u);
  EXPECT_EQ(req.primary_packet_rate, 0);
  EXPECT_EQ(req.primary_traffic_class, 0);
  EXPECT_EQ(req.primary_hop_limit, 0x40);
  EXPECT_EQ(req.primary_local_ack_timeout, 0x13);
  EXPECT_EQ(req.private_data[1], 0x40);  // IPv4
  EXPECT_EQ(req.private_data[2] << 8 | req.private_data[3], 0xcc4e);

  const Rep rep = Rep::parse(mads[1].body());
  EXPECT_EQ(rep.local_communication_id, 0x11007af9u);
  EXPECT_EQ(rep.remote_communication_id, 0x9d34d08au);
  EXPECT_EQ(rep.local_qpn.value, 0x000012u);
  EXPECT_EQ(rep.starting_psn.value, 0xbb174du);
  EXPECT_EQ(rep.responder_resources, 1);
  EXPECT_EQ(rep.initiator_depth, 1);
  EXPECT_EQ(rep.target_ack_delay, 0x0f);
  EXPECT_EQ(rep.failover_accepted, 0);
  EXPECT_FALSE(rep.end_to_end_flow_control);
  EXPECT_EQ(rep.rnr_retry_count, 7);
  EXPECT_FALSE(rep.srq);
  EXPECT_EQ(rep.local_ca_guid, 0x505400fffeaa0001u);
  EXPECT_THAT(rep.private_data, Each(0));

  const Rtu rtu = Rtu::parse(mads[2].body());
  EXPECT_EQ(rtu.local_communication_id, 0x9d34d08au);
  EXPECT_EQ(rtu.remote_communication_id, 0x11007af9u);

  const Dreq dreq = Dreq::parse(mads[3].body());
  EXPECT_EQ(dreq.local_communication_id, 0x9d34d08au);
  EXPECT_EQ(dreq.remote_communication_id, 0x11007af9u);
  EXPECT_EQ(dreq.remote_qpn.value, 0x000012u);

  const Drep drep = Drep::parse(mads[4].body());
  EXPECT_EQ(drep.local_communication_id, 0x11007af9u);
  EXPECT_EQ(drep.remote_communication_id, 0x9d34d08au);
}

TEST(CmCaptures, RejectWithoutListener) {
  const auto mads = read_mads("cm-reject-no-listener.pcap");
  ASSERT_THAT(names(mads), ElementsAre("REQ", "REJ"));
  const Req req = Req::parse(mads[0].body());
  EXPECT_EQ(req.local_communication_id, 0x9f34d08au);
  EXPECT_EQ(req.local_qpn.value, 0x000014u);
  EXPECT_EQ(req.starting_psn.value, 0x09d4e4u);
  EXPECT_EQ(req.primary_flow_label, 0x1706eu);
  EXPECT_EQ(req.primary_packet_rate, 0);
  const Rej rej = Rej::parse(mads[1].body());
  EXPECT_EQ(rej.local_communication_id, 0u);
  EXPECT_EQ(rej.remote_communication_id, 0x9f34d08au);
  EXPECT_EQ(rej.about, AboutMessage::req);
  EXPECT_EQ(rej.info_length, 0);
  EXPECT_EQ(rej.reason, RejectReason::invalid_service_id);
  EXPECT_THAT(rej.info, Each(0));
  EXPECT_THAT(rej.private_data, Each(0));
}

TEST(CmCaptures, CrossingDisconnects) {
  const auto mads = read_mads("cm-rdma-client-server.pcap");
  ASSERT_THAT(names(mads), ElementsAre("REQ", "REP", "RTU", "DREQ", "DREQ", "DREP", "DREP"));
  const Req req = Req::parse(mads[0].body());
  EXPECT_EQ(req.responder_resources, 0x80);
  EXPECT_EQ(req.initiator_depth, 0x80);
  EXPECT_EQ(req.local_qpn.value, 0x000019u);
  const Dreq client = Dreq::parse(mads[3].body());
  EXPECT_EQ(client.remote_qpn.value, 0x000018u);
  const Dreq server = Dreq::parse(mads[4].body());
  EXPECT_EQ(server.local_communication_id, 0x1c007af9u);
  EXPECT_EQ(server.remote_communication_id, 0x9434d08au);
  EXPECT_EQ(server.remote_qpn.value, 0x000019u);
  EXPECT_EQ(mads[4].header().transaction_id, 0x00000002f97a001cu);
}

TEST(CmCaptures, ServiceIdResolution) {
  const auto mads = read_mads("cm-udaddy-sidr.pcap");
  ASSERT_THAT(names(mads), ElementsAre("SIDR_REQ", "SIDR_REQ", "SIDR_REP", "SIDR_REP"));
  const SidrReq req = SidrReq::parse(mads[0].body());
  EXPECT_EQ(req.request_id, 0x9a34d08au);
  EXPECT_EQ(req.pkey, 0xffff);
  EXPECT_EQ(req.service_id, 0x0000000001111c06u);
  EXPECT_EQ(req.private_data[1], 0x40);
  EXPECT_EQ(req.private_data[2] << 8 | req.private_data[3], 0x922e);
  const SidrRep rep = SidrRep::parse(mads[3].body());
  EXPECT_EQ(rep.request_id, 0x9b34d08au);
  EXPECT_EQ(rep.status, SidrStatus::valid);
  EXPECT_EQ(rep.info_length, 0);
  EXPECT_EQ(rep.qpn.value, 0x000017u);
  EXPECT_EQ(rep.service_id, 0x0000000001111c06u);
  EXPECT_EQ(rep.qkey, 0x01234567u);
  EXPECT_THAT(rep.private_data, Each(0));
}

template <typename Message>
Bytes emitted_again(const Captured& mad) {
  std::array<std::uint8_t, kMadBytes> mad_bytes{};
  const std::span<std::uint8_t, kMadBytes> bytes(mad_bytes);
  mad.header().emit(bytes.first<MadHeader::kSize>());
  Message::parse(mad.body()).emit(bytes.last<kBodyBytes>());
  return Bytes(mad_bytes.begin(), mad_bytes.end());
}

Bytes emitted_again(const Captured& mad) {
  switch (static_cast<Attribute>(mad.header().attribute_id)) {
    case Attribute::req:
      return emitted_again<Req>(mad);
    case Attribute::rej:
      return emitted_again<Rej>(mad);
    case Attribute::rep:
      return emitted_again<Rep>(mad);
    case Attribute::rtu:
      return emitted_again<Rtu>(mad);
    case Attribute::dreq:
      return emitted_again<Dreq>(mad);
    case Attribute::drep:
      return emitted_again<Drep>(mad);
    case Attribute::sidr_req:
      return emitted_again<SidrReq>(mad);
    case Attribute::sidr_rep:
      return emitted_again<SidrRep>(mad);
    default:
      return {};
  }
}

TEST(CmCaptures, EveryMessageIsEmittedAgainByteForByte) {
  std::size_t count = 0;
  for (const char* name : {"cm-rping-ipv4.pcap", "cm-reject-no-listener.pcap", "cm-ucmatose.pcap",
                           "cm-rdma-client-server.pcap", "cm-udaddy-sidr.pcap"}) {
    SCOPED_TRACE(name);
    for (const Captured& mad : read_mads(name)) {
      EXPECT_EQ(emitted_again(mad), mad.bytes) << "message " << count;
      ++count;
    }
  }
  EXPECT_EQ(count, 5u + 2 + 10 + 7 + 4);
}

}  // namespace
}  // namespace rockhopper::wire::cm
