// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
//
// Whom messages of connection managers are for (IBTA vol. 1, 12.6, 12.11).
#include "roce/wire/cm_addressee.h"

#include <array>
#include <span>

#include <gtest/gtest.h>

#include "roce/wire/cm.h"

namespace rockhopper::wire::cm {
namespace {

constexpr std::uint32_t kLocal = 0x01020304;
constexpr std::uint32_t kRemote = 0x8899aabb;
constexpr std::uint64_t kServiceId = 0x0000000001061ff7;

template <typename Message>
std::optional<Addressee> of(const Message& message,
                            std::uint8_t management_class = kManagementClass) {
  std::array<std::uint8_t, kMadBytes> mad{};
  const std::span<std::uint8_t, kMadBytes> bytes(mad);
  MadHeader{.management_class = management_class,
            .class_version = kClassVersion,
            .method = kMethodSend,
            .attribute_id = static_cast<std::uint16_t>(Message::kAttribute)}
      .emit(bytes.template first<MadHeader::kSize>());
  message.emit(bytes.template last<kBodyBytes>());
  return addressee_of(bytes.template first<kAddresseeBytes>());
}

TEST(CmAddressee, RequestsAreForWhoServes) {
  for (const auto& found : {of(Req{.local_communication_id = kLocal, .service_id = kServiceId}),
                            of(SidrReq{.request_id = kLocal, .service_id = kServiceId})}) {
    ASSERT_TRUE(found);
    EXPECT_TRUE(found->is_request);
    EXPECT_EQ(found->service_id, kServiceId);
    EXPECT_EQ(found->receiver_id, 0u);
  }
}

TEST(CmAddressee, AllOthersAreForWhoChoseTheReceiversId) {
  const auto expect = [](const std::optional<Addressee>& found) {
    ASSERT_TRUE(found);
    EXPECT_FALSE(found->is_request);
    EXPECT_EQ(found->receiver_id, kRemote);
  };
  expect(of(Mra{.local_communication_id = kLocal, .remote_communication_id = kRemote}));
  expect(of(Rej{.local_communication_id = kLocal, .remote_communication_id = kRemote}));
  expect(of(Rep{.local_communication_id = kLocal, .remote_communication_id = kRemote}));
  expect(of(Rtu{.local_communication_id = kLocal, .remote_communication_id = kRemote}));
  expect(of(Dreq{.local_communication_id = kLocal, .remote_communication_id = kRemote}));
  expect(of(Drep{.local_communication_id = kLocal, .remote_communication_id = kRemote}));
  expect(of(SidrRep{.request_id = kRemote}));
}

TEST(CmAddressee, WhatIsNoSuchMessageIsForNobody) {
  EXPECT_FALSE(of(Rtu{}, 0x03));
  const std::array<std::uint8_t, kAddresseeBytes> zeros{};
  EXPECT_FALSE(addressee_of(zeros));
  std::array<std::uint8_t, kAddresseeBytes> ones{};
  ones.fill(0xff);
  EXPECT_FALSE(addressee_of(ones));
}

}  // namespace
}  // namespace rockhopper::wire::cm
