// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/rh_perf/report.h"

#include <fmt/printf.h>
#include <nlohmann/json.hpp>

#include "apps/common/measuring.h"
#include "apps/common/sizes.h"

namespace rockhopper::apps::perf {

void add(Measurement& measurement, const Measurement& other) {
  // The sum of both rates, over the time that the sum of both counts takes at it.
  const double rate = operations_per_s(measurement) + operations_per_s(other);
  measurement.operations += other.operations;
  measurement.seconds = static_cast<double>(measurement.operations) / rate;
  measurement.peak_operations_per_s += other.peak_operations_per_s;
  measurement.packets_per_operation = 0;  // whose packets they are nobody knows
}

double operations_per_s(const Measurement& measurement) {
  return measurement.seconds > 0 ? static_cast<double>(measurement.operations) / measurement.seconds
                                 : 0;
}

double gbit_per_s(const RunSpec& spec, double operations_per_s) {
  return operations_per_s * spec.size * 8e-9;
}

std::string table_header(RunKind kind, bool gbits) {
  if (kind == RunKind::latency) {
    return " #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]    "
           "t_stdev[usec]   99% percentile[usec]   99.9% percentile[usec] ";
  }
  return gbits ? " #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]"
               : " #bytes     #iterations    BW peak[MB/sec]    BW average[MB/sec]   MsgRate[Mpps]";
}

std::string table_row(const Result& result, bool gbits) {
  const RunSpec& spec = result.spec;
  const Measurement& measurement = result.measurement;
  if (measurement.latency) {
    const LatencySummary& l = *measurement.latency;
    return fmt::sprintf(
        " %-7u %-10u       %-7.2f        %-7.2f      %-7.2f  \t       %-7.2f     \t%-7.2f\t\t"
        "%-7.2f \t\t%-7.2f",
        spec.size, measurement.operations, l.min_ns * 1e-3, l.max_ns * 1e-3, l.p50_ns * 1e-3,
        l.average_ns * 1e-3, l.standard_deviation_ns * 1e-3, l.p99_ns * 1e-3, l.p999_ns * 1e-3);
  }
  const double rate = operations_per_s(measurement);
  const auto scale = [&](double per_s) {
    return gbits ? gbit_per_s(spec, per_s) : per_s * spec.size / kBytesPerMib;
  };
  return fmt::sprintf(" %-7u    %-10u       %-7.2f            %-7.2f\t\t   %-7.6f", spec.size,
                      measurement.operations, scale(measurement.peak_operations_per_s), scale(rate),
                      rate * 1e-6);
}

nlohmann::json result_json(const Result& result) {
  const Measurement& measurement = result.measurement;
  const double rate = operations_per_s(measurement);
  nlohmann::json json{
      {"op", name_of(result.spec.operation)},
      {"mode", result.spec.kind == RunKind::latency ? "lat" : "bw"},
      {"size", result.spec.size},
      {"iterations", measurement.operations},
      {"seconds", measurement.seconds},
      {"gbit_per_s", gbit_per_s(result.spec, rate)},
      {"mops", rate * 1e-6},
      {"validated", result.validated},
  };
  if (measurement.packets_per_operation > 0) {
    json["packets_per_operation"] = measurement.packets_per_operation;
  }
  if (!result.locks.empty()) json["locks"] = result.locks;
  if (measurement.latency) {
    json["latency_us"] = latency_json(*measurement.latency);
  } else {
    json["peak_gbit_per_s"] = gbit_per_s(result.spec, measurement.peak_operations_per_s);
  }
  return json;
}

}  // namespace rockhopper::apps::perf
