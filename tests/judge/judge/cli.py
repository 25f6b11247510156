# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""The command line: options, output, exit status."""

import argparse
import ipaddress
import json
import sys

from .capture import CaptureError
from .checker import Verdict, check
from .layers import STANDARD_PORTS
from .options import LOSSY, Options
from .rules import RULES
from .usage import Parser

CLEAN, VIOLATIONS, BAD_INPUT = 0, 1, 2
_MTUS = (256, 512, 1024, 2048, 4096)


def _number(text: str) -> int:
    return int(text, 0)


def _port(text: str) -> int:
    port = int(text, 0)
    if not 1 <= port <= 65535:
        raise argparse.ArgumentTypeError(f"{text}: ports are 1 to 65535")
    return port


def _address(text: str) -> bytes:
    return ipaddress.ip_address(text).packed


def _pair(text: str) -> tuple[int, int]:
    one, _, other = text.partition(":")
    return int(one, 0), int(other, 0)


def _rule(text: str) -> str:
    if text not in RULES:
        raise argparse.ArgumentTypeError(f"no rule {text!r} (--list-rules names them)")
    return text


_EXAMPLES = """\
  {0} capture.pcap
  {0} --endpoint 192.0.2.1 --lossy far capture.pcapng
"""
_EXIT_STATUS = """\
  0  clean
  1  violations
  2  bad arguments, or no RoCEv2 packet to judge
"""


def add_judging_options(parser: argparse.ArgumentParser) -> None:
    """What programs that judge captures ask their users; judging_options() takes the answers."""
    add = parser.add_argument
    add("--endpoint", action="append", type=_address, default=[], metavar="IP",
        help="judge only what this address sent; may be repeated (default every sender)")
    add("--port", action="append", type=_port, default=[], metavar="PORT",
        help="a UDP port to which RoCEv2 packets go, besides 4791; may be repeated")
    add("--lossy", choices=LOSSY, default="none",
        help="where packets may get lost unseen: near = between the endpoint and the capture "
        "point, far = beyond the capture point (default none)")
    add("--pmtu", type=int, choices=_MTUS, help="path MTU (default inferred)")
    add("--pkey", action="append", type=_number, default=[], metavar="KEY",
        help="allowed P_Key, may be repeated (default 0xFFFF)")
    add("--max-rd-atomic", type=int, metavar="N", help="outstanding READ and ATOMIC allowed")
    add("--memory-changes", action="store_true",
        help="a repeated READ may return other bytes than the first time")
    add("--selective-repeat", action="store_true",
        help="the devices do not go back N: the responder keeps packets behind a gap")
    add("--manufacturer-opcodes", action="store_true",
        help="opcodes 0xC0-0xFF are no violation; only their IP, UDP, BTH and ICRC are checked")
    add("--dynamic-connections", action="store_true",
        help="opcodes 0xC0-0xDD are Rockhopper's dynamic connections, and judged")
    add("--locks", action="store_true",
        help="opcodes 0xD9 and 0xDA are Rockhopper's locks, and judged")
    add("--strict", action="store_true",
        help="traits, which are what devices commonly do otherwise, are violations, too")
    add("--race-us", type=float, default=1000, metavar="US",
        help="time that a device may take to act on a packet after it was captured (default 1000)")
    add("--queued", type=int, default=0, metavar="N",
        help="packets that a device may have ready to go when another one arrives, which "
        "it sends without regard to that one (default 0)")
    add("--settle-ms", type=float, default=1000, metavar="MS",
        help="a request older than this at the end of the capture must have its answer "
        "(default 1000)")
    add("--pair", action="append", type=_pair, default=[], metavar="QPN:QPN",
        help="these two queue pairs are connected (default found by their PSNs)")
    add("--ignore", action="append", type=_rule, default=[], metavar="RULE",
        help="do not judge by this rule; may be repeated")  # fmt: skip


def _parser(program: str, version: str | None) -> argparse.ArgumentParser:
    parser = Parser(
        program,
        "Checks captures of RoCEv2 traffic (pcap, pcapng, also gzip) of any device against the rules of the "
        "transport.",
        {"EXAMPLES": _EXAMPLES.format(program), "EXIT STATUS": _EXIT_STATUS},
    )
    if version is not None:
        parser.add_argument("--version", action="version", version=f"{program} {version}",
                            help="Display program version information and exit")  # fmt: skip
    parser.add_argument("files", nargs="*", metavar="FILE", help="the captures")
    add_judging_options(parser)
    add = parser.add_argument
    add("--traits", action="store_true",
        help="say of each flow what its sender's packets have in common: what device it is")
    add("--min-packets", type=int, default=1, metavar="N",
        help="fail with status 2 when a capture has fewer packets to judge (default 1)")
    add("--max-lines", type=int, default=100, metavar="N",
        help="violations printed for each file; all are counted (default 100)")
    add("--json", action="store_true", help="print one JSON object")
    add("--list-rules", action="store_true", help="print the rules and exit")
    return parser  # fmt: skip


