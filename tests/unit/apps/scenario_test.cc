// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/rh_sim/scenario.h"

#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "apps/common/svg.h"
#include "apps/rh_sim/svg_chart.h"

namespace rockhopper::apps::sim {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

/// A scenario that is right, with one text replaced in it.
std::string scenario(const std::string& from = "", const std::string& to = "") {
  std::string text = R"({
    "duration": "10ms",
    "hosts": [{"name": "h", "count": 3}, {"name": "sink"}],
    "switches": [{"name": "s", "queue": "1MiB", "ecn": "5KiB,200KiB,1%",
                  "pfc": {"xoff": "100KiB", "xon": 2048}}],
    "links": [{"from": "h", "to": "s", "rate": "10Gbit", "faults": "loss=1%"},
              {"from": "s", "to": "sink", "rate": "100Gbit", "delay": "2us", "queue": 4096}],
    "flows": [{"name": "in", "from": "h", "to": "sink", "operation": "send", "size": "1KiB",
               "stagger": "1us"},
              {"from": "sink", "to": "h1", "transport": "uc", "count": 5}]
  })";
  if (!from.empty()) text.replace(text.find(from), from.size(), to);
  return text;
}

TEST(Scenario, GroupsBecomeNodesLinksAndFlows) {
  const auto read = parse_scenario(scenario());
  ASSERT_TRUE(read.has_value()) << read.error().message;
  ASSERT_EQ(read->nodes.size(), 5u);
  EXPECT_EQ(read->nodes[2].name, "h2");
  EXPECT_EQ(read->nodes[3].name, "sink");
  EXPECT_FALSE(read->nodes[4].is_host);
  EXPECT_EQ(read->nodes[4].pfc->xon_bytes, 2048u);
  ASSERT_EQ(read->links.size(), 4u);
  EXPECT_EQ(read->links[1].queue_bytes, 1u << 20) << "the switch's";
  EXPECT_EQ(read->links[1].faults, "loss=1%");
  EXPECT_EQ(read->links[3].queue_bytes, 4096u) << "its own";
  EXPECT_EQ(read->links[3].ecn.kmax_bytes, 204'800u);
  EXPECT_EQ(read->links[3].delay_ns, 2000u);
  ASSERT_EQ(read->flows.size(), 4u);
  EXPECT_EQ(read->flows[2].name, "in.2");
  EXPECT_EQ(read->flows[2].start_ns, 2000u);
  EXPECT_EQ(read->flows[2].stop_ns, 10'000'000u);
  EXPECT_EQ(read->flows[2].operation, roce::WrOpcode::send);
  EXPECT_EQ(read->flows[3].name, "flow1");
  EXPECT_EQ(read->flows[3].from, 3u);
  EXPECT_EQ(read->flows[3].to, 1u);
  EXPECT_EQ(read->flows[3].transport, roce::QpType::uc);
}

TEST(Scenario, ErrorsNameTheirPlace) {
  const std::pair<std::pair<const char*, const char*>, const char*> cases[] = {
      {{"\"10ms\"", "10"}, "duration: a time as"},
      {{"\"10ms\"", "\"0s\""}, "duration: "},
      {{"\"rate\": \"10Gbit\"", "\"rate\": \"fast\""}, "links[0].rate: a rate as"},
      {{"\"rate\": \"10Gbit\", ", ""}, "links[0].rate: is missing"},
      {{"loss=1%", "loss=2"}, "links[0].faults: "},
      {{"\"to\": \"s\"", "\"to\": \"x\""}, "links[0].to: there is no node \"x\""},
      {{"5KiB,200KiB", "500KiB,200KiB"}, "switches[0].ecn: "},
      {{"\"xon\": 2048", "\"xon\": \"1MiB\""}, "switches[0].pfc.xon: "},
      {{"\"send\"", "\"sent\""}, "flows[0].operation: expected is one of: write"},
      {{"\"uc\"", "\"ud\""}, "flows[1].operation: the transport does not have it"},
      {{"\"count\": 5", "\"count\": 0"}, "flows[1].count: a whole number from 1"},
      {{"\"count\": 5", "\"counts\": 5"}, "flows[1].counts: is not known here"},
      {{"\"count\": 5", "\"congestion\": {\"algorithm\": \"swift\"}"},
       "flows[1].congestion.algorithm: the transport does not have it"},
      {{"\"count\": 5", "\"congestion\": {\"algorithm\": \"reno\"}"},
       "flows[1].congestion.algorithm: expected is one of: none, dcqcn, swift"},
      {{"\"count\": 5", "\"congestion\": {\"algorithm\": \"dcqcn\", \"dce_tcp_g\": 0}"},
       "flows[1].congestion: DCQCN"},
      {{"\"from\": \"sink\"", "\"from\": \"s\""}, "flows[1]: s is no host"},
      {{"\"from\": \"sink\"", "\"from\": \"h1\""}, "flows[1]: it goes from a host to itself"},
      {{"\"hosts\": [", "\"hosts\": [{\"name\": \"alone\"}, "}, "links: alone has 0, not one"},
      {{"\"name\": \"sink\"", "\"name\": \"h1\""}, "hosts[1].name: "},
      {{"\"hosts\": [", "\"hosts\": [7, "}, "hosts[0]: an object is expected"},
      {{"\"hosts\": [{", "\"hosts\": 3, \"x\": [{"}, "hosts: a list is expected"}};
  for (const auto& [change, expected] : cases) {
    const auto read = parse_scenario(scenario(change.first, change.second));
    ASSERT_FALSE(read.has_value()) << expected;
    EXPECT_THAT(read.error().message, StartsWith(expected));
    EXPECT_EQ(read.error().message.find('\n'), std::string::npos);
  }
  const auto torn = parse_scenario("{\"duration\": ");
  ASSERT_FALSE(torn.has_value());
  EXPECT_THAT(torn.error().message, HasSubstr("line 1"));
}

std::string tree(const std::string& members, const std::string& arrivals,
                 const std::string& flow = "") {
  return R"({"duration": "1ms", "fat_tree": {"rate": "10Gbit", )" + members +
         R"(}, "flows": [{"name": "m", "from": "h", "to": "h", )" + flow + R"("arrivals": {)" +
         arrivals + "}}]}";
}

constexpr const char* kArrivals =
    R"("load": 0.5, "sizes": [{"fraction": 0, "size": 100}, {"fraction": 1, "size": "10kB"}])";

TEST(Scenario, FatTreesHaveTheirTiers) {
  const auto read =
      parse_scenario(tree(R"("k": 4, "queue": 5000, "ecn": "5KiB,200KiB,1%")", kArrivals));
  ASSERT_TRUE(read.has_value()) << read.error().message;
  ASSERT_EQ(read->nodes.size(), 16u + 8 + 8 + 4);
  EXPECT_EQ(read->nodes[15].name, "h15");
  EXPECT_EQ(read->nodes[16].name, "edge0");
  EXPECT_EQ(read->nodes[35].name, "core3");
  ASSERT_EQ(read->links.size(), 3u * 16);
  std::vector<unsigned> ports(read->nodes.size());
  for (const LinkSpec& link : read->links) {
    ++ports[link.first];
    ++ports[link.second];
    EXPECT_EQ(link.queue_bytes, 5000u);
    EXPECT_TRUE(link.ecn.enabled());
  }
  for (std::size_t node = 0; node < ports.size(); ++node) {
    EXPECT_EQ(ports[node], node < 16 ? 1u : 4u) << read->nodes[node].name;
  }
}

TEST(Scenario, ArrivalsAreFlowsOfOneMessage) {
  const std::string text = tree(R"("k": 4)", kArrivals);
  const auto read = parse_scenario(text);
  ASSERT_TRUE(read.has_value()) << read.error().message;
  ASSERT_EQ(read->groups.size(), 1u);
  // 16 hosts of 10 Gbit/s at half load, 5050 bytes a message, a millisecond.
  EXPECT_NEAR(static_cast<double>(read->flows.size()), 80e9 / 8 / 5050 * 1e-3, 300);
  for (const FlowSpec& flow : read->flows) {
    EXPECT_EQ(flow.count, 1u);
    EXPECT_NE(flow.from, flow.to);
    EXPECT_LT(flow.start_ns, 1'000'000u);
  }
  EXPECT_EQ(parse_scenario(text)->flows[7].start_ns, read->flows[7].start_ns);
  EXPECT_NE(parse_scenario(text, 2)->flows[7].start_ns, read->flows[7].start_ns);
  EXPECT_EQ(parse_scenario(text, 2)->seed, 2u);
}

TEST(Scenario, ErrorsOfTreesAndArrivalsNameTheirPlace) {
  const std::tuple<std::string, const char*> cases[] = {
      {tree(R"("k": 5)", kArrivals), "fat_tree.k: an even number"},
      {tree(R"("k": 26)", kArrivals), "fat_tree.k: a whole number from 2 to 24"},
      {tree(R"("k": 4, "hosts": 3)", kArrivals), "fat_tree.hosts: is not known here"},
      {tree(R"("k": 4)", R"("load": 0.5)"), "flows[0].arrivals.sizes: points"},
      {tree(R"("k": 4)", R"("load": 2, "sizes": [])"), "flows[0].arrivals.load: "},
      {tree(R"("k": 4)", kArrivals, R"("size": 5, )"), "flows[0].size: is not for arrivals"},
      {tree(R"("k": 4)", kArrivals, R"("copies": 2, )"), "flows[0].copies: is not for arrivals"},
      {tree(R"("k": 4)", kArrivals, R"("operation": "faa", )"), "flows[0].arrivals: "},
      {tree(R"("k": 4)", kArrivals, R"("start": "1ms", )"), "flows[0].arrivals: none comes"}};
  for (const auto& [text, expected] : cases) {
    const auto read = parse_scenario(text);
    ASSERT_FALSE(read.has_value()) << expected;
    EXPECT_THAT(read.error().message, StartsWith(expected));
  }
}

TEST(SvgChart, StepsAreRound) {
  EXPECT_DOUBLE_EQ(round_step(100, 8), 20);
  EXPECT_DOUBLE_EQ(round_step(1.6, 8), 0.2);
  EXPECT_DOUBLE_EQ(round_step(8, 8), 1);
  EXPECT_DOUBLE_EQ(round_step(0, 8), 1);
}

TEST(SvgChart, CurvesAreInsideOfTheAxes) {
  const SvgChart chart{.title = "a < b",
                       .x_label = "x",
                       .y_label = "y",
                       .x = {0, 5, 10},
                       .lines = {{"one", {0, 50, 100}}, {"two", {}}}};
  const std::string svg = to_svg(chart);
  EXPECT_THAT(svg, HasSubstr("a &lt; b"));
  // From the lower left to the upper right corner of the plot.
  EXPECT_THAT(svg, HasSubstr("d=\"M80.0 370.0L395.0 205.0L710.0 40.0\""));
  EXPECT_EQ(svg, to_svg(chart));
}

}  // namespace
}  // namespace rockhopper::apps::sim
