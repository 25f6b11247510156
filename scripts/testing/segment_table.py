# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""What stands at which place of a segment's table (stack/segment/layout.h), for tests that look."""

import pathlib

SLOTS, SLOT_BYTES, SLOTS_AT = 128, 128, 64
PORTS = 2**16
OWNERS_AT = SLOTS_AT + SLOTS * SLOT_BYTES  # of numbers of queue pairs
CLAIMS_AT = OWNERS_AT + 2**16  # of services
SERVERS_AT = CLAIMS_AT + 2 * PORTS
TALLIES_AT = SERVERS_AT + 2 * PORTS
TABLE_BYTES = TALLIES_AT + SLOTS * 64 * 8


def has_listener(segment, port):
    """Whether a process serves the port of the connection manager, of connections or of datagrams.
    `segment` is a folder."""
    table = pathlib.Path(segment) / 'table'
    if not table.exists():
        return False
    servers = table.read_bytes()[SERVERS_AT:TALLIES_AT]
    return len(servers) == 2 * PORTS and (servers[port] or servers[PORTS + port]) != 0
