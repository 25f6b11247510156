// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <string>
#include <vector>

namespace rockhopper::apps::sim {

/// A chart of curves over a common x axis.
struct SvgChart {
  struct Line {
    std::string name;
    std::vector<double> values;  ///< as many as `x` has
  };
  std::string title;
  std::string x_label;
  std::string y_label;
  std::vector<double> x;
  std::vector<Line> lines;  ///< with a legend up to twelve of them; more are drawn thin
};

/// The chart as an SVG document. The same chart gives the same bytes.
[[nodiscard]] std::string to_svg(const SvgChart& chart);

}  // namespace rockhopper::apps::sim
