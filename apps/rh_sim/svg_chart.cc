// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/rh_sim/svg_chart.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>

#include <fmt/format.h>

#include "apps/common/svg.h"

namespace rockhopper::apps::sim {
namespace {

constexpr double kWidth = 900;
constexpr double kHeight = 420;
constexpr double kLeft = 80;
constexpr double kTop = 40;
constexpr double kRight = 190;
constexpr double kBottom = 50;
constexpr double kPlotWidth = kWidth - kLeft - kRight;
constexpr double kPlotHeight = kHeight - kTop - kBottom;
constexpr std::size_t kLegendMax = 12;

constexpr std::array kColours = {"#1f77b4", "#d62728", "#2ca02c", "#ff7f0e", "#9467bd", "#8c564b",
                                 "#e377c2", "#17becf", "#7f7f7f", "#bcbd22", "#003f5c", "#a05195"};

/// Numbers from 0 to the largest value, and where they are on an axis of `length` pixels.
struct Axis {
  explicit Axis(const std::vector<double>& values, double pixels) : length(pixels) {
    const double most =
        values.empty() ? 0 : std::max(0.0, *std::max_element(values.begin(), values.end()));
    step = round_step(most, 8);
    end = std::max(std::ceil(most / step), 1.0) * step;
  }
  [[nodiscard]] double at(double value) const { return value / end * length; }
  double length;
  double step = 1;
  double end = 1;
};

void draw_axes(std::string& out, const SvgChart& chart, const Axis& x, const Axis& y) {
  for (double value = 0; value <= y.end * (1 + 1e-9); value += y.step) {
    const double at = kTop + kPlotHeight - y.at(value);
    fmt::format_to(std::back_inserter(out), "<path d=\"M{:.1f} {:.1f}h{:.1f}\" stroke=\"#ddd\"/>\n",
                   kLeft, at, kPlotWidth);
    svg_text(out, kLeft - 6, at + 4, "end", fmt::format("{:g}", value));
  }
  for (double value = 0; value <= x.end * (1 + 1e-9); value += x.step) {
    const double at = kLeft + x.at(value);
    fmt::format_to(std::back_inserter(out), "<path d=\"M{:.1f} {:.1f}v5\" stroke=\"#000\"/>\n", at,
                   kTop + kPlotHeight);
    svg_text(out, at, kTop + kPlotHeight + 18, "middle", fmt::format("{:g}", value));
  }
  fmt::format_to(std::back_inserter(out),
                 "<path d=\"M{:.1f} {:.1f}v{:.1f}h{:.1f}\" fill=\"none\" stroke=\"#000\"/>\n",
                 kLeft, kTop, kPlotHeight, kPlotWidth);
  svg_text(out, kLeft + kPlotWidth / 2, 22, "middle", chart.title);
  svg_text(out, kLeft + kPlotWidth / 2, kHeight - 10, "middle", chart.x_label);
  fmt::format_to(std::back_inserter(out), "<g transform=\"translate(18 {:.1f}) rotate(-90)\">\n",
                 kTop + kPlotHeight / 2);
  svg_text(out, 0, 0, "middle", chart.y_label);
  out += "</g>\n";
}

}  // namespace

std::string to_svg(const SvgChart& chart) {
  std::vector<double> all;
  for (const SvgChart::Line& line : chart.lines) {
    all.insert(all.end(), line.values.begin(), line.values.end());
  }
  const Axis x(chart.x, kPlotWidth);
  const Axis y(all, kPlotHeight);
  std::string out = svg_begin(kWidth, kHeight);
  draw_axes(out, chart, x, y);
  const bool legend = chart.lines.size() <= kLegendMax;
  for (std::size_t i = 0; i < chart.lines.size(); ++i) {
    const SvgChart::Line& line = chart.lines[i];
    const char* colour = kColours[i % kColours.size()];
    out += "<path fill=\"none\" stroke=\"";
    out += colour;
    out += legend ? "\" stroke-width=\"1.5\" d=\"" : "\" stroke-width=\"0.6\" d=\"";
    for (std::size_t k = 0; k < std::min(chart.x.size(), line.values.size()); ++k) {
      fmt::format_to(std::back_inserter(out), "{}{:.1f} {:.1f}", k == 0 ? "M" : "L",
                     kLeft + x.at(chart.x[k]), kTop + kPlotHeight - y.at(line.values[k]));
    }
    out += "\"/>\n";
    if (!legend) continue;
    const double at = kTop + 14 + 18 * static_cast<double>(i);
    fmt::format_to(std::back_inserter(out),
                   "<path d=\"M{:.1f} {:.1f}h18\" stroke=\"{}\" stroke-width=\"2\"/>\n",
                   kLeft + kPlotWidth + 12, at - 4, colour);
    svg_text(out, kLeft + kPlotWidth + 36, at, "start", line.name);
  }
  return out + kSvgEnd;
}

}  // namespace rockhopper::apps::sim
