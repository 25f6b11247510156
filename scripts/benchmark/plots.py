# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""The lines of each group as a bar chart of their ratios, with the targets; SVG."""

import itertools

GROUPS = {
    'large': 'Large transfers: share of what they are measured against',
    'small': 'Small operations: share of what they are measured against',
    'latency': 'Latency: multiple of what it is measured against (less is better)',
    'engine': 'Engine without a link',
    'scale': 'Many queue pairs, several cores',
    'targets': 'Dynamic connections beside reliable ones',
    'flood': 'A session of dynamic connections beside forged connects',
    'others': 'Beside UCX and libfabric on this machine',
    'soft-roce': 'Beside Soft-RoCE under the same emulation',
}


def draw(found, folder):
    """Writes one SVG a group; returns their paths, or an empty list without matplotlib."""
    try:
        import matplotlib
    except ImportError:
        return []
    matplotlib.use('svg')
    matplotlib.rcParams['svg.hashsalt'] = 'rockhopper'  # the same figures, the same file
    matplotlib.rcParams['svg.fonttype'] = 'none'        # text, not outlines
    from matplotlib import pyplot

    paths = []
    for group, members in itertools.groupby(found, key=lambda line: line.group):
        members = list(members)
        height = 1.2 + 0.32 * len(members)
        figure, axes = pyplot.subplots(figsize=(10, height), layout='constrained')
        labels = [f'{line.text} / {line.basis}' for line in members]
        axes.barh(range(len(members)), [line.ratio for line in members], color='#4878a8')
        for row, line in enumerate(members):
            target = line.at_least if line.at_least is not None else line.at_most
            if target is not None:
                axes.plot([target, target], [row - 0.45, row + 0.45], color='#c03028', linewidth=2)
        axes.set_yticks(range(len(members)), labels, fontsize=8)
        axes.invert_yaxis()
        axes.set_xlabel('median ratio; red: target')
        axes.set_title(GROUPS[group], fontsize=10)
        path = folder / f'{group}.svg'
        figure.savefig(path, metadata={'Date': None})
        pyplot.close(figure)
        paths.append(path)
    return paths
