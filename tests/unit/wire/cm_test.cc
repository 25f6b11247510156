// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
//
// Messages of the connection manager against the layouts of IBTA vol. 1, 12.6, 12.11.2 and 13.4.3,
// written down here by offset.
#include "roce/wire/cm.h"

#include <algorithm>
#include <array>
#include <initializer_list>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "roce/wire/mad.h"
#include "tests/support/seed.h"

namespace rockhopper::wire::cm {
namespace {

using BodyBytes = std::array<std::uint8_t, kBodyBytes>;

/// Bytes that stand at an offset of a message.
struct Piece {
  std::size_t offset;
  std::vector<std::uint8_t> bytes;
};
Piece fill(std::size_t offset, std::size_t count, std::uint8_t byte) {
  return {offset, std::vector<std::uint8_t>(count, byte)};
}

/// Zeros but for the pieces.
BodyBytes body(std::initializer_list<Piece> pieces) {
  BodyBytes bytes{};
  for (const Piece& piece : pieces) {
    std::copy(piece.bytes.begin(), piece.bytes.end(),
              bytes.begin() + static_cast<std::ptrdiff_t>(piece.offset));
  }
  return bytes;
}

template <typename Message>
BodyBytes emit(const Message& message) {
  BodyBytes bytes;
  bytes.fill(0xa5);  // what was there before must not show through
  message.emit(bytes);
  return bytes;
}

/// The bytes stand for the message and the message for the bytes.
template <typename Message>
void expect_layout(const Message& message, const BodyBytes& bytes) {
  EXPECT_EQ(emit(message), bytes);
  EXPECT_EQ(Message::parse(bytes), message);
}

template <typename Array>
Array counting(std::uint8_t first) {
  Array array;
  for (auto& byte : array) {
    byte = first++;
  }
  return array;
}

constexpr Gid kIpv4Gid{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 192, 0, 2, 7};
constexpr Gid kIpv6Gid{0x20, 0x01, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9};

TEST(MadHeaderLayout, IBTA_13_4_3) {
  const MadHeader header{.management_class = 0x07,
                         .class_version = 2,
                         .method = 0x83,
                         .status = 0x0102,
                         .class_specific = 0x0304,
                         .transaction_id = 0x1122334455667788,
                         .attribute_id = 0x0010,
                         .reserved16 = 0x0506,
                         .attribute_modifier = 0x90a0b0c0};
  const std::array<std::uint8_t, MadHeader::kSize> bytes{
      0x01, 0x07, 0x02, 0x83, 0x01, 0x02, 0x03, 0x04, 0x11, 0x22, 0x33, 0x44,
      0x55, 0x66, 0x77, 0x88, 0x00, 0x10, 0x05, 0x06, 0x90, 0xa0, 0xb0, 0xc0};
  std::array<std::uint8_t, MadHeader::kSize> emitted{};
  header.emit(emitted);
  EXPECT_EQ(emitted, bytes);
  EXPECT_EQ(MadHeader::parse(bytes), header);
}

TEST(CmLayout, Req_IBTA_12_6_5) {
  const Req req{.local_communication_id = 0x01020304,
                .service_id = 0x0000000001061c06,
                .local_ca_guid = 0x505400fffeaa0002,
                .local_qkey = 0x80010000,
                .local_qpn = Qpn{0xabcdef},
                .responder_resources = 0x12,
                .initiator_depth = 0x34,
                .remote_cm_response_timeout = 20,
                .transport_service = TransportService::uc,
                .end_to_end_flow_control = true,
                .starting_psn = Psn::make(0x13579b),
                .local_cm_response_timeout = 19,
                .retry_count = 5,
                .pkey = 0xffff,
                .path_mtu_code = 3,
                .rdc_exists = true,
                .rnr_retry_count = 6,
                .max_cm_retries = 15,
                .srq = true,
                .extended_transport = 1,
                .primary_local_gid = kIpv4Gid,
                .primary_remote_gid = kIpv6Gid,
                .primary_flow_label = 0x12345,
                .primary_packet_rate = 0x17,
                .primary_traffic_class = 0x68,
                .primary_hop_limit = 64,
                .primary_sl = 5,
                .primary_subnet_local = true,
                .primary_local_ack_timeout = 18,
                .private_data = counting<decltype(Req::private_data)>(1)};
  BodyBytes bytes = body({{0, {0x01, 0x02, 0x03, 0x04}},
                          {8, {0x00, 0x00, 0x00, 0x00, 0x01, 0x06, 0x1c, 0x06}},
                          {16, {0x50, 0x54, 0x00, 0xff, 0xfe, 0xaa, 0x00, 0x02}},
                          {28, {0x80, 0x01, 0x00, 0x00}},
                          {32, {0xab, 0xcd, 0xef, 0x12}},
                          {39, {0x34}},
                          {43, {20 << 3 | 1 << 1 | 1}},
                          {44, {0x13, 0x57, 0x9b, 19 << 3 | 5}},
                          {48, {0xff, 0xff, 3 << 4 | 1 << 3 | 6, 0xf0 | 1 << 3 | 1}},
                          {52, {0xff, 0xff, 0xff, 0xff}},  // no LIDs
                          {56, {kIpv4Gid.begin(), kIpv4Gid.end()}},
                          {72, {kIpv6Gid.begin(), kIpv6Gid.end()}},
                          {88, {0x12, 0x34, 0x50, 0x17, 0x68, 64, 5 << 4 | 1 << 3, 18 << 3}}});
  for (std::size_t i = 0; i < 92; ++i) {
    bytes[140 + i] = static_cast<std::uint8_t>(1 + i);
  }
  expect_layout(req, bytes);
}

TEST(CmLayout, Mra_IBTA_12_6_6) {
  expect_layout(Mra{.local_communication_id = 0xa1a2a3a4,
                    .remote_communication_id = 0xb1b2b3b4,
                    .about = AboutMessage::rep,
                    .service_timeout = 21,
                    .private_data = {0x77}},
                body({{0, {0xa1, 0xa2, 0xa3, 0xa4, 0xb1, 0xb2, 0xb3, 0xb4, 0x40, 0xa8, 0x77}}}));
  Mra full;
  full.private_data.fill(0x3c);
  expect_layout(full, body({fill(10, 222, 0x3c)}));
}

TEST(CmLayout, Rej_IBTA_12_6_7) {
  expect_layout(Rej{.local_communication_id = 0xa1a2a3a4,
                    .remote_communication_id = 0xb1b2b3b4,
                    .about = AboutMessage::other,
                    .info_length = 8,
                    .reason = RejectReason::timeout,
                    .info = {1, 2, 3, 4, 5, 6, 7, 8},
                    .private_data = {0x55, 0x66}},
                body({{0, {0xa1, 0xa2, 0xa3, 0xa4, 0xb1, 0xb2, 0xb3, 0xb4, 0x80, 0x10, 0, 4}},
                      {12, {1, 2, 3, 4, 5, 6, 7, 8}},
                      {84, {0x55, 0x66}}}));
  Rej full;
  full.info.fill(0x3c);
  full.private_data.fill(0x4d);
  expect_layout(full, body({fill(12, 72, 0x3c), fill(84, 148, 0x4d)}));
}

TEST(CmLayout, Rep_IBTA_12_6_8) {
  expect_layout(Rep{.local_communication_id = 0xa1a2a3a4,
                    .remote_communication_id = 0xb1b2b3b4,
                    .local_qkey = 0x01234567,
                    .local_qpn = Qpn{0xfedcba},
                    .local_eecn = Qpn{0x13579b},
                    .starting_psn = Psn::make(0x000001),
                    .responder_resources = 7,
                    .initiator_depth = 9,
                    .target_ack_delay = 15,
                    .failover_accepted = 1,
                    .end_to_end_flow_control = true,
                    .rnr_retry_count = 3,
                    .srq = true,
                    .local_ca_guid = 0x0011223344556677,
                    .private_data = {0x99}},
                body({{0, {0xa1, 0xa2, 0xa3, 0xa4, 0xb1, 0xb2, 0xb3, 0xb4}},
                      {8, {0x01, 0x23, 0x45, 0x67}},
                      {12, {0xfe, 0xdc, 0xba}},
                      {16, {0x13, 0x57, 0x9b}},
                      {20, {0x00, 0x00, 0x01}},
                      {24, {7, 9, 15 << 3 | 1 << 1 | 1, 3 << 5 | 1 << 4}},
                      {28, {0x00, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77}},
                      {36, {0x99}}}));
  Rep full;
  full.private_data.fill(0x3c);
  expect_layout(full, body({fill(36, 196, 0x3c)}));
}

TEST(CmLayout, RtuAndDrep_IBTA_12_6_9_and_12_6_11) {
  const BodyBytes bytes = body(
      {{0, {0xa1, 0xa2, 0xa3, 0xa4, 0xb1, 0xb2, 0xb3, 0xb4, 0x11, 0x22}}, fill(10, 222, 0x5a)});
  Rtu rtu{.local_communication_id = 0xa1a2a3a4, .remote_communication_id = 0xb1b2b3b4};
  rtu.private_data.fill(0x5a);
  rtu.private_data[0] = 0x11;
  rtu.private_data[1] = 0x22;
  expect_layout(rtu, bytes);
  expect_layout(Drep{.local_communication_id = rtu.local_communication_id,
                     .remote_communication_id = rtu.remote_communication_id,
                     .private_data = rtu.private_data},
                bytes);
}

TEST(CmLayout, Dreq_IBTA_12_6_10) {
  Dreq dreq{.local_communication_id = 0xa1a2a3a4,
            .remote_communication_id = 0xb1b2b3b4,
            .remote_qpn = Qpn{0x010203}};
  dreq.private_data.fill(0x6b);
  expect_layout(dreq, body({{0, {0xa1, 0xa2, 0xa3, 0xa4, 0xb1, 0xb2, 0xb3, 0xb4, 0x01, 0x02, 0x03}},
                            fill(12, 220, 0x6b)}));
}

TEST(CmLayout, SidrReq_IBTA_12_11_2_3) {
  SidrReq req{.request_id = 0x0a0b0c0d, .pkey = 0xffff, .service_id = 0x0000000001110915};
  req.private_data.fill(0x6b);
  expect_layout(req, body({{0, {0x0a, 0x0b, 0x0c, 0x0d, 0xff, 0xff}},
                           {8, {0x00, 0x00, 0x00, 0x00, 0x01, 0x11, 0x09, 0x15}},
                           fill(16, 216, 0x6b)}));
}

TEST(CmLayout, SidrRep_IBTA_12_11_2_4) {
  SidrRep rep{.request_id = 0x0a0b0c0d,
              .status = SidrStatus::redirect,
              .info_length = 72,
              .qpn = Qpn{0x000123},
              .service_id = 0x0000000001110915,
              .qkey = 0x01234567};
  rep.info.fill(0x7c);
  rep.private_data.fill(0x6b);
  expect_layout(rep, body({{0, {0x0a, 0x0b, 0x0c, 0x0d, 4, 72}},
                           {8, {0x00, 0x01, 0x23}},
                           {12, {0x00, 0x00, 0x00, 0x00, 0x01, 0x11, 0x09, 0x15}},
                           {20, {0x01, 0x23, 0x45, 0x67}},
                           fill(24, 72, 0x7c),
                           fill(96, 136, 0x6b)}));
}

/// What is left of a message that is all ones: every bit of every field, and no other.
template <typename Message>
BodyBytes fields_of_all_ones() {
  BodyBytes ones;
  ones.fill(0xff);
  return emit(Message::parse(ones));
}

TEST(CmReservedBits, AreSentAsZero) {
  EXPECT_EQ(fields_of_all_ones<Req>(), body({fill(0, 4, 0xff),
                                             fill(8, 16, 0xff),
                                             fill(28, 8, 0xff),
                                             fill(39, 1, 0xff),
                                             fill(43, 45, 0xff),
                                             {88, {0xff, 0xff, 0xf0, 0x3f, 0xff, 0xff, 0xf8, 0xf8}},
                                             fill(140, 92, 0xff)}));
  EXPECT_EQ(fields_of_all_ones<Mra>(),
            body({fill(0, 8, 0xff), {8, {0xc0, 0xf8}}, fill(10, 222, 0xff)}));
  EXPECT_EQ(fields_of_all_ones<Rej>(),
            body({fill(0, 8, 0xff), {8, {0xc0, 0xfe}}, fill(10, 222, 0xff)}));
  EXPECT_EQ(fields_of_all_ones<Rep>(), body({fill(0, 15, 0xff),
                                             fill(16, 3, 0xff),
                                             fill(20, 3, 0xff),
                                             {24, {0xff, 0xff, 0xff, 0xf0}},
                                             fill(28, 204, 0xff)}));
  EXPECT_EQ(fields_of_all_ones<Rtu>(), body({fill(0, 232, 0xff)}));
  EXPECT_EQ(fields_of_all_ones<Dreq>(), body({fill(0, 11, 0xff), fill(12, 220, 0xff)}));
  EXPECT_EQ(fields_of_all_ones<Drep>(), body({fill(0, 232, 0xff)}));
  EXPECT_EQ(fields_of_all_ones<SidrReq>(),
            body({fill(0, 6, 0xff), fill(8, 8, 0xff), fill(16, 216, 0xff)}));
  EXPECT_EQ(fields_of_all_ones<SidrRep>(),
            body({fill(0, 6, 0xff), fill(8, 3, 0xff), fill(12, 220, 0xff)}));
}

TEST(CmReservedBits, FieldsThatAreTooWideDoNotSpillOver) {
  const BodyBytes bytes = emit(Req{.remote_cm_response_timeout = 0xff,
                                   .local_cm_response_timeout = 0xff,
                                   .primary_flow_label = 0xffffffff,
                                   .primary_local_ack_timeout = 0xff});
  EXPECT_EQ(bytes, body({{43, {0xf8}},
                         {47, {0xf8}},
                         {52, {0xff, 0xff, 0xff, 0xff}},
                         {88, {0xff, 0xff, 0xf0, 0x00}},
                         {95, {0xf8}}}));
}

/// Bytes that one message type makes of any others are its own: parsing loses nothing that it
/// sends.
template <typename Message>
void round_trips(std::mt19937_64& random) {
  for (int i = 0; i < 1000; ++i) {
    BodyBytes bytes;
    std::generate(bytes.begin(), bytes.end(), [&] { return static_cast<std::uint8_t>(random()); });
    const Message message = Message::parse(bytes);
    const BodyBytes emitted = emit(message);
    ASSERT_EQ(Message::parse(emitted), message);
    ASSERT_EQ(emit(Message::parse(emitted)), emitted);
  }
}

TEST(CmRoundTrip, RandomValues) {
  std::mt19937_64 random(test::seed());
  round_trips<Req>(random);
  round_trips<Mra>(random);
  round_trips<Rej>(random);
  round_trips<Rep>(random);
  round_trips<Rtu>(random);
  round_trips<Dreq>(random);
  round_trips<Drep>(random);
  round_trips<SidrReq>(random);
  round_trips<SidrRep>(random);
}

TEST(CmValues, PathMtuCodes_IBTA_12_6_5) {
  const std::vector<std::pair<std::uint8_t, std::uint32_t>> codes{
      {1, 256}, {2, 512}, {3, 1024}, {4, 2048}, {5, 4096}};
  for (const auto& [code, size] : codes) {
    EXPECT_EQ(mtu_code(size), code);
    EXPECT_EQ(mtu_bytes(code), size);
  }
  for (const std::uint32_t size : {0u, 128u, 255u, 257u, 1500u, 8192u, 0xffffffffu}) {
    EXPECT_EQ(mtu_code(size), 0) << size;
  }
  for (const int code : {0, 6, 7, 15, 255}) {
    EXPECT_EQ(mtu_bytes(static_cast<std::uint8_t>(code)), 0u) << code;
  }
}

TEST(CmValues, AttributeIds_IBTA_12_6_2) {
  EXPECT_EQ(static_cast<int>(Req::kAttribute), 0x10);
  EXPECT_EQ(static_cast<int>(Mra::kAttribute), 0x11);
  EXPECT_EQ(static_cast<int>(Rej::kAttribute), 0x12);
  EXPECT_EQ(static_cast<int>(Rep::kAttribute), 0x13);
  EXPECT_EQ(static_cast<int>(Rtu::kAttribute), 0x14);
  EXPECT_EQ(static_cast<int>(Dreq::kAttribute), 0x15);
  EXPECT_EQ(static_cast<int>(Drep::kAttribute), 0x16);
  EXPECT_EQ(static_cast<int>(SidrReq::kAttribute), 0x17);
  EXPECT_EQ(static_cast<int>(SidrRep::kAttribute), 0x18);
}

TEST(CmValues, EveryValueOfTheWireHasAText) {
  std::set<std::string_view> attributes;
  for (int id = 0x10; id <= 0x1a; ++id) {
    attributes.insert(to_string(static_cast<Attribute>(id)));
  }
  EXPECT_EQ(attributes.size(), 11u);
  EXPECT_FALSE(attributes.contains("?"));
  EXPECT_EQ(to_string(static_cast<Attribute>(0x1b)), "?");
  for (int code = 0; code <= 0xffff; ++code) {
    EXPECT_FALSE(to_string(static_cast<RejectReason>(code)).empty());
  }
  for (int code = 0; code <= 0xff; ++code) {
    EXPECT_FALSE(to_string(static_cast<SidrStatus>(code)).empty());
  }
  EXPECT_EQ(to_string(static_cast<RejectReason>(0)), "reason without a name");
  EXPECT_EQ(to_string(static_cast<SidrStatus>(6)), "status without a name");
}

}  // namespace
}  // namespace rockhopper::wire::cm
