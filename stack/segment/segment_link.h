// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include <rte_mempool.h>

#include "stack/counter.h"
#include "stack/error.h"
#include "stack/link.h"
#include "stack/roce_locator.h"
#include "stack/segment/lane.h"
#include "stack/segment/mapping.h"
#include "stack/segment/membership.h"
#include "stack/segment/outbox.h"
#include "stack/time_units.h"
#include "stack/without_icrc.h"

namespace rockhopper::stack::segment {

/// The queue pair of management datagrams, of which each member may have one.
inline constexpr std::uint32_t kSharedNumber = 1;

/// In place of a slot: the frame waits for a member that gets it, for kPatienceNs, and goes to the
/// member that sends it if none comes.
inline constexpr std::uint16_t kNobodyYet = UINT16_MAX;
inline constexpr std::uint64_t kPatienceNs = 200 * kNsPerMs;

/// Says which member gets a frame for kSharedNumber: its slot, in use or not, or kNobodyYet.
/// Nothing: the member that asks. The frame is anybody's.
using FindReceiver = std::optional<std::uint16_t> (*)(const rte_mbuf* frame,
                                                      const Membership& members);

/// Where frames go that are for no member.
enum class WayOut : std::uint8_t {
  none,     ///< nowhere
  gateway,  ///< to the member with that role, and what is no RoCEv2 with them
  self      ///< this member has the role: what it sends came from outside, and is for the others
};

struct SegmentLinkConfig {
  Membership* membership = nullptr;  ///< not owned
  rte_mempool* pool = nullptr;  ///< for what arrives, with room for a frame of `mtu`; not owned
  std::uint16_t mtu = 4300;     ///< largest IP packet in bytes; a path MTU of 4096 fits
  FindReceiver find_receiver = nullptr;  ///< null: kSharedNumber is as any other number
  WayOut way_out = WayOut::none;
  /// What arrives without an ICRC is given one by this; null: it stays so (is_without_icrc()).
  AddIcrc add_icrc = nullptr;
};

#define ROCKHOPPER_SEGMENT_COUNTERS(X)                                          \
  X(tx_frames, "frames put into the lanes of others")                           \
  X(tx_bytes, "bytes of these, of whole frames")                                \
  X(rx_frames, "frames taken out of lanes")                                     \
  X(rx_bytes, "bytes of these, of whole frames")                                \
  X(rx_without_icrc, "frames among these whose senders have left the ICRC out") \
  X(looped, "frames from this process to itself")                               \
  X(wake_ups, "sleeping members that were woken for a frame")                   \
  X(tx_no_owner, "frames dropped: nobody in the segment has the queue pair")    \
  X(tx_not_roce, "frames dropped: a segment carries RoCEv2 alone")              \
  X(tx_no_gateway, "frames dropped: nobody is the way out of the segment")      \
  X(tx_held, "frames that waited for room in a lane")                           \
  X(tx_awaited, "requests that waited for somebody to serve them")              \
  X(tx_lane_full, "frames dropped: the receiver takes none out of a full lane") \
  X(tx_no_lane, "frames dropped: no lane to the receiver could be made")        \
  X(tx_too_long, "frames dropped: longer than a lane takes")                    \
  X(rx_damaged, "lanes emptied: what was written into them makes no sense")     \
  X(rx_no_lane, "lanes not read: there is no memory behind them")               \
  X(rx_too_long, "frames dropped: longer than this member's MTU")               \
  X(rx_no_mbuf, "bursts that ended early: no mbuf was left")

struct SegmentCounters {
  ROCKHOPPER_COUNTERS(ROCKHOPPER_SEGMENT_COUNTERS)
};

/// An Ethernet link between the processes of a machine that have no device: real frames, which each
/// sender copies into a lane of its own to the receiver, and which the receiver copies out before
/// anything looks at them, as the sender may still change them. All members have one MAC address
/// and the same IP addresses; who gets a frame follows from its destination QPN. RoCEv2 frames to
/// groups go to all members, their sender included. A member can be the way out: what is for other
/// stations goes to it, and what comes from them it sorts by the same rules. Frames without an ICRC
/// stay so on their way from one member to another.
///
/// Nothing is lost on the way to a member that takes frames out, however slowly. One that stands
/// still is waited for: kStalledNs once, and then no more until it goes on. Frames to others pass
/// meanwhile, unless the frames that wait take a quarter of the pool. Those of services that repeat
/// what is lost are then dropped after 100 ms. One thread, but for those functions that say so.
class SegmentLink final : public Link {
 public:
  explicit SegmentLink(const SegmentLinkConfig& config);
  ~SegmentLink() override;

  [[nodiscard]] std::uint16_t rx_burst(rte_mbuf** packets, std::uint16_t count,
                                       std::uint64_t now_ns) override;
  [[nodiscard]] std::uint16_t tx_burst(rte_mbuf** packets, std::uint16_t count,
                                       std::uint64_t now_ns) override;
  /// Now, while own frames wait; soon, while frames wait for room or for a server.
  [[nodiscard]] std::uint64_t next_deadline_ns() const override {
    if (looped_taken_ != looped_put_) return 0;
    return std::min(holders_.empty() ? kNever : look_ns_,
                    unserved_.empty() ? kNever : look_for_servers_ns_);
  }
  [[nodiscard]] rte_ether_addr mac() const override { return membership_.mac(); }
  [[nodiscard]] std::uint16_t mtu() const override { return mtu_; }

