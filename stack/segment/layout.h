// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include <rte_ether.h>

#include "stack/segment/reader/public_part.h"

namespace rockhopper::stack::segment {

// What the processes of a segment share, byte for byte. Every one of them may write anything at any
// time: a reader takes each value once, checks it, and uses its copy.

/// Numbers of queue pairs that members own: the low 16 bits of a QPN.
inline constexpr std::uint32_t kNumbers = 1u << 16;
/// Names of services that members serve: ports, of two spaces.
inline constexpr std::uint32_t kServices = 1u << 17;

/// Whether a member sleeps where nobody puts frames into its lanes.
enum Sleep : std::uint32_t {
  kPolls,     ///< it does not, and says otherwise first, with a process_barrier() behind it
  kMaySleep,  ///< it does at times: who has put a frame passes a barrier and looks again
  kSleeps,    ///< it does, or is about to
};

/// A member, or a free place for one. What its senders write has a cache line of its own.
struct alignas(64) Slot {  // NOLINT(clang-analyzer-optin.performance.Padding)
  /// Counts the uses of the slot, and is odd while it is in use.
  std::atomic<std::uint32_t> generation;
  /// A futex: another value wakes the member.
  std::atomic<std::uint32_t> doorbell;
  /// One of Sleep.
  std::atomic<std::uint32_t> sleep;
  /// For people who look at the segment; nothing follows from it.
  std::atomic<std::uint32_t> process;
  /// Lanes to the member that are in use: bit i is that of the member in slot i.
  alignas(64) std::array<std::atomic<std::uint64_t>, kSlotsMax / 64> senders;
};

/// The member that is the way out of the segment, and what it has said of that way. The last two
/// stay when it has gone, for those who come before the next one does.
struct Gateway {
  std::atomic<std::uint8_t> slot;  ///< 1 more than its slot; 0: there is none
  std::atomic<std::uint16_t> mtu;  ///< largest IP packet in bytes that leaves; 0: nobody has said
  std::atomic<std::uint64_t> addresses;  ///< a digest of the segment's addresses
};

using Tallies = std::array<std::atomic<std::uint64_t>, kTallies>;

/// The segment itself.
struct Table {
  std::uint64_t magic;
  /// The address that all members have, which the first one has made up.
  rte_ether_addr mac;
  Gateway gateway;
  alignas(64) std::array<Slot, kSlotsMax> slots;
  /// By the low 16 bits of a QPN: 1 more than the slot that has it; 0 is nobody's.
  std::array<std::atomic<std::uint8_t>, kNumbers> owners;
  /// By the name of a service: the same of who alone may serve it.
  std::array<std::atomic<std::uint8_t>, kServices> claims;
  /// The same of who serves it.
  std::array<std::atomic<std::uint8_t>, kServices> servers;
  /// By slot. Nobody clears them.
  alignas(64) std::array<Tallies, kSlotsMax> tallies;
};
static_assert(kSlotsMax < UINT8_MAX);
static_assert(offsetof(Table, tallies) == kTalliesAt && sizeof(Table) == kTableBytes);

/// Frames on their way from one member to another: a ring of bytes. A frame stands in it in one
/// piece, behind its length, and begins at a multiple of 8.
struct Lane {
  static constexpr std::uint32_t kBytes = 1u << 17;
  /// Bytes that were ever put into the lane, and those that were ever taken out, both modulo 2^32.
  alignas(64) std::atomic<std::uint32_t> put;
  alignas(64) std::atomic<std::uint32_t> taken;
  alignas(64) std::array<std::byte, kBytes> bytes;
};

/// From one lane to the next in a member's file: whole pages, as each is given memory by itself.
inline constexpr std::size_t kLaneStride = Lane::kBytes + 4096;
static_assert(sizeof(Lane) <= kLaneStride);
/// A member's file has a lane for each slot, of which only those in use have memory.
inline constexpr std::size_t kLanesBytes = kLaneStride * kSlotsMax;

static_assert(std::atomic<std::uint64_t>::is_always_lock_free &&
              std::atomic<std::uint32_t>::is_always_lock_free &&
              std::atomic<std::uint8_t>::is_always_lock_free);

}  // namespace rockhopper::stack::segment
