# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""The rules that a capture is judged by.

A rule that `is_trait` says what devices commonly do and no clause demands: a packet that is otherwise
is told of once a flow and breaks nothing, unless the options are strict.

A rule that `needs_view` compares what an endpoint sent with all that it sent and received before.
It is judged only where the capture shows all of that (see options.Options.sees_all_of).
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Rule:
    id: str
    source: str  # where the rule comes from; "vol. 1" is the InfiniBand Architecture Specification
    text: str
    needs_view: bool = False
    is_trait: bool = False


_FRAMING = [
    Rule("ip-length", "RFC 791, RFC 8200", "The IP packet lies within the frame."),
    Rule("udp-length", "RFC 768", "The UDP length is that of the IP payload."),
    Rule("ipv4-checksum", "RFC 791", "The IPv4 header checksum is right."),
    Rule(
        "ipv4-fragment",
        "annex A17",
        "IPv4 has Don't Fragment set and the packet is no fragment.",
    ),
    Rule("udp-checksum", "annex A17; RFC 768", "The UDP checksum is 0 or right."),
    Rule(
        "udp-source-port",
        "practice",
        "The UDP source port lies in 0xC000-0xFFFF (RC, UC, XRC and DC), the range of IANA for such "
        "ports, as Linux chooses it. Annex A17 calls the port an opaque identifier of the flow.",
        is_trait=True,
    ),
    Rule(
        "udp-source-port-constant",
        "annex A17",
        "All packets to one connected queue pair have the same UDP source port: it is the entropy "
        "that keeps a flow on one path.",
    ),
    Rule("bth-version", "vol. 1, 9.2.5", "The transport version of the BTH is 0."),
    Rule(
        "bth-reserved",
        "vol. 1, 9.2",
        "Reserved bits of the BTH are 0. Receivers ignore them, and some devices use them among "
        "themselves.",
        is_trait=True,
    ),
    Rule("bth-pkey", "vol. 1, 9.2.6", "The P_Key is 0xFFFF, or one given by option."),
    Rule("opcode-defined", "vol. 1, 9.2.1", "The opcode is one that the specification defines."),
    Rule(
        "header-length",
        "vol. 1, 9.2.1",
        "The packet has room for the headers of its opcode, and no payload where the opcode has "
        "none (8 bytes for ATOMIC WRITE).",
    ),
    Rule("payload-alignment", "vol. 1, 9.2.4", "Payload and padding are a multiple of 4 bytes."),
    Rule(
        "pad-count",
        "vol. 1, 9.2.4",
        "The pad count is no larger than what is there, and 0 in FIRST and MIDDLE packets and in "
        "packets without payload.",
    ),
    Rule("pad-zero", "vol. 1, 9.2.4", "Padding consists of zero bytes."),
    Rule("icrc", "vol. 1, 7.8.1; annex A17", "The invariant CRC is right."),
    Rule(
        "aeth-syndrome",
        "vol. 1, 9.3.5",
        "The AETH syndrome has a defined kind and NAK code, its first bit is 0, and a response "
        "that carries data has the syndrome of an ACK (its credit field takes all 32 values).",
    ),
    Rule(
        "cnp-format",
        "annex A17",
        "A CNP has BECN set, PSN 0 and 16 reserved bytes of zero.",
    ),
    Rule("ud-size", "vol. 1, 9.8.3", "A UD message fits one packet of at most the path MTU."),
]

_SEGMENTATION = [
    Rule(
        "segment-size",
        "vol. 1, 9.7.4, 9.8.2",
        "FIRST and MIDDLE carry exactly the path MTU, LAST 1 to path MTU, ONLY 0 to path MTU.",
    ),
    Rule(
        "opcode-sequence",
        "vol. 1, 9.7.2, 9.8.2",
        "FIRST, MIDDLE... and LAST of one message follow each other without anything in between, "
        "and MIDDLE or LAST never come without a FIRST of the same operation.",
        needs_view=True,
    ),
    Rule(
        "reth-length",
        "vol. 1, 9.3.3",
        "The DMA length of the RETH of a WRITE equals the bytes of its packets.",
    ),
    Rule("message-length", "vol. 1, 9.4", "No message is longer than 2^31 bytes."),
]

