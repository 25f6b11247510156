// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstddef>
#include <cstdint>

#include "stack/segment/reader/public_part.h"

namespace rockhopper::verbs {

/// What a process of the device counts for it, in the order in which its tallies stand in the
/// segment's table: another order is another version of the table.
#define ROCKHOPPER_PORT_TALLIES(X) \
  X(xmit_unicast)                  \
  X(xmit_multicast)                \
  X(xmit_bytes)                    \
  X(xmit_discards)                 \
  X(rcv_unicast)                   \
  X(rcv_multicast)                 \
  X(rcv_bytes)                     \
  X(rcv_errors)                    \
  X(bad_icrc)                      \
  X(no_receive)
/// These are called as the engine's counters.
#define ROCKHOPPER_ENGINE_TALLIES(X) \
  X(sent_pkts)                       \
  X(rcvd_pkts)                       \
  X(duplicate_request)               \
  X(out_of_seq_request)              \
  X(rcvd_rnr_err)                    \
  X(send_rnr_err)                    \
  X(rcvd_seq_err)                    \
  X(ack_deferred)                    \
  X(implied_nak_seq_err)             \
  X(local_ack_timeout_err)           \
  X(retry_exceeded_err)              \
  X(retry_rnr_exceeded_err)          \
  X(rdma_sends)                      \
  X(rdma_recvs)                      \
  X(rx_write_requests)               \
  X(rx_read_requests)                \
  X(rx_atomic_requests)              \
  X(unreachable_pkts)                \
  X(np_ecn_marked_roce_packets)      \
  X(np_cnp_sent)                     \
  X(rp_cnp_handled)                  \
  X(rp_cnp_ignored)

enum class Tally : std::uint8_t {
#define X(name) name,
  ROCKHOPPER_PORT_TALLIES(X) ROCKHOPPER_ENGINE_TALLIES(X)
#undef X
      count,
  none = UINT8_MAX,
};
static_assert(static_cast<std::size_t>(Tally::count) <= stack::segment::kTallies);

/// A counter of /sys/class/infiniband/DEVICE/ports/1, which is the sum of up to three tallies of
/// all processes.
struct CounterFile {
  const char* path;  ///< below the port's folder
  Tally terms[3] = {Tally::none, Tally::none, Tally::none};
  unsigned bytes = 1;  ///< in a unit of the counter
};
/// Names and units are Linux's; those without a term have no meaning here and stay 0.
inline constexpr CounterFile kCounterFiles[] = {
    {"counters/VL15_dropped"},
    {"counters/excessive_buffer_overrun_errors"},
    {"counters/link_downed"},
    {"counters/link_error_recovery"},
    {"counters/local_link_integrity_errors"},
    {"counters/multicast_rcv_packets", {Tally::rcv_multicast, Tally::none, Tally::none}},
    {"counters/multicast_xmit_packets", {Tally::xmit_multicast, Tally::none, Tally::none}},
    {"counters/port_rcv_constraint_errors"},
    {"counters/port_rcv_data", {Tally::rcv_bytes, Tally::none, Tally::none}, 4},
    {"counters/port_rcv_errors", {Tally::rcv_errors, Tally::none, Tally::none}},
    {"counters/port_rcv_packets", {Tally::rcv_unicast, Tally::rcv_multicast, Tally::none}},
    {"counters/port_rcv_remote_physical_errors"},
    {"counters/port_rcv_switch_relay_errors"},
    {"counters/port_xmit_constraint_errors"},
    {"counters/port_xmit_data", {Tally::xmit_bytes, Tally::none, Tally::none}, 4},
    {"counters/port_xmit_discards", {Tally::xmit_discards, Tally::none, Tally::none}},
    {"counters/port_xmit_packets", {Tally::xmit_unicast, Tally::xmit_multicast, Tally::none}},
    {"counters/port_xmit_wait"},
    {"counters/symbol_error"},
    {"counters/unicast_rcv_packets", {Tally::rcv_unicast, Tally::none, Tally::none}},
    {"counters/unicast_xmit_packets", {Tally::xmit_unicast, Tally::none, Tally::none}},
    // Those of Linux's rxe.
    {"hw_counters/sent_pkts", {Tally::sent_pkts, Tally::none, Tally::none}},
    {"hw_counters/rcvd_pkts", {Tally::rcvd_pkts, Tally::none, Tally::none}},
    {"hw_counters/duplicate_request", {Tally::duplicate_request, Tally::none, Tally::none}},
    {"hw_counters/out_of_seq_request", {Tally::out_of_seq_request, Tally::none, Tally::none}},
    {"hw_counters/rcvd_rnr_err", {Tally::rcvd_rnr_err, Tally::none, Tally::none}},
    {"hw_counters/send_rnr_err", {Tally::send_rnr_err, Tally::none, Tally::none}},
    {"hw_counters/rcvd_seq_err", {Tally::rcvd_seq_err, Tally::none, Tally::none}},
    {"hw_counters/ack_deferred", {Tally::ack_deferred, Tally::none, Tally::none}},
    {"hw_counters/retry_exceeded_err", {Tally::retry_exceeded_err, Tally::none, Tally::none}},
    {"hw_counters/retry_rnr_exceeded_err",
     {Tally::retry_rnr_exceeded_err, Tally::none, Tally::none}},
    {"hw_counters/completer_retry_err",
     {Tally::local_ack_timeout_err, Tally::rcvd_seq_err, Tally::implied_nak_seq_err}},
    {"hw_counters/send_err", {Tally::unreachable_pkts, Tally::none, Tally::none}},
    {"hw_counters/link_downed"},
    {"hw_counters/rdma_sends", {Tally::rdma_sends, Tally::none, Tally::none}},
    {"hw_counters/rdma_recvs", {Tally::rdma_recvs, Tally::none, Tally::none}},
    // Those of mlx5.
    {"hw_counters/implied_nak_seq_err", {Tally::implied_nak_seq_err, Tally::none, Tally::none}},
    {"hw_counters/local_ack_timeout_err", {Tally::local_ack_timeout_err, Tally::none, Tally::none}},
    {"hw_counters/np_cnp_sent", {Tally::np_cnp_sent, Tally::none, Tally::none}},
    {"hw_counters/np_ecn_marked_roce_packets",
     {Tally::np_ecn_marked_roce_packets, Tally::none, Tally::none}},
    {"hw_counters/out_of_buffer", {Tally::send_rnr_err, Tally::no_receive, Tally::none}},
    {"hw_counters/out_of_sequence", {Tally::out_of_seq_request, Tally::none, Tally::none}},
    {"hw_counters/packet_seq_err", {Tally::rcvd_seq_err, Tally::none, Tally::none}},
    {"hw_counters/rnr_nak_retry_err", {Tally::rcvd_rnr_err, Tally::none, Tally::none}},
    {"hw_counters/rp_cnp_handled", {Tally::rp_cnp_handled, Tally::none, Tally::none}},
    {"hw_counters/rp_cnp_ignored", {Tally::rp_cnp_ignored, Tally::none, Tally::none}},
    {"hw_counters/rx_atomic_requests", {Tally::rx_atomic_requests, Tally::none, Tally::none}},
    {"hw_counters/rx_icrc_encapsulated", {Tally::bad_icrc, Tally::none, Tally::none}},
    {"hw_counters/rx_read_requests", {Tally::rx_read_requests, Tally::none, Tally::none}},
    {"hw_counters/rx_write_requests", {Tally::rx_write_requests, Tally::none, Tally::none}},
};

/// Makes a descriptor that has just been opened for reading show what its counter is now, if `path`
/// is one of the rendered tree `tree`: the same number then, as of a file in /sys. Any other
/// descriptor, also -1, remains as it is. errno stays.
void show_counter(int fd, const char* path, const char* tree);

/// Before the program reads a descriptor from its beginning, as `offset` says, or with a negative
/// one from where it stands: where that shows a counter, it shows what that is now. errno stays.
/// Costs nothing where no counter has been opened.
void refresh_counter(int fd, std::int64_t offset);

}  // namespace rockhopper::verbs
