// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "tests/dag/judge.h"

#include <algorithm>
#include <array>
#include <cstring>

#include <fmt/format.h>

#include "tests/sim/rng.h"

namespace rockhopper::sim {

std::vector<std::byte> Judge::content(std::uint64_t key, std::uint64_t serial,
                                      std::size_t length) const {
  std::vector<std::byte> bytes(std::max(length, kHead));
  const std::array<std::uint64_t, 3> head{key, serial, bytes.size()};
  std::memcpy(bytes.data(), head.data(), kHead);
  Rng rng(seed_ + key * 0x9e3779b97f4a7c15 + serial * 0xc2b2ae3d27d4eb4f);
  rng.fill({reinterpret_cast<std::uint8_t*>(bytes.data()) + kHead, bytes.size() - kHead});
  return bytes;
}

Judge::Before Judge::before(std::uint64_t key) const {
  const auto found = states_.find(key);
  if (found == states_.end()) return {};
  return {.incarnation = found->second.incarnation,
          .version = found->second.version,
          .erased = found->second.erased.size()};
}

std::string Judge::note(State& state, const dag::RecordVersion& version, std::uint64_t serial) {
  const auto [known, fresh] =
      state.serials.emplace(std::pair(version.incarnation, version.version), serial);
  if (fresh || known->second == serial) return {};
  return fmt::format("version {} of incarnation {} was write {} and is write {}", version.version,
                     version.incarnation, known->second, serial);
}

std::string Judge::on_written(std::uint64_t key, const dag::RecordVersion& version,
                              std::uint64_t serial) {
  State& state = states_[key];
  // Later records of a key have higher incarnations.
  if (std::pair(version.incarnation, version.version) >
      std::pair(state.incarnation, state.version)) {
    state.incarnation = version.incarnation;
    state.version = version.version;
  }
  return note(state, version, serial);
}

void Judge::on_erased(std::uint64_t key, std::uint64_t incarnation) {
  states_[key].erased.push_back(incarnation);
}

void Judge::on_moved(std::uint64_t key, std::uint64_t incarnation) {
  State& state = states_[key];
  if (incarnation > state.incarnation) {
    state.incarnation = incarnation;
    state.version = 1;
  }
}

std::string Judge::on_read(std::uint64_t key, const Before& before,
                           const dag::RecordVersion& version, std::span<const std::byte> data) {
  std::array<std::uint64_t, 3> head{};
  if (data.size() < kHead) return fmt::format("key {}: only {} bytes", key, data.size());
  std::memcpy(head.data(), data.data(), kHead);
  if (head[0] != key) return fmt::format("key {}: a record of key {}", key, head[0]);
  if (head[2] != data.size()) {
    return fmt::format("key {}: {} bytes of {}", key, data.size(), head[2]);
  }
  const auto expected = content(key, head[1], head[2]);
  if (!std::equal(data.begin(), data.end(), expected.begin())) {
    return fmt::format("key {}: a mixture of writes", key);
  }
  if (std::pair(version.incarnation, version.version) <
      std::pair(before.incarnation, before.version)) {
    return fmt::format("key {}: version {} of incarnation {} after version {} of {}", key,
                       version.version, version.incarnation, before.version, before.incarnation);
  }
  if (refused_.count(head[1]) != 0) {
    return fmt::format("key {}: write {}, which was refused", key, head[1]);
  }
  State& state = states_[key];
  const auto end = state.erased.begin() + static_cast<std::ptrdiff_t>(before.erased);
  if (std::find(state.erased.begin(), end, version.incarnation) != end) {
    return fmt::format("key {}: incarnation {} after it was erased", key, version.incarnation);
  }
  return note(state, version, head[1]);
}

}  // namespace rockhopper::sim
