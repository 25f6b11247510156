// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
// What two Rockhoppers agree on in private data (docs/wire.md), and that nobody else sees it.
#include "roce/cm/capabilities.h"

#include <algorithm>
#include <array>
#include <numeric>

#include "tests/unit/cm/cm_fixture.h"

namespace rockhopper::roce::cm {
namespace {

using sim::must;

constexpr Capabilities kBoth = kCapabilitySelectiveRepeat | kCapabilityMaskedAtomics;

TEST(CapabilityBlock, Golden) {
  std::array<std::uint8_t, 12> data{};
  CapabilityBlock{.bits = 0x0102}.emit(data);
  EXPECT_EQ(data, (std::array<std::uint8_t, 12>{0, 0, 0, 0, 'R', 'H', 'C', 'P', 1, 0, 1, 2}));
  EXPECT_EQ(CapabilityBlock::parse(data)->bits, 0x0102);
  EXPECT_FALSE(CapabilityBlock::parse(std::span(data).first(11)));
  EXPECT_FALSE(CapabilityBlock::parse(std::span(data).last(7)));
  for (const std::size_t place : {4u, 7u, 8u, 9u}) {
    auto changed = data;
    changed[place] ^= 2;
    EXPECT_FALSE(CapabilityBlock::parse(changed)) << place;
  }
}

/// Offers of both ends, and what becomes of them.
struct Offers {
  Capabilities active, passive, agreed;
};
class CmOffers : public CmTest, public ::testing::WithParamInterface<Offers> {};

INSTANTIATE_TEST_SUITE_P(
    Of, CmOffers,
    ::testing::Values(Offers{kBoth, kBoth, kBoth},
                      Offers{kBoth, kCapabilityMaskedAtomics, kCapabilityMaskedAtomics},
                      Offers{kCapabilitySelectiveRepeat, kBoth, kCapabilitySelectiveRepeat},
                      Offers{kNoCapabilities, kBoth, kNoCapabilities},
                      Offers{kBoth, kNoCapabilities, kNoCapabilities}));

/// WIRE-4: what one end does not offer is not agreed on, and then neither end uses it.
TEST_P(CmOffers, AreAgreedOnByBothEndsOrNone) {
  const Offers& offers = GetParam();
  start({}, false);
  must(manager(1).listen(kService, 128, offers.passive));
  std::array<std::uint8_t, 196> data;
  std::iota(data.begin(), data.end(), std::uint8_t{1});
  const bool block_out = offers.active != 0;
  const bool block_back = block_out && offers.passive != 0;
  const std::size_t room_out = block_out ? 84 : 92;
  const std::size_t room_back = block_back ? 188 : 196;
  Pair pair{.active_qp = &net().make_qp(0), .passive_qp = &net().make_qp(1)};
  // As an earlier connection may have left them.
  for (QueuePair* qp : {pair.active_qp, pair.passive_qp}) {
    must(qp->set_loss_recovery({.algorithm = RecoveryAlgorithm::selective_repeat}));
  }
  ConnectParameters parameters = to_peer();
  parameters.offer = offers.active;
  parameters.private_data = std::span(data).first(room_out + 1);
  EXPECT_FALSE(manager(0).connect(*pair.active_qp, parameters)) << "no room for so much";
  parameters.private_data = std::span(data).first(room_out);
  pair.active = connect(*pair.active_qp, parameters);
  const Event request = await(1, EventType::connect_request);
  pair.passive = request.connection;
  EXPECT_EQ(pair.passive->agreed(), offers.agreed);
  EXPECT_EQ(request.private_data.length, block_back ? 84 : 92);
  EXPECT_TRUE(std::equal(data.begin(), data.begin() + static_cast<std::ptrdiff_t>(room_out),
                         request.private_data.bytes.begin()));
  EXPECT_FALSE(
      manager(1).accept(*pair.passive, *pair.passive_qp, {},
                        std::span<const std::uint8_t>(std::vector<std::uint8_t>(room_back + 1))));
  must(manager(1).accept(*pair.passive, *pair.passive_qp, {}, std::span(data).first(room_back)));
  const Event reply = await(0, EventType::established);
  EXPECT_EQ(pair.active->agreed(), offers.agreed);
  EXPECT_EQ(reply.private_data.length, room_back);
  EXPECT_TRUE(std::equal(data.begin(), data.begin() + static_cast<std::ptrdiff_t>(room_back),
                         reply.private_data.bytes.begin()));
  const auto algorithm = (offers.agreed & kCapabilitySelectiveRepeat) != 0
                             ? RecoveryAlgorithm::selective_repeat
                             : RecoveryAlgorithm::go_back_n;
  EXPECT_EQ(pair.active_qp->loss_recovery().algorithm, algorithm);
  EXPECT_EQ(pair.passive_qp->loss_recovery().algorithm, algorithm);
}

/// An application's own data that look like an offer mean nothing to who offers nothing.
TEST_F(CmTest, DataThatLookLikeAnOfferAreData) {
  start();
  std::array<std::uint8_t, 92> data{};
  CapabilityBlock{.bits = kBoth}.emit(data);
  Pair pair{.active_qp = &net().make_qp(0), .passive_qp = &net().make_qp(1)};
  ConnectParameters parameters = to_peer();
  parameters.private_data = data;
  pair.active = connect(*pair.active_qp, parameters);
  const Event request = await(1, EventType::connect_request);
  EXPECT_THAT(request.private_data.view(), ::testing::ElementsAreArray(data));
  EXPECT_EQ(request.connection->agreed(), kNoCapabilities);
  must(manager(1).accept(*request.connection, *pair.passive_qp, {}));
  await(0, EventType::established);
  EXPECT_EQ(pair.passive_qp->loss_recovery().algorithm, RecoveryAlgorithm::go_back_n);
}

TEST_F(CmTest, UnreliableConnectionsHaveNothingToRecover) {
  start({}, false);
  must(manager(1).listen(kService, 128, kBoth));
  Pair pair{.active_qp = &net().make_qp(0, QpType::uc),
            .passive_qp = &net().make_qp(1, QpType::uc)};
  ConnectParameters parameters = to_peer();
  parameters.offer = kBoth;
  pair.active = connect(*pair.active_qp, parameters);
  const Event request = await(1, EventType::connect_request);
  must(manager(1).accept(*request.connection, *pair.passive_qp, {}));
  await(0, EventType::established);
}

}  // namespace
}  // namespace rockhopper::roce::cm
