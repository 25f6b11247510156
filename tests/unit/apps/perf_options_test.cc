// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include <string>
#include <tuple>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "apps/rh_perf/options.h"
#include "dc/dci.h"
#include "tests/support/options.h"

namespace rockhopper::apps::perf {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Arguments = std::vector<std::string>;

Expected<Options> read(const Arguments& arguments) {
  return options_of<Options>(add_options, arguments);
}

/// What is bad about the arguments; empty: nothing.
std::string problem(const Arguments& arguments) {
  const auto options = read(arguments);
  return options ? "" : options.error().message;
}

TEST(PerfOptions, ListsOfOperationsAndSizes) {
  const auto options = read({"--op", "read,faa", "-s", "1,2k"});
  ASSERT_TRUE(options);
  EXPECT_THAT(options->operations, ElementsAre(Operation::read, Operation::faa));
  EXPECT_THAT(options->sizes, ElementsAre(1u, 2048u));
  EXPECT_THAT(problem({"--op", "read,fly"}),
              HasSubstr("--op fly: there are send, write, read, cas, faa, lock and all"));
  EXPECT_EQ(read({"--op", "all"})->operations.size(), 5u);
}

TEST(PerfOptions, TheSweepGoesFrom2BytesTo8Mib) {
  const auto options = read({"--all"});
  ASSERT_TRUE(options);
  EXPECT_EQ(options->sizes.front(), 2u);
  EXPECT_EQ(options->sizes.back(), 8u << 20);
  EXPECT_EQ(options->sizes.size(), 23u);
}

TEST(PerfOptions, LatencyNeedsSomethingThatArrivesOnOneQueuePair) {
  const auto latency = [](Arguments arguments) {
    arguments.insert(arguments.end(), {"--mode", "lat", "--op", "write"});
    return read(arguments).has_value();
  };
  EXPECT_FALSE(latency({"-s", "0"}));
  EXPECT_TRUE(latency({"-s", "1"}));
  EXPECT_FALSE(latency({"-s", "1", "-q", "2"}));
  EXPECT_FALSE(latency({"-s", "1", "-b"}));
}

TEST(PerfPlan, AtomicsRunOnceWith8Bytes) {
  Options options;
  options.operations = {Operation::write, Operation::cas};
  options.sizes = {1, 2};
  const auto runs = plan(options);
  ASSERT_EQ(runs.size(), 3u);
  EXPECT_EQ(runs[1].size, 2u);
  EXPECT_EQ(runs[2].operation, Operation::cas);
  EXPECT_EQ(runs[2].size, 8u);
}

TEST(PerfPlan, DefaultsArePerftests) {
  Options options;
  options.operations = {Operation::send, Operation::read};
  auto runs = plan(options);
  EXPECT_EQ(runs[0].size, 65536u);
  EXPECT_EQ(runs[0].iterations, 5000u);
  EXPECT_EQ(runs[1].iterations, 1000u);
  options.kind = RunKind::latency;
  runs = plan(options);
  EXPECT_EQ(runs[0].size, 2u);
  EXPECT_EQ(runs[0].iterations, 1000u);
}

TEST(PerfOptions, TheConnectionManagerIsForPerftestOverRockhopper) {
  EXPECT_THAT(problem({"-R"}), HasSubstr("--peer perftest"));
  const auto with_peer = [](Arguments arguments) {
    arguments.insert(arguments.end(), {"-R", "--peer", "perftest"});
    return problem(arguments);
  };
  EXPECT_EQ(with_peer({}), "");
  EXPECT_THAT(with_peer({"localhost"}), HasSubstr("RoCE address"));
  EXPECT_EQ(with_peer({"fd42::1"}), "");
  EXPECT_THAT(with_peer({"fd42::1", "-p", "0"}), HasSubstr("--port 0"));
  EXPECT_THAT(with_peer({"fd42::1", "--backend", "verbs"}), HasSubstr("--backend rockhopper"));
}

TEST(PerfOptions, LocksHaveAWindowOf1UnlessAskedFor) {
  EXPECT_EQ(read({})->window, 128u);
  EXPECT_EQ(read({})->lock_mode, LockMode::none);
  EXPECT_EQ(read({"--op", "lock"})->window, 1u);
  EXPECT_EQ(read({"--op", "lock"})->lock_mode, LockMode::target);
  EXPECT_EQ(read({"--op", "lock", "-t", "5"})->window, 5u);
  EXPECT_EQ(problem({"--op", "lock", "-t", "5", "--transport", "dc"}), "");
}

TEST(PerfOptions, LocksAreRefusedWhatTheyDoNotHave) {
  for (const auto& [arguments, why] : std::vector<std::pair<Arguments, const char*>>{
           {{"--op", "lock,write"}, "other operations"},
           {{"--op", "lock", "--backend", "verbs"}, "--backend verbs"},
           {{"--op", "lock", "--peer", "perftest"}, "--peer perftest"},
           {{"--op", "lock", "--lock-mode", "cas", "--transport", "dc"}, "--transport dc"},
           {{"--op", "lock", "--lock-mode", "cas", "-t", "2"}, "--window"},
           {{"--op", "write", "--lock-mode", "target"}, "--op lock"}}) {
    EXPECT_THAT(problem(arguments), HasSubstr(why));
  }
}

TEST(PerfOptions, DcIsRefusedWhatItDoesNotHave) {
  const Arguments initiator{"--streams", "4", "--handshake", "full"};
  const auto with_dc = [&](Arguments arguments) {
    arguments.insert(arguments.end(), initiator.begin(), initiator.end());
    arguments.insert(arguments.end(), {"--transport", "dc"});
    return arguments;
  };
  const auto options = read(with_dc({}));
  ASSERT_TRUE(options);
  EXPECT_EQ(options->transport, Transport::dc);
  for (const auto& [name, handshake, with_data] :
       {std::tuple{"auto", dc::Handshake::automatic, true},
        std::tuple{"data", dc::Handshake::half, true},
        std::tuple{"half", dc::Handshake::half, false},
        std::tuple{"full", dc::Handshake::full, true}}) {
    dc::DciInit init;
    InitiatorOptions{.streams = 4, .handshake = name}.apply(init);
    EXPECT_EQ(init.streams, 4);
    EXPECT_EQ(init.handshake, handshake) << name;
    EXPECT_EQ(init.connect_with_data, with_data) << name;
  }
  EXPECT_THAT(problem(with_dc({"--backend", "verbs"})), HasSubstr("--backend verbs"));
  EXPECT_THAT(problem(with_dc({"--peer", "perftest"})), HasSubstr("--peer perftest"));
  EXPECT_THAT(problem(with_dc({"--recovery", "selective"})), HasSubstr("--recovery selective"));
  EXPECT_THAT(problem(with_dc({"--adaptive-timeout"})), HasSubstr("--adaptive-timeout"));
  EXPECT_THAT(problem(initiator), HasSubstr("--streams"));
}

}  // namespace
}  // namespace rockhopper::apps::perf
