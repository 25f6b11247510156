# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""A command that runs in a guest beside its caller."""

import threading

from .errors import GuestError


class Background(threading.Thread):
    """Started at once; join() waits for its end.  When the guest is stopped it ends too.

    `result` is that of Guest.execute() once it is there; `error` what happened instead.
    """

    def __init__(self, guest, command, timeout_s):
        super().__init__(daemon=True)
        self.guest = guest
        self.command = command
        self.timeout_s = timeout_s
        self.result = self.error = None
        self._output = bytearray()
        self.start()

    def run(self):
        try:
            self.result = self.guest.execute(self.command, stdout=self._output.extend,
                                             timeout_s=self.timeout_s)
        except (GuestError, OSError) as error:
            self.error = error

    def output(self):
        """Its standard output so far."""
        return bytes(self._output).decode(errors="replace")