_REQUESTER = [
    Rule(
        "psn-advance",
        "vol. 1, 9.7.1",
        "The PSN of a new request follows that of the request before it: by 1, after a READ by the "
        "number of its response packets.",
        needs_view=True,
    ),
    Rule(
        "psn-window",
        "vol. 1, 9.7.1",
        "No more than 2^23 PSNs are outstanding.",
        needs_view=True,
    ),
    Rule(
        "retransmit-content",
        "vol. 1, 9.7.1",
        "A retransmitted request repeats the first transmission; only the AckReq and solicited "
        "event bits may differ.",
    ),
    Rule(
        "read-retry-range",
        "vol. 1, 9.7.5",
        "A READ request resumed in the middle asks for exactly the rest of the first one.",
    ),
    Rule(
        "retransmit-acknowledged",
        "vol. 1, 9.7.5",
        "A retransmission does not go back behind what was acknowledged.",
        needs_view=True,
    ),
    Rule(
        "retransmit-hole",
        "vol. 1, 9.7.5",
        "Going back means to resend everything from there: no PSN that is not acknowledged is "
        "skipped.",
        needs_view=True,
    ),
    Rule(
        "nak-not-followed",
        "vol. 1, 9.7.5",
        "After a NAK for a sequence error the requester goes back to the PSN of the NAK.",
        needs_view=True,
    ),
    Rule(
        "rnr-wait",
        "vol. 1, 9.7.5",
        "After an RNR NAK nothing is sent from its PSN on before the RNR timer has elapsed.",
        needs_view=True,
    ),
    Rule(
        "max-rd-atomic",
        "vol. 1, 9.4.4, 9.4.5",
        "No more READ and ATOMIC requests are outstanding than were agreed (by option).",
        needs_view=True,
    ),
]

_RESPONDER = [
    Rule(
        "ack-psn",
        "vol. 1, 9.7.5",
        "A response never has a PSN beyond what was received in order.",
        needs_view=True,
    ),
    Rule(
        "ack-backwards",
        "vol. 1, 9.7.5",
        "The PSNs of acknowledgements never decrease, except in answer to a duplicate request.",
        needs_view=True,
    ),
    Rule(
        "response-order",
        "vol. 1, 9.7.5",
        "A READ or ATOMIC request is answered by its own response before any later request is, and "
        "a response fits the kind of its request.",
        needs_view=True,
    ),
    Rule(
        "ack-owed",
        "vol. 1, 9.7.5; C9-105 for duplicates",
        "A request with AckReq, a READ and an ATOMIC are answered at last.",
        needs_view=True,
    ),
    Rule(
        "nak-sequence-psn",
        "vol. 1, 9.7.5",
        "A NAK for a sequence error carries the expected PSN, and a request beyond it was "
        "received.",
        needs_view=True,
    ),
    Rule(
        "nak-repeated",
        "vol. 1, 9.7.5",
        "A gap draws one NAK: no second one before the expected PSN has arrived.",
        needs_view=True,
    ),
    Rule(
        "nak-after-rnr",
        "vol. 1, 9.7.5",
        "After an RNR NAK the requests behind it are dropped silently: no NAK for a sequence error "
        "before the refused PSN has arrived again.",
        needs_view=True,
    ),
    Rule(
        "nak-psn",
        "vol. 1, 9.7.5",
        "An RNR NAK or a NAK for an error carries the PSN of a request that was received and not "
        "yet acknowledged.",
        needs_view=True,
    ),
    Rule(
        "response-after-error",
        "vol. 1, 9.9",
        "Nothing is sent to the requester after a NAK that puts the responder in the error state.",
        needs_view=True,
    ),
    Rule(
        "msn-count",
        "vol. 1, 9.7.7.1; C9-148 for READ",
        "The MSN counts the messages completed up to the PSN of the acknowledgement.",
        needs_view=True,
    ),
    Rule("msn-backwards", "vol. 1, 9.7.7.1", "The MSN never decreases.", needs_view=True),
    Rule(
        "read-response-unrequested",
        "vol. 1, 9.4.4",
        "Each run of READ responses answers a READ request that covers its PSNs, once.",
        needs_view=True,
    ),
    Rule(
        "read-response-sequence",
        "vol. 1, 9.4.4",
        "READ responses follow each other PSN by PSN, FIRST at the start of the request's range, "
        "LAST at its end, ONLY when it has one packet.",
        needs_view=True,
    ),
    Rule(
        "read-response-size",
        "vol. 1, 9.4.4",
        "FIRST and MIDDLE responses carry the path MTU, the last one the rest of the length asked "
        "for.",
    ),
    Rule(
        "read-response-content",
        "vol. 1, 9.7.1",
        "A repeated READ gets the same bytes (unless memory changes, by option).",
    ),
    Rule(
        "atomic-replay",
        "vol. 1, 9.4.5, 9.7.1",
        "A repeated ATOMIC gets the result of the first execution.",
    ),
]

