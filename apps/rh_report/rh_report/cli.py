# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""The command line."""

import contextlib
import json
import os
import pathlib
import signal
import sys
import tempfile

from judge.cli import add_judging_options, judging_options
from judge.usage import Parser

DONE, FAILED, BAD_INPUT = 0, 1, 2
_EXAMPLES = """\
  {0} capture.pcapng                     makes report.html
  {0} requester.pcap responder.pcap.gz   two ends, aligned in time
  {0} capture.pcap --json                figures alone
"""
_EXIT_STATUS = """\
  0  the report is made, whatever the checker found
  1  it could not be written, or a part is missing in it
  2  bad arguments, or a file without RoCEv2 packets
"""
_DEFAULT = 'report.html'


def parser(program, version):
    top = Parser(
        program, 'Draws captures of RoCEv2 traffic (pcap, pcapng, also gzip) of any device: one page that needs no '
        'network, with every packet by PSN and time, ladder diagrams, figures, and the findings of rh-check.',
        {'EXAMPLES': _EXAMPLES.format(program), 'EXIT STATUS': _EXIT_STATUS})
    if version is not None:
        top.add_argument('--version', action='version', version=f'{program} {version}',
                         help='Display program version information and exit')
    top.add_argument('captures', nargs='*', metavar='CAPTURE', help='the captures; of two ends, their clocks are aligned')
    add = top.add_argument
    add('-o', '--output', metavar='FILE', help=f'the page (default {_DEFAULT}; with --json none)')
    add('--json', action='store_true', help='print the figures as one JSON object')
    add_judging_options(top)
    return top


def main(argv=None, program='rh-report', version=None):
    # Who reads --json through a pipe may have seen enough.
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    # So that the processes that judge end, too.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    top = parser(program, version)
    arguments = top.parse_args(argv)
    if not arguments.captures:
        top.error('no CAPTURE given')
    # Here, so that --help needs nothing but Python.
    try:
        from . import figures, page, report
    except ModuleNotFoundError as error:
        print(f'{program}: no module {error.name} (the package python3-{error.name} has it)', file=sys.stderr)
        return FAILED
    output = arguments.output or (None if arguments.json else _DEFAULT)

    def say(text):
        if sys.stderr.isatty():
            print(f'\r\033[K{program}: {text} ...', end='', file=sys.stderr, flush=True)

    try:
        if output is not None:
            page.library()
            _check_place(output, arguments.captures)
        made = report.make(arguments.captures, judging_options(arguments), say)
        if output is not None:
            say('writing')
            _write(output, page.make(made))
        say('done')
        if sys.stderr.isatty():
            print('\r\033[K', end='', file=sys.stderr, flush=True)
        if arguments.json:
            json.dump(figures.for_machines(made), sys.stdout, indent=1)
            print()
    except report.FileError as error:
        _complain(program, error)
        return BAD_INPUT
    except (page.PageError, OSError) as error:
        name = getattr(error, 'filename', None)
        _complain(program, f'{name}: {error.strerror}' if name else error)
        return FAILED
    except KeyboardInterrupt:
        _complain(program, 'interrupted')
        return FAILED
    if output is not None and not arguments.json:
        total = figures.summary(made)
        print(f'{output}: {total["packets"]} packets, {len(made.parts)} connections, '
              f'{total["totals"]["findings"]} findings')
    for problem in made.problems:
        _complain(program, problem)
    return FAILED if made.problems else DONE


def _complain(program, words):
    lead = '\r\033[K' if sys.stderr.isatty() else ''
    print(f'{lead}{program}: {" ".join(str(words).split())}', file=sys.stderr)


def _check_place(output, captures):
    """Says early that the page cannot be written: captures take their time."""
    place = pathlib.Path(output)
    if any(place.exists() and os.path.exists(path) and place.samefile(path) for path in captures):
        raise OSError(None, 'it is one of the captures', output)
    if place.is_dir():
        raise IsADirectoryError(None, 'is a folder', output)
    if not place.parent.is_dir():
        raise FileNotFoundError(None, 'there is no such folder', str(place.parent))


def _write(output, text):
    """All of it or nothing: a page that exists stays until the new one is whole."""
    place = pathlib.Path(output)
    if place.exists() and not place.is_file():
        place.write_text(text, 'utf-8')  # a pipe or a device
        return
    handle, name = tempfile.mkstemp(dir=place.parent, prefix=f'.{place.name}.')
    try:
        with os.fdopen(handle, 'w', encoding='utf-8') as file:
            file.write(text)
        mask = os.umask(0)
        os.umask(mask)
        os.chmod(name, 0o666 & ~mask)
        os.replace(name, place)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(name)
        raise
