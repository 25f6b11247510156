// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/rh_sim/plots.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <system_error>

#include <fmt/format.h>

#include "apps/rh_sim/svg_chart.h"

namespace rockhopper::apps::sim {
namespace {

constexpr std::size_t kQueuesMax = 12;  // the longest ones are drawn

double most(const Curve& curve) {
  return curve.values.empty() ? 0 : *std::max_element(curve.values.begin(), curve.values.end());
}

Expected<void> write_file(const std::string& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary);
  file << text << std::flush;
  if (!file) return fail(ErrorCode::io, "{} cannot be written", path);
  return {};
}

std::string to_csv(const std::vector<double>& times, const std::vector<Curve>& curves) {
  std::string out = "seconds";
  for (const Curve& curve : curves) {
    out += "," + curve.name;
  }
  out += "\n";
  for (std::size_t i = 0; i < times.size(); ++i) {
    fmt::format_to(std::back_inserter(out), "{:.9f}", times[i]);
    for (const Curve& curve : curves) {
      fmt::format_to(std::back_inserter(out), ",{:g}", curve.values[i]);
    }
    out += "\n";
  }
  return out;
}

SvgChart chart_of(const Simulation& simulation, const std::vector<Curve>& curves, double scale,
                  const char* title, const char* y_label) {
  const std::string& name = simulation.scenario().name;
  SvgChart chart{.title = name.empty() ? title : fmt::format("{}: {}", name, title),
                 .x_label = "milliseconds",
                 .y_label = y_label,
                 .x = simulation.sample_times(),
                 .lines = {}};
  for (double& x : chart.x) {
    x *= 1e3;
  }
  for (const Curve& curve : curves) {
    chart.lines.push_back({curve.name, curve.values});
    for (double& value : chart.lines.back().values) {
      value *= scale;
    }
  }
  return chart;
}

}  // namespace

Expected<void> write_plots(const Simulation& simulation, const std::string& prefix) {
  const auto folder = std::filesystem::path(prefix).parent_path();
  std::error_code error;
  if (!folder.empty()) std::filesystem::create_directories(folder, error);
  if (error) return fail(ErrorCode::io, "{} cannot be made: {}", folder.string(), error.message());

  std::vector<Curve> queues = simulation.queues();
  std::stable_sort(queues.begin(), queues.end(),
                   [](const Curve& a, const Curve& b) { return most(a) > most(b); });
  queues.resize(std::min(queues.size(), kQueuesMax));
  const auto& times = simulation.sample_times();
  ROCKHOPPER_TRY(write_file(prefix + "-rates.csv", to_csv(times, simulation.rates())));
  ROCKHOPPER_TRY(write_file(prefix + "-queues.csv", to_csv(times, simulation.queues())));
  ROCKHOPPER_TRY(write_file(
      prefix + "-rates.svg",
      to_svg(chart_of(simulation, simulation.rates(), 1, "rate of each flow", "Gbit/s"))));
  return write_file(prefix + "-queues.svg", to_svg(chart_of(simulation, queues, 1.0 / 1024,
                                                            "queues of switch ports", "KiB")));
}

}  // namespace rockhopper::apps::sim
