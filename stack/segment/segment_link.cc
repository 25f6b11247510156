// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "stack/segment/segment_link.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cassert>
#include <cstring>

#include <rte_log.h>

#include "stack/futex.h"
#include "stack/mbuf_read.h"
#include "stack/process_barrier.h"
#include "stack/uncancelled.h"

namespace rockhopper::stack::segment {
namespace {

constexpr std::uint32_t kLoopFrames = 256;
/// The first look for room for what is held comes after so long, the others after an eighth of the
/// time that the receiver has taken nothing: it may want the sender's processor.
constexpr std::uint64_t kFirstLookNs = 2 * kNsPerUs;
constexpr std::uint64_t kLastLookNs = kNsPerMs;
constexpr std::uint64_t kLooks = 8;
/// Frames that their service repeats stop others for so long, where no more can be held: those
/// others may be acknowledgements that somebody waits for.
constexpr std::uint64_t kRepeatedNs = 100 * kNsPerMs;
/// A lane that could not be made is tried again after so long.
constexpr std::uint64_t kRetryNs = 100 * kNsPerMs;
/// Requests that wait for a server: others are answered at once.
constexpr std::size_t kUnservedMax = 64;
constexpr std::uint64_t kLookForServersNs = kNsPerMs;

/// Nobody sends the packet again (IBTA vol. 1, table 38).
bool is_unreliable(std::uint8_t opcode) {
  constexpr std::uint8_t kUc = 1;
  constexpr std::uint8_t kUd = 3;
  const auto service = static_cast<std::uint8_t>(opcode >> 5);
  return service == kUc || service == kUd;
}

/// The frame is for one station, which is no member.
bool is_for_outside(const rte_ether_addr& destination, const rte_ether_addr& own) {
  return rte_is_unicast_ether_addr(&destination) != 0 &&
         rte_is_same_ether_addr(&destination, &own) == 0;
}

}  // namespace

SegmentLink::SegmentLink(const SegmentLinkConfig& config)
    : membership_(*config.membership),
      pool_(config.pool),
      mtu_(config.mtu),
      find_receiver_(config.find_receiver),
      add_icrc_(config.add_icrc),
      way_out_(config.way_out),
      has_barriers_(join_process_barriers()),
      peers_(kSlotsMax),
      looped_(kLoopFrames) {
  if (!has_barriers_) announce_sleep();
  assert(std::uint32_t{mtu_} + kFrameOverhead <= kFrameMax);
  touched_.reserve(kSlotsMax);
  holders_.reserve(kSlotsMax);
  lanes_.reserve(kSlotsMax);
  unserved_.reserve(kUnservedMax);
}

SegmentLink::~SegmentLink() {
  while (looped_taken_ != looped_put_) {
    rte_pktmbuf_free(looped_[looped_taken_++ % kLoopFrames]);
  }
  for (const Unserved& waiting : unserved_) {
    rte_pktmbuf_free(waiting.frame);
  }
}

std::uint16_t SegmentLink::tx_burst(rte_mbuf** packets, std::uint16_t count, std::uint64_t now_ns) {
  if (!holders_.empty()) put_held(now_ns);
  if (!unserved_.empty()) look_for_servers(now_ns);
  std::uint16_t sent = 0;
  std::uint16_t done = 0;
  for (; sent < count; ++sent) {
    const Sent result = send(packets[sent], now_ns);
    if (result == Sent::refused) break;
    if (result == Sent::done) packets[done++] = packets[sent];
  }
  publish();
  if (done == 1) {
    rte_pktmbuf_free(packets[0]);
  } else {
    rte_pktmbuf_free_bulk(packets, done);
  }
  return sent;
}

SegmentLink::Sent SegmentLink::send(rte_mbuf* packet, std::uint64_t now_ns) {
  const auto bth = read_bth(packet);
  // A frame with a BTH has an address, perhaps in more than one segment.
  const auto destination = read_at<rte_ether_addr>(packet, 0);
  if (!destination || (!bth && way_out_ == WayOut::none)) {
    counters_.tx_not_roce.add();
    return Sent::done;
  }
  if (packet->pkt_len > kFrameMax) {
    counters_.tx_too_long.add();
    return Sent::done;
  }
  if (way_out_ == WayOut::gateway && (!bth || is_for_outside(*destination, membership_.mac()))) {
    return send_out(packet, bth, now_ns);
  }
  return send_inside(packet, *destination, bth, now_ns);
}

SegmentLink::Sent SegmentLink::send_inside(rte_mbuf* packet, const rte_ether_addr& destination,
                                           const std::optional<BthSummary>& bth,
                                           std::uint64_t now_ns) {
  if (!bth || rte_is_multicast_ether_addr(&destination) != 0) return send_to_all(packet, now_ns);
  const auto owner = receiver_of(packet, *bth);
  if (!owner) {
    counters_.tx_no_owner.add();
    return Sent::done;
  }
  if (*owner != kNobodyYet) return send_to_owner(*owner, packet, *bth, now_ns);
  if (wait_for_a_server(packet, now_ns)) return Sent::kept;
  return send_to_owner(membership_.slot(), packet, *bth, now_ns);
}

SegmentLink::Sent SegmentLink::send_to_owner(std::uint16_t slot, rte_mbuf* packet,
                                             const BthSummary& bth, std::uint64_t now_ns) {
  if (slot != membership_.slot()) {
    return send_to(slot, packet, now_ns, is_unreliable(bth.opcode) ? kNever : kRepeatedNs);
  }
  if (way_out_ != WayOut::self) return loop(*packet) ? Sent::done : Sent::refused;
  counters_.tx_no_owner.add();
  return Sent::done;
}

bool SegmentLink::wait_for_a_server(rte_mbuf* packet, std::uint64_t now_ns) {
  if (unserved_.size() == kUnservedMax) return false;
  if (unserved_.empty()) look_for_servers_ns_ = now_ns + kLookForServersNs;
  unserved_.push_back({.frame = packet, .since_ns = now_ns});
  counters_.tx_awaited.add();
  return true;
}

void SegmentLink::look_for_servers(std::uint64_t now_ns) {
  if (now_ns < look_for_servers_ns_) return;
  look_for_servers_ns_ = now_ns + kLookForServersNs;
  std::erase_if(unserved_, [&](const Unserved& waiting) {
    const auto bth = read_bth(waiting.frame);
    assert(bth);
    std::uint16_t slot = receiver_of(waiting.frame, *bth).value_or(membership_.slot());
    if (slot == kNobodyYet) {
      if (now_ns - waiting.since_ns < kPatienceNs) return false;
      slot = membership_.slot();
    }
    // What has waited so long its sender repeats, should there be no room.
    if (send_to_owner(slot, waiting.frame, *bth, now_ns) != Sent::kept) {
      rte_pktmbuf_free(waiting.frame);
    }
    return true;
  });
  publish();
}

SegmentLink::Sent SegmentLink::send_out(rte_mbuf* packet, const std::optional<BthSummary>& bth,
                                        std::uint64_t now_ns) {
  const auto gateway = membership_.gateway();
  if (!gateway) {
    counters_.tx_no_gateway.add();
    return Sent::done;
  }
  return send_to(*gateway, packet, now_ns,
                 bth && is_unreliable(bth->opcode) ? kNever : kRepeatedNs);
}

std::optional<std::uint16_t> SegmentLink::receiver_of(const rte_mbuf* packet,
                                                      const BthSummary& bth) const {
  if (bth.destination_qpn != kSharedNumber || find_receiver_ == nullptr) {
    return membership_.owner_of(static_cast<std::uint16_t>(bth.destination_qpn));
  }
  const auto found = find_receiver_(packet, membership_);
  return found && (*found < kSlotsMax || *found == kNobodyYet) ? *found : membership_.slot();
}

/// To none as long as one of them has no room at all: they are to get the same frames.
SegmentLink::Sent SegmentLink::send_to_all(rte_mbuf* packet, std::uint64_t now_ns) {
  const auto is_other = [this](std::uint16_t slot) {
    return slot != membership_.slot() &&
           membership_.slot(slot).generation.load(std::memory_order_relaxed) % 2 != 0;
  };
  for (std::uint16_t slot = 0; slot < kSlotsMax; ++slot) {
    const Peer& peer = peers_[slot];
    if (is_other(slot) && peer.outbox && !peer.outbox->would_take()) return Sent::refused;
  }
  if (!may_hold()) return Sent::refused;
  if (way_out_ != WayOut::self && !loop(*packet)) return Sent::refused;
  for (std::uint16_t slot = 0; slot < kSlotsMax; ++slot) {
    if (!is_other(slot)) continue;
    // Each outbox that holds the frame has a reference of its own.
    for (rte_mbuf* part = packet; part != nullptr; part = part->next) {
      rte_mbuf_refcnt_update(part, 1);
    }
    if (send_to(slot, packet, now_ns, 0) != Sent::kept) rte_pktmbuf_free(packet);
  }
  return Sent::done;
}

SegmentLink::Sent SegmentLink::send_to(std::uint16_t slot, rte_mbuf* packet, std::uint64_t now_ns,
                                       std::uint64_t patience_ns) {
  Peer* peer = peer_at(slot, now_ns);
  if (peer == nullptr) return Sent::done;
  const std::uint32_t length = packet->pkt_len;
  const Outbox::Result result = peer->outbox->send(packet, now_ns, may_hold());
  if (result == Outbox::Result::put || result == Outbox::Result::held) {
    peer->full_since_ns = kNever;
    counters_.tx_frames.add();
    counters_.tx_bytes.add(length);
    if (result == Outbox::Result::put) {
      touch(slot);
      return Sent::done;
    }
    counters_.tx_held.add();
    if (holders_.empty()) look_ns_ = now_ns + kFirstLookNs;
    ++held_;
    if (peer->outbox->held() == 1) holders_.push_back(slot);
    return Sent::kept;
  }
  if (result == Outbox::Result::no_room) {
    if (peer->full_since_ns == kNever) peer->full_since_ns = now_ns;
    if (now_ns - peer->full_since_ns < patience_ns) return Sent::refused;
  }
  counters_.tx_lane_full.add();
  return Sent::done;
}

void SegmentLink::flush(std::uint64_t now_ns) {
  if (holders_.empty()) [[likely]] {
    return;
  }
  put_held(now_ns);
  publish();
}

void SegmentLink::put_held(std::uint64_t now_ns) {
  std::uint64_t waited_ns = kLastLookNs * kLooks;
  held_ = 0;
  std::erase_if(holders_, [&](std::uint16_t slot) {
    Peer& peer = peers_[slot];
    const std::uint32_t before = peer.outbox->held();
    if (membership_.slot(slot).generation.load(std::memory_order_acquire) != peer.generation) {
      counters_.tx_no_owner.add(before);
      peer = {};
      return true;
    }
    const std::uint32_t dropped = peer.outbox->flush(now_ns);
    counters_.tx_lane_full.add(dropped);
    const std::uint32_t left = peer.outbox->held();
    if (left + dropped < before) touch(slot);
    waited_ns = std::min(waited_ns, peer.outbox->waited_ns());
    held_ += left;
    return left == 0;
  });
  look_ns_ = now_ns + std::max(waited_ns / kLooks, kFirstLookNs);
}

void SegmentLink::touch(std::uint16_t slot) {
  if (std::find(touched_.begin(), touched_.end(), slot) == touched_.end()) touched_.push_back(slot);
}

/// As through a lane: with a copy, so that what is received is nobody else's.
bool SegmentLink::loop(const rte_mbuf& packet) {
  if (looped_put_ - looped_taken_ == kLoopFrames) return false;
  rte_mbuf* copy = rte_pktmbuf_copy(&packet, pool_, 0, UINT32_MAX);
  if (copy == nullptr) {
    counters_.rx_no_mbuf.add();
    return false;
  }
  // The others are what a sender asks of a device.
  copy->ol_flags = is_without_icrc(&packet) ? kWithoutIcrc : 0;
  looped_[looped_put_++ % kLoopFrames] = copy;
  counters_.looped.add();
  return true;
}

/// Returns null if there is no way to the member; then that has been counted.
SegmentLink::Peer* SegmentLink::peer_at(std::uint16_t slot, std::uint64_t now_ns) {
  Peer& peer = peers_[slot];
  const std::uint32_t generation =
      membership_.slot(slot).generation.load(std::memory_order_acquire);
  if (generation != peer.generation) {
    if (std::erase(holders_, slot) > 0) held_ -= peer.outbox->held();
    peer = {};
    peer.generation = generation;
  }
  if (generation % 2 == 0) {
    counters_.tx_no_owner.add();
    return nullptr;
  }
  if (!peer.outbox && now_ns >= peer.retry_ns) open(slot, peer, now_ns);
  if (peer.outbox) return &peer;
  counters_.tx_no_lane.add();
  return nullptr;
}

void SegmentLink::open(std::uint16_t slot, Peer& peer, std::uint64_t now_ns) {
  const Uncancelled uncancelled;
  auto lane = membership_.open_lane_to(slot, peer.generation);
  if (!lane && lane.error().code == ErrorCode::exhausted) {
    membership_.reap();
    lane = membership_.open_lane_to(slot, peer.generation);
  }
  if (!lane) {
    if (peer.retry_ns == 0 && lane.error().code != ErrorCode::not_found) {
      rte_log(RTE_LOG_ERR, RTE_LOGTYPE_USER1, "segment: %s\n", lane.error().message.c_str());
    }
    peer.retry_ns = now_ns + kRetryNs;
    return;
  }
  peer.mapping = std::move(*lane);
  peer.outbox = std::make_unique<Outbox>(peer.mapping.at<Lane>(0),
                                         std::max(pool_->size / kHeldShare / 2, 1u));
}

void SegmentLink::publish() {
  if (touched_.empty()) return;
  for (const std::uint16_t slot : touched_) {
    Peer& peer = peers_[slot];
    // The member may have been replaced within the burst.
    if (peer.outbox) (void)peer.outbox->publish();
  }
  // Either the receiver sees the frames before it sleeps, or its word is seen here. A receiver that
  // polls sees to that by itself, as the barrier makes this thread wait for the frames to get
  // there.
  std::atomic_signal_fence(std::memory_order_seq_cst);
  if (!has_barriers_ || std::any_of(touched_.begin(), touched_.end(), [this](std::uint16_t slot) {
        return membership_.slot(slot).sleep.load(std::memory_order_relaxed) != kPolls;
      })) {
    wake_touched();
  }
  touched_.clear();
}

void SegmentLink::wake_touched() {
  std::atomic_thread_fence(std::memory_order_seq_cst);
  for (const std::uint16_t slot : touched_) {
    if (membership_.wake(slot)) counters_.wake_ups.add();
  }
}

std::uint16_t SegmentLink::rx_burst(rte_mbuf** packets, std::uint16_t count, std::uint64_t now_ns) {
  // Here too, as frames that wait leave though nobody sends any more.
  flush(now_ns);
  if (!unserved_.empty()) look_for_servers(now_ns);
  std::uint16_t received = 0;
  while (received < count && looped_taken_ != looped_put_) {
    packets[received++] = looped_[looped_taken_++ % kLoopFrames];
  }
  find_senders();
  // Each lane is the first in turn, so that none starves.
  const std::size_t first = next_lane_;
  for (std::size_t i = 0; i < lanes_.size() && received < count; ++i) {
    LaneReader& lane = lanes_[(first + i) % lanes_.size()];
    received = static_cast<std::uint16_t>(
        received +
        receive_from(lane, packets + received, static_cast<std::uint16_t>(count - received)));
  }
  if (!lanes_.empty()) next_lane_ = (first + 1) % lanes_.size();
  return received;
}

/// A sender says that it has begun to use its lane. Whether there is memory behind that is not
/// believed.
void SegmentLink::find_senders() {
  for (std::size_t word = 0; word < known_senders_.size(); ++word) {
    const std::uint64_t all = membership_.own_slot().senders[word].load(std::memory_order_acquire);
    std::uint64_t added = all & ~known_senders_[word];
    known_senders_[word] |= added;
    for (; added != 0; added &= added - 1) {
      const auto sender = static_cast<std::uint16_t>(word * 64 + std::countr_zero(added));
      if (membership_.back_lane_from(sender)) {
        lanes_.emplace_back(membership_.lane_from(sender));
      } else {
        counters_.rx_no_lane.add();
      }
    }
  }
}

std::uint16_t SegmentLink::receive_from(LaneReader& lane, rte_mbuf** packets, std::uint16_t count) {
  std::uint16_t received = 0;
  std::uint64_t all_bytes = 0;
  std::uint32_t without_icrc = 0;
  // What is put meanwhile is for the next time: to look for it is to wait for a cache line that its
  // sender has just written.
  while (received < count && (received == 0 || lane.waits_since_the_last_look())) {
    const auto frame = lane.front();
    if (!frame) break;
    const std::span<const std::byte> bytes = frame->bytes;
    if (bytes.empty()) {
      counters_.rx_damaged.add();
      break;
    }
    if (bytes.size() > std::uint32_t{mtu_} + kFrameOverhead) {
      counters_.rx_too_long.add();
      lane.pop();
      continue;
    }
    rte_mbuf* packet = rte_pktmbuf_alloc(pool_);
    char* data = packet != nullptr
                     ? rte_pktmbuf_append(packet, static_cast<std::uint16_t>(bytes.size()))
                     : nullptr;
    if (data == nullptr) {
      rte_pktmbuf_free(packet);
      counters_.rx_no_mbuf.add();
      break;
    }
    std::memcpy(data, bytes.data(), bytes.size());
    if (frame->without_icrc) {
      ++without_icrc;
      packet->ol_flags |= kWithoutIcrc;
      if (add_icrc_ != nullptr) add_icrc_(packet);
    }
    all_bytes += bytes.size();
    packets[received++] = packet;
    lane.pop();
  }
  lane.release();
  counters_.rx_frames.add(received);
  counters_.rx_bytes.add(all_bytes);
  counters_.rx_without_icrc.add(without_icrc);
  return received;
}

bool SegmentLink::frames_wait() const {
  if (looped_taken_ != looped_put_) return true;
  for (std::size_t word = 0; word < known_senders_.size(); ++word) {
    const std::uint64_t all = membership_.own_slot().senders[word].load(std::memory_order_acquire);
    if ((all & ~known_senders_[word]) != 0) return true;
  }
  return std::any_of(lanes_.begin(), lanes_.end(),
                     [](const LaneReader& lane) { return lane.waits(); });
}

std::optional<std::uint32_t> SegmentLink::arm() {
  Slot& own = membership_.own_slot();
  const std::uint32_t value = own.doorbell.load(std::memory_order_acquire);
  if (!announced_) announce_sleep();
  own.sleep.store(kSleeps, std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (!frames_wait()) return value;
  own.sleep.store(kMaySleep, std::memory_order_relaxed);
  return std::nullopt;
}

void SegmentLink::announce_sleep() {
  announced_ = true;
  membership_.own_slot().sleep.store(kMaySleep, std::memory_order_relaxed);
  if (has_barriers_) process_barrier();
}

void SegmentLink::sleep(std::uint32_t armed, std::uint64_t deadline_ns) {
  Slot& own = membership_.own_slot();
  wait_on_futex(own.doorbell, armed, deadline_ns, FutexScope::shared);
  own.sleep.store(kMaySleep, std::memory_order_relaxed);
}

void SegmentLink::stay_awake() {
  if (!has_barriers_) return;
  announced_ = false;
  membership_.own_slot().sleep.store(kPolls, std::memory_order_relaxed);
}

void SegmentLink::wake() {
  Slot& own = membership_.own_slot();
  std::uint32_t expected = kSleeps;
  (void)own.sleep.compare_exchange_strong(expected, kMaySleep, std::memory_order_relaxed);
  own.doorbell.fetch_add(1, std::memory_order_release);
  wake_futex(own.doorbell, INT32_MAX, FutexScope::shared);
}

}  // namespace rockhopper::stack::segment
