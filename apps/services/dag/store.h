// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "apps/services/dag/block_allocator.h"
#include "apps/services/dag/map.h"
#include "apps/services/dag/quarantine.h"
#include "apps/services/dag/record.h"
#include "apps/services/dag/status.h"
#include "stack/error.h"

namespace rockhopper::dag {

struct StoreConfig {
  std::uint32_t records = 1u << 16;           ///< at most, 1 to Map::kRecordsMax
  unsigned hash_bits = 64;                    ///< that the map goes by, 1 to 64
  std::uint32_t capacity_max = 1u << 20;      ///< of a record, bytes, kCapacityMax at most
  std::uint64_t quarantine_ns = 500'000'000;  ///< for which freed memory rests at least
  std::uint64_t first_incarnation = 1;        ///< above what an earlier store has had; not 0
};

/// A server's records: their memory, the map that leads to them, and the memory that rests. No
/// communication. Peers READ and WRITE the memory meanwhile, so that nothing in it is believed:
/// what the store relies on, the places and lengths of blocks, is in the map, which no peer can
/// write. Belongs to the engine's thread, which alone executes what peers do to the memory.
class Store {
 public:
  /// `memory` begins at a multiple of kRecordAlignment; it stays the caller's and must outlive the
  /// store. It is written where records are.
  [[nodiscard]] static Expected<std::unique_ptr<Store>> create(std::span<std::byte> memory,
                                                               const StoreConfig& config);
  Store(const Store&) = delete;
  Store& operator=(const Store&) = delete;

  /// What an operation has come to, and with `ok` where the record is.
  struct Outcome {
    Status status = Status::ok;
    std::uint64_t hash = 0;  ///< all bits
    MapPlace place{};
  };
  struct CreateInit {
    std::span<const std::byte> key;
    std::uint32_t capacity = 0;
    unsigned slots = 2;
    ControlWords control{};
    std::span<const std::byte> data;
  };
  /// A new record (DG-20).
  [[nodiscard]] Outcome create(const CreateInit& init);
  /// The candidates' keys decide (DG-8).
  [[nodiscard]] Outcome lookup(std::span<const std::byte> key) const;
  /// Updates that are under way fail; the memory rests (DG-30).
  [[nodiscard]] Outcome erase(std::span<const std::byte> key, std::uint64_t now_ns);
  /// Moves the record with its data and control words into a place of another capacity.
  [[nodiscard]] Outcome resize(std::span<const std::byte> key, std::uint32_t capacity,
                               std::uint64_t now_ns);

  /// Memory in which a client makes records by itself, WRITEing them as compose_record() does. Its
  /// records may have the incarnations from place.incarnation on, one for each kArenaStep bytes.
  static constexpr std::uint64_t kArenaStep = 128;
  /// Owners from here on are no clients, and never fenced.
  static constexpr std::uint32_t kHomeOwner = 0x80000000;
  /// With a group, up to kKeyMax bytes, it is not released with its owner but with its group.
  [[nodiscard]] Outcome allocate_arena(std::uint32_t owner, std::uint64_t bytes,
                                       std::span<const std::byte> group = {});
  /// All of an arena that begins there, as long as it is not released. Nothing if it is not that
  /// owner's, or with `incarnation`, which allocate_arena() has given, an earlier or later one.
  /// Peers may write to it at any time: to be copied before it is judged.
  [[nodiscard]] std::optional<std::span<const std::byte>> arena_bytes(
      std::uint32_t owner, std::uint64_t address,
      std::optional<std::uint64_t> incarnation = {}) const;
  /// Puts a record of an arena into the map, if it is what the client says.
  [[nodiscard]] Outcome adopt(std::uint32_t owner, std::span<const std::byte> key,
                              const MapPlace& claimed);
  /// The owner makes no more records in it: when the last one that was adopted has been erased, its
  /// memory rests.
  [[nodiscard]] Status release_arena(std::uint32_t owner, std::uint64_t address,
                                     std::uint64_t now_ns);
  /// All of them that have no group. The owner cannot write any more.
  void release_arenas(std::uint32_t owner, std::uint64_t now_ns);
  /// Releases all arenas of a group, of any client. Returns how many, none perhaps.
  std::size_t release_group(std::span<const std::byte> group, std::uint64_t now_ns);

  /// Frees the records that `owner` has locked, once it cannot write any more; what they hold stays
  /// as it is (DG-32). Looks at all records. Returns how many.
  std::size_t release_locks(std::uint32_t owner);

  [[nodiscard]] Quarantine& quarantine() { return quarantine_; }
  [[nodiscard]] const Quarantine& quarantine() const { return quarantine_; }
  /// Makes memory available that has rested long enough.
  void collect(std::uint64_t now_ns);

  [[nodiscard]] std::span<std::byte> memory() const { return memory_; }
  [[nodiscard]] std::uint32_t size() const { return map_.size(); }
  [[nodiscard]] std::uint64_t free_bytes() const { return allocator_.free_bytes(); }
  [[nodiscard]] const StoreConfig& config() const { return config_; }

 private:
  struct Arena {
    std::uint64_t bytes = 0;
    std::uint32_t owner = 0;
    bool released = false;
    std::uint64_t first_incarnation = 0;
    std::vector<std::byte> group;                    ///< empty: none
    std::map<std::uint64_t, std::uint64_t> adopted;  ///< length by address
  };
  using Arenas = std::map<std::uint64_t, Arena>;

  Store(std::span<std::byte> memory, const StoreConfig& config);
  [[nodiscard]] std::span<std::byte> bytes_of(const MapPlace& place) const {
    return memory_.subspan(place.address, place.length);
  }
  [[nodiscard]] std::optional<MapPlace> find(std::uint64_t hash,
                                             std::span<const std::byte> key) const;
  [[nodiscard]] bool is_good(const CreateInit& init) const;
  /// Takes it out of the map; from now on every READ and every update of it finds it dead.
  void retire(std::uint64_t hash, const MapPlace& place, std::uint64_t now_ns);
  [[nodiscard]] Arenas::iterator arena_of(std::uint64_t address);
  void settle(Arenas::iterator arena, std::uint64_t now_ns);
  template <typename Which>
  std::size_t release_if(const Which& which, std::uint64_t now_ns);

  std::span<std::byte> memory_;
  StoreConfig config_;
  BlockAllocator allocator_;
  Map map_;
  Quarantine quarantine_;
  Arenas arenas_;
  std::uint64_t next_incarnation_;
};

}  // namespace rockhopper::dag
