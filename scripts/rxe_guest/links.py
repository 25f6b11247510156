# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""The guest's data links: what each kind means to QEMU, and to the Linux inside."""

import dataclasses
import hashlib
import ipaddress
import json
import pathlib
import stat
import subprocess

from .errors import UsageError

KINDS = {
    "vhost-user": "PATH: socket of a DPDK net_vhost port, which is the server and runs already",
    "vhost-user-server": "PATH: as above, but QEMU is the server and DPDK (client=1) may come and go",
    "tap": "IFNAME: an existing tap interface of the host",
    "guest": "NAME: another guest whose link is guest=THIS (unix datagrams, no root)",
    "guest-server": "NAME: another guest whose link is guest-client=THIS (a unix stream, which carries more)",
    "guest-client": "NAME: another guest whose link is guest-server=THIS, and which runs already",
    "veth": "two rxe devices in this guest, joined by a veth pair",
}
MTU_MIN, MTU_MAX = 1280, 9000
DEVICE_LOOKS = 1000
SETTINGS = {  # of each device, below /proc/sys/net
    # Two ends in one network namespace: packets arrive with a source that is our own.
    "ipv6/conf/%s/accept_dad": 0,
    "ipv4/conf/%s/rp_filter": 0,
    "ipv4/conf/%s/accept_local": 1,
    # A queue pair becomes ready to receive only when its peer's MAC is known, for which Linux waits
    # a second. It asks once a second: a question lost while the link comes up would be the only one.
    "ipv4/neigh/%s/retrans_time_ms": 100,
    "ipv4/neigh/%s/mcast_solicit": 20,
    "ipv6/neigh/%s/retrans_time_ms": 100,
    "ipv6/neigh/%s/mcast_solicit": 20,
}


def _unix(path, inside=None):
    """An address of a unix socket as QMP has it, `inside` a member of its own for some commands."""
    address = {"path": str(path)}
    return {"type": "unix"} | ({inside: address} if inside else address)


def _is_tap(name):
    """In this network namespace, of which /sys may not be."""
    shown = subprocess.run(["ip", "-json", "-details", "link", "show", "dev", name],
                           capture_output=True, text=True, check=False)
    if shown.returncode != 0:
        return False
    information = json.loads(shown.stdout)[0].get("linkinfo", {})
    return information.get("info_kind") == "tun" and information["info_data"].get("type") == "tap"


