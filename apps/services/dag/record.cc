// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/services/dag/record.h"

#include <algorithm>
#include <cassert>
#include <cstring>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "apps/services/dag/hash.h"

namespace rockhopper::dag {
namespace {

/// Seeded with whose slot it is, so that the bytes of another record never fit.
std::uint64_t checksum_of(const RecordHeader& header, const SlotHeader& slot,
                          std::span<const std::byte> data) {
  const std::array<std::uint64_t, 5> identity{header.incarnation, header.key_hash, slot.version,
                                              slot.writer, slot.length};
  return XXH3_64bits_withSeed(data.data(), data.size(),
                              XXH3_64bits(identity.data(), sizeof identity));
}

bool is_plausible(const RecordHeader& header, std::uint64_t incarnation) {
  return header.magic == kRecordMagic && header.incarnation == incarnation &&
         header.incarnation != 0 && header.key_length > 0 && header.key_length <= kKeyMax &&
         (header.slots == 1 || header.slots == 2) && header.capacity <= kCapacityMax;
}

}  // namespace

std::uint64_t hash_of(std::span<const std::byte> key) {
  return XXH3_64bits(key.data(), key.size());
}

void compose_slot(const RecordHeader& header, std::uint64_t version, std::uint64_t writer,
                  std::span<const std::byte> data, std::span<std::byte> out) {
  assert(data.size() <= header.capacity && out.size() >= sizeof(SlotHeader) + data.size());
  SlotHeader slot{
      .version = version, .writer = writer, .length = static_cast<std::uint32_t>(data.size())};
  slot.checksum = checksum_of(header, slot, data);
  if (!data.empty()) std::memmove(out.data() + sizeof slot, data.data(), data.size());
  std::memcpy(out.data(), &slot, sizeof slot);
}

void compose_record(const RecordInit& init, std::span<std::byte> out) {
  assert(!init.key.empty() && init.key.size() <= kKeyMax && init.incarnation != 0);
  assert(out.size() >= record_bytes(init.key.size(), init.capacity, init.slots));
  const RecordHeader header{.key_length = static_cast<std::uint16_t>(init.key.size()),
                            .slots = static_cast<std::uint8_t>(init.slots),
                            .capacity = init.capacity,
                            .incarnation = init.incarnation,
                            .key_hash = hash_of(init.key),
                            .word = RecordWord{.version = 1, .slot = 0}.bits(),
                            .control = init.control};
  compose_slot(header, 1, 0, init.data,
               out.subspan(slot_offset(init.key.size(), init.capacity, 0)));
  std::memcpy(out.data() + sizeof header, init.key.data(), init.key.size());
  std::memcpy(out.data(), &header, sizeof header);
}

RecordView examine_head(std::span<const std::byte> bytes, std::uint64_t incarnation,
                        std::optional<std::span<const std::byte>> key) {
  RecordView view;
  if (bytes.size() < sizeof view.header) return view;
  std::memcpy(&view.header, bytes.data(), sizeof view.header);
  const RecordHeader& header = view.header;
  if (!is_plausible(header, incarnation)) return view;
  if (bytes.size() < sizeof header + header.key_length) return view;
  const auto found = bytes.subspan(sizeof header, header.key_length);
  if (key && !std::equal(found.begin(), found.end(), key->begin(), key->end())) {
    view.verdict = Verdict::other_key;
    return view;
  }
  if (header.word == kDead || header.key_hash != hash_of(found)) return view;
  view.verdict = Verdict::match;
  return view;
}

std::optional<SlotHeader> examine_slot(std::span<const std::byte> bytes, const RecordHeader& header,
                                       unsigned slot) {
  if (slot >= header.slots) return std::nullopt;
  const std::uint64_t offset = slot_offset(header.key_length, header.capacity, slot);
  SlotHeader found;
  if (offset > bytes.size() || bytes.size() - offset < sizeof found) return std::nullopt;
  std::memcpy(&found, bytes.data() + offset, sizeof found);
  if (found.length > header.capacity ||
      bytes.size() - offset - sizeof found < std::size_t{found.length}) {
    return std::nullopt;
  }
  const auto data = bytes.subspan(offset + sizeof found, found.length);
  if (found.checksum != checksum_of(header, found, data)) return std::nullopt;
  return found;
}

RecordView examine_record(std::span<const std::byte> bytes, std::uint64_t incarnation,
                          std::optional<std::span<const std::byte>> key) {
  RecordView view = examine_head(bytes, incarnation, key);
  if (view.verdict != Verdict::match) return view;
  const RecordWord word = RecordWord::from(view.header.word);
  const auto slot = examine_slot(bytes, view.header, word.slot);
  if (!slot || slot->version != word.version) {
    view.verdict = Verdict::torn;
    return view;
  }
  view.version = slot->version;
  const std::uint64_t offset =
      slot_offset(view.header.key_length, view.header.capacity, word.slot) + sizeof(SlotHeader);
  view.data = bytes.subspan(offset, slot->length);
  return view;
}

}  // namespace rockhopper::dag
