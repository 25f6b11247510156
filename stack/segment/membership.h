// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <atomic>
#include <bitset>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include <rte_ether.h>

#include "stack/descriptor.h"
#include "stack/error.h"
#include "stack/segment/layout.h"
#include "stack/segment/mapping.h"

namespace rockhopper::stack::segment {

/// A process's place among those that share a segment: a slot, and the numbers that packets find it
/// by. There is no process that all depend on: whoever comes cleans up after those that have died.
///
/// A member is alive as long as it holds the lock of its slot, which the kernel takes from it when
/// the last descriptor of it is closed, however the process ended. All else in shared memory may be
/// anything. Any thread may claim and release numbers and
/// services; the rest is for one thread.
class Membership {
 public:
  /// Joins the segment in `directory`, as segment::directory() gives it, and makes what is not
  /// there yet. Errors: `io`; `exhausted` when all kSlotsMax slots are in use or there is no
  /// memory; `invalid_state` when the table there is not one of this version.
  [[nodiscard]] static Expected<std::unique_ptr<Membership>> join(std::string directory);
  Membership(const Membership&) = delete;
  Membership& operator=(const Membership&) = delete;
  /// Leaves; in a child of fork() only the child's descriptors go.
  ~Membership();
  /// In a child of fork(), which is no member: closes what would keep the slot in use when the
  /// parent has ended. May be called between fork() and exec(); nothing else may be, from then on.
  void let_go() noexcept;

  [[nodiscard]] std::uint16_t slot() const { return slot_; }
  /// The path for a file of this member's that others may look into. It is for the caller to make;
  /// whoever cleans up after the member removes it.
  [[nodiscard]] std::string resources_path() const;
  /// Where the files of the segment are.
  [[nodiscard]] const std::string& directory() const { return directory_; }
  /// The one address that all members have.
  [[nodiscard]] const rte_ether_addr& mac() const { return mac_; }

  /// Takes a number that nobody has, until release(); those of members that have died are free.
  [[nodiscard]] bool claim(std::uint16_t number);
  /// Requires a number that this member has claimed.
  void release(std::uint16_t number);
  /// The slot whose member has that number, which may have died; nothing if nobody has it.
  [[nodiscard]] std::optional<std::uint16_t> owner_of(std::uint16_t number) const {
    return slot_in(table().owners[number]);
  }

  /// The same of services, whose names are below kServices.
  [[nodiscard]] bool claim_service(std::uint32_t name);
  void release_service(std::uint32_t name);
  /// From now on until stop_serving(), requests for the service go to this member. Requires that it
  /// has claimed it. Returns false if the table says that another one serves it.
  [[nodiscard]] bool serve(std::uint32_t name);
  void stop_serving(std::uint32_t name);
  /// The slot whose member serves it, which may have died; nothing if nobody does.
  [[nodiscard]] std::optional<std::uint16_t> server_of(std::uint32_t name) const {
    return slot_in(table().servers[name]);
  }

  /// Becomes the way out of the segment for packets of up to `mtu` bytes; `addresses` is a digest
  /// of the addresses that all members are to have. Ends with the membership. Errors: `busy` while
  /// another member has that role; `invalid_state` while there are members beside one with other
  /// addresses.
  [[nodiscard]] Expected<void> become_gateway(std::uint16_t mtu, std::uint64_t addresses);
  /// The slot of the way out, which may have died; nothing if there is none, or it is this member.
  [[nodiscard]] std::optional<std::uint16_t> gateway() const {
    const auto slot = slot_in(table().gateway.slot);
    return slot == slot_ ? std::nullopt : slot;
  }
  /// What the last way out has said; 0: there has been none.
  [[nodiscard]] std::uint16_t gateway_mtu() const {
    return table().gateway.mtu.load(std::memory_order_acquire);
  }
  [[nodiscard]] std::uint64_t gateway_addresses() const {
    return table().gateway.addresses.load(std::memory_order_relaxed);
  }

  [[nodiscard]] Slot& slot(std::uint16_t slot) const { return table().slots[slot]; }
  [[nodiscard]] Slot& own_slot() const { return slot(slot_); }
  /// This member's, which it alone writes.
  [[nodiscard]] Tallies& own_tallies() const { return table().tallies[slot_]; }
  /// The lane from the member in slot `sender` to this one.
  [[nodiscard]] Lane& lane_from(std::uint16_t sender) const {
    return lanes_.at<Lane>(sender * kLaneStride);
  }
  /// Makes sure that the lane has memory behind it: to touch it without would end the process.
  [[nodiscard]] Expected<void> back_lane_from(std::uint16_t sender) const;
  /// The lane from this member to the one that uses `slot` for the `generation`th time, who is told
  /// to look at it. Errors: `not_found` when that has left, `exhausted` when there is no memory,
  /// `io`.
  [[nodiscard]] Expected<Mapping> open_lane_to(std::uint16_t slot, std::uint32_t generation) const;

  /// Wakes the member if it sleeps, or is about to; returns false if it does not. What it is to
  /// find has been published, and a sequentially consistent fence is behind that.
  bool wake(std::uint16_t slot) const;

  /// Cleans up after members that have died: their numbers and files are free again.
  void reap();

 private:
  using Slots = std::bitset<kSlotsMax>;

  [[nodiscard]] static std::optional<std::uint16_t> slot_in(
      const std::atomic<std::uint8_t>& entry) {
    const std::uint8_t owner = entry.load(std::memory_order_relaxed);
    if (owner == 0 || owner > kSlotsMax) return std::nullopt;
    return static_cast<std::uint16_t>(owner - 1);
  }
  [[nodiscard]] bool take_entry(std::atomic<std::uint8_t>& entry) const;
  void free_entry(std::atomic<std::uint8_t>& entry) const;
  [[nodiscard]] bool is_alone() const;

  explicit Membership(std::string directory);
  [[nodiscard]] Table& table() const { return table_mapping_.at<Table>(0); }
  [[nodiscard]] Expected<void> open_table();
  [[nodiscard]] Expected<void> open_table_once();
  [[nodiscard]] bool remove_unused_table() const;
  [[nodiscard]] Expected<void> make_table() const;
  [[nodiscard]] Expected<void> take_slot();
  [[nodiscard]] Expected<void> make_lanes();
  [[nodiscard]] std::string lanes_path(std::uint16_t slot, std::uint32_t generation) const;
  [[nodiscard]] bool set_lock(std::uint16_t slot, short type) const;
  [[nodiscard]] bool lock(std::uint16_t slot) const;
  void unlock(std::uint16_t slot) const;
  void clean(const Slots& slots) const;
  void remove_files(const Slots& slots) const;

  const std::string directory_;
  const int process_;
  rte_ether_addr mac_{};
  /// The table, opened for the locks alone: what is mapped is not closed by close().
  Descriptor locks_;
  Mapping table_mapping_;
  std::uint16_t slot_ = kSlotsMax;  ///< none yet
  Descriptor lanes_file_;
  Mapping lanes_;
};

}  // namespace rockhopper::stack::segment
