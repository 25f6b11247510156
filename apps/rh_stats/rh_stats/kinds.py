# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""Which counters mean what, by their group and name: the one place that knows.

Names are those of docs/counters.md. A group may have the name of its node in front ("left/engine") and a number
behind ("engine1", "port0", "port0_faults"); its family has neither.
"""

import functools
import re

# What may fall: all other counters only grow.
GAUGES = {('mac_table', 'entries'), ('mac_table', 'capacity'), ('switch', 'entries'), ('switch', 'capacity')}
# Packets and bytes received, and sent, of the groups that count what passes; a group has one of the names.
RECEIVED = (('ipackets', 'ibytes'), ('rx_packets', 'rx_bytes'), ('rx_frames', 'rx_bytes'), ('rx_datagrams', 'rx_bytes'),
            ('rcvd_pkts', 'rcvd_bytes'))
SENT = (('opackets', 'obytes'), ('tx_packets', 'tx_bytes'), ('tx_frames', 'tx_bytes'), ('tx_datagrams', 'tx_bytes'),
        ('sent_pkts', 'sent_bytes'))
# A drop is what is called so, or what says so of itself.
DROP_NAMES = re.compile(r'^drop_|_dropped_|^(device_)?(imissed|ierrors|oerrors|rx_nombuf)$|^tx_(no_buffer|queue_full)$')
DROP_TEXTS = re.compile(r'\b(dropped|lost)\b(?! ones)')
# Reasons of the host for which it drops packets begin so; others are events.
HOST_DROPS = re.compile(r'^(ethernet|arp|ipv4|ipv6|ip|udp|icmp|igmp|mld|nd)_(truncated|bad_|own_|not_ours|wrong_|unknown_|'
                        r'unsupported|options|fragment|extension_|mapped_|group_|no_|rate_limited|quote_)|^roce_v1$')
CONGESTION = re.compile(r'ecn|cnp|(^|_)paused?(_|$)|backpressure')
LOSSES = ('retransmitted_pkts', 'local_ack_timeout_err', 'rcvd_seq_err', 'send_seq_err', 'rcvd_rnr_err',
          'send_rnr_err', 'implied_nak_seq_err', 'out_of_seq_request', 'duplicate_request', 'retry_exceeded_err',
          'retry_rnr_exceeded_err', 'rcvd_selective_ack', 'send_selective_ack')


@functools.lru_cache(1 << 12)
def family_of(group):
    name = group.rpartition('/')[2]
    return re.sub(r'_+', '_', re.sub(r'[0-9]+(?=_|$)', '', name)).strip('_') or name


def is_gauge(group, counter):
    return (family_of(group), counter) in GAUGES


@functools.lru_cache(1 << 14)
def is_drop(group, counter, text):
    if DROP_NAMES.search(counter) or DROP_TEXTS.search(text):
        return True
    return family_of(group) == 'host' and bool(HOST_DROPS.search(counter))


def is_congestion(counter):
    return bool(CONGESTION.search(counter))


def is_loss(counter):
    return counter in LOSSES


def traffic_groups(groups):
    """Those of a program that count its traffic, once: ports, or what stands in their place, or the transport."""
    of_family = {}
    for group in groups:
        of_family.setdefault(family_of(group), []).append(group)
    found = [group for family in ('port', 'segment', 'udp') for group in of_family.get(family, ())]
    return found or of_family.get('engine', [])


def traffic_names(counters, directions):
    """The names by which a group counts packets and bytes of a direction; None if it does not."""
    return next((names for names in directions if names[0] in counters), None)
