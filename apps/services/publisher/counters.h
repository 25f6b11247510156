// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include "stack/counter.h"

/// Counters of a store's writer: X(name, meaning).
#define ROCKHOPPER_PUBLISHER_STORE_COUNTERS(X)                       \
  X(messages, "messages written")                                    \
  X(message_bytes, "their payload bytes")                            \
  X(commits, "times that new messages were shown to subscribers")    \
  X(evicted, "messages that were given up for newer ones")           \
  X(paddings, "ends of the ring where the next message had no room") \
  X(refused_too_long, "messages refused as longer than message_max") \
  X(refused_no_slot, "messages refused, as all slots have other keys")

/// Counters of a reader: X(name, meaning).
#define ROCKHOPPER_PUBLISHER_READER_COUNTERS(X)                                             \
  X(rounds, "rounds of READs that were answered")                                           \
  X(idle_rounds, "of these, rounds that found nothing new")                                 \
  X(reads, "READs asked for")                                                               \
  X(read_bytes, "bytes of records that READs brought")                                      \
  X(messages, "messages delivered")                                                         \
  X(message_bytes, "their payload bytes")                                                   \
  X(skipped, "messages before the one to begin with")                                       \
  X(lost, "messages that were overwritten before they could be read")                       \
  X(lapped, "times that the publisher had overtaken this reader")                           \
  X(invalid_position, "records read again: of another round of the ring")                   \
  X(invalid_epoch, "records read again: of another epoch")                                  \
  X(invalid_sequence, "records read again: another sequence number than is next")           \
  X(invalid_length, "records read again: longer than a message can be, or than the others") \
  X(invalid_trailer, "records read again: the end is of another record")                    \
  X(invalid_checksum, "records read again: the checksum is wrong")                          \
  X(invalid_control, "control blocks that are none, or contradict themselves")              \
  X(given_up, "times that nothing between here and the tail could be read")                 \
  X(restarts, "new epochs met")                                                             \
  X(watches, "times that the publisher was asked to watch the tail")                        \
  X(wake_ups, "answers that the tail had changed")                                          \
  X(unchanged, "answers that it had not, as a sign of life")                                \
  X(deaths, "times that three heart-beats were missing")                                    \
  X(revivals, "times that the heart-beat came back")

/// Counters of a reader, of the copies that come besides: X(name, meaning).
#define ROCKHOPPER_PUBLISHER_COPY_COUNTERS(X)                                                    \
  X(received, "copies of messages that have come by multicast")                                  \
  X(taken, "messages delivered from their copies")                                               \
  X(held, "copies that came before their turn, and were kept")                                   \
  X(gaps, "times that a copy did not follow the one before")                                     \
  X(repaired, "messages READ, as their copies had not come")                                     \
  X(duplicates, "copies of messages that were there already")                                    \
  X(dropped, "copies for which there was no room; their messages are READ")                      \
  X(early, "copies that came before the first READ, or during a pause; their messages are READ") \
  X(unwanted, "copies that came while there was no access")                                      \
  X(invalid_length, "copies refused: shorter or longer than their message, or than one can be")  \
  X(invalid_epoch, "copies refused: of another epoch")                                           \
  X(invalid_sequence, "copies refused: number and position contradict what is known")            \
  X(invalid_checksum, "copies refused: the checksum or the end is wrong")                        \
  X(beyond_tail, "copies refused: of what the publisher had not published when they came")

/// Counters of a publisher, of the copies that it sends: X(name, meaning).
#define ROCKHOPPER_PUBLISHER_MULTICAST_COUNTERS(X)                                     \
  X(copies_sent, "messages sent by multicast")                                         \
  X(copy_bytes, "their bytes, with what they have besides the payload")                \
  X(copies_too_long, "messages not sent by multicast, as they are too long")           \
  X(copies_skipped, "messages not sent by multicast, as they were overwritten before") \
  X(copies_overtaken, "times that a store's writer had overtaken the multicast")       \
  X(copies_damaged, "times that there was no record in a store where one had to be")   \
  X(copies_failed, "sends of copies that failed")

