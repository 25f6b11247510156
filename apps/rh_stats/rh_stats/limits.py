# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""What the server takes from whoever connects, and what it counts."""

REQUEST_LINE_MAX = 2048
HEADERS_MAX = 16384
HEADER_LINES_MAX = 64
REQUESTS_PER_CONNECTION = 1000
# Those that have asked for nothing for the longest time make room for others.
CONNECTIONS_MAX = 64
STREAMS_MAX = 16
# A request is whole after so long; a connection without one ends; what is sent is taken.
REQUEST_S = 5.0
IDLE_S = 20.0
SEND_S = 10.0
# A stream whose client has not taken so many bytes yet misses updates; the kernel keeps as many for it.
STREAM_BUFFER_MAX = 1 << 18

COUNTERS = {
    'requests': 'requests answered with what was asked for',
    'connections': 'connections accepted',
    'updates': 'updates sent to live pages, each one counted',
    'refused_connection': 'connections refused: too many, and all of them busy',
    'refused_stream': 'live pages refused: too many look already',
    'refused_host': 'requests refused: the Host header names no address of this server (DNS rebinding)',
    'refused_cross_site': 'requests refused: made by a page of another site',
    'refused_method': 'requests refused: a method other than GET and HEAD',
    'refused_path': 'requests refused: there is no such path',
    'refused_version': 'requests refused: neither HTTP/1.1 nor HTTP/1.0',
    'refused_malformed': 'requests refused: no HTTP request line or header',
    'refused_line_too_long': 'requests refused: the request line is too long',
    'refused_headers_too_long': 'requests refused: too many headers, or too long ones',
    'refused_body': 'requests refused: they have a body',
    'refused_failure': 'requests not answered: the server failed at it',
    'left_early': 'connections that the client ended amid a request',
    'slow_request': 'connections ended: no whole request in time',
    'slow_receiver': 'connections ended: the client did not take the answer in time',
    'idle': 'connections ended: no further request for long',
    'pushed_out': 'connections ended unused to make room for another one',
    'missed_updates': 'updates that a live page did not get, as it had not taken those before',
    'not_accepted': 'connections that could not be accepted: no descriptors left, or the like',
}
