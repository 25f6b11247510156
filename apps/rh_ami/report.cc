// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/rh_ami/report.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "apps/common/measuring.h"
#include "apps/common/sizes.h"

namespace rockhopper::apps::messages {
namespace {

double per_second(const Measurement& measurement) {
  return measurement.seconds > 0
             ? static_cast<double>(measurement.instructions) / measurement.seconds
             : 0;
}

}  // namespace

std::string table_header(Operation operation, bool gbits) {
  if (operation == Operation::am_lat) {
    return " #bytes #iterations  t_min[usec]  t_typical[usec]  t_avg[usec]  t_stdev[usec]  "
           "90%[usec]  99%[usec]  99.9%[usec]  t_max[usec]  #callbacks";
  }
  return fmt::format(" #bytes #iterations  BW average[{}]  MsgRate[Mpps]  #callbacks",
                     gbits ? "Gb/sec" : "MB/sec");
}

std::string table_row(const Result& result, bool gbits) {
  const Measurement& measurement = result.measurement;
  const std::string start =
      fmt::format(" {:<6} {:<11}", result.spec.size, measurement.instructions);
  if (measurement.latency) {
    const LatencySummary& l = *measurement.latency;
    return start + fmt::format(
                       "  {:<11.2f}  {:<15.2f}  {:<11.2f}  {:<13.2f}  {:<9.2f}  {:<9.2f}  "
                       "{:<11.2f}  {:<11.2f}  {}",
                       l.min_ns * 1e-3, l.p50_ns * 1e-3, l.average_ns * 1e-3,
                       l.standard_deviation_ns * 1e-3, l.p90_ns * 1e-3, l.p99_ns * 1e-3,
                       l.p999_ns * 1e-3, l.max_ns * 1e-3, measurement.callbacks);
  }
  const double rate = per_second(measurement);
  const double bandwidth = rate * result.spec.size * (gbits ? 8e-9 : 1 / kBytesPerMib);
  return start +
         fmt::format("  {:<18.2f}  {:<13.6f}  {}", bandwidth, rate * 1e-6, measurement.callbacks);
}

nlohmann::json result_json(const Result& result, bool checked) {
  const Measurement& measurement = result.measurement;
  const double rate = per_second(measurement);
  nlohmann::json json{{"op", name_of(result.spec.operation)},
                      {"size", result.spec.size},
                      {"iterations", measurement.instructions},
                      {"seconds", measurement.seconds},
                      {"mops", rate * 1e-6},
                      {"gbit_per_s", rate * result.spec.size * 8e-9},
                      {"callbacks", measurement.callbacks},
                      {"checked", checked}};
  if (checked) json["seen_in_callbacks"] = measurement.seen;
  if (measurement.latency) json["latency_us"] = latency_json(*measurement.latency);
  return json;
}

}  // namespace rockhopper::apps::messages
