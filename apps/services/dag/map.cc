// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/services/dag/map.h"

#include <algorithm>
#include <bit>
#include <cassert>

namespace rockhopper::dag {

Map::Map(std::uint32_t records, unsigned hash_bits)
    : hash_bits_(hash_bits),
      bucket_bits_(static_cast<unsigned>(std::bit_width(records / kSlots))),
      mask_((std::uint64_t{1} << bucket_bits_) - 1),
      records_max_(records) {
  assert(records >= 1 && records <= kRecordsMax && hash_bits >= 1 && hash_bits <= 64);
  // However the hashes fall, all chains together need no more than so many besides their first.
  const std::size_t first = std::size_t{1} << bucket_bits_;
  const std::size_t overflow = records / kSlots + 1;
  buckets_.resize(first + overflow);
  for (std::size_t i = first; i + 1 < buckets_.size(); ++i) {
    buckets_[i].next = static_cast<std::uint32_t>(i + 1);
  }
  free_ = static_cast<std::uint32_t>(first);
}

bool Map::insert(std::uint64_t hash, const MapPlace& place) {
  if (size_ == records_max_) return false;
  const std::uint64_t cut = cut_of(hash);
  // Behind the first bucket all of a chain but its second one are full.
  Bucket* bucket = &buckets_[first_bucket(cut)];
  if (bucket->count == kSlots) {
    if (bucket->next == kNone || buckets_[bucket->next].count == kSlots) {
      assert(free_ != kNone);
      const std::uint32_t taken = free_;
      free_ = buckets_[taken].next;
      buckets_[taken].next = bucket->next;
      bucket->next = taken;
    }
    bucket = &buckets_[bucket->next];
  }
  bucket->slots[bucket->count++] = {.tag = tag_of(cut),
                                    .flags = place.flags,
                                    .length = place.length,
                                    .address = place.address,
                                    .incarnation = place.incarnation};
  ++size_;
  return true;
}

bool Map::erase(std::uint64_t hash, std::uint64_t address) {
  const std::uint64_t cut = cut_of(hash);
  Bucket& first = buckets_[first_bucket(cut)];
  for (std::uint32_t index = first_bucket(cut); index != kNone; index = buckets_[index].next) {
    Bucket& bucket = buckets_[index];
    const auto end = bucket.slots.begin() + bucket.count;
    const auto found = std::find_if(
        bucket.slots.begin(), end, [address](const Slot& slot) { return slot.address == address; });
    if (found == end) continue;
    // One of the second bucket takes its place, so that holes are there or in the first only.
    Bucket& last = first.next == kNone ? first : buckets_[first.next];
    *found = last.slots[--last.count];
    if (&last != &first && last.count == 0) {
      const std::uint32_t empty = first.next;
      first.next = last.next;
      last.next = free_;
      free_ = empty;
    }
    --size_;
    return true;
  }
  return false;
}

}  // namespace rockhopper::dag
