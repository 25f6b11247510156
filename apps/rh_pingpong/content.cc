// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/rh_pingpong/content.h"

#include <algorithm>

#include <fmt/format.h>

#include "apps/common/pattern.h"

namespace rockhopper::apps::pingpong {
namespace {

constexpr std::byte kStockByte{0x7b};
/// More than a message of 2^31 bytes has.
constexpr std::uint64_t kPagesMax = 1u << 20;

std::uint64_t pattern_number(std::uint64_t message, std::size_t page) {
  return message * kPagesMax + page;
}

}  // namespace

Content::Content(wire::Psn client_psn, wire::Psn server_psn, std::size_t page_size)
    : seed_((std::uint64_t{client_psn.value} << 24) | server_psn.value), page_size_(page_size) {}

void Content::fill(std::span<std::byte> out, std::uint64_t message) const {
  for (std::size_t at = 0, number = 0; at < out.size(); at += page_size_, ++number) {
    const auto page = out.subspan(at, std::min(page_size_, out.size() - at));
    page.front() = std::byte{0};
    fill_pattern(page.subspan(1), seed_, pattern_number(message, number));
  }
}

std::optional<std::size_t> Content::mismatch(std::span<const std::byte> data, std::uint64_t message,
                                             Rule rule) const {
  const std::byte first = rule == kStockUnmarked ? kStockByte : std::byte{0};
  for (std::size_t at = 0, number = 0; at < data.size(); at += page_size_, ++number) {
    if (data[at] != first) return at;
    const auto rest = data.subspan(at, std::min(page_size_, data.size() - at)).subspan(1);
    if (rule == kOwn) {
      const auto wrong = find_pattern_mismatch(rest, seed_, pattern_number(message, number));
      if (wrong) return at + 1 + *wrong;
    } else {
      const std::byte right = rule == kZeros ? std::byte{0} : kStockByte;
      const auto wrong =
          std::find_if(rest.begin(), rest.end(), [right](std::byte byte) { return byte != right; });
      if (wrong != rest.end()) return at + 1 + static_cast<std::size_t>(wrong - rest.begin());
    }
  }
  return std::nullopt;
}

std::optional<std::string> Content::check(std::span<const std::byte> data, std::uint64_t message) {
  std::size_t best = 0;  // the rule that holds longest explains best
  bool right = false;
  for (const Rule rule : {kStockUnmarked, kStock, kZeros, kOwn}) {
    if (!possible_[rule]) continue;
    const auto wrong = mismatch(data, message, rule);
    if (!wrong) {
      right = true;
      continue;
    }
    possible_[rule] = false;
    best = std::max(best, *wrong);
  }
  if (right) return std::nullopt;
  return fmt::format("message {}: the byte at offset {} is wrong ({:#04x})", message, best,
                     std::to_integer<unsigned>(data[best]));
}

}  // namespace rockhopper::apps::pingpong