@dataclasses.dataclass
class Link:
    """One --link.  A veth link makes two network devices, the others one."""

    kind: str
    target: str = ""
    mtu: int = 1500
    addresses: list = dataclasses.field(default_factory=list)  # ip_interface; veth: of both ends
    neighbours: list = dataclasses.field(default_factory=list)  # "IP@MAC"
    mac: str = ""
    rxe: bool = True
    first_index: int = 0  # rdmaN and rxeN of its first device

    @staticmethod
    def parse(text):
        """KIND[=TARGET][,mtu=N][,ip=A/LEN]...[,neighbour=IP@MAC]...[,mac=M][,rxe=no]"""
        head, *options = text.split(",")
        kind, _, target = head.partition("=")
        if kind not in KINDS:
            raise UsageError(f"link '{text}': kind must be one of {', '.join(KINDS)}")
        if (kind != "veth") != bool(target):
            raise UsageError(f"link '{text}': {kind} is {KINDS[kind]}")
        link = Link(kind, target)
        for option in options:
            link._set(option, text)
        if kind == "veth" and not link.addresses:
            defaults = "10.8.0.1/24", "fd08::1/64", "10.8.0.2/24", "fd08::2/64"
            link.addresses = [ipaddress.ip_interface(address) for address in defaults]
        return link

    def _set(self, option, text):
        key, _, value = option.partition("=")
        try:
            if key == "mtu":
                self.mtu = int(value)
                if not MTU_MIN <= self.mtu <= MTU_MAX:
                    raise ValueError(f"mtu must be {MTU_MIN} to {MTU_MAX}")
            elif key == "ip":
                self.addresses.append(ipaddress.ip_interface(value))
            elif key == "neighbour":
                address, _, mac = value.partition("@")
                self.neighbours.append((ipaddress.ip_address(address), _checked_mac(mac)))
            elif key == "mac":
                self.mac = _checked_mac(value)
            elif key == "rxe":
                self.rxe = {"yes": True, "no": False}[value]
            else:
                raise ValueError("options are mtu, ip, neighbour, mac, rxe")
        except (ValueError, KeyError) as error:
            raise UsageError(f"link '{text}': '{option}': {error}") from None

    def device_count(self):
        """How many network devices it makes in the guest."""
        return 2 if self.kind == "veth" else 1

    def mac_of(self, name, end=0):
        """The MAC address of an end: as given, else locally administered and derived from the name."""
        if self.mac and end == 0:
            return self.mac
        digest = hashlib.sha256(f"{name}/{self.first_index + end}".encode()).digest()
        return "52:54:00:aa:" + ":".join(f"{byte:02x}" for byte in digest[:2])

    def check(self):
        """Raises UsageError where the host's side of the link is not there yet."""
        if self.kind == "vhost-user":
            path = pathlib.Path(self.target)
            if not path.exists() or not stat.S_ISSOCK(path.stat().st_mode):
                raise UsageError(f"no vhost-user socket at {path}: start the DPDK process first")
        if self.kind == "tap" and not _is_tap(self.target):
            raise UsageError(f"no tap interface {self.target}: ip tuntap add {self.target} mode tap")

    def qemu_commands(self, name, directory):
        """What adds it to a running QEMU: (command, arguments) of QMP; `directory` is where the
        sockets between guests are."""
        if self.kind == "veth":
            return []
        ident = f"data{self.first_index}"
        netdev, device = {"id": ident}, {"driver": "virtio-net-pci", "netdev": ident, "mac": self.mac_of(name),
                                         "romfile": ""}
        commands = [("netdev_add", netdev), ("device_add", device)]
        if self.kind.startswith("vhost-user"):
            backend = {"type": "socket", "data": {"addr": _unix(self.target, "data"),
                                                  "server": self.kind == "vhost-user-server", "wait": False}}
            commands.insert(0, ("chardev-add", {"id": f"char-{ident}", "backend": backend}))
            netdev |= {"type": "vhost-user", "chardev": f"char-{ident}"}
            # With interrupt vectors QEMU 7.2 crashes on vhost-user under software emulation.
            device["vectors"] = 0
        elif self.kind == "tap":
            netdev |= {"type": "tap", "ifname": self.target, "script": "no", "downscript": "no"}
            # A process that reads the tap as raw frames knows no partial checksums or segments.
            device |= dict.fromkeys(("csum", "guest_csum", "gso", "guest_tso4", "guest_tso6", "guest_ufo",
                                     "host_tso4", "host_tso6", "host_ufo"), False)
        elif self.kind == "guest":
            netdev |= {"type": "dgram", "local": _unix(f"{directory}/{self.target}-to-{name}"),
                       "remote": _unix(f"{directory}/{name}-to-{self.target}")}
        else:
            # QEMU takes many frames of a stream at a time, of datagrams one.
            serves = self.kind == "guest-server"
            path = f"{directory}/{self.target}-at-{name}" if serves else f"{directory}/{name}-at-{self.target}"
            netdev |= {"type": "stream", "server": serves, "addr": _unix(path)}
        return commands

    def own_socket(self, name, directory):
        """The socket that the guest leaves among those between guests, or None."""
        infix = {"guest": "to", "guest-server": "at"}.get(self.kind)
        return infix and directory / f"{self.target}-{infix}-{name}"

    def setup_commands(self, name):
        """Shell commands that make the link's devices rdmaN and rxeN in the guest."""
        ends = [f"rdma{self.first_index + end}" for end in range(self.device_count())]
        if self.kind == "veth":
            commands = [f"ip link add {ends[0]} address {self.mac_of(name, 0)} mtu {self.mtu} "
                        f"type veth peer name {ends[1]} address {self.mac_of(name, 1)} mtu {self.mtu}"]
        else:
            # It was added a moment ago.
            commands = ["tries=0",
                        f"until d=$(grep -lx {self.mac_of(name)} /sys/class/net/*/address); do",
                        f"  [ $((tries += 1)) -lt {DEVICE_LOOKS} ] || {{ echo 'no {ends[0]}' >&2; exit 1; }}",
                        "  sleep 0.02", "done",
                        f"d=${{d%/address}}; ip link set ${{d##*/}} name {ends[0]} mtu {self.mtu}"]
        half = len(self.addresses) // len(ends)
        for end, device in enumerate(ends):
            commands += [f"echo {value} >/proc/sys/net/{setting % device}"
                         for setting, value in SETTINGS.items()]
            for address in self.addresses[end * half:(end + 1) * half]:
                nodad = " nodad" if address.version == 6 else ""
                commands.append(f"ip addr add {address} dev {device}{nodad}")
            commands.append(f"ip link set {device} up")
        commands += self._neighbour_commands(name, ends, half)
        if self.rxe:
            commands += [f"rdma link add rxe{device[4:]} type rxe netdev {device}" for device in ends]
        return commands

    def _neighbour_commands(self, name, ends, half):
        found = [(ends[0], address, mac) for address, mac in self.neighbours]
        if self.kind == "veth":
            for end, device in enumerate(ends):
                other = 1 - end
                for address in self.addresses[other * half:(other + 1) * half]:
                    found.append((device, address.ip, self.mac_of(name, other)))
                local = _link_local(self.mac_of(name, other))
                found.append((device, local, self.mac_of(name, other)))
        return [f"ip neigh replace {address} lladdr {mac} nud permanent dev {device}"
                for device, address, mac in found]

    def describe(self, name):
        """The devices it makes, for `list` and the summary of `start`."""
        half = len(self.addresses) // self.device_count()
        return [{
            "netdev": f"rdma{self.first_index + end}",
            "rdma_device": f"rxe{self.first_index + end}" if self.rxe else None,
            "mac": self.mac_of(name, end),
            "mtu": self.mtu,
            "addresses": [str(a.ip) for a in self.addresses[end * half:(end + 1) * half]],
            "link": self.kind + (f"={self.target}" if self.target else ""),
        } for end in range(self.device_count())]


def number(links):
    """Gives each link its device numbers, in the order of the command line."""
    index = 0
    for link in links:
        link.first_index = index
        index += link.device_count()
    return links


def _checked_mac(text):
    parts = text.split(":")
    if len(parts) != 6 or not all(len(part) == 2 and int(part, 16) >= 0 for part in parts):
        raise ValueError("a MAC address is six hexadecimal bytes with colons")
    if int(parts[0], 16) & 1:
        raise ValueError("a multicast MAC address")
    return text.lower()


def _link_local(mac):
    """RFC 4291 appendix A: the link-local address of an interface with this MAC address."""
    parts = [int(part, 16) for part in mac.split(":")]
    parts = [parts[0] ^ 2, parts[1], parts[2], 0xFF, 0xFE, *parts[3:]]
    return ipaddress.IPv6Address(b"\xfe\x80" + bytes(6) + bytes(parts))


