// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/rh_dag/gantt.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <string_view>
#include <unordered_set>
#include <vector>

#include <fmt/format.h>

#include "apps/common/svg.h"

namespace rockhopper::apps::dag_node {
namespace {

constexpr double kPlotWidth = 1000;
constexpr double kRight = 24;
constexpr double kTop = 58;
constexpr double kBottom = 48;
constexpr double kRow = 26;
constexpr double kBar = 18;
constexpr double kCharacter = 7;           // of the names of workers, about
constexpr std::size_t kShownNameMax = 24;  // characters
constexpr double kShortest = 0.75;         // pixels: a bar that is told from its neighbours

constexpr const char* kOwn = "#4878a8";
constexpr const char* kStolen = "#c03028";
constexpr const char* kWasted = "#b8b8b8";

using Rows = std::map<std::string_view, std::vector<const NodeRun*>>;

const char* colour_of(const NodeRun& run) {
  if (!run.committed) return kWasted;
  return run.stolen ? kStolen : kOwn;
}

/// Where times are, in pixels and in a unit that gives readable numbers.
struct TimeAxis {
  TimeAxis(const RunLog& log, double at_left) : left(at_left) {
    std::uint64_t last_ns = 0;
    first_ns = log.runs.empty() ? 0 : UINT64_MAX;
    for (const NodeRun& run : log.runs) {
      first_ns = std::min(first_ns, run.start_ns);
      last_ns = std::max(last_ns, run.end_ns);
    }
    length_ns = static_cast<double>(std::max<std::uint64_t>(last_ns - first_ns, 1));
    for (const auto& [name, ns] :
         {std::pair{"microseconds", 1e3}, {"milliseconds", 1e6}, {"seconds", 1e9}}) {
      if (length_ns < ns && unit_ns > 0) break;
      unit = name;
      unit_ns = ns;
    }
  }
  [[nodiscard]] double at(std::uint64_t ns) const {
    return left + static_cast<double>(ns - first_ns) / length_ns * kPlotWidth;
  }

