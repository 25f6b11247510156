# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""A guest that has booted, in a folder of the cache: its memory, and all else as QEMU's migration
stream. Later guests of its kind begin with it, in a third of the processor time."""

import contextlib
import hashlib
import os
import pathlib
import shlex
import shutil
import subprocess
import tempfile

from .image import find_program, forget_old


class Frozen:
    """What is kept for machines of these `arguments`, the first of which is QEMU. Without zstd
    nothing is kept."""

    def __init__(self, cache, arguments):
        status = os.stat(arguments[0])
        what = [*map(str, arguments), str(status.st_size), str(status.st_mtime_ns)]
        digest = hashlib.sha256("\0".join(what).encode()).hexdigest()[:16]
        self._zstd = find_program("zstd")
        self._folder = pathlib.Path(cache, f"guest-{digest}")

    def exists(self):
        """Whether a guest can go on from it."""
        return self._zstd is not None and self._folder.exists()

    def is_wanted(self):
        """Whether a guest that has booted is to be kept."""
        return self._zstd is not None and not self._folder.exists()

    def forget(self):
        """It has led to no guest."""
        shutil.rmtree(self._folder, ignore_errors=True)

    def reader(self):
        """The command of a shell that writes the stream."""
        return f"cat {shlex.quote(str(self._folder / 'stream'))}"

    def fill(self, memory):
        """Writes the memory to a file, which is empty. What is used is kept for longer than others.
        Raises OSError."""
        os.utime(self._folder)
        done = subprocess.run([self._zstd, "-dcq", "--sparse", self._folder / "memory"], stdout=memory,
                              stderr=subprocess.PIPE, text=True, check=False)
        if done.returncode != 0:
            raise OSError(done.stderr.strip())

    @contextlib.contextmanager
    def new(self, memory):
        """Gives the command of a shell that takes the stream, which counts, with the memory as it is
        then, when nothing fails. A guest runs without it as well: where there is no room, nothing
        is kept."""
        with contextlib.suppress(OSError, subprocess.CalledProcessError), \
             tempfile.TemporaryDirectory(dir=self._folder.parent, ignore_cleanup_errors=True) as part:
            whole = pathlib.Path(part, "whole")
            whole.mkdir()
            yield f"cat >{shlex.quote(str(whole / 'stream'))}"
            with open(f"/proc/self/fd/{memory}", "rb") as content, open(whole / "memory", "wb") as packed:
                subprocess.run([self._zstd, "-1cq"], stdin=content, stdout=packed, check=True)
            if (whole / "stream").stat().st_size > 0:
                whole.rename(self._folder)
            forget_old(self._folder.parent, "guest-*")
