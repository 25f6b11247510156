// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "dc/dci.h"
#include "dc/dct.h"
#include "roce/qpn_allocator.h"
#include "roce/random.h"
#include "roce/wire/qpn.h"
#include "stack/error.h"

namespace rockhopper::dc {

/// The initiators and targets of an endpoint by their numbers, which are of the window that
/// extensions have (roce::is_extension_qpn). Owns them.
class NumberTable {
 public:
  /// `random` outlives it, and so does `qpns`, which may be null: see roce::EngineConfig. The low
  /// bits of its numbers are `shard`, below `shards`, a power of two.
  NumberTable(roce::Random& random, std::uint16_t shards, std::uint16_t shard,
              roce::QpnAllocator* qpns = nullptr);

  /// Chooses a number that is free here and takes it from the port's, unpredictable as far as there
  /// is choice. It has to be added or given back.
  [[nodiscard]] Expected<wire::Qpn> choose();
  void give_back(wire::Qpn number);
  /// Adds what has the number that choose() has just given.
  Dci* add(std::unique_ptr<Dci> dci);
  Dct* add(std::unique_ptr<Dct> dct);
  /// It is destroyed, and its number free.
  void remove(const Dci& dci);
  void remove(const Dct& dct);

  /// Returns null if that is no initiator's number, or no target's.
  [[nodiscard]] Dci* find_dci(wire::Qpn number) const;
  [[nodiscard]] Dct* find_dct(wire::Qpn number) const;
  /// Calls `on_dci(Dci&)` or `on_dct(Dct&)` for each; that may remove it.
  template <typename OnDci, typename OnDct>
  void for_each(OnDci on_dci, OnDct on_dct) {
    for (Place& place : places_) {
      if (place.dci != nullptr) {
        on_dci(*place.dci);
      } else if (place.dct != nullptr) {
        on_dct(*place.dct);
      }
    }
  }
  /// A target uses that protection domain.
  [[nodiscard]] bool uses(roce::ProtectionDomain pd) const;
  [[nodiscard]] std::size_t size() const { return taken_; }

 private:
  /// Has one of them, or none.
  struct Place {
    std::unique_ptr<Dci> dci;
    std::unique_ptr<Dct> dct;
    [[nodiscard]] bool taken() const { return dci != nullptr || dct != nullptr; }
  };

  [[nodiscard]] std::size_t index_of(wire::Qpn number) const {
    return (number.value & 0xffff) >> shard_bits_;
  }
  /// Returns the free place of a number that has been chosen.
  [[nodiscard]] Place& place_for(wire::Qpn number);
  [[nodiscard]] std::size_t places_max() const;
  void grow();
  [[nodiscard]] wire::Qpn random_number_at(std::size_t index);
  /// Returns null where a number leads to no place.
  [[nodiscard]] const Place* place_of(wire::Qpn number) const;

  roce::Random& random_;
  int shard_bits_;
  std::uint16_t shard_;
  roce::QpnAllocator* qpns_;
  std::vector<Place> places_;  ///< by the low 16 bits of the number, without the shard's
  std::size_t taken_ = 0;      ///< of the places
};

}  // namespace rockhopper::dc
