// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "apps/rh_perf/report.h"

namespace rockhopper::apps::perf {
namespace {

Result make_result() {
  Result result;
  result.spec.operation = Operation::write;
  result.spec.size = 1 << 20;
  result.measurement.operations = 1000;
  result.measurement.seconds = 0.5;
  result.measurement.peak_operations_per_s = 4000;
  result.validated = true;
  return result;
}

TEST(PerfReport, RatesAreThoseOfTheMeasurement) {
  const auto json = result_json(make_result());
  EXPECT_EQ(json["op"], "write");
  EXPECT_EQ(json["mode"], "bw");
  EXPECT_EQ(json["size"], 1 << 20);
  EXPECT_EQ(json["iterations"], 1000);
  EXPECT_DOUBLE_EQ(json["mops"], 0.002);
  EXPECT_DOUBLE_EQ(json["gbit_per_s"], 2000 * 8.0 * (1 << 20) / 1e9);
  EXPECT_DOUBLE_EQ(json["peak_gbit_per_s"], 4000 * 8.0 * (1 << 20) / 1e9);
  EXPECT_EQ(json["validated"], true);
  EXPECT_FALSE(json.contains("latency_us"));
}

TEST(PerfReport, LatencyIsInMicroseconds) {
  Result result = make_result();
  result.spec.kind = RunKind::latency;
  result.measurement.latency = LatencySummary{1000, 1000, 9000, 3000, 500, 2000, 4000, 5000, 6000};
  const auto json = result_json(result)["latency_us"];
  EXPECT_DOUBLE_EQ(json["min"], 1);
  EXPECT_DOUBLE_EQ(json["max"], 9);
  EXPECT_DOUBLE_EQ(json["avg"], 3);
  EXPECT_DOUBLE_EQ(json["stdev"], 0.5);
  EXPECT_DOUBLE_EQ(json["p50"], 2);
  EXPECT_DOUBLE_EQ(json["p90"], 4);
  EXPECT_DOUBLE_EQ(json["p99"], 5);
  EXPECT_DOUBLE_EQ(json["p99.9"], 6);
}

TEST(PerfReport, TablesCountMebibytesOrGigabits) {
  const Result result = make_result();
  EXPECT_NE(table_row(result, false).find(" 4000.00 "), std::string::npos);
  EXPECT_NE(table_row(result, false).find(" 2000.00"), std::string::npos);
  EXPECT_NE(table_row(result, true).find(" 16.78"), std::string::npos);
  EXPECT_NE(table_header(RunKind::bandwidth, true).find("BW average[Gb/sec]"), std::string::npos);
}

}  // namespace
}  // namespace rockhopper::apps::perf
