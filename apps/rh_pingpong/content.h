// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "roce/wire/psn.h"

namespace rockhopper::apps::pingpong {

/// The content of the messages and its check, compatible with `ibv_rc_pingpong -c` in both roles.
/// The stock client sends 0x7b in every byte, with -c 0 in the first byte of each page, and the
/// stock server checks these first bytes; a server sends back what it has received. The stock
/// client of ibv_srq_pingpong sends zeros.
///
/// A Rockhopper client keeps 0 in the first byte of each page, and every other byte follows from
/// both ends' first PSNs, the message's number and the place. So the server can check each byte
/// and the client each byte of the echo.
class Content {
 public:
  Content(wire::Psn client_psn, wire::Psn server_psn, std::size_t page_size);

  /// The client's message number `message`, from 0.
  void fill(std::span<std::byte> out, std::uint64_t message) const;

  /// Explains the first wrong byte, if any. Each message of the run must be right by the same rule:
  /// a stock tool's or ours.
  [[nodiscard]] std::optional<std::string> check(std::span<const std::byte> data,
                                                 std::uint64_t message);
  /// For a client, which knows what it has sent: only our own rule will do.
  void expect_own() { possible_ = {false, false, false, true}; }

 private:
  enum Rule : std::size_t { kStockUnmarked, kStock, kZeros, kOwn, kRules };

  [[nodiscard]] std::optional<std::size_t> mismatch(std::span<const std::byte> data,
                                                    std::uint64_t message, Rule rule) const;

  std::uint64_t seed_;
  std::size_t page_size_;
  std::array<bool, kRules> possible_{true, true, true,
                                     true};  ///< what all messages so far agree with
};

}  // namespace rockhopper::apps::pingpong
