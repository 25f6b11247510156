// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include "stack/counter.h"

/// Counters of an adapter: X(name, meaning). Those of refusals are in docs/ami.md.
#define ROCKHOPPER_AMI_COUNTERS(X)                                                      \
  X(descriptors, "descriptors taken from injection FIFOs")                              \
  X(completion_descriptors, "of these, completion descriptors")                         \
  X(transfers_failed, "transfers that ended with another status than ok")               \
  X(transfers_waited, "transfers that found others for the same peer waiting")          \
  X(tx_eager, "messages sent with their payload")                                       \
  X(tx_shared, "of these, messages behind another one in the same SEND")                \
  X(tx_rendezvous, "messages sent without, for the peer to read it")                    \
  X(tx_replies, "SENDs with replies")                                                   \
  X(tx_probes, "signs of life asked for")                                               \
  X(rx_eager, "messages received with their payload")                                   \
  X(rx_shared, "of these, messages behind another one in the same SEND")                \
  X(rx_rendezvous, "messages received whose payload was to be read")                    \
  X(rx_reply_messages, "SENDs received with replies")                                   \
  X(rx_replies, "replies received to something that waits for one")                     \
  X(rx_failed, "receives that failed: too long for a buffer, or flushed")               \
  X(rx_not_send, "receives that a WRITE with immediate used up")                        \
  X(rx_long_header, "messages with more than 128 bytes for the handler")                \
  X(rx_malformed, "SENDs that are no message of this kind, or whose lengths are wrong") \
  X(rx_unknown_source, "messages of a sender that is not known")                        \
  X(rx_too_long, "messages refused as longer than max_message_bytes")                   \
  X(rx_unreadable, "payloads that could not be read: key, range, or peer gone")         \
  X(rx_over_limit, "messages beyond those that a peer may have without reply")          \
  X(stale_replies, "replies to nothing that waits for one")                             \
  X(peers_failed, "peers that did not answer")

/// Counters of a context: X(name, meaning).
#define ROCKHOPPER_AMI_CONTEXT_COUNTERS(X)                                        \
  X(injected, "instructions taken, into the FIFO or the queue before it")         \
  X(queued, "of these, instructions that had to wait for room in the FIFO")       \
  X(again, "instructions refused for want of room")                               \
  X(callbacks, "callbacks called")                                                \
  X(messages, "messages handled")                                                 \
  X(unknown_handlers, "messages refused, as there is no handler of their number") \
  X(peers_failed, "peers that did not answer, or that the adapter does not know")

/// Counters of a communicator: X(name, meaning).
#define ROCKHOPPER_AMI_COLLECTIVE_COUNTERS(X)                                      \
  X(started, "collectives started")                                                \
  X(completed, "collectives that ended well")                                      \
  X(failed, "collectives that ended with another status than ok")                  \
  X(syncs, "epochs that all ranks have ended")                                     \
  X(tx_messages, "messages sent")                                                  \
  X(tx_again, "messages sent again, as nobody knows what became of them")          \
  X(tx_aborts, "messages sent to say that the communicator is broken")             \
  X(rx_messages, "messages taken")                                                 \
  X(rx_early, "of these, messages for collectives that had not been started here") \
  X(rx_aborts, "messages that said that the communicator is broken")               \
  X(rx_malformed, "messages refused, as they were no message of a collective")     \
  X(rx_not_member, "messages refused, as their sender is not in the communicator") \
  X(rx_too_long, "messages refused, with more bytes than vector_bytes")            \
  X(rx_repeated, "messages dropped that had come before")                          \
  X(rx_unexpected, "messages refused that nobody waits for")                       \
  X(rx_mismatch, "messages of another collective than the one with that number is here")

namespace rockhopper::ami {

#define X(name, text) stack::Counter name;
struct Counters {
  ROCKHOPPER_AMI_COUNTERS(X)
};
struct ContextCounters {
  ROCKHOPPER_AMI_CONTEXT_COUNTERS(X)
};
struct CollectiveCounters {
  ROCKHOPPER_AMI_COLLECTIVE_COUNTERS(X)
};
#undef X

}  // namespace rockhopper::ami
