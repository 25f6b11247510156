// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace rockhopper::dag {

/// Where a record is, in the server's map.
struct MapPlace {
  std::uint64_t incarnation = 0;
  std::uint64_t address = 0;
  std::uint32_t length = 0;  ///< of the block that it lies in
  std::uint16_t flags = 0;   ///< the user's own
  friend bool operator==(const MapPlace&, const MapPlace&) = default;
};

/// The server's metadata hash map (DG-4): buckets of a cache line, chained where they overflow.
/// It has no keys: all entries whose tag fits are candidates (DG-6), and the records decide.
/// Memory is allocated once. Belongs to one thread.
class Map {
 public:
  /// `records` is how many there is room for, 1 to kRecordsMax, `hash_bits` how many bits of a hash
  /// code it goes by, 1 to 64.
  static constexpr std::uint32_t kRecordsMax = 1u << 30;
  Map(std::uint32_t records, unsigned hash_bits);

  /// Returns false if it is full.
  [[nodiscard]] bool insert(std::uint64_t hash, const MapPlace& place);
  /// Returns false if there is none with that hash and address.
  bool erase(std::uint64_t hash, std::uint64_t address);
  /// The first candidate, in no order, that `accept` takes.
  template <typename Accept>
  [[nodiscard]] std::optional<MapPlace> find(std::uint64_t hash, const Accept& accept) const {
    const std::uint64_t cut = cut_of(hash);
    for (std::uint32_t index = first_bucket(cut); index != kNone; index = buckets_[index].next) {
      const Bucket& bucket = buckets_[index];
      for (unsigned i = 0; i < bucket.count; ++i) {
        if (bucket.slots[i].tag != tag_of(cut)) continue;
        const MapPlace place = place_of(bucket.slots[i]);
        if (accept(place)) return place;
      }
    }
    return std::nullopt;
  }
  /// All there are.
  template <typename Visit>
  void for_each(const Visit& visit) const {
    for (const Bucket& bucket : buckets_) {
      for (unsigned i = 0; i < bucket.count; ++i) {
        visit(place_of(bucket.slots[i]));
      }
    }
  }

  [[nodiscard]] std::uint32_t size() const { return size_; }
  [[nodiscard]] unsigned hash_bits() const { return hash_bits_; }
  [[nodiscard]] std::uint64_t bytes() const { return buckets_.size() * sizeof(Bucket); }

 private:
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};
  static constexpr unsigned kSlots = 2;
  struct Slot {
    std::uint16_t tag = 0;
    std::uint16_t flags = 0;
    std::uint32_t length = 0;
    std::uint64_t address = 0;
    std::uint64_t incarnation = 0;
  };
  struct alignas(64) Bucket {
    std::uint32_t next = kNone;  ///< of the chain, or of the free ones
    std::uint32_t count = 0;
    std::uint64_t reserved = 0;
    std::array<Slot, kSlots> slots{};
  };
  static_assert(sizeof(Bucket) == 64);

  [[nodiscard]] std::uint64_t cut_of(std::uint64_t hash) const { return hash >> (64 - hash_bits_); }
  [[nodiscard]] std::uint32_t first_bucket(std::uint64_t cut) const {
    return static_cast<std::uint32_t>(cut & mask_);
  }
  /// Returns bits of what does not choose the bucket, as far as there is any.
  [[nodiscard]] std::uint16_t tag_of(std::uint64_t cut) const {
    return static_cast<std::uint16_t>(cut >> bucket_bits_);
  }
  [[nodiscard]] static MapPlace place_of(const Slot& slot) {
    return {.incarnation = slot.incarnation,
            .address = slot.address,
            .length = slot.length,
            .flags = slot.flags};
  }

  unsigned hash_bits_;
  unsigned bucket_bits_;
  std::uint64_t mask_;
  std::uint32_t records_max_;
  std::uint32_t size_ = 0;
  std::uint32_t free_;  ///< the first bucket that is in no chain
  std::vector<Bucket> buckets_;
};

}  // namespace rockhopper::dag