_WIRE, _DC = "docs/wire.md", "docs/dc.md"
_DYNAMIC = [
    Rule(
        "dc-format",
        _WIRE,
        "DCSH and the messages of 0xD8 and 0xDE are as documented: lengths, ranges, reserved bits "
        "0; a response has form 1; the request of 0xDE has the first PSN.",
    ),
    Rule(
        "dc-connect-repeat",
        _DC,
        "A CONNECT with a nonce that its DCI has used repeats the first one, all but the flags.",
    ),
    Rule(
        "dc-one-connect",
        _DC,
        "A stream connects with a new nonce only when its connection before is over: a DISCONNECT "
        "was sent, or a NAK or CNAK came that ends it.",
        needs_view=True,
    ),
    Rule(
        "dc-sent-again",
        _DC,
        "After a CNAK 'stale session' the next connection has another target only when none of the "
        "outstanding requests is to be sent again.",
        needs_view=True,
    ),
    Rule(
        "dc-one-target",
        _DC,
        "Requests and repeated CONNECTs belong to the newest connection of their stream.",
        needs_view=True,
    ),
    Rule(
        "dc-unacknowledged",
        _DC,
        "A DISCONNECT is sent when all requests of its session are acknowledged.",
        needs_view=True,
    ),
    Rule("dc-closed", _DC, "No request follows the DISCONNECT of its session.", needs_view=True),
    Rule(
        "dc-session",
        _DC,
        "The session of a request, DISCONNECT or KEEPALIVE was given by an ACCEPT of this very "
        "target to this very initiator and stream.",
    ),
    Rule(
        "dc-nonce",
        _DC,
        "A request of form 0 follows the CONNECT that had its nonce.",
        needs_view=True,
    ),
    Rule(
        "dc-nonce-owner",
        _DC,
        "The nonce of a request of form 0 is not that of another stream's or target's CONNECT.",
    ),
    Rule(
        "dc-form",
        _WIRE,
        "Requests have form 0 only until the initiator knows the session.",
        needs_view=True,
    ),
    Rule(
        "dc-psn",
        _DC,
        "The requests of a connection have the PSNs from that of its CONNECT on, without a gap, up "
        "to that of its DISCONNECT.",
        needs_view=True,
    ),
    Rule(
        "dc-accept",
        _DC,
        "An ACCEPT answers a CONNECT with its nonce, with a PSN of that connection, and a nonce "
        "gets one session.",
    ),
    Rule("dc-session-reused", _DC, "No session id is given twice."),
    Rule(
        "dc-cnak",
        _WIRE,
        "A CNAK has the nonce and the session id of a packet that its sender got.",
    ),
    Rule(
        "dc-response-early",
        _DC,
        "A response follows the ACCEPT that gave its session.",
        needs_view=True,
    ),
    Rule(
        "dc-response-session",
        _DC,
        "A response has the session of the target, the initiator and the stream that it names.",
    ),
    Rule(
        "dc-response-psn",
        _DC,
        "The PSN of a response is one of the requests sent in its session.",
    ),
]

_LOCKS = [
    Rule(
        "lock-format",
        _WIRE,
        "LKETH, LKAETH and the payload of a request are as documented: subtypes, sizes, flags, "
        "status, a cause of failures only, reserved bits 0.",
    ),
    Rule(
        "lock-scope",
        _WIRE,
        "As many request packets follow an acquire as it announces: accesses, and at last the "
        "release of its scope.",
        needs_view=True,
    ),
    Rule(
        "lock-pipelined",
        "US 9,699,110, claim 1",
        "No request of a scope is held back until an answer to one of them is there.",
        needs_view=True,
    ),
    Rule(
        "lock-waiting",
        _WIRE,
        "While a request waits at the target, which says so, it is sent again only after the "
        "timeout that it names, or when something is lost.",
        needs_view=True,
    ),
    Rule(
        "lock-resend",
        "vol. 1, 9.7.5",
        "Over a dynamic connection an acquire is not sent again before the timer of its RNR NAK "
        "has elapsed (of RC: rnr-wait).",
        needs_view=True,
    ),
    Rule(
        "lock-answer",
        _WIRE,
        "An answer has the scope id, and a status and cause that fit its request; an acquire that "
        "is not to wait at the target does not.",
    ),
    Rule(
        "lock-order",
        "vol. 1, 9.7.5",
        "A lock request is answered by a lock response before any later request is answered, and "
        "not before a READ, an atomic or a lock request in front of it is; 'waiting' comes first.",
        needs_view=True,
    ),
    Rule(
        "lock-replay",
        _WIRE,
        "A request has one outcome: a repeated answer has the same status, cause, previous word "
        "and value.",
    ),
    Rule(
        "lock-read-replay",
        _WIRE,
        "A repeated READ of a scope gets the same bytes, although memory changes.",
    ),
    Rule(
        "lock-failed-scope",
        _WIRE,
        "Of a scope whose acquire failed no READ, atomic or release is executed; of one that was "
        "released nothing is flushed.",
    ),
    Rule(
        "lock-token",
        _WIRE,
        "No fencing token of a lock word is given twice, and none that is not higher than those "
        "given before its acquire came.",
    ),
    Rule(
        "lock-token-order",
        _WIRE,
        "The fencing tokens of a lock word increase in the order in which the grants are sent.",
        needs_view=True,
    ),
    Rule(
        "lock-owner",
        _WIRE,
        "No two locks exclude each other and are both granted and not yet asked to be released; a "
        "lock whose lease ends is none.",
    ),
    Rule(
        "lock-owner-order",
        _WIRE,
        "Between a grant and its answer 'released' no lock is granted that excludes it.",
        needs_view=True,
    ),
]

RULES = {
    rule.id: rule
    for rule in (*_FRAMING, *_SEGMENTATION, *_REQUESTER, *_RESPONDER, *_DYNAMIC, *_LOCKS)
}
