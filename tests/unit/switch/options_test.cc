// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/rh_switch/options.h"

#include <filesystem>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace rockhopper::apps::ethernet_switch {
namespace {

SwitchOptions two_ports() {
  SwitchOptions options;
  options.ports = {"net_null0", "net_null1"};
  options.seed = 7;
  return options;
}

TEST(SwitchOptions, FaultsAreForOnePortOrForAllAndTheLastCounts) {
  SwitchOptions options = two_ports();
  options.faults = {"loss=1%,reorder=5%:2ms", "1:dup=2%:3ms,seed=99"};
  const auto settings = make_settings(options);
  ASSERT_TRUE(settings.has_value()) << settings.error().message;
  const auto& faults = settings->ports;
  ASSERT_TRUE(faults[0].faults && faults[1].faults);
  EXPECT_DOUBLE_EQ(faults[0].faults->rx.loss, 0.01);
  EXPECT_EQ(faults[0].faults->tx.reorder_max_ns, 2'000'000u);
  EXPECT_EQ(faults[0].faults->seed, 7u);
  EXPECT_DOUBLE_EQ(faults[1].faults->rx.loss, 0);
  EXPECT_DOUBLE_EQ(faults[1].faults->rx.duplicate, 0.02);
  EXPECT_EQ(faults[1].faults->seed, 99u);
}

TEST(SwitchOptions, PortsWithoutSeedsOfTheirOwnHaveDifferentOnes) {
  SwitchOptions options = two_ports();
  options.faults = {"loss=1%"};
  const auto settings = make_settings(options);
  ASSERT_TRUE(settings.has_value());
  EXPECT_NE(settings->ports[0].faults->seed, settings->ports[1].faults->seed);
}

TEST(SwitchOptions, RefusesWhatCannotBe) {
  for (const char* faults : {"2:loss=1%", "0:loss=200%", "nonsense", "99999999999999999999:"}) {
    SwitchOptions options = two_ports();
    options.faults = {faults};
    const auto settings = make_settings(options);
    ASSERT_FALSE(settings.has_value()) << faults;
    EXPECT_EQ(settings.error().code, ErrorCode::invalid_argument);
    EXPECT_NE(settings.error().message.find("--faults"), std::string::npos);
  }
  SwitchOptions one;
  one.ports = {"net_null0"};
  EXPECT_FALSE(make_settings(one).has_value());
  SwitchOptions directory = two_ports();
  directory.socket_directory = std::filesystem::temp_directory_path();
  EXPECT_FALSE(make_settings(directory).has_value()) << "--socket-dir without --memif";
  directory.memif_ports = 1;
  directory.socket_directory += "/no/such/directory";
  EXPECT_FALSE(make_settings(directory).has_value());
}

TEST(SwitchOptions, OutputsAreForOnePortOrForAllAndTheLastCounts) {
  SwitchOptions options = two_ports();
  options.rates = {"1Gbit", "1:2.5Gbit"};
  options.queue_bytes = {"0:64KiB"};
  options.ecn = {"5KiB,200KiB,1%", "0:1KiB,1KiB,1"};
  options.queue_packets = 77;
  const auto settings = make_settings(options);
  ASSERT_TRUE(settings.has_value()) << settings.error().message;
  const auto& first = settings->ports[0].output;
  const auto& second = settings->ports[1].output;
  EXPECT_EQ(first.rate_bits_per_s, 1'000'000'000u);
  EXPECT_EQ(second.rate_bits_per_s, 2'500'000'000u);
  EXPECT_EQ(first.queue_bytes, 65'536u);
  EXPECT_GT(second.queue_bytes, 1'000'000u);
  EXPECT_EQ(first.ecn.kmax_bytes, 1024u);
  EXPECT_EQ(second.ecn.kmax_bytes, 204'800u);
  EXPECT_EQ(first.queue_packets, 77u);
  EXPECT_NE(first.seed, second.seed);
  for (auto member : {&SwitchOptions::rates, &SwitchOptions::queue_bytes, &SwitchOptions::ecn}) {
    for (const char* text : {"", "2:1Gbit", "0:", "fast", "100"}) {
      SwitchOptions bad = two_ports();
      bad.*member = {text};
      EXPECT_FALSE(make_settings(bad).has_value()) << text;
    }
  }
}

TEST(SwitchOptions, MemifPortsFollowTheOthers) {
  SwitchOptions options = two_ports();
  options.memif_ports = 2;
  options.socket_directory = std::filesystem::temp_directory_path();
  const auto settings = make_settings(options);
  ASSERT_TRUE(settings.has_value()) << settings.error().message;
  ASSERT_EQ(settings->ports.size(), 4u);
  EXPECT_EQ(settings->ports[1].device, "net_null1");
  EXPECT_EQ(settings->ports[3].device, "");
  EXPECT_EQ(settings->ports[3].memif_socket, options.socket_directory + "/switch3.sock");
  EXPECT_EQ(settings->mtu, 1500) << "not all ports are memif";
}

TEST(SwitchOptions, EachPortHasACaptureOfItsOwn) {
  EXPECT_EQ(capture_file("run.pcapng", 2), "run.2.pcapng");
  EXPECT_EQ(capture_file("a.b/run", 0), "a.b/run.0");
  EXPECT_EQ(capture_file("dir/x.y.pcapng", 11), "dir/x.y.11.pcapng");
}

}  // namespace
}  // namespace rockhopper::apps::ethernet_switch