  /// The slot of the member that gets the frame, which has that BTH and is for no group, or
  /// kNobodyYet; nothing if nobody does.
  [[nodiscard]] std::optional<std::uint16_t> receiver_of(const rte_mbuf* packet,
                                                         const BthSummary& bth) const;

  /// Frames wait for room in lanes. At most for kStalledNs, while bursts are asked for.
  [[nodiscard]] bool holds_frames() const { return !holders_.empty(); }
  /// Puts them into the lanes, as far as there is room. Bursts do so too.
  void flush(std::uint64_t now_ns);

  /// Before the thread sleeps: from now on a frame, or wake(), wakes it. Returns what to give to
  /// sleep(); nothing if a frame waits already.
  [[nodiscard]] std::optional<std::uint32_t> arm();
  /// Sleeps until then, or until CLOCK_MONOTONIC reaches `deadline_ns` (kNever: for ever); may
  /// return early. Any thread.
  void sleep(std::uint32_t armed, std::uint64_t deadline_ns);
  /// Any thread.
  void wake();
  /// The thread polls for some time from now on, before it calls arm() again: senders then need not
  /// wait for their frames to have got there. The next arm() takes longer. It is so at first.
  void stay_awake();

  [[nodiscard]] const SegmentCounters& counters() const { return counters_; }
  /// Any thread.
  void visit_counters(CounterVisitor visit, void* context) const {
    counters_.visit(visit, context);
  }
  /// Calls `visit` with the name of each counter and what it counts, in one line. Any thread.
  static void describe_counters(CounterTextVisitor visit, void* context) {
    SegmentCounters::describe(visit, context);
  }

 private:
  /// All outboxes together hold this part of the pool at most, and each of them a half of that.
  static constexpr std::uint32_t kHeldShare = 4;

  /// The way to another member.
  struct Peer {
    std::uint32_t generation = 0;  ///< of the slot when the lane was opened, or could not be
    Mapping mapping;
    std::unique_ptr<Outbox> outbox;        ///< null: there is no way
    std::uint64_t full_since_ns = kNever;  ///< no more could be held
    std::uint64_t retry_ns = 0;            ///< when to try again to open the lane
  };
  /// A frame that nobody gets yet.
  struct Unserved {
    rte_mbuf* frame = nullptr;
    std::uint64_t since_ns = 0;
  };
  /// What became of a frame: the link is done with it, has kept it, or leaves it to the caller.
  enum class Sent : std::uint8_t { done, kept, refused };

  [[nodiscard]] Sent send(rte_mbuf* packet, std::uint64_t now_ns);
  [[nodiscard]] Sent send_inside(rte_mbuf* packet, const rte_ether_addr& destination,
                                 const std::optional<BthSummary>& bth, std::uint64_t now_ns);
  [[nodiscard]] Sent send_to_owner(std::uint16_t slot, rte_mbuf* packet, const BthSummary& bth,
                                   std::uint64_t now_ns);
  [[nodiscard]] bool wait_for_a_server(rte_mbuf* packet, std::uint64_t now_ns);
  void look_for_servers(std::uint64_t now_ns);
  [[nodiscard]] Sent send_out(rte_mbuf* packet, const std::optional<BthSummary>& bth,
                              std::uint64_t now_ns);
  [[nodiscard]] Sent send_to_all(rte_mbuf* packet, std::uint64_t now_ns);
  [[nodiscard]] Sent send_to(std::uint16_t slot, rte_mbuf* packet, std::uint64_t now_ns,
                             std::uint64_t patience_ns);
  [[nodiscard]] bool may_hold() const { return held_ < pool_->size / kHeldShare; }
  void put_held(std::uint64_t now_ns);
  void touch(std::uint16_t slot);
  [[nodiscard]] bool loop(const rte_mbuf& packet);
  [[nodiscard]] Peer* peer_at(std::uint16_t slot, std::uint64_t now_ns);
  void open(std::uint16_t slot, Peer& peer, std::uint64_t now_ns);
  void publish();
  void wake_touched();
  /// From now on senders look whether this member sleeps.
  void announce_sleep();
  void find_senders();
  [[nodiscard]] std::uint16_t receive_from(LaneReader& lane, rte_mbuf** packets,
                                           std::uint16_t count);
  [[nodiscard]] bool frames_wait() const;

  Membership& membership_;
  rte_mempool* pool_;
  std::uint16_t mtu_;
  FindReceiver find_receiver_;
  const AddIcrc add_icrc_;
  const WayOut way_out_;
  const bool has_barriers_;
  bool announced_ = false;              ///< what announce_sleep() has said holds
  std::vector<Peer> peers_;             ///< by slot
  std::vector<std::uint16_t> touched_;  ///< slots whose lanes have unpublished frames
  std::vector<std::uint16_t> holders_;  ///< slots whose outboxes hold frames
  std::uint32_t held_ = 0;              ///< frames in all outboxes
  std::uint64_t look_ns_ = 0;           ///< when a sleeper looks for room for these
  std::vector<Unserved> unserved_;      ///< in the order of their times
  std::uint64_t look_for_servers_ns_ = 0;
  std::array<std::uint64_t, kSlotsMax / 64> known_senders_{};
  std::vector<LaneReader> lanes_;  ///< of the senders known so far
  std::size_t next_lane_ = 0;      ///< the first to be looked at next time
  std::vector<rte_mbuf*> looped_;  ///< a ring of kLoopFrames
  std::uint32_t looped_put_ = 0;
  std::uint32_t looped_taken_ = 0;
  SegmentCounters counters_;
};

}  // namespace rockhopper::stack::segment
