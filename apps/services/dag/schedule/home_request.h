// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "apps/services/dag/client_area.h"

/// What clients ask of a Home: the `code`, `name`, `value` and `data` of an application request
/// (message.h). Numbers in the data are little endian.
namespace rockhopper::dag {

enum class HomeRequest : std::uint8_t {
  /// The name is the run's, the value the address of an arena of the client that holds the graph's
  /// image, which is not written any more. Data: SubmitRequest. The answer's value is the slot on
  /// the board, which tells the rest.
  submit = 1,
  cancel,  ///< the name is the run's; harmless if it has ended
  /// Forgets a run that has ended, with its records and its outputs at this server. Those at others
  /// have to be released before, by the client that asks (RunGroup). The name is the run's.
  drop,
  join,   ///< as a worker. Data: JoinRequest. The answer's value is the slot on the board
  leave,  ///< what it runs is put back. No name, no data
  /// A node could not be run. The name is the run's, the value the node << 32 | attempt; the data
  /// is a text for people.
  node_failed,
};

inline constexpr std::uint32_t kAttemptsMax = 1000;
/// The entries of each of a deque's classes: a power of 2 between these.
inline constexpr std::uint32_t kDequeEntriesMin = 16;
inline constexpr std::uint32_t kDequeEntriesMax = 65536;

/// How often each node of a run may come to nothing before the run fails; 1 to kAttemptsMax each.
struct RunAttempts {
  std::uint32_t failed = 3;  ///< its task has failed
  std::uint32_t lost = 3;    ///< its worker was lost, and may have been so because of it
  [[nodiscard]] constexpr bool is_valid() const {
    return failed > 0 && failed <= kAttemptsMax && lost > 0 && lost <= kAttemptsMax;
  }
};

struct SubmitRequest {
  std::uint64_t image_bytes = 0;
  std::uint64_t incarnation = 0;  ///< of the arena
  std::uint32_t priority = 1;     ///< class, below kPriorityClasses
  RunAttempts attempts;
  static constexpr std::size_t kSize = 28;
};

struct JoinRequest {
  std::array<std::byte, 16> gid{};
  std::uint32_t target = 0;
  std::uint64_t access_key = 0;
  std::uint32_t deque_key = 0;
  std::uint32_t deque_capacity = 0;
  std::uint32_t path_mtu = 0;  ///< bytes
  std::string_view name;       ///< for people, 1 to 31 printable bytes
  static constexpr std::size_t kSize = 72;
};

[[nodiscard]] std::array<std::byte, SubmitRequest::kSize> emit(const SubmitRequest& request);
/// Returns nothing for another length, or a value out of range.
[[nodiscard]] std::optional<SubmitRequest> parse_submit(std::span<const std::byte> bytes);
[[nodiscard]] std::array<std::byte, JoinRequest::kSize> emit(const JoinRequest& request);
/// Returns nothing in the same cases. The name lies in `bytes`.
[[nodiscard]] std::optional<JoinRequest> parse_join(std::span<const std::byte> bytes);

}  // namespace rockhopper::dag
