# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""Boxes and words as SVG that follows the reader's choice of light or dark."""

import textwrap
from xml.sax.saxutils import escape

WIDTH = 960
LINE = 16
STYLE = '''
      .ground { fill: #ffffff; }
      .floor { fill: #f1f5f9; stroke: #94a3b8; }
      .room { fill: #ffffff; stroke: #475569; }
      .name { font-weight: bold; fill: #0f172a; }
      .text { fill: #334155; }
      .quiet { fill: #64748b; }
      .way { stroke: #64748b; fill: none; marker-end: url(#tip); }
      #tip path { fill: #64748b; }
      @media (prefers-color-scheme: dark) {
        .ground { fill: #0d1117; }
        .floor { fill: #161b22; stroke: #484f58; }
        .room { fill: #0d1117; stroke: #8b949e; }
        .name { fill: #f0f6fc; }
        .text { fill: #c9d1d9; }
        .quiet { fill: #8b949e; }
        .way { stroke: #8b949e; }
        #tip path { fill: #8b949e; }
      }'''


def lines(text, width):
    """The lines of a text in so many pixels of width; a guess that no letter breaks."""
    return textwrap.wrap(text, max(int(width / 6.3), 8), break_long_words=False,
                         break_on_hyphens=False)


def words(x, y, text, kind='text'):
    return f'  <text class="{kind}" x="{x}" y="{y}">{escape(text)}</text>'


def box(x, y, width, height, kind):
    return (f'  <rect class="{kind}" x="{x}" y="{y}" width="{width}" height="{height}" '
            'rx="5"/>')


def arrow(x, y, to_y):
    return f'  <line class="way" x1="{x}" y1="{y}" x2="{x}" y2="{to_y}"/>'


def document(title, made_by, height, body):
    head = [
        f'<!-- Made by {made_by}: not to be edited. -->',
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" '
        'font-family="sans-serif" font-size="12">',
        f'  <title>{escape(title)}</title>',
        '  <defs>',
        '    <marker id="tip" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="8" '
        'markerHeight="8" orient="auto">',
        '      <path d="M0 0 L10 5 L0 10 z"/>',
        '    </marker>',
        f'    <style>{STYLE}\n    </style>',
        '  </defs>',
        f'  <rect class="ground" width="{WIDTH}" height="{height}"/>']
    return '\n'.join([*head, *body, '</svg>', ''])
