// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "apps/services/dag/result.h"

namespace rockhopper::sim {

/// What a writer puts into a record: which key it is for, which write it is, and as many bytes as
/// the two and the seed say. Reads are judged by these bytes alone.
class Judge {
 public:
  explicit Judge(std::uint64_t seed) : seed_(seed) {}

  /// What write `serial` of `key` writes; at least kHead bytes.
  [[nodiscard]] std::vector<std::byte> content(std::uint64_t key, std::uint64_t serial,
                                               std::size_t length) const;
  static constexpr std::size_t kHead = 24;

  /// What was known of a key when an operation began.
  struct Before {
    std::uint64_t incarnation = 0;  ///< of the newest write that was acknowledged
    std::uint64_t version = 0;
    std::uint64_t erased = 0;  ///< records erased so far: their number
  };
  [[nodiscard]] Before before(std::uint64_t key) const;

  /// Empty, or what is wrong. `serial` is that of the write.
  [[nodiscard]] std::string on_written(std::uint64_t key, const dag::RecordVersion& version,
                                       std::uint64_t serial);
  /// A write that has been told not to have happened.
  void on_refused(std::uint64_t serial) { refused_.insert(serial); }
  void on_erased(std::uint64_t key, std::uint64_t incarnation);
  /// It is there now with the same data.
  void on_moved(std::uint64_t key, std::uint64_t incarnation);
  [[nodiscard]] std::string on_read(std::uint64_t key, const Before& before,
                                    const dag::RecordVersion& version,
                                    std::span<const std::byte> data);

 private:
  struct State {
    std::uint64_t incarnation = 0;
    std::uint64_t version = 0;
    std::vector<std::uint64_t> erased;
    /// Serial numbers by version.
    std::map<std::pair<std::uint64_t, std::uint64_t>, std::uint64_t> serials;
  };
  [[nodiscard]] std::string note(State& state, const dag::RecordVersion& version,
                                 std::uint64_t serial);

  std::uint64_t seed_;
  std::map<std::uint64_t, State> states_;
  std::set<std::uint64_t> refused_;
};

}  // namespace rockhopper::sim
