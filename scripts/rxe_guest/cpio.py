# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""Writes a "newc" cpio archive, the format of an initramfs (kernel: early-userspace/buffer-format).

All owners are root and all times zero, so equal contents give equal archives and no root is needed.
"""

import stat


class Writer:
    """Appends entries to a binary file.  Parent directories are added as they are needed."""

    def __init__(self, out):
        self._out = out
        self._inode = 0
        self._names = set()

    def directory(self, name):
        """Adds a directory, with its parents; again is no error."""
        name = name.strip("/")
        if name and name not in self._names:
            self._parents(name)
            self._entry(name, stat.S_IFDIR | 0o755, b"")

    def file(self, name, content, mode=0o644):
        """Adds a regular file of `content` (bytes)."""
        self._parents(name.strip("/"))
        self._entry(name.strip("/"), stat.S_IFREG | mode, content)

    def symlink(self, name, target):
        """Adds a symbolic link."""
        self._parents(name.strip("/"))
        self._entry(name.strip("/"), stat.S_IFLNK | 0o777, target.encode())

    def close(self):
        """Ends the archive (the file stays open)."""
        self._entry("TRAILER!!!", 0, b"")

    def __contains__(self, name):
        return name.strip("/") in self._names

    def _parents(self, name):
        if "/" in name:
            self.directory(name.rpartition("/")[0])

    def _entry(self, name, mode, content):
        self._inode += 1
        self._names.add(name)
        encoded = name.encode() + b"\0"
        # magic, then thirteen fields of eight hexadecimal digits
        fields = (self._inode, mode, 0, 0, 1, 0, len(content), 0, 0, 0, 0, len(encoded), 0)
        head = b"070701" + b"".join(b"%08x" % field for field in fields) + encoded
        self._out.write(head + b"\0" * (-len(head) % 4))
        self._out.write(content)
        self._out.write(b"\0" * (-len(content) % 4))
