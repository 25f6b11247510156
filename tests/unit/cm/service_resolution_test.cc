// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
//
// Service ID resolution between two connection managers (IBTA vol. 1, 12.11).
#include <numeric>

#include "tests/unit/cm/cm_fixture.h"

namespace rockhopper::roce::cm {
namespace {

using sim::must;
using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using ::testing::IsEmpty;
using wire::cm::SidrStatus;

constexpr wire::Qpn kQpn{0x4321};
constexpr std::uint32_t kQkey = 0x01234567;

class CmResolution : public CmTest {
 protected:
  Lookup* resolve(std::span<const std::uint8_t> data = {}) {
    return must(
        manager(0).resolve({.path = net().path(0), .service_id = kService, .private_data = data}));
  }
  /// One lookup from the question to the answer.
  void resolve_one() {
    Lookup* lookup = resolve();
    must(manager(1).answer(*await(1, EventType::lookup_request).lookup, kQpn, kQkey));
    const Event resolved = await(0, EventType::resolved);
    EXPECT_EQ(resolved.lookup, lookup);
    EXPECT_EQ(resolved.qpn, kQpn);
    EXPECT_EQ(resolved.qkey, kQkey);
    manager(0).release(*lookup);
  }
};

TEST_F(CmResolution, OverIpv4) {
  start();
  resolve_one();
  EXPECT_EQ(counter(1, "answered_lookups"), 1u);
  EXPECT_EQ(counter(0, "repeated_messages"), 0u);
}

TEST_F(CmResolution, OverIpv6WithNextHopsToBeFound) {
  start({.network = {.ipv6 = true, .static_neighbours = false}});
  resolve_one();
}

TEST_F(CmResolution, ThePartitionIsTheOneThatTheRequestNames) {
  start();
  for (unsigned node = 0; node < 2; ++node) {
    must(engine(node).set_pkey(0, 0));
  }
  EXPECT_FALSE(manager(0).resolve({.path = net().path(0), .service_id = kService}));
  Lookup* lookup = must(manager(0).resolve(
      {.path = net().path(0), .pkey_index = sim::kPartitions[1][0], .service_id = kService}));
  Lookup* asked = await(1, EventType::lookup_request).lookup;
  EXPECT_EQ(asked->pkey_index(), sim::kPartitions[1][1]);
  must(manager(1).answer(*asked, kQpn, kQkey));
  EXPECT_EQ(await(0, EventType::resolved).qpn, kQpn);
  manager(0).release(*lookup);
}

TEST_F(CmResolution, PrivateDataBothWays) {
  start();
  std::array<std::uint8_t, 224> data;
  std::iota(data.begin(), data.end(), std::uint8_t{1});
  Lookup* lookup = resolve(std::span(data).first(216));
  const Event request = await(1, EventType::lookup_request);
  EXPECT_EQ(request.lookup->service_id(), kService);
  EXPECT_FALSE(request.lookup->is_ours());
  EXPECT_EQ(request.lookup->path().destination, net().network().node(0).address());
  EXPECT_THAT(request.private_data.view(), ElementsAreArray(data.begin(), 216));
  EXPECT_FALSE(manager(1).answer(*request.lookup, kQpn, kQkey, std::span(data).first(137)));
  must(manager(1).answer(*request.lookup, kQpn, kQkey, std::span(data).first(136)));
  EXPECT_FALSE(manager(1).answer(*request.lookup, kQpn, kQkey));
  EXPECT_THAT(await(0, EventType::resolved).private_data.view(),
              ElementsAreArray(data.begin(), 136));
  manager(0).release(*lookup);
  EXPECT_FALSE(manager(0).resolve(
      {.path = net().path(0), .service_id = kService, .private_data = std::span(data).first(217)}));
}

TEST_F(CmResolution, LostRequestAndLostReply) {
  start({.network = {.faults = {.dropped_packets = {{0, 0}, {1, 0}}}}});
  resolve_one();
  EXPECT_EQ(counter(0, "repeated_messages"), 2u);
  EXPECT_EQ(counter(1, "duplicate_messages"), 1u);
  EXPECT_THAT(types(1), ElementsAre(EventType::lookup_request));
  EXPECT_THAT(types(0), ElementsAre(EventType::resolved));
}

TEST_F(CmResolution, DuplicatesChangeNothing) {
  start({.network = {.faults = {.rates = {.duplicate = 1.0, .duplicate_max_ns = 100'000}}}});
  resolve_one();
  EXPECT_THAT(types(1), ElementsAre(EventType::lookup_request));
  EXPECT_THAT(types(0), ElementsAre(EventType::resolved));
}

TEST_F(CmResolution, RefusalsOfTheApplication) {
  start();
  Lookup* lookup = resolve();
  const Event request = await(1, EventType::lookup_request);
  EXPECT_FALSE(manager(1).refuse(*request.lookup, SidrStatus::valid));
  must(manager(1).refuse(*request.lookup, SidrStatus::no_qp));
  const Event failed = await(0, EventType::lookup_failed);
  EXPECT_EQ(failed.lookup, lookup);
  EXPECT_EQ(failed.status, SidrStatus::no_qp);
  EXPECT_FALSE(failed.unreachable);
  manager(0).release(*lookup);
}

TEST_F(CmResolution, ReleaseOfARequestRefusesIt) {
  start();
  Lookup* lookup = resolve();
  manager(1).release(*await(1, EventType::lookup_request).lookup);
  EXPECT_EQ(await(0, EventType::lookup_failed).status, SidrStatus::rejected);
  manager(0).release(*lookup);
}

TEST_F(CmResolution, NobodyListens) {
  start({}, false);
  Lookup* lookup = resolve();
  EXPECT_EQ(await(0, EventType::lookup_failed).status, SidrStatus::unsupported_service);
  EXPECT_THAT(types(1), IsEmpty());
  manager(0).release(*lookup);
}

TEST_F(CmResolution, UnansweredIsGivenUp) {
  start({.managers = {ConnectionManagerConfig{.response_timeout = 16, .max_retries = 3},
                      ConnectionManagerConfig{}}});
  net().network().cut(true);
  const std::uint64_t start_ns = net().now_ns();
  Lookup* lookup = resolve();
  const Event failed = await(0, EventType::lookup_failed);
  EXPECT_TRUE(failed.unreachable);
  EXPECT_GE(net().now_ns() - start_ns, 4 * timeout_ns(16));
  EXPECT_LT(net().now_ns() - start_ns, 5 * timeout_ns(16));
  EXPECT_EQ(counter(0, "timeouts"), 1u);
  manager(0).release(*lookup);
}

TEST_F(CmResolution, ReleaseBeforeTheAnswer) {
  start();
  Lookup* lookup = resolve();
  const Event request = await(1, EventType::lookup_request);
  manager(0).release(*lookup);
  must(manager(1).answer(*request.lookup, kQpn, kQkey));
  EXPECT_TRUE(net().run_to_rest(net().now_ns() + kLongNs));
  EXPECT_THAT(types(0), IsEmpty());
  EXPECT_EQ(counter(0, "unknown_connection"), 1u);
}

/// Requests beyond the backlog are not answered, so they come again.
TEST_F(CmResolution, BacklogPutsOff) {
  start({}, false);
  must(manager(1).listen(kService, 1));
  Lookup* first = resolve();
  Lookup* second = resolve();
  const Event request = await(1, EventType::lookup_request);
  EXPECT_TRUE(
      net().run_until([&] { return counter(1, "refused_backlog") > 0; }, net().now_ns() + kLongNs));
  must(manager(1).answer(*request.lookup, kQpn, kQkey));
  must(manager(1).answer(*await(1, EventType::lookup_request).lookup, kQpn, kQkey));
  await(0, EventType::resolved);
  await(0, EventType::resolved);
  manager(0).release(*first);
  manager(0).release(*second);
}

TEST_F(CmResolution, LookupsAreLimited) {
  sim::CmNetworkConfig config;
  config.managers[0].max_lookups = 3;
  config.managers[1].max_lookups = 2;
  start(config);
  std::vector<Lookup*> lookups;
  for (int i = 0; i < 3; ++i) {
    lookups.push_back(resolve());
  }
  const auto fourth = manager(0).resolve({.path = net().path(0), .service_id = kService});
  ASSERT_FALSE(fourth);
  EXPECT_EQ(fourth.error().code, ErrorCode::exhausted);
  EXPECT_TRUE(
      net().run_until([&] { return counter(1, "refused_limit") > 0; }, net().now_ns() + kLongNs));
  EXPECT_EQ(count(1, EventType::lookup_request), 2u);
  for (Lookup* lookup : lookups) {
    manager(0).release(*lookup);
  }
  for (const Event& event : events(1)) {
    manager(1).release(*event.lookup);
  }
}

}  // namespace
}  // namespace rockhopper::roce::cm
