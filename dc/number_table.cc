// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "dc/number_table.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <utility>

namespace rockhopper::dc {
namespace {

constexpr std::uint32_t kIndexBits = 16;
constexpr std::size_t kFirstPlaces = 1024;

}  // namespace

NumberTable::NumberTable(roce::Random& random, std::uint16_t shards, std::uint16_t shard,
                         roce::QpnAllocator* qpns)
    : random_(random), shard_bits_(std::countr_zero(shards)), shard_(shard), qpns_(qpns) {
  assert(std::has_single_bit(shards) && shard < shards);
}

std::size_t NumberTable::places_max() const {
  return (std::size_t{1} << kIndexBits) >> shard_bits_;
}

Expected<wire::Qpn> NumberTable::choose() {
  if (taken_ * 2 >= places_.size()) grow();
  while (true) {
    const std::size_t size = places_.size();
    const std::size_t first = random_.below(size);
    for (std::size_t i = 0; i < size; ++i) {
      const std::size_t index = (first + i) % size;
      if (places_[index].taken()) continue;
      const wire::Qpn number = random_number_at(index);
      if (qpns_ == nullptr || qpns_->claim(number)) return number;
    }
    if (size == places_max()) {
      return fail(ErrorCode::exhausted, "all {} numbers of DC initiators and targets are in use",
                  size);
    }
    grow();
  }
}

void NumberTable::give_back(wire::Qpn number) {
  if (qpns_ != nullptr) qpns_->release(number);
}

void NumberTable::grow() {
  const std::size_t most = places_max();
  places_.resize(std::clamp(places_.size() * 2, std::min(kFirstPlaces, most), most));
}

wire::Qpn NumberTable::random_number_at(std::size_t index) {
  constexpr std::uint32_t kHighs =
      (wire::kExtensionQpnLast.value - wire::kExtensionQpnFirst.value + 1) >> 16;
  const auto high = static_cast<std::uint32_t>(random_.below(kHighs));
  return wire::Qpn{wire::kExtensionQpnFirst.value | high << kIndexBits |
                   static_cast<std::uint32_t>(index << shard_bits_) | shard_};
}

NumberTable::Place& NumberTable::place_for(wire::Qpn number) {
  assert(index_of(number) < places_.size());
  Place& place = places_[index_of(number)];
  assert(!place.taken());
  ++taken_;
  return place;
}

Dci* NumberTable::add(std::unique_ptr<Dci> dci) {
  Place& place = place_for(dci->number());
  place.dci = std::move(dci);
  return place.dci.get();
}

Dct* NumberTable::add(std::unique_ptr<Dct> dct) {
  Place& place = place_for(dct->number());
  place.dct = std::move(dct);
  return place.dct.get();
}

void NumberTable::remove(const Dci& dci) {
  assert(find_dci(dci.number()) == &dci);
  --taken_;
  give_back(dci.number());
  places_[index_of(dci.number())].dci.reset();
}

void NumberTable::remove(const Dct& dct) {
  assert(find_dct(dct.number()) == &dct);
  --taken_;
  give_back(dct.number());
  places_[index_of(dct.number())].dct.reset();
}

const NumberTable::Place* NumberTable::place_of(wire::Qpn number) const {
  const std::size_t index = index_of(number);
  return index < places_.size() ? &places_[index] : nullptr;
}

Dci* NumberTable::find_dci(wire::Qpn number) const {
  const Place* place = place_of(number);
  Dci* dci = place == nullptr ? nullptr : place->dci.get();
  return dci != nullptr && dci->number() == number ? dci : nullptr;
}

Dct* NumberTable::find_dct(wire::Qpn number) const {
  const Place* place = place_of(number);
  Dct* dct = place == nullptr ? nullptr : place->dct.get();
  return dct != nullptr && dct->number() == number ? dct : nullptr;
}

bool NumberTable::uses(roce::ProtectionDomain pd) const {
  return std::ranges::any_of(places_, [pd](const Place& place) {
    return place.dct != nullptr && place.dct->init().pd == pd;
  });
}

}  // namespace rockhopper::dc
