// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>

#include "stack/counter.h"

namespace rockhopper::roce {

/// Why a received RoCE packet was not used. One counter each.
#define ROCKHOPPER_DROP_REASONS(X)                                                       \
  X(malformed, "headers do not fit the packet's length or are not RoCEv2")               \
  X(bad_icrc, "the ICRC does not match")                                                 \
  X(cnp_bad_length, "a CNP without 16 bytes behind its BTH, as some switches may send")  \
  X(ack_bad_pad, "an acknowledgement with a pad count, which has nothing to pad")        \
  X(unknown_opcode, "an opcode that IBTA does not define, and nobody is to answer")      \
  X(unserved_opcode, "an opcode that this engine does not serve")                        \
  X(unknown_qp, "no such queue pair")                                                    \
  X(bad_qp_state, "the queue pair's state takes no such packets")                        \
  X(bad_service, "the opcode's service is not the queue pair's")                         \
  X(bad_pkey, "the P_Key is of a partition that the queue pair is not in")               \
  X(bad_address, "source or destination address is not the connection's")                \
  X(no_group_member, "to a multicast group that no queue pair is attached to")           \
  X(ghost_acknowledge, "acknowledges a PSN that is not outstanding")                     \
  X(duplicate_response, "a response that has been received before")                      \
  X(out_of_order_response, "a response behind a missing one")                            \
  X(bad_response, "a response that does not fit the request")                            \
  X(out_of_seq_request, "a request behind a missing one")                                \
  X(bad_selective_ack, "selectively acknowledges nothing, or what was not sent")         \
  X(duplicate_request, "a request that has been executed before and needs no answer")    \
  X(rnr_dropped_request, "a request after an RNR NAK for an earlier one")                \
  X(refused_request, "answered with a NAK")                                              \
  X(lock_no_room, "a request behind a lock that is waited for: too many are")            \
  X(bad_qkey, "a datagram's Q_Key is not the queue pair's")                              \
  X(bad_sequence, "unreliable: an opcode that has no place at this point of a message")  \
  X(bad_length, "unreliable: a length that does not fit the packet's place or the RETH") \
  X(access_denied, "unreliable: a WRITE that the queue pair or the key does not allow")  \
  X(no_receive, "unreliable: no receive request waits for the message")                  \
  X(short_receive, "unreliable: the receive request is shorter than the message")        \
  X(bad_receive, "unreliable: the receive request names memory that cannot be used")     \
  X(dropped_message, "unreliable: the rest of a message of which something was dropped") \
  X(dc_bad_control, "DC: a control message that is none, or of another version")         \
  X(dc_unknown_session, "DC: of a connection that is not, or not yet, or no more")       \
  X(dc_access_key, "DC: a connect without the target's access key")

enum class DropReason : std::uint8_t {
#define X(name, text) name,
  ROCKHOPPER_DROP_REASONS(X)
#undef X
      count,
};

/// Counters of an engine. Names that rxe and mlx5 have too (hw_counters) mean the same here.
#define ROCKHOPPER_ENGINE_COUNTERS(X)                                                \
  X(sent_pkts, "RoCE packets handed to the link")                                    \
  X(rcvd_pkts, "RoCE packets received, dropped ones included")                       \
  X(sent_bytes, "UDP payload bytes of sent_pkts")                                    \
  X(rcvd_bytes, "UDP payload bytes of rcvd_pkts")                                    \
  X(duplicate_request, "requests received again")                                    \
  X(out_of_seq_request, "requests received ahead of the expected PSN")               \
  X(abandoned_messages, "UC messages that lack packets: begun, never completed")     \
  X(rcvd_rnr_err, "RNR NAKs received")                                               \
  X(send_rnr_err, "RNR NAKs sent")                                                   \
  X(rcvd_seq_err, "NAKs for a PSN sequence error received")                          \
  X(send_seq_err, "NAKs for a PSN sequence error sent")                              \
  X(send_nak, "other NAKs sent")                                                     \
  X(rcvd_nak, "other NAKs received")                                                 \
  X(ack_deferred, "acknowledgements saved by coalescing")                            \
  X(send_ack, "acknowledgements sent")                                               \
  X(rcvd_ack, "acknowledgements received")                                           \
  X(implied_nak_seq_err, "acknowledgements that skipped a READ or atomic response")  \
  X(local_ack_timeout_err, "retransmission timer expired")                           \
  X(retry_exceeded_err, "requests failed because retry_cnt was used up")             \
  X(retry_rnr_exceeded_err, "requests failed because rnr_retry was used up")         \
  X(retransmitted_pkts, "request packets sent again")                                \
  X(held_requests, "requests held until those before them come")                     \
  X(held_responses, "responses held until those before them come")                   \
  X(held_pkts_no_room, "packets not held: too many are, or too far ahead")           \
  X(send_selective_ack, "selective acknowledgements sent")                           \
  X(rcvd_selective_ack, "selective acknowledgements received")                       \
  X(rdma_sends, "messages sent")                                                     \
  X(rdma_recvs, "messages received into receive requests")                           \
  X(rx_write_requests, "WRITE messages executed")                                    \
  X(rx_read_requests, "READ requests executed")                                      \
  X(rx_atomic_requests, "atomic requests executed")                                  \
  X(rx_atomic_write_requests, "ATOMIC WRITE requests executed")                      \
  X(rx_lock_requests, "lock requests executed, whatever came of them")               \
  X(rx_flush_requests, "FLUSH requests executed")                                    \
  X(mw_binds, "memory windows bound or unbound by requests")                         \
  X(fast_registrations, "fast regions registered by requests")                       \
  X(local_invalidations, "keys invalidated by own requests")                         \
  X(remote_invalidations, "keys invalidated by the peer")                            \
  X(memory_request_errors, "binds, registrations and invalidations refused")         \
  X(stale_keys, "peers' requests with a key of an old generation")                   \
  X(local_errors, "requests failed by a local length or protection error")           \
  X(cq_overrun, "completions lost to a full completion queue")                       \
  X(async_events_lost, "asynchronous events that nobody took in time")               \
  X(unreachable_pkts, "packets of unreliable services not sent: no way to the peer") \
  X(overlong_datagrams, "UD requests longer than the path MTU: completed, not sent") \
  X(tx_no_mbuf, "times that sending waited for a free mbuf")                         \
  X(rcvd_multicast_pkts, "datagrams to groups received; each queue pair has a copy") \
  X(np_ecn_marked_roce_packets, "packets received with congestion experienced")      \
  X(np_cnp_sent, "congestion notifications sent")                                    \
  X(rp_cnp_handled, "congestion notifications received and obeyed")                  \
  X(rp_cnp_ignored, "congestion notifications for what has no use for them")

struct EngineCounters {
#define X(name, text) stack::Counter name;
  ROCKHOPPER_ENGINE_COUNTERS(X)
#undef X
  stack::Counter drops[static_cast<std::size_t>(DropReason::count)];
};

[[nodiscard]] const char* to_string(DropReason reason);

}  // namespace rockhopper::roce