/// Counters of a publisher: X(name, meaning).
#define ROCKHOPPER_PUBLISHER_COUNTERS(X)                                              \
  X(heartbeats, "heart-beats written, of all stores")                                 \
  X(rx_messages, "requests received")                                                 \
  X(rx_malformed, "messages refused, as they are none of this kind or version")       \
  X(rx_unexpected, "messages refused that no subscriber sends")                       \
  X(rx_unknown, "messages of a queue pair that is no subscriber's")                   \
  X(rx_failed, "receives that failed: too long for a buffer, or flushed")             \
  X(rx_over_limit, "requests dropped, as the answers to earlier ones were not taken") \
  X(tx_messages, "messages sent")                                                     \
  X(tx_failed, "messages, and bindings of windows, that failed")                      \
  X(directories, "directories sent")                                                  \
  X(grants, "stores granted")                                                         \
  X(revocations, "grants taken back")                                                 \
  X(leaves, "grants given back")                                                      \
  X(watches, "watches of a store's tail asked for")                                   \
  X(watch_answers, "answers to them: the tail has changed, or the publisher lives")   \
  X(refused_watch, "watches of a store that this subscriber has no grant for")        \
  X(refused_unknown_store, "subscriptions refused: there is no such store")           \
  X(refused_policy, "subscriptions refused by the policy")                            \
  X(refused_layout, "subscriptions refused: another layout version")                  \
  X(refused_exhausted, "subscriptions refused: no key left, or too many grants")      \
  X(subscribers_gone, "subscribers whose connection ended")

/// Counters of a subscriber: X(name, meaning).
#define ROCKHOPPER_PUBLISHER_SUBSCRIBER_COUNTERS(X)                             \
  X(tx_messages, "requests sent")                                               \
  X(rx_messages, "messages received")                                           \
  X(rx_malformed, "messages refused, as they are none of this kind or version") \
  X(rx_unexpected, "messages refused that nobody waits for")                    \
  X(rx_failed, "receives that failed: too long for a buffer, or flushed")       \
  X(grants, "stores granted")                                                   \
  X(refusals, "subscriptions refused")                                          \
  X(refused_layout, "grants that are of no use: another layout, or size")       \
  X(revocations, "grants taken back")                                           \
  X(watches, "watches asked for")                                               \
  X(watch_answers, "answers to them")                                           \
  X(watch_answers_late, "answers that nobody waits for any more")               \
  X(probes, "messages that only ask whether we are there")                      \
  X(reads, "READs posted")                                                      \
  X(reads_failed, "READs that failed")                                          \
  X(connections_lost, "connections that ended")                                 \
  X(multicast_received, "datagrams received from groups")                       \
  X(multicast_foreign, "of these, dropped as not the publisher's")              \
  X(multicast_malformed, "of these, dropped as no copy of a message")           \
  X(multicast_unwanted, "of these, dropped as of a store that is not read")     \
  X(multicast_failed, "receives from groups that failed")                       \
  X(multicast_refused, "groups that could not be attached to")

namespace rockhopper::publisher {

struct StoreCounters {
  ROCKHOPPER_COUNTERS(ROCKHOPPER_PUBLISHER_STORE_COUNTERS)
};
struct ReaderCounters {
  ROCKHOPPER_COUNTERS(ROCKHOPPER_PUBLISHER_READER_COUNTERS)
};
struct CopyCounters {
  ROCKHOPPER_COUNTERS(ROCKHOPPER_PUBLISHER_COPY_COUNTERS)
};
struct MulticastCounters {
  ROCKHOPPER_COUNTERS(ROCKHOPPER_PUBLISHER_MULTICAST_COUNTERS)
};
struct PublisherCounters {
  ROCKHOPPER_COUNTERS(ROCKHOPPER_PUBLISHER_COUNTERS)
};
struct SubscriberCounters {
  ROCKHOPPER_COUNTERS(ROCKHOPPER_PUBLISHER_SUBSCRIBER_COUNTERS)
};

}  // namespace rockhopper::publisher