def judging_options(arguments: argparse.Namespace) -> Options:
    pairs = {}
    for one, other in arguments.pair:
        pairs[one], pairs[other] = other, one
    return Options(
        endpoints=frozenset(arguments.endpoint),
        ports=STANDARD_PORTS | frozenset(arguments.port),
        strict=arguments.strict,
        traits=getattr(arguments, "traits", False),
        lossy=arguments.lossy,
        pmtu=arguments.pmtu,
        pkeys=frozenset(arguments.pkey) or frozenset((0xFFFF,)),
        max_rd_atomic=arguments.max_rd_atomic,
        memory_changes=arguments.memory_changes,
        selective_repeat=arguments.selective_repeat,
        manufacturer_opcodes=arguments.manufacturer_opcodes,
        dynamic_connections=arguments.dynamic_connections,
        locks=arguments.locks,
        race_ns=round(arguments.race_us * 1000),
        queued=arguments.queued,
        settle_ns=round(arguments.settle_ms * 1_000_000),
        ignore=frozenset(arguments.ignore),
        pairs=pairs,
    )


def _print_human(verdict: Verdict, max_lines: int) -> None:
    report, overview = verdict.report, verdict.survey
    for item in report.violations[:max_lines]:
        print(
            f"{verdict.path}: frame {item.frame} at {_seconds(item.time_ns)}: {item.rule}: "
            f"{item.message} ({item.source} > {item.destination}, QP 0x{item.qpn:06x})"
        )
    if report.total > max_lines:
        print(f"{verdict.path}: ... {report.total - max_lines} more")
    for trait in report.traits.values():
        print(
            f"{verdict.path}: trait from frame {trait.frame} on: {trait.trait}: {trait.message} "
            f"({trait.source} > {trait.destination}, QP 0x{trait.qpn:06x})"
        )
    for note in report.notes:
        print(f"{verdict.path}: note: {note}")
    for flow in verdict.flows:
        shown = ", ".join(
            f"{name.replace('_', ' ')} {value}" for name, value in flow.items()
            if name not in ("source", "destination", "service", "qpn")
        )  # fmt: skip
        print(
            f"{verdict.path}: flow {flow['source']} > {flow['destination']}, {flow['service']} QP "
            f"0x{flow['qpn']:06x}: {shown}"
        )
    if verdict.dynamic:
        print(f"{verdict.path}: dynamic connections: {_counters(verdict.dynamic)}")
    if verdict.locks:
        print(f"{verdict.path}: locks: {_counters(verdict.locks)}")
    print(
        f"{verdict.path}: {overview.frames} frames, {overview.roce} RoCEv2, "
        f"{overview.judged} judged, {len(verdict.connections)} request flows, "
        f"{report.total} violations" + (f", {len(report.traits)} traits" if report.traits else "")
    )


def _counters(counters: dict) -> str:
    return ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in counters.items())


def _seconds(time_ns: int) -> str:
    return f"{time_ns // 10**9}.{time_ns % 10**9:09d}"


def _as_json(verdict: Verdict) -> dict:
    report, overview = verdict.report, verdict.survey
    return {
        "file": verdict.path,
        "frames": overview.frames,
        "roce_packets": overview.roce,
        "judged_packets": overview.judged,
        "dropped_packets": overview.dropped,
        "truncated": verdict.truncated,
        "violation_count": report.total,
        "violations_by_rule": dict(sorted(report.counts.items())),
        "violations": [
            item._replace(time_ns=_seconds(item.time_ns))._asdict() for item in report.violations
        ],
        "traits": [trait._asdict() for trait in report.traits.values()],
        "flows": verdict.flows,
        "connections": verdict.connections,
        "dynamic_connections": verdict.dynamic,
        "locks": verdict.locks,
        "notes": report.notes,
    }


def main(
    argv: list[str] | None = None, program: str = "check_capture.py", version: str | None = None
) -> int:
    parser = _parser(program, version)
    arguments = parser.parse_args(argv)
    if arguments.list_rules:
        for rule in RULES.values():
            print(f"{rule.id} [{rule.source}]{' (trait)' if rule.is_trait else ''}: {rule.text}")
        return CLEAN
    if not arguments.files:
        parser.error("no FILE given")
    options = judging_options(arguments)
    results, total, bad = [], 0, False
    for path in arguments.files:
        try:
            verdict = check(path, options)
            if verdict.survey.judged < arguments.min_packets:
                raise CaptureError(
                    f"{verdict.survey.judged} packets to judge, fewer than {arguments.min_packets}"
                )
        except (CaptureError, OSError) as error:
            bad = True
            print(f"{path}: {getattr(error, 'strerror', None) or error}", file=sys.stderr)
            results.append({"file": path, "error": str(error)})
            continue
        total += verdict.report.total
        if arguments.json:
            results.append(_as_json(verdict))
        else:
            _print_human(verdict, arguments.max_lines)
    if arguments.json:
        print(json.dumps({"violation_count": total, "files": results}, indent=1))
    return BAD_INPUT if bad else VIOLATIONS if total else CLEAN
