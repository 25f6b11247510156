# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""Runs tshark with the dissector, and takes its output apart."""

import dataclasses
import os
import pathlib
import shutil
import struct
import subprocess
import xml.etree.ElementTree

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / 'wireshark' / 'rockhopper.lua'
_SEPARATOR, _AGGREGATOR = '\x1f', '\x1e'


def is_installed() -> bool:
    return shutil.which('tshark') is not None


def save(path: pathlib.Path, frames: list[bytes], sizes: list[int] | None = None) -> pathlib.Path:
    """Writes a capture; `sizes`: what the frames had on the wire, if they are cut."""
    parts = [struct.pack('<IHHiIII', 0xA1B2C3D4, 2, 4, 0, 0, 1 << 16, 1)]
    for index, data in enumerate(frames):
        size = sizes[index] if sizes else len(data)
        parts.append(struct.pack('<IIII', 1_700_000_000, index % 1_000_000, len(data), size) + data)
    path.write_bytes(b''.join(parts))
    return path


@dataclasses.dataclass
class Item:
    """One item of a dissection."""

    name: str
    value: str
    text: str
    position: int
    size: int


class Tshark:
    """Root is nobody here: tshark loads no scripts for root (Wireshark 4.4)."""

    def __init__(self, folder: pathlib.Path):
        """`folder` gets the dissector and an empty configuration: neither preferences nor plugins
        of this machine are used. Everybody may read it, as nobody reads captures there."""
        folder.chmod(0o755)
        configuration = folder / 'configuration'
        configuration.mkdir()
        names = ('HOME', 'XDG_CONFIG_HOME', 'WIRESHARK_CONFIG_DIR', 'WIRESHARK_PLUGIN_DIR')
        self._environment = os.environ | {name: str(configuration) for name in names}
        self._nobody = ({'user': 'nobody', 'group': 'nogroup', 'extra_groups': []}
                        if os.geteuid() == 0 else {})
        # Nobody may not be allowed to read the repository.
        self.script = pathlib.Path(shutil.copy(SCRIPT, folder))

    def run(self, *arguments, scripts=None) -> str:
        command = ['tshark', *map(str, arguments)]
        for script in [self.script] if scripts is None else scripts:
            command += ['-X', f'lua_script:{script}']
        done = subprocess.run(command, env=self._environment, cwd='/', capture_output=True,
                              text=True, errors='replace', stdin=subprocess.DEVNULL,
                              **self._nobody)
        complaints = done.stderr.splitlines()
        if done.returncode or complaints:
            raise AssertionError('\n'.join([' '.join(command), *complaints]))
        return done.stdout

    def fields(self, capture, names, *options, **more) -> list[dict[str, list[str]]]:
        """For each packet the values of those fields that it has."""
        columns = [word for name in names for word in ('-e', name)]
        output = self.run('-r', capture, '-T', 'fields', '-E', f'separator={_SEPARATOR}', '-E',
                          f'aggregator={_AGGREGATOR}', *columns, *options, **more)
        return [{name: value.split(_AGGREGATOR)
                 for name, value in zip(names, line.split(_SEPARATOR)) if value}
                for line in output.split('\n')[:-1]]

    def columns(self, capture, **more) -> list[tuple[str, str]]:
        """Protocol and info of each packet, as they are shown. A field _ws.col.info would be what
        they were before the dissector came (Wireshark 4.4)."""
        form = 'gui.column.format:"Protocol","%p","Info","%i"'
        lines = self.run('-r', capture, '-P', '-o', form, **more).splitlines()
        return [tuple(line.strip().split(maxsplit=1)) for line in lines]

    def items(self, capture, protocol='rockhopper', **more) -> list[list[Item]]:
        """For each packet everything in the trees of `protocol`, the tree itself excepted."""
        root = xml.etree.ElementTree.fromstring(self.run('-r', capture, '-T', 'pdml', **more))
        return [[Item(field.get('name'), field.get('show'), field.get('showname'),
                      int(field.get('pos')), int(field.get('size')))
                 for tree in packet.iter('proto') if tree.get('name') == protocol
                 for field in tree.iter('field')]
                for packet in root.iter('packet')]

    def filter_names(self) -> set[str]:
        """All of the dissector, those of its expert infos included."""
        rows = [line.split('\t') for line in self.run('-G', 'fields').splitlines()]
        return {row[2] for row in rows if row[0] == 'F' and row[2].startswith('rockhopper.')}
