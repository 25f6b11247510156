// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>
#include <string>

namespace rockhopper::apps {

/// Who waits for somebody for so long says for whom.
inline constexpr std::uint64_t kSayNs = 1'000'000'000;

/// Work that must go on while the program waits for something else: packets that keep moving (a
/// peer may ask for our MAC address) while a socket is silent.
class Background {
 public:
  Background() = default;
  Background(const Background&) = delete;
  Background& operator=(const Background&) = delete;
  virtual ~Background() = default;

  /// One turn without waiting. True if there was something to do.
  virtual bool turn() = 0;
  /// How long a wait may keep turn() from being called.
  [[nodiscard]] virtual int wait_ms() const { return 1; }
  /// What a peer's link has to lead to, for people; empty: there is no link.
  [[nodiscard]] virtual std::string link_name() const { return {}; }
};

/// Nothing to do meanwhile.
class NoBackground final : public Background {
 public:
  bool turn() override { return false; }
  [[nodiscard]] int wait_ms() const override { return 100; }
};

}  // namespace rockhopper::apps
