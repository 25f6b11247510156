# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""The command line of scripts/rxe-guest."""

import argparse
import json
import os
import select
import shutil
import socket
import sys
import termios
import tty

from lab import interrupts

from . import guest as guest_module
from . import links, machine, netem
from .errors import GuestError, UsageError
from .guest import Guest

DESCRIPTION = """\
A Linux guest with Soft-RoCE (rdma_rxe) as an independent RoCEv2 peer: the kernel of this
distribution under QEMU's software emulation, without root. The first guest boots in 10 seconds and
is kept as it is then, 30 MB in ~/.cache/rockhopper; later ones go on from there and are up in 3."""

EXAMPLES = """\
links (--link, several are allowed; they become rdma0/rxe0, rdma1/rxe1, ... in the guest):
""" + "".join(f"  {kind:18} {text}\n" for kind, text in links.KINDS.items()) + """\
  options, with commas: mtu=N ip=A/LEN (again for more) neighbour=IP@MAC mac=M rxe=no
  path MTU: the largest of 256..4096 that fits in mtu - 80 (1500 gives 1024, 4300 gives 4096)

examples:
  rxe-guest run --link veth -- ibv_devinfo                  boot, run one command, stop
  rxe-guest start a --link veth,mtu=4300                    two rxe devices on a veth pair
  rxe-guest exec a -- 'ibv_rc_pingpong -d rxe1 -g 1 & sleep 1; ibv_rc_pingpong -d rxe0 -g 1 10.0.2.15'
  rxe-guest shell a                                         a terminal in it, Ctrl-] leaves
  rxe-guest netem a rdma0 --loss 1 --duplicate 1 --reorder 1
  rxe-guest push a build/tests/interop/rc_peer --with-libs  into /usr/local/bin
  rxe-guest forward a 18515                                 prints a free port of 127.0.0.1
  rxe-guest stop a

  # with a DPDK process: its port is the vhost-user server, so it starts first
  dpdk-testpmd --no-huge -m 512 --no-pci --file-prefix=t1 --vdev eth_vhost0,iface=/tmp/t1.sock -- -i
  rxe-guest start b --link vhost-user=/tmp/t1.sock,mtu=4300,ip=10.9.0.2/24,ip=fd09::2/64
  # two guests, linked to each other
  rxe-guest start a --link guest=b,ip=10.9.0.1/24; rxe-guest start b --link guest=a,ip=10.9.0.2/24

The guest reaches the host's 127.0.0.1 as 10.0.2.2 (not over RDMA: for out-of-band exchange).
Exit status: that of the command (exec, run); 0, 1 failed, 2 bad arguments, 124 a deadline passed,
77 this machine cannot run a guest (the reason is one line on standard error)."""


