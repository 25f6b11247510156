// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/rh_switch/options.h"

#include <filesystem>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/support/options.h"

namespace rockhopper::apps::ethernet_switch {
namespace {

using Arguments = std::vector<std::string>;

Expected<Options> read(const Arguments& arguments) {
  return options_of<Options>(add_options, arguments);
}

Expected<Options> with_two_ports(Arguments arguments) {
  arguments.insert(arguments.end(), {"--port", "net_null0", "--port", "net_null1", "--seed", "7"});
  return read(arguments);
}

TEST(SwitchOptions, FaultsAreForOnePortOrForAllAndTheLastCounts) {
  const auto options =
      with_two_ports({"--faults", "loss=1%,reorder=5%:2ms", "--faults", "1:dup=2%:3ms,seed=99"});
  ASSERT_TRUE(options.has_value()) << options.error().message;
  const auto& faults = options->ports;
  ASSERT_TRUE(faults[0].faults && faults[1].faults);
  EXPECT_DOUBLE_EQ(faults[0].faults->rx.loss, 0.01);
  EXPECT_EQ(faults[0].faults->tx.reorder_max_ns, 2'000'000u);
  EXPECT_EQ(faults[0].faults->seed, 7u);
  EXPECT_DOUBLE_EQ(faults[1].faults->rx.loss, 0);
  EXPECT_DOUBLE_EQ(faults[1].faults->rx.duplicate, 0.02);
  EXPECT_EQ(faults[1].faults->seed, 99u);
}

TEST(SwitchOptions, PortsWithoutSeedsOfTheirOwnHaveDifferentOnes) {
  const auto options = with_two_ports({"--faults", "loss=1%"});
  ASSERT_TRUE(options.has_value());
  EXPECT_NE(options->ports[0].faults->seed, options->ports[1].faults->seed);
}

TEST(SwitchOptions, RefusesWhatCannotBe) {
  for (const char* faults : {"2:loss=1%", "0:loss=200%", "nonsense", "99999999999999999999:"}) {
    const auto options = with_two_ports({"--faults", faults});
    ASSERT_FALSE(options.has_value()) << faults;
    EXPECT_EQ(options.error().code, ErrorCode::invalid_argument);
    EXPECT_NE(options.error().message.find("--faults"), std::string::npos);
  }
  EXPECT_FALSE(read({"--port", "net_null0"}).has_value());
  const std::string directory = std::filesystem::temp_directory_path();
  EXPECT_FALSE(with_two_ports({"--socket-dir", directory}).has_value()) << "without --memif";
  EXPECT_FALSE(with_two_ports({"--memif", "1", "--socket-dir", directory + "/no/such/directory"})
                   .has_value());
}

TEST(SwitchOptions, OutputsAreForOnePortOrForAllAndTheLastCounts) {
  const auto options =
      with_two_ports({"--rate", "1Gbit", "--rate", "1:2.5Gbit", "--queue-bytes", "0:64KiB", "--ecn",
                      "5KiB,200KiB,1%", "--ecn", "0:1KiB,1KiB,1", "--queue", "77"});
  ASSERT_TRUE(options.has_value()) << options.error().message;
  const auto& first = options->ports[0].output;
  const auto& second = options->ports[1].output;
  EXPECT_EQ(first.rate_bits_per_s, 1'000'000'000u);
  EXPECT_EQ(second.rate_bits_per_s, 2'500'000'000u);
  EXPECT_EQ(first.queue_bytes, 65'536u);
  EXPECT_GT(second.queue_bytes, 1'000'000u);
  EXPECT_EQ(first.ecn.kmax_bytes, 1024u);
  EXPECT_EQ(second.ecn.kmax_bytes, 204'800u);
  EXPECT_EQ(first.queue_packets, 77u);
  EXPECT_NE(first.seed, second.seed);
  for (const char* option : {"--rate", "--queue-bytes", "--ecn"}) {
    for (const char* text : {"", "2:1Gbit", "0:", "fast", "100"}) {
      EXPECT_FALSE(with_two_ports({option, text}).has_value()) << option << ' ' << text;
    }
  }
}

TEST(SwitchOptions, MemifPortsFollowTheOthers) {
  const std::string directory = std::filesystem::temp_directory_path();
  const auto options = with_two_ports({"--memif", "2", "--socket-dir", directory});
  ASSERT_TRUE(options.has_value()) << options.error().message;
  ASSERT_EQ(options->ports.size(), 4u);
  EXPECT_EQ(options->ports[1].device, "net_null1");
  EXPECT_EQ(options->ports[3].device, "");
  EXPECT_EQ(options->ports[3].memif_socket, directory + "/switch3.sock");
  EXPECT_EQ(options->mtu, 1500) << "not all ports are memif";
}

TEST(SwitchOptions, EachPortHasACaptureOfItsOwn) {
  EXPECT_EQ(capture_file("run.pcapng", 2), "run.2.pcapng");
  EXPECT_EQ(capture_file("a.b/run", 0), "a.b/run.0");
  EXPECT_EQ(capture_file("dir/x.y.pcapng", 11), "dir/x.y.11.pcapng");
}

TEST(SwitchOptions, ASegmentIsAPortBehindTheOthers) {
  const std::string directory = std::filesystem::temp_directory_path();
  const auto options = read({"--segment", "10.0.0.5/24,fd00::5/64", "--segment",
                             "10.0.0.6/24@" + directory, "--port", "net_null0", "--memif", "1"});
  ASSERT_TRUE(options.has_value()) << options.error().message;
  ASSERT_EQ(options->ports.size(), 4u);
  EXPECT_FALSE(options->ports[0].segment || options->ports[1].segment);
  const auto& first = options->ports[2].segment;
  const auto& second = options->ports[3].segment;
  ASSERT_TRUE(first && second);
  EXPECT_EQ(first->addresses.size(), 2u);
  EXPECT_EQ(first->addresses[1].prefix_length, 64);
  EXPECT_EQ(first->directory, "");
  EXPECT_EQ(second->directory, directory);
}

TEST(SwitchOptions, RefusesSegmentsThatCannotBe) {
  for (const char* segment : {"", "10.0.0.5", "10.0.0.5/24,", "239.0.0.1/24", "127.0.0.1/8",
                              "10.0.0.5/24@/no/such/directory", "10.0.0.5/24,10.0.0.5/24"}) {
    EXPECT_FALSE(with_two_ports({"--segment", segment}).has_value()) << segment;
  }
  EXPECT_FALSE(with_two_ports({"--segment", "10.0.0.5/24", "--segment", "10.0.0.6/24"}).has_value())
      << "one segment twice";
  EXPECT_FALSE(read({"--segment", "10.0.0.5/24"}).has_value()) << "a port alone";
}

}  // namespace
}  // namespace rockhopper::apps::ethernet_switch
