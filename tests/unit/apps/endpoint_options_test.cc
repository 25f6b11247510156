// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/common/endpoint_options.h"

#include <variant>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace rockhopper::apps {
namespace {

using ::testing::HasSubstr;

TEST(EndpointConfig, TwoTerminalsWorkWithoutOptions) {
  const auto server = make_endpoint_config({}, {.role = Role::server});
  const auto client = make_endpoint_config({}, {.role = Role::client});
  ASSERT_TRUE(server && client);
  EXPECT_EQ(std::get<MemifPort>(server->port).memif.role, stack::MemifRole::server);
  EXPECT_EQ(std::get<MemifPort>(client->port).memif.role, stack::MemifRole::client);
  EXPECT_EQ(server->mtu, client->mtu);
  EXPECT_GE(server->mtu, 4096 + kPathMtuOverhead);
  ASSERT_EQ(server->addresses.size(), 2u);
  EXPECT_EQ(server->addresses[0].address.to_string(), "10.42.0.1");
  EXPECT_EQ(client->addresses[0].address.to_string(), "10.42.0.2");
  EXPECT_EQ(server->addresses[1].address.to_string(), "fd42::1");
  EXPECT_EQ(client->addresses[1].address.to_string(), "fd42::2");
}

TEST(EndpointConfig, EalArgumentsMakeItsFirstPortTheDefault) {
  const auto config = make_endpoint_config({}, {.use_eal_ports = true});
  ASSERT_TRUE(config);
  EXPECT_EQ(std::get<DevicePort>(config->port).device, "0");
  EndpointOptions memif;
  memif.memif_socket = "/s";
  const auto other = make_endpoint_config(memif, {.use_eal_ports = true});
  ASSERT_TRUE(other);
  EXPECT_TRUE(std::holds_alternative<MemifPort>(other->port));
}

TEST(EndpointConfig, DefaultLinkMtuLeavesRoomForThePathMtuAskedFor) {
  EndpointOptions options;
  options.device = "net_null0";
  EXPECT_EQ(make_endpoint_config(options, {.path_mtu = 1024})->mtu, 1500);
  EXPECT_EQ(make_endpoint_config(options, {.path_mtu = 4096})->mtu, 4096 + kPathMtuOverhead);
  options.link_mtu = 9000;
  EXPECT_EQ(make_endpoint_config(options, {.path_mtu = 4096})->mtu, 9000);
}

TEST(EndpointConfig, MemifOptionsExcludeADevice) {
  EndpointOptions options;
  options.device = "net_null0";
  options.memif_role = "client";
  const auto config = make_endpoint_config(options, {});
  ASSERT_FALSE(config);
  EXPECT_THAT(config.error().message, HasSubstr("--device"));
}

TEST(EndpointConfig, ASeedInTheFaultsWinsOverTheOption) {
  EndpointOptions options;
  options.seed = 5;
  options.faults = "loss=1%";
  EXPECT_EQ(make_endpoint_config(options, {})->faults->seed, 5u);
  options.faults = "loss=1%,seed=6";
  EXPECT_EQ(make_endpoint_config(options, {})->faults->seed, 6u);
}

TEST(EndpointConfig, BadAddressesFaultsAndGatewaysAreNamed) {
  EndpointOptions options;
  options.ip = {"10.0.0.1"};
  EXPECT_THAT(make_endpoint_config(options, {}).error().message, HasSubstr("--ip 10.0.0.1: not"));
  options.ip = {};
  options.faults = "loss=nonsense";
  EXPECT_THAT(make_endpoint_config(options, {}).error().message, HasSubstr("--faults"));
  options.faults = "";
  options.gateway = "nowhere";
  EXPECT_THAT(make_endpoint_config(options, {}).error().message, HasSubstr("--gateway"));
}

}  // namespace
}  // namespace rockhopper::apps