def parser():
    """The argument parser."""
    top = argparse.ArgumentParser(prog="rxe-guest", description=DESCRIPTION, epilog=EXAMPLES,
                                  formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")

    def add(name, function, help_text, *, named=True):
        command = commands.add_parser(name, help=help_text, description=help_text)
        command.set_defaults(function=function)
        if named:
            command.add_argument("name", metavar="NAME")
        return command

    build = add("build", _build, "build the guest's image (start does it when needed); print its path",
                named=False)
    build.add_argument("--extra", action="append", default=[], metavar="PROGRAM",
                       help="take this program with its libraries along")
    start = add("start", _start, "boot a guest; it runs until stop")
    _add_machine_options(start)
    start.add_argument("--owner", type=int, metavar="PID", help="end with this process of the host")
    start.add_argument("--json", action="store_true", help="print the guest's state as JSON")
    execute = add("exec", _exec, "run a command in a guest: one argument for sh -c, or several words")
    _add_exec_options(execute)
    run = add("run", _run, "boot a guest, run a command in it, stop it", named=False)
    _add_machine_options(run)
    _add_exec_options(run)
    run.add_argument("--push", action="append", default=[], metavar="PROGRAM",
                     help="copy a program with its libraries to /usr/local/bin first")
    push = add("push", _push, "copy a file into a guest")
    push.add_argument("source")
    push.add_argument("destination", nargs="?", help="default: /usr/local/bin/")
    push.add_argument("--with-libs", action="store_true", help="and the shared libraries it needs")
    pull = add("pull", _pull, "copy a file out of a guest")
    pull.add_argument("source")
    pull.add_argument("destination", nargs="?", default=".")
    forward = add("forward", _forward, "forward a free port of 127.0.0.1 to a guest's port; print it")
    forward.add_argument("guest_port", type=int)
    impair = add("netem", _netem, "impair a guest's network device, or clear it without options")
    impair.add_argument("device")
    for option in ("loss", "duplicate", "reorder", "corrupt"):
        impair.add_argument("--" + option, type=float, default=0.0, metavar="PERCENT")
    for option in ("delay-ms", "jitter-ms"):
        impair.add_argument("--" + option, type=float, default=0.0, metavar="MS")
    impair.add_argument("--direction", choices=("both", "out", "in"), default="both")
    gid = add("gid", _gid, "print the index of the RoCEv2 GID of an address")
    gid.add_argument("rdma_device")
    gid.add_argument("address")
    add("shell", _shell, "a terminal in a guest; Ctrl-] leaves it")
    add("stop", _stop, "end a guest")
    add("list", _list, "the guests that run", named=False)
    return top


def _add_machine_options(command):
    command.add_argument("--link", action="append", default=[], metavar="LINK", help="see below")
    command.add_argument("--smp", type=int, default=2, metavar="N", help="processors (2)")
    command.add_argument("--memory", type=int, default=512, metavar="MB", help="memory (512)")
    command.add_argument("--lifetime", type=int, default=3600, metavar="S",
                         help="end after so many seconds, 0 for never (3600)")
    command.add_argument("--boot-timeout", type=float, default=guest_module.BOOT_TIMEOUT_S, metavar="S")


def _add_exec_options(command):
    command.add_argument("--timeout", type=float, default=guest_module.EXEC_TIMEOUT_S, metavar="S",
                         help="kill the command after so many seconds (600)")
    command.add_argument("-i", "--stdin", action="store_true", help="hand on standard input")
    command.add_argument("guest_command", nargs="+", metavar="COMMAND")


def _start_guest(arguments, name, owner):
    return Guest.start(name, [links.Link.parse(text) for text in arguments.link],
                       timeout_s=arguments.boot_timeout, cpus=arguments.smp,
                       memory_mb=arguments.memory, owner=owner, lifetime_s=arguments.lifetime)


def _build(arguments):
    print(guest_module.build(arguments.extra)[1])


def _start(arguments):
    guest = _start_guest(arguments, arguments.name, arguments.owner)
    if arguments.json:
        print(json.dumps({key: guest.state[key] for key in ("name", "devices")}))
    else:
        _print_devices(guest.state)


def _print_devices(state):
    print(f"{state['name']}:")
    for device in state["devices"]:
        print(f"  {device['netdev']} {device['rdma_device'] or '(no rxe)'}  {device['mac']}  "
              f"mtu {device['mtu']}  {' '.join(device['addresses'])}  {device['link']}")


def _exec(arguments):
    return _execute(Guest(arguments.name), arguments)


def _execute(guest, arguments):
    def writer(descriptor):
        def write(chunk):
            while chunk:
                chunk = chunk[os.write(descriptor, chunk):]
        return write
    result = guest.execute(arguments.guest_command, stdin=sys.stdin if arguments.stdin else None,
                           stdout=writer(1), stderr=writer(2), timeout_s=arguments.timeout)
    return result.status


def _run(arguments):
    with _start_guest(arguments, f"run-{os.getpid()}", os.getpid()) as guest:
        for program in arguments.push:
            guest.push(program, with_libraries=True)
        return _execute(guest, arguments)


def _push(arguments):
    Guest(arguments.name).push(arguments.source, arguments.destination,
                               with_libraries=arguments.with_libs)


def _pull(arguments):
    destination = arguments.destination
    if os.path.isdir(destination):
        destination = os.path.join(destination, os.path.basename(arguments.source))
    Guest(arguments.name).pull(arguments.source, destination)


def _forward(arguments):
    print(Guest(arguments.name).forward(arguments.guest_port))


def _netem(arguments):
    impairment = netem.Impairment(arguments.loss, arguments.duplicate, arguments.reorder,
                                  arguments.corrupt, arguments.delay_ms, arguments.jitter_ms)
    wanted = impairment if impairment != netem.Impairment() else None
    Guest(arguments.name).impair(arguments.device, wanted, arguments.direction)


def _gid(arguments):
    print(Guest(arguments.name).gid_index(arguments.rdma_device, arguments.address))


def _shell(arguments):
    guest = Guest(arguments.name)
    if not sys.stdin.isatty():
        raise UsageError("shell needs a terminal: use exec")
    size = shutil.get_terminal_size()
    print("Ctrl-] leaves", flush=True)
    saved = termios.tcgetattr(0)
    with socket.socket(socket.AF_UNIX) as console:
        console.connect(str(machine.state_directory(guest.name) / "console"))
        console.sendall(f"stty rows {size.lines} cols {size.columns}\n".encode())
        try:
            tty.setraw(0)
            _relay(console)
        finally:
            termios.tcsetattr(0, termios.TCSADRAIN, saved)
    print()


def _relay(console):
    while True:
        ready, _, _ = select.select([0, console], [], [])
        if console in ready:
            chunk = console.recv(4096)
            if not chunk:
                return
            os.write(1, chunk)
        if 0 in ready:
            chunk = os.read(0, 4096)
            if not chunk or b"\x1d" in chunk:  # Ctrl-]
                return
            console.sendall(chunk)


def _stop(arguments):
    if not machine.stop(arguments.name):
        raise GuestError(f"guest '{arguments.name}' does not run")


def _list(_arguments):
    for name in machine.running():
        try:
            _print_devices(machine.load_state(name))
        except GuestError as error:
            print(error)


def main():
    """Runs the command; returns the exit status."""
    # `exec NAME -- CMD`: argparse would take the command's own options for ours.
    argv = sys.argv[1:]
    arguments = parser().parse_args(argv)

    with interrupts.raising(lambda number: SystemExit(128 + number)):
        try:
            return arguments.function(arguments) or 0
        except GuestError as error:
            print(f"rxe-guest: {error}", file=sys.stderr)
            return error.exit_status
        except BrokenPipeError:
            return 1
