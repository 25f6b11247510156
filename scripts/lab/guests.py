# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""Soft-RoCE and Rockhopper in the same two guests, on the same virtual NICs."""

import io
import json
import os
import pathlib
import re
import shlex
import shutil
import statistics
import tarfile

from lab import testpmd
from lab.processes import LabError, Unavailable, wait_until
from rxe_guest import errors, image
from rxe_guest.background import Background
from rxe_guest.guest import Guest
from rxe_guest.links import Link

# String moves, which the kernel then copies with, are emulated byte by byte: not what is measured.
CPU_MODEL = 'max,-erms,-fsrm'
# DPDK asks for a place for its files, and for plugins that nobody else may replace. Its af_packet
# leaves what exceeds the kernel's send buffer in the ring until it sends again, which may be never.
PREPARE = ('ln -sfn /run /var/run && chmod 755 / && tar xf - -C / && '
           'echo 16777216 >/proc/sys/net/core/wmem_default')
DRIVERS = ('bus_vdev', 'mempool_ring', 'net_af_packet', 'net_memif')
LINK_MTU = 4300
SERVER, CLIENT = 0, 1
# Of the kernel, for Soft-RoCE and all exchange over TCP; Rockhopper has addresses of its own.
KERNEL_IP = ('10.9.0.1', '10.9.0.2')
OUR_IP = ('10.9.0.101', '10.9.0.102')
NETDEV, RXE = 'rdma0', 'rxe0'
LIMIT_S = 120
# A line of figures of perftest. The deviation of few latencies that lie far apart is no number to it.
RESULT = r'^ *\d+(?:\s+(?:[\d.]+|-?nan)){4,}\s*$'


def last_figures(name, text):
    """The numbers of the last line of figures in what a program of perftest printed."""
    rows = re.findall(RESULT, text, re.MULTILINE)
    if not rows:
        raise LabError(f'{name} printed no result: {text[-200:]!r}')
    return [float(number) for number in rows[-1].split()]


class Guests:
    """Two guests of a lab, joined by a link; they boot when first needed and end with the lab."""

    def __init__(self, lab, programs):
        self.lab = lab
        self.programs = programs
        self.guests = []
        self.port = 20000

    def raw_rate(self, frame_bytes, samples=testpmd.SAMPLES):
        """Frames of `frame_bytes` a second that testpmd moves from one guest to the other."""
        self._need_guests()
        device = f'net_af_packet0,iface={NETDEV},blocksz=16384,framesz=8192,framecnt=512'
        receiver = self._testpmd(SERVER, device, '--forward-mode=rxonly')
        wait_until(lambda: 'Port statistics' in receiver.output() or not receiver.is_alive(),
                   LIMIT_S, 'testpmd in a guest did not start')
        sender = self._testpmd(CLIENT, device, '--forward-mode=txonly', f'--txpkts={frame_bytes}')

        def rates():
            for end in (receiver, sender):
                if not end.is_alive():
                    end.finish()
                    raise LabError('testpmd in a guest ended early')
            found = [int(rate) for rate in testpmd.RX_RATE.findall(receiver.output())]
            found = [rate for rate in found if rate > 0]
            return found[1:] if len(found) > samples else None

        rate = statistics.median(wait_until(rates, LIMIT_S, 'testpmd received no frames'))
        for which, end in ((CLIENT, sender), (SERVER, receiver)):
            self._check(which, 'killall -INT dpdk-testpmd')
            end.finish()
        return rate

    def soft_roce(self, tool, options):
        """The numbers of the last line that a program of perftest prints."""
        self._need_guests()
        self.port += 1
        return self._perftest(f'{tool} -d {RXE}', options, [
            guest.gid_index(RXE, ip) for guest, ip in zip(self.guests, KERNEL_IP)])

    def uplink(self, tool, options):
        """The same under rh-run, over UDP sockets on the same NICs: Soft-RoCE lets go of its port meanwhile."""
        self._need_guests()
        self.port += 1
        for which in (SERVER, CLIENT):
            self._check(which, f'rdma link del {RXE} && rmmod rdma_rxe')
        try:
            return self._perftest(f'rh-run --uplink udp --addresses {{ip}}/24 {tool}', options, (0, 0))
        finally:
            for which in (SERVER, CLIENT):
                self._check(which, f'modprobe rdma_rxe && rdma link add {RXE} type rxe netdev {NETDEV}')

    def _perftest(self, tool, options, gids):
        """`tool` is the command's begin, where {{ip}} stands for the guest's address."""
        ends = [f'{tool.format(ip=ip)} -F -p {self.port} -x {gid} --report_gbits {shlex.join(map(str, options))}'
                for ip, gid in zip(KERNEL_IP, gids)]
        server = _Command(self.guests[SERVER], ends[SERVER])
        # perftest's client gives up at once.
        self._check(SERVER, f'for i in $(seq 400); do grep -q ":{self.port:04X} .* 0A " '
                    '/proc/net/tcp /proc/net/tcp6 && exit 0; sleep 0.05; done; exit 1')
        text = self._check(CLIENT, f'{ends[CLIENT]} {KERNEL_IP[SERVER]}')
        server.finish()
        return last_figures(tool, text)

    def perf_over_nic(self, options):
        """rh-perf's results over af_packet on the NICs that Soft-RoCE uses."""
        def end(which):
            return f'--device net_af_packet0,iface={NETDEV} --ip {OUR_IP[which]}/24'

        return self._perf((SERVER, CLIENT), end, KERNEL_IP[SERVER], options)

    def perf_over_memif(self, options):
        """rh-perf's results between two processes of one guest."""
        def end(which):
            role = ('server', 'client')[which]
            return (f'--memif-socket /run/memif-{self.port}.sock --memif-role {role} '
                    f'--ip {OUR_IP[which]}/24')

        return self._perf((SERVER, SERVER), end, '127.0.0.1', options)

    def _perf(self, where, end, host, options):
        self._need_guests()
        self.port += 1
        # Sleeping: QEMU's own threads, which are the NICs, share the processors with the guests'.
        common = (f'rh-perf -p {self.port} --json --link-mtu {LINK_MTU} --connect-timeout 60 '
                  '--timeout 30 --idle sleep')
        server = _Command(self.guests[where[SERVER]], f'{common} {end(SERVER)}')
        text = self._check(where[CLIENT], f'{common} {end(CLIENT)} '
                           f'{shlex.join(map(str, options))} {host}')
        server.finish()
        return json.loads(text)['results']

    def _testpmd(self, which, device, *options):
        command = testpmd.command(self.lab, 'guest', 1, device, options)
        return _Command(self.guests[which], shlex.join(map(str, command)))

    def _check(self, which, command):
        try:
            return self.guests[which].check(command, timeout_s=LIMIT_S)
        except errors.GuestError as error:
            raise LabError(str(error)) from None

    def _need_guests(self):
        if self.guests:
            return
        own = [self.programs / name for name in ('rh-perf', 'rh-run')]
        testpmd_program = shutil.which('dpdk-testpmd')
        if testpmd_program is None or not all(program.exists() for program in own):
            raise LabError(f'rh-perf or rh-run is not built in {self.programs}, or dpdk-testpmd is not installed')
        archive = self.lab.path('guest.tar')
        names = [f'bench-{os.getpid()}-{end}' for end in ('server', 'client')]
        kinds = (f'guest-server={names[CLIENT]}', f'guest-client={names[SERVER]}')
        try:
            for name, kind, ip in zip(names, kinds, KERNEL_IP):
                link = Link.parse(f'{kind},mtu={LINK_MTU},ip={ip}/24')
                guest = Guest.start(name, [link], memory_mb=1024, cpu_model=CPU_MODEL,
                                    owner=os.getpid(), lifetime_s=0)
                self.lab.at_end.callback(guest.stop)
                if not archive.exists():
                    pack([*own, testpmd_program], archive)
                with archive.open('rb') as content:
                    guest.check(PREPARE, stdin=content, what='unpacking programs')
                self.guests.append(guest)
        except errors.Skip as reason:
            raise Unavailable(f'this machine runs no guests: {reason}') from None
        except errors.GuestError as error:
            raise LabError(str(error)) from None