  double left;
  std::uint64_t first_ns = 0;
  double length_ns = 1;
  const char* unit = "";
  double unit_ns = 0;
};

void draw_axis(std::string& out, const TimeAxis& axis, double bottom) {
  const double range = axis.length_ns / axis.unit_ns;
  const double step = round_step(range, 10);
  for (double value = 0; value <= range * (1 + 1e-9); value += step) {
    const double x = axis.left + value / range * kPlotWidth;
    fmt::format_to(std::back_inserter(out), "<path d=\"M{:.1f} {:.1f}V{:.1f}\" stroke=\"#ddd\"/>\n",
                   x, kTop, bottom);
    svg_text(out, x, bottom + 16, "middle", fmt::format("{:g}", value));
  }
  svg_text(out, axis.left + kPlotWidth / 2, bottom + 36, "middle", axis.unit);
}

void draw_legend(std::string& out, double left) {
  double x = left;
  for (const auto& [colour, name] :
       {std::pair{kOwn, "own"}, {kStolen, "stolen"}, {kWasted, "did not count"}}) {
    fmt::format_to(std::back_inserter(out),
                   "<rect x=\"{:.1f}\" y=\"36\" width=\"12\" height=\"12\" fill=\"{}\"/>\n", x,
                   colour);
    svg_text(out, x + 17, 46, "start", name);
    x += 110;
  }
  fmt::format_to(std::back_inserter(out),
                 "<rect x=\"{:.1f}\" y=\"36\" width=\"12\" height=\"12\" fill=\"none\" "
                 "stroke=\"#000\"/>\n",
                 x);
  svg_text(out, x + 17, 46, "start", "critical path");
}

/// Bars that follow each other closely, as one.
struct Bar {
  double from = 0;
  double to = 0;
  std::size_t nodes = 0;
  const NodeRun* run = nullptr;  ///< the first of them
};

const char* frame_of(const Bar& bar, bool on_path) {
  if (on_path) return " stroke=\"#000\"";
  // What tells it from its neighbours, where there is room for that.
  return bar.to - bar.from > 4 ? " stroke=\"#fff\" stroke-width=\"0.7\"" : "";
}

void draw_bar(std::string& out, const Bar& bar, double y, bool on_path) {
  const NodeRun& run = *bar.run;
  const double ms = static_cast<double>(run.end_ns - run.start_ns) / 1e6;
  fmt::format_to(std::back_inserter(out),
                 "<rect x=\"{:.2f}\" y=\"{:.1f}\" width=\"{:.2f}\" height=\"{:.0f}\" "
                 "fill=\"{}\"{}><title>{}</title></rect>\n",
                 bar.from, y, std::max(bar.to - bar.from, 0.2), kBar, colour_of(run),
                 frame_of(bar, on_path),
                 bar.nodes == 1 ? svg_escape(fmt::format("{}: {:.3f} ms", run.node, ms))
                                : fmt::format("{} nodes", bar.nodes));
}

void draw_row(std::string& out, std::vector<const NodeRun*>& runs, const TimeAxis& axis, double y,
              const std::unordered_set<std::string_view>& path) {
  std::sort(runs.begin(), runs.end(), [](const NodeRun* a, const NodeRun* b) {
    return std::pair(a->start_ns, a->end_ns) < std::pair(b->start_ns, b->end_ns);
  });
  Bar bar;
  const auto flush = [&] {
    if (bar.nodes > 0) draw_bar(out, bar, y, false);
    bar = {};
  };
  for (const NodeRun* run : runs) {
    const double from = axis.at(run->start_ns);
    const double to = axis.at(run->end_ns);
    if (to - from >= kShortest && run->committed && path.contains(run->node)) {
      flush();
      draw_bar(out, {from, to, 1, run}, y, true);
      continue;
    }
    if (bar.nodes == 0 || to - bar.from >= 2 * kShortest) {
      flush();
      bar = {from, to, 0, run};
    }
    bar.to = std::max(bar.to, to);
    ++bar.nodes;
  }
  flush();
}

std::string shortened(std::string_view name) {
  if (name.size() <= kShownNameMax) return std::string(name);
  // Not within a character of several bytes.
  std::size_t length = kShownNameMax;
  while (length > 0 && (static_cast<unsigned char>(name[length]) & 0xc0) == 0x80) {
    --length;
  }
  return std::string(name.substr(0, length)) + "...";
}

}  // namespace

std::string to_gantt(const RunLog& log, std::span<const std::string> path) {
  Rows rows;
  for (const NodeRun& run : log.runs) {
    rows[run.worker].push_back(&run);
  }
  for (const Steals& steals : log.steals) {
    rows[steals.worker];
  }
  std::size_t longest = 0;
  for (const auto& [name, runs] : rows) {
    longest = std::max(longest, shortened(name).size());
  }
  const TimeAxis axis(log, 24 + kCharacter * static_cast<double>(longest));
  const double bottom = kTop + kRow * static_cast<double>(rows.size());
  const std::unordered_set<std::string_view> on_path(path.begin(), path.end());

  std::string out = svg_begin(axis.left + kPlotWidth + kRight, bottom + kBottom);
  svg_text(
      out, axis.left + kPlotWidth / 2, 22, "middle",
      fmt::format("{}: {} nodes, {} workers", log.header.graph, log.header.nodes, rows.size()));
  draw_legend(out, axis.left);
  draw_axis(out, axis, bottom);
  double y = kTop + (kRow - kBar) / 2;
  for (auto& [name, runs] : rows) {
    svg_text(out, axis.left - 8, y + kBar / 2 + 4, "end", shortened(name));
    draw_row(out, runs, axis, y, on_path);
    y += kRow;
  }
  fmt::format_to(std::back_inserter(out),
                 "<path d=\"M{:.1f} {:.1f}V{:.1f}h{:.1f}\" fill=\"none\" stroke=\"#000\"/>\n",
                 axis.left, kTop, bottom, kPlotWidth);
  return out + kSvgEnd;
}

}  // namespace rockhopper::apps::dag_node
