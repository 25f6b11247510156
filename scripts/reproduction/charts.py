# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""What the pictures share: the same figures give the same bytes."""

COLOURS = {'published': '#9a9a9a', 'bad': '#c03028', 'middle': '#e08a2c', 'good': '#2a9d6f',
           'other': '#4878a8'}
TREND = 'published (trend only, no scale)'


def pyplot():
    """matplotlib, set so that its SVG depends on nothing but the figures."""
    import matplotlib
    matplotlib.use('svg')
    matplotlib.rcParams['svg.hashsalt'] = 'rockhopper'
    matplotlib.rcParams['svg.fonttype'] = 'none'
    matplotlib.rcParams['font.size'] = 8
    matplotlib.rcParams['axes.titlesize'] = 9
    from matplotlib import pyplot as plots
    return plots


def save(plots, figure, path):
    figure.savefig(path, metadata={'Date': None})
    plots.close(figure)
    # Lines end without blanks, as in every other file.
    path.write_text('\n'.join(line.rstrip() for line in path.read_text().splitlines()) + '\n')


def trend_bars(axes, names, heights, colours):
    """Bars whose order is published, but not their heights."""
    axes.bar(range(len(names)), heights, color=colours, hatch='//', edgecolor='white')
    axes.set_xticks(range(len(names)), names)
    axes.set_yticks([])
    axes.set_title(TREND)


def trend_lines(axes, lines, label):
    """Lines [(name, xs, ys, colour)] whose shape is published, but not their figures."""
    for name, xs, ys, colour in lines:
        axes.plot(xs, ys, color=colour, linestyle='--', label=name)
    axes.set_xticks([])
    axes.set_yticks([])
    axes.set_xlabel(label)
    axes.set_title(TREND)
    axes.legend(frameon=False)