class _Command(Background):
    """A command that runs in a guest meanwhile."""

    def __init__(self, guest, command):
        super().__init__(guest, command, LIMIT_S)

    def finish(self):
        """Waits for its end, which must be a success."""
        self.join(LIMIT_S)
        if self.result is None or self.result.status != 0:
            said = self.result.stderr.decode(errors='replace') if self.result else self.error
            raise LabError(f'{self.guest.name}: {self.command.split()[0]} failed: {said}')


def pack(programs, path):
    """An archive of programs with their libraries and DPDK's drivers, each where the host has it, as
    programs find some of them from their own place; /usr/local/bin leads to the programs. The drivers
    are found when a program starts, so that no program names them. With rh-run goes the device
    that it gives to programs."""
    programs = [pathlib.Path(program).resolve() for program in programs]
    files = {str(program) for program in programs}
    for program in programs:
        if program.name == 'rh-run':
            files |= {str(library) for library in program.parent.glob('verbs/lib*.so*') if library.is_file()}
    libraries = {library for file in files for library in image.libraries(file)}
    drivers = set(_drivers(libraries))
    files |= libraries | drivers | {library for driver in drivers for library in image.libraries(driver)}
    with tarfile.open(path, 'w', dereference=True) as archive:
        for file in sorted(files):
            destination, real = os.path.normpath(image.guest_path(file)), str(pathlib.Path(file).resolve())
            if real in drivers and destination != real:
                # A second copy would be a second driver.
                _add_link(archive, destination, real)
            else:
                archive.add(file, destination.lstrip('/'))
        for program in programs:
            if program.parent != pathlib.Path('/usr/local/bin'):
                _add_link(archive, f'/usr/local/bin/{program.name}', image.guest_path(str(program)))


def _add_link(archive, place, target):
    link = tarfile.TarInfo(place.lstrip('/'))
    link.type, link.linkname = tarfile.SYMTYPE, target
    archive.addfile(link, io.BytesIO())


def _drivers(libraries):
    """DRIVERS' files, of the version that the programs are linked to."""
    eal = next(pathlib.Path(library).resolve() for library in libraries
               if os.path.basename(library).startswith('librte_eal.so'))
    version = eal.name.partition('.so.')[2]
    for name in DRIVERS:
        yield str(eal.parent / 'dpdk' / f'pmds-{version}' / f'librte_{name}.so.{version}')
