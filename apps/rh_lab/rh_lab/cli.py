# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""The command line."""

import argparse
import datetime
import pathlib
import re
import shlex
import shutil
import signal
import socket
import sys
import tempfile

from judge.usage import Parser

from . import judging, report, steps
from .peers import LabError, Rockhopper, Stock

EXAMPLES = """\
  rh-lab run --rockhopper mlx5-cx5
  rh-lab run --peer nodeb --device mlx5_0 --peer-ip 10.9.0.2 -- \\
      --device net_af_packet0,iface=eth1 --ip 10.9.0.1/24
  rh-lab run --list
"""
EXIT_STATUS = """\
  0  no finding is unexplained
  1  some are, or it was interrupted
  2  bad arguments, or nothing could be tried
"""


def _ack_timeout(text):
    if not text.isdigit() or not 1 <= int(text) <= 31:
        raise argparse.ArgumentTypeError(f'{text}: codes are 1 to 31')
    return int(text)


def parser(program, version):
    top = Parser(
        program, 'Walks through what one tries on the first day with a RoCEv2 peer: data in both directions, every '
        'operation, losses, congestion notifications, the connection manager. Each step is captured and judged. '
        'Leaves a folder with report.md, the captures, and a personality of the peer.',
        {'EXAMPLES': EXAMPLES, 'EXIT STATUS': EXIT_STATUS})
    if version:
        top.add_argument('--version', action='version', version=f'{program} {version}',
                         help='Display program version information and exit')
    top.add_argument('command', choices=['run'], metavar='run',
                     help='try a peer. Behind "--": our port and addresses, as rh-perf takes them')
    add = top.add_argument
    add('--peer', metavar='HOST', help='a machine with libibverbs, perftest and rping')
    add('--rockhopper', metavar='PERSONALITY', nargs='?', const='',
        help='in its place a second Rockhopper on this machine, over memif, which may be played')
    add('--by', metavar='COMMAND', help='what runs a command line at the peer (default ssh HOST)')
    add('--device', metavar='NAME', help="the peer's device (default the first of ibv_devices)")
    add('--peer-ip', metavar='IP', action='append', default=[], help="a RoCE address of the peer's; once more for IPv6")
    add('--here', metavar='HOST', help="this machine's name for the peer (default its own name)")
    add('--port', type=int, default=18515, metavar='N', help='TCP port of the programs (default 18515)')
    add('--peer-port', type=int, metavar='N', help="the peer's, if it is reached at another one")
    add('--ack-timeout', type=_ack_timeout, metavar='CODE',
        help='local ACK timeout of our end, 1 to 31 for 4.096 us * 2^code: for peers that are slow')
    add('--output', type=pathlib.Path, metavar='FOLDER', help='a new folder (default rh-lab-DATE-TIME)')
    add('--steps', action='append', default=[], metavar='PATTERN', help='these steps alone, as "read-*"')
    add('--list', action='store_true', help='print the steps and exit')
    add('--programs', type=pathlib.Path, metavar='FOLDER', help='where ours are (default beside this one)')
    return top


def programs_of(options, starter):
    for folder in filter(None, (options.programs, pathlib.Path(starter).resolve().parent)):
        if (folder / 'rh-perf').exists():
            return folder
    found = shutil.which('rh-perf')
    if found is None:
        raise LabError('there is no rh-perf beside this program: --programs says where')
    return pathlib.Path(found).parent


def counters_of(words):
    """Those of --stats: what stands behind "counters that are not 0:"."""
    _, _, rest = words.partition('counters that are not 0:')
    return {name: int(value) for name, value in re.findall(r'^ +\S+ +(\S+) +(\d+)$', rest, re.M)}


def try_step(step, peer, captures, ack_timeout):
    capture = captures / f'{step.name}.pcapng'
    option = '-u' if step.program == 'rh-perf' else '--ack-timeout'
    patience = [option, str(ack_timeout)] if ack_timeout else []
    before = peer.counters()
    process, status, their_status, their_words = peer.run(step, ['--pcap', str(capture), *patience])
    result = report.Result(step, good=status == 0 and their_status == 0)
    if not result.good:
        result.words = ' / '.join(dict.fromkeys(filter(None, (
            'this end did not end' if status is None else process.last_line() if status else '',
            'the peer did not end' if their_status is None else their_words if their_status else ''))))
    result.counters = counters_of(process.words())
    after = peer.counters()
    result.theirs = {name: after[name] - value for name, value in before.items()
                     if name in after and after[name] != value}
    own, theirs = peer.addresses(step)
    if capture.exists():
        result.judgement = judging.judge(capture, own, theirs, bool(step.faults))
    return result


def run(options, starter, command):
    chosen = steps.chosen(options.steps)
    if options.list:
        for step in chosen:
            print(f'{step.name:20} {step.purpose}')
        return 0
    if not chosen:
        raise LabError(f'--steps {" ".join(options.steps)}: there is none of that name (--list)')
    if (options.peer is None) == (options.rockhopper is None):
        raise LabError('--peer names a machine, or --rockhopper a second Rockhopper here')
    options.here = options.here or socket.gethostname()
    programs = programs_of(options, starter)
    stamp = datetime.datetime.now().strftime('%Y%m%d-%H%M%S')
    folder = options.output or pathlib.Path(f'rh-lab-{stamp}')
    with tempfile.TemporaryDirectory(prefix='rh-lab-') as scratch:
        scratch = pathlib.Path(scratch)
        if options.rockhopper is not None:
            peer = Rockhopper(programs, scratch, options.rockhopper)
        else:
            peer = Stock(programs, scratch, options, options.port_options)
        folder.mkdir(parents=True)
        captures = folder / 'captures'
        captures.mkdir()
        results = []
        unexplained = 0
        for number, step in enumerate(chosen, 1):
            if not peer.serves(step):
                continue
            print(f'{number:2} of {len(chosen)}: {step.name} ...', end=' ', flush=True)
            result = try_step(step, peer, captures, options.ack_timeout)
            found = report.unexplained(result, peer)
            if found:
                # What a machine that stood still has caused does not come twice.
                print('again ...', end=' ', flush=True)
                result = try_step(step, peer, captures, options.ack_timeout)
                result.first_findings = found
                found = report.unexplained(result, peer)
            results.append(result)
            print('good' if not found else found[0], flush=True)
            # Also where it is interrupted there is a report of what was tried.
            unexplained = report.write(folder, results, peer, command)
    print(f'{folder}/report.md: {len(results)} steps, {unexplained} findings that are not explained')
    return 1 if unexplained else 0


def main(program='rh-lab', version=None, arguments=None):
    arguments = sys.argv[1:] if arguments is None else arguments
    # A reader of --list may have seen enough.
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    here = arguments.index('--') if '--' in arguments else len(arguments)
    options = parser(program, version).parse_args(arguments[:here])
    options.port_options = arguments[here + 1:]
    try:
        return run(options, sys.argv[0], f'{program} {shlex.join(arguments)}')
    except (LabError, OSError) as error:
        print(f'{program}: {error}', file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print(f'{program}: interrupted', file=sys.stderr)
        return 1
