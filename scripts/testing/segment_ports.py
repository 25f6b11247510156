# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""Ports of the connection manager that processes of a segment have, as its table says
(stack/segment/layout.h)."""

import pathlib

SERVICES_AT = 64 + 128 * 128 + 2**16
PORTS = 2**16


def has_listener(segment, port):
    """Whether a process has the port, of connections or of datagrams. `segment` is a folder."""
    table = pathlib.Path(segment) / 'table'
    if not table.exists():
        return False
    services = table.read_bytes()[SERVICES_AT:][:2 * PORTS]
    return len(services) == 2 * PORTS and (services[port] or services[PORTS + port]) != 0
