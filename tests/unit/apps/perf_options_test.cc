// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include <tuple>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "apps/rh_perf/options.h"
#include "dc/dci.h"

namespace rockhopper::apps::perf {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(PerfOptions, ListsOfOperationsAndSizes) {
  RawOptions raw;
  raw.operations = "read,faa";
  raw.sizes = "1,2k";
  const auto options = finish_options(raw);
  ASSERT_TRUE(options);
  EXPECT_THAT(options->operations, ElementsAre(Operation::read, Operation::faa));
  EXPECT_THAT(options->sizes, ElementsAre(1u, 2048u));
  raw.operations = "read,fly";
  EXPECT_THAT(finish_options(raw).error().message, HasSubstr("fly"));
  raw.operations = "all";
  EXPECT_EQ(finish_options(raw)->operations.size(), 5u);
}

TEST(PerfOptions, TheSweepGoesFrom2BytesTo8Mib) {
  RawOptions raw;
  raw.all_sizes = true;
  const auto options = finish_options(raw);
  ASSERT_TRUE(options);
  EXPECT_EQ(options->sizes.front(), 2u);
  EXPECT_EQ(options->sizes.back(), 8u << 20);
  EXPECT_EQ(options->sizes.size(), 23u);
}

TEST(PerfOptions, LatencyNeedsSomethingThatArrivesOnOneQueuePair) {
  RawOptions raw;
  raw.mode = "lat";
  raw.operations = "write";
  raw.sizes = "0";
  EXPECT_FALSE(finish_options(raw));
  raw.sizes = "1";
  EXPECT_TRUE(finish_options(raw));
  raw.options.qps = 2;
  EXPECT_FALSE(finish_options(raw));
  raw.options.qps = 1;
  raw.options.bidirectional = true;
  EXPECT_FALSE(finish_options(raw));
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
  RawOptions raw;
  raw.options.rdma_cm = true;
  EXPECT_THAT(finish_options(raw).error().message, HasSubstr("--peer perftest"));
  raw.peer = "perftest";
  EXPECT_TRUE(finish_options(raw));
  raw.options.host = "localhost";
  EXPECT_THAT(finish_options(raw).error().message, HasSubstr("RoCE address"));
  raw.options.host = "fd42::1";
  EXPECT_TRUE(finish_options(raw));
  raw.options.port = 0;
  EXPECT_FALSE(finish_options(raw));
  raw.options.port = 18515;
  raw.backend = "verbs";
  EXPECT_FALSE(finish_options(raw));
}

TEST(PerfOptions, LocksHaveAWindowOf1UnlessAskedFor) {
  RawOptions raw;
  EXPECT_EQ(finish_options(raw)->window, 128u);
  EXPECT_EQ(finish_options(raw)->lock_mode, LockMode::none);
  raw.operations = "lock";
  EXPECT_EQ(finish_options(raw)->window, 1u);
  EXPECT_EQ(finish_options(raw)->lock_mode, LockMode::target);
  raw.window = 5;
  EXPECT_EQ(finish_options(raw)->window, 5u);
  raw.transport = "dc";
  EXPECT_TRUE(finish_options(raw));
}

TEST(PerfOptions, LocksAreRefusedWhatTheyDoNotHave) {
  const auto refused = [](const auto& change, const char* why) {
    RawOptions raw;
    raw.operations = "lock";
    change(raw);
    const auto result = finish_options(raw);
    ASSERT_FALSE(result) << why;
    EXPECT_THAT(result.error().message, HasSubstr(why));
  };
  refused([](RawOptions& r) { r.operations = "lock,write"; }, "other operations");
  refused([](RawOptions& r) { r.backend = "verbs"; }, "--backend verbs");
  refused([](RawOptions& r) { r.peer = "perftest"; }, "--peer perftest");
  refused(
      [](RawOptions& r) {
        r.lock_mode = "cas";
        r.transport = "dc";
      },
      "--transport dc");
  refused(
      [](RawOptions& r) {
        r.lock_mode = "cas";
        r.window = 2;
      },
      "--window");
  refused(
      [](RawOptions& r) {
        r.operations = "write";
        r.lock_mode = "target";
      },
      "--op lock");
}

TEST(PerfOptions, DcIsRefusedWhatItDoesNotHave) {
  RawOptions raw;
  raw.transport = "dc";
  raw.options.initiator = {.streams = 4, .handshake = "full"};
  const auto options = finish_options(raw);
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
  const auto refused = [&raw](const auto& change, const char* why) {
    RawOptions changed = raw;
    change(changed);
    const auto result = finish_options(changed);
    ASSERT_FALSE(result) << why;
    EXPECT_THAT(result.error().message, HasSubstr(why));
  };
  refused([](RawOptions& r) { r.backend = "verbs"; }, "--backend verbs");
  refused([](RawOptions& r) { r.peer = "perftest"; }, "--peer perftest");
  refused([](RawOptions& r) { r.recovery = "selective"; }, "--recovery selective");
  refused([](RawOptions& r) { r.options.adaptive_timeout = true; }, "--adaptive-timeout");
  refused([](RawOptions& r) { r.transport = "rc"; }, "--streams");
}

}  // namespace
}  // namespace rockhopper::apps::perf
