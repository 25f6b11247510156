# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""The guest as an object, for the command line and for tests."""

import ipaddress
import os
import pathlib
import re
import shlex
import sys

from . import agent_client, image, machine, netem
from .errors import GuestError, Timeout

BOOT_TIMEOUT_S = 180.0
EXEC_TIMEOUT_S = 600.0


def cache_directory():
    """Where built images are kept: ${XDG_CACHE_HOME:-~/.cache}/rockhopper."""
    base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return pathlib.Path(base) / "rockhopper"


def build(extra=()):
    """Builds the image where it is not cached; returns the paths of the kernel and of the image."""
    kernel = image.Kernel.find()
    plan = image.Image(kernel, extra)
    return (image.startable_kernel(kernel, cache_directory()),
            plan.build(cache_directory(), lambda text: print(text, file=sys.stderr)))


class Guest:
    """A running guest, by its name.  `Guest.start()` boots one; as a context manager it is stopped."""

    def __init__(self, name):
        self.name = name
        self.state = machine.load_state(name)

    @classmethod
    def start(cls, name, links=(), *, timeout_s=BOOT_TIMEOUT_S, extra=(), **options):
        """Boots a guest with `links` (of links.Link) set up; options are those of machine.Machine.
        Tries twice within `timeout_s`.

        Raises Skip where this machine cannot, GuestError where it failed; then nothing is left.
        """
        for link in links:
            link.check()
        kernel, path = build(extra)
        vm = machine.Machine(name, kernel, path, cache_directory(), links=links, **options)
        try:
            vm.start(timeout_s / 3)
        except Timeout as late:
            # An emulated machine stands still at its start once in hundreds of times.
            print(f"{late}; trying once more", file=sys.stderr)
            vm.start(timeout_s * 2 / 3)
        guest = cls(name)
        try:
            commands = [command for link in vm.links for command in link.setup_commands(name)]
            if commands:
                guest.check("set -e\n" + "\n".join(commands), what="network setup")
        except BaseException:
            guest.stop()
            raise
        return guest

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.stop()

    def stop(self):
        """Ends the guest; False when it did not run any more."""
        return machine.stop(self.name)

    def execute(self, command, **options):
        """Runs a command: see agent_client.execute for options and result."""
        options.setdefault("timeout_s", EXEC_TIMEOUT_S)
        return agent_client.execute(self.state["port"], self.state["token"], command, **options)

    def check(self, command, *, what=None, **options):
        """Runs a command that must succeed; returns its standard output as text."""
        result = self.execute(command, **options)
        if result.status != 0:
            said = (result.stderr or result.stdout).decode(errors="replace").strip()
            what = what or agent_client.shell_command(command)
            raise GuestError(f"{self.name}: {what}: exit status {result.status}: {said}")
        return result.stdout.decode(errors="replace")

    def push(self, source, destination=None, *, with_libraries=False):
        """Copies a file (mode kept) into the guest, by default to /usr/local/bin/.

        with_libraries: the shared libraries it needs too, unless the guest has them.
        """
        source = os.path.abspath(source)
        destination = destination or "/usr/local/bin/"
        if destination.endswith("/"):
            destination += os.path.basename(source)
        self._push_file(source, destination)
        if with_libraries:
            needed = {image.guest_path(path): path for path in image.libraries(source)}
            test = "".join(f"[ -e {shlex.quote(path)} ] || echo {shlex.quote(path)}\n" for path in needed)
            for path in self.check(test).split("\n"):
                if path in needed:
                    self._push_file(needed[path], path)

    def _push_file(self, source, destination):
        quoted = shlex.quote(destination)
        mode = oct(os.stat(source).st_mode & 0o777)[2:]
        # A new file: a running program's cannot be written.
        command = (f"mkdir -p $(dirname {quoted}) && cat >{quoted}.new && chmod {mode} {quoted}.new "
                   f"&& mv {quoted}.new {quoted}")
        with open(source, "rb") as file:
            self.check(command, stdin=file, what=f"push {source}")

    def pull(self, source, destination):
        """Copies a file of the guest to the host."""
        with open(destination, "wb") as file:
            self.check(f"cat {shlex.quote(source)}", stdout=file.write, what=f"pull {source}")

    def forward(self, guest_port):
        """A free port of 127.0.0.1 that leads to a TCP port of the guest."""
        return machine.forward(self.name, guest_port)

    def impair(self, device, impairment, direction="both"):
        """Puts netem on a device (netem.Impairment); None takes it away."""
        commands = (netem.clear_commands(device) if impairment is None
                    else netem.commands(device, impairment, direction))
        self.check("set -e\n" + "\n".join(commands), what="netem")

    def gid_index(self, rdma_device, address):
        """The index of the RoCEv2 GID of an IPv4 or IPv6 address."""
        wanted = ipaddress.ip_address(address)
        if wanted.version == 4:
            wanted = ipaddress.IPv6Address("::ffff:" + str(wanted))
        # Two processes for a table of 1024 entries; the types of empty ones cannot be read.
        text = self.check(f"cd /sys/class/infiniband/{rdma_device}/ports/1 && "
                          "grep -H . gids/* && grep -sHl 'RoCE v2' gid_attrs/types/* || true",
                          what=f"GIDs of {rdma_device}")
        version_2 = set(re.findall(r"^gid_attrs/types/(\d+)$", text, re.M))
        for index, gid in re.findall(r"^gids/(\d+):(\S+)$", text, re.M):
            if ipaddress.IPv6Address(gid) == wanted and index in version_2:
                return int(index)
        raise GuestError(f"{rdma_device} has no RoCEv2 GID for {address}")
