// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace rockhopper::dag {

/// Requests that a client can have at a server, the canceled ones included.
inline constexpr std::size_t kRequestWords = 32;

/// The word of a request.
[[nodiscard]] constexpr std::size_t word_of(std::uint64_t request_id) {
  return request_id % kRequestWords;
}

/// What decides whether a request is executed: whichever of both sides changes the word first. The
/// server when it takes the request; the client by CAS when it has waited long enough, which works
/// even while the server's application stands still. So a request that has timed out never is
/// executed later.
struct RequestWord {
  std::uint64_t id = 0;
  bool canceled = false;
  [[nodiscard]] constexpr std::uint64_t bits() const { return id << 1 | (canceled ? 1 : 0); }
  [[nodiscard]] static constexpr RequestWord from(std::uint64_t bits) {
    return {.id = bits >> 1, .canceled = (bits & 1) != 0};
  }
};

/// A client's later renewals until two things are certain: all is complete that it had begun
/// (ClientArea), and what it had seen to be there may be another's (Quarantine).
inline constexpr std::uint64_t kGraceRenewals = 2;

/// The memory of a server that one client alone writes, little endian.
struct ClientArea {
  /// The lease: one more with each renewal. With renewal n all changes are complete that the client
  /// had begun before renewal n - 1.
  std::uint64_t renewals = 0;
  std::array<std::uint64_t, 7> reserved{};
  std::array<std::uint64_t, kRequestWords> words{};  ///< RequestWord
};
static_assert(sizeof(ClientArea) == 64 + 8 * kRequestWords);

}  // namespace rockhopper::dag
