// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/common/endpoint_options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace rockhopper::apps {
namespace {

using ::testing::HasSubstr;

TEST(InterfaceAddress, IsAnAddressWithPrefixLength) {
  const auto ipv4 = parse_interface_address("10.1.2.3/8");
  ASSERT_TRUE(ipv4);
  EXPECT_EQ(ipv4->address.to_string(), "10.1.2.3");
  EXPECT_EQ(ipv4->prefix_length, 8);
  const auto ipv6 = parse_interface_address("fd00::9/64");
  ASSERT_TRUE(ipv6);
  EXPECT_EQ(ipv6->address.to_string(), "fd00::9");
  EXPECT_EQ(ipv6->prefix_length, 64);
}

TEST(InterfaceAddress, RefusesAllElse) {
  for (const char* text :
       {"", "10.0.0.1", "10.0.0.1/", "10.0.0.1/33", "10.0.0.1/-1", "10.0.0.1/8x", "fd00::1/129",
        "10.0.0/8", "host/24", "0.0.0.0/0", "224.0.0.1/4", "ff02::1/64", "/24"}) {
    EXPECT_FALSE(parse_interface_address(text)) << text;
  }
}

TEST(EndpointConfig, TwoTerminalsWorkWithoutOptions) {
  const auto server = make_endpoint_config({}, {.role = Role::server});
  const auto client = make_endpoint_config({}, {.role = Role::client});
  ASSERT_TRUE(server && client);
  ASSERT_TRUE(server->memif && client->memif);
  EXPECT_EQ(server->memif->role, stack::MemifRole::server);
  EXPECT_EQ(client->memif->role, stack::MemifRole::client);
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
  EXPECT_EQ(config->device, "0");
  EXPECT_FALSE(config->memif);
  EndpointOptions memif;
  memif.memif_socket = "/s";
  const auto other = make_endpoint_config(memif, {.use_eal_ports = true});
  ASSERT_TRUE(other);
  EXPECT_TRUE(other->memif);
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

TEST(EndpointConfig, BadFaultsAndGatewaysAreNamed) {
  EndpointOptions options;
  options.faults = "loss=nonsense";
  EXPECT_THAT(make_endpoint_config(options, {}).error().message, HasSubstr("--faults"));
  options.faults = "";
  options.gateway = "nowhere";
  EXPECT_THAT(make_endpoint_config(options, {}).error().message, HasSubstr("--gateway"));
}

}  // namespace
}  // namespace rockhopper::apps
