// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>

#include "apps/services/dag/record.h"

/// The control words of a node's record, in which clients and the server agree on which worker runs
/// it.
namespace rockhopper::dag {

inline constexpr unsigned kStateWord = 0;         ///< NodeState
inline constexpr unsigned kDependenciesWord = 1;  ///< predecessors that have not been released
inline constexpr unsigned kOutputWord = 2;        ///< OutputPlace, this word and the next one

/// pending -> running -> done -> released. A node is ready when it is pending and no dependency is
/// left. A worker that is lost has its running nodes put back to pending, with the next attempt
/// (DG-36).
enum class NodePhase : std::uint8_t {
  pending = 0,
  running = 1,   ///< by `owner`
  done = 2,      ///< its output is there; not all its successors have been told
  released = 3,  ///< they have
  canceled = 4,  ///< nobody will run it: the run was canceled, or has failed
};

struct NodeState {
  NodePhase phase = NodePhase::pending;
  std::uint32_t attempt = 0;  ///< how often it was begun in vain, below 2^24
  std::uint32_t owner = 0;    ///< of running, done and released: a client's number at the server
  [[nodiscard]] constexpr std::uint64_t bits() const {
    return std::uint64_t{owner} << 32 | std::uint64_t{attempt} << 8 |
           static_cast<std::uint8_t>(phase);
  }
  [[nodiscard]] static constexpr NodeState from(std::uint64_t bits) {
    return {.phase = static_cast<NodePhase>(bits & 0xff),
            .attempt = static_cast<std::uint32_t>(bits >> 8 & 0xffffff),
            .owner = static_cast<std::uint32_t>(bits >> 32)};
  }
  friend bool operator==(const NodeState&, const NodeState&) = default;
};

/// Where a node's output is: a record in an arena of the run, at any of the servers. Two words:
/// address / 64 << 24 | length / 64 and incarnation << 16 | server.
struct OutputPlace {
  std::uint64_t address = 0;      ///< a multiple of 64, below 2^46
  std::uint64_t length = 0;       ///< of the record, a multiple of 64, below 2^30
  std::uint64_t incarnation = 0;  ///< below 2^48
  std::uint16_t server = 0;
  [[nodiscard]] constexpr std::uint64_t first() const { return address / 64 << 24 | length / 64; }
  [[nodiscard]] constexpr std::uint64_t second() const { return incarnation << 16 | server; }
  [[nodiscard]] static constexpr OutputPlace from(std::uint64_t first, std::uint64_t second) {
    return {.address = (first >> 24) * 64,
            .length = (first & 0xffffff) * 64,
            .incarnation = second >> 16,
            .server = static_cast<std::uint16_t>(second)};
  }
  friend bool operator==(const OutputPlace&, const OutputPlace&) = default;
};

}  // namespace rockhopper::dag
