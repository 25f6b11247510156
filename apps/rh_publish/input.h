// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "apps/common/names.h"
#include "apps/rh_publish/rate_limiter.h"
#include "apps/rh_publish/source.h"

namespace rockhopper::apps::publish {

enum class InputKind : std::uint8_t { lines, records, udp, pcap };
constexpr auto names_of(InputKind) {
  return std::array{Names{"lines"}, Names{"records"}, Names{"udp"}, Names{"pcap"}};
}
/// Whether it is bytes of a file or of standard input.
[[nodiscard]] constexpr bool is_stream(InputKind kind) {
  return kind == InputKind::lines || kind == InputKind::records;
}

/// What --input says: [STORE=]KIND[:WHERE]. WHERE is a file, "-" for standard input (lines and
/// records have that if nothing is said), or where UDP is listened to.
struct InputSpec {
  std::string store;  ///< empty: the only one
  InputKind kind = InputKind::lines;
  std::string where;
};

[[nodiscard]] Expected<InputSpec> parse_input(std::string_view text);
/// As parse_input() takes it.
[[nodiscard]] std::string to_string(const InputSpec& spec);

/// The same for all inputs.
struct InputSettings {
  bool follow = false;          ///< files of lines and records
  double rate_per_s = 0;        ///< messages of each input; 0: as they come
  double speed = 1;             ///< of captures, unless there is a rate
  double longest_pause_s = 60;  ///< of captures; longer ones are left out
  std::uint64_t count = 0;      ///< messages of each input; 0: all
};

/// A source with its rate and the number of messages that are wanted of it.
class Input {
 public:
  /// A source that had nothing is not asked again for so long, as that may take a system call.
  static constexpr std::uint64_t kPauseNs = 20'000;

  [[nodiscard]] static Expected<std::unique_ptr<Input>> open(const InputSpec& spec,
                                                             const InputSettings& settings,
                                                             std::size_t payload_max);

  /// As Source::next(). Next::end once the number is reached, too.
  [[nodiscard]] Expected<Next> next(std::uint64_t now_ns, std::span<const std::byte>& payload);

  [[nodiscard]] const InputSpec& spec() const { return spec_; }
  [[nodiscard]] const Source& source() const { return *source_; }
  [[nodiscard]] std::uint64_t messages() const { return messages_; }
  [[nodiscard]] bool ended() const { return ended_; }

 private:
  Input(InputSpec spec, const InputSettings& settings, std::unique_ptr<Source> source)
      : spec_(std::move(spec)),
        source_(std::move(source)),
        limiter_(settings.rate_per_s),
        count_(settings.count) {}

  InputSpec spec_;
  std::unique_ptr<Source> source_;
  RateLimiter limiter_;
  std::uint64_t count_;
  std::uint64_t messages_ = 0;
  std::uint64_t ask_ns_ = 0;
  bool ended_ = false;
};

}  // namespace rockhopper::apps::publish
