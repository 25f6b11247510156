// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/services/dag/graph/task.h"

#include <algorithm>
#include <iterator>

#include <fmt/format.h>

namespace rockhopper::dag {

std::vector<std::byte> emit_command(std::span<const std::string_view> words) {
  std::vector<std::byte> arguments;
  for (const std::string_view word : words) {
    const auto bytes = std::as_bytes(std::span(word));
    arguments.insert(arguments.end(), bytes.begin(), bytes.end());
    arguments.push_back(std::byte{0});
  }
  return arguments;
}

Expected<std::vector<std::string_view>> parse_command(std::span<const std::byte> arguments) {
  if (arguments.empty() || arguments.back() != std::byte{0}) {
    return fail(ErrorCode::invalid_argument, "a command's last word has no end");
  }
  std::vector<std::string_view> words;
  const std::string_view text(reinterpret_cast<const char*>(arguments.data()), arguments.size());
  for (std::size_t at = 0; at < text.size(); at += words.back().size() + 1) {
    words.push_back(text.substr(at, text.find('\0', at) - at));
  }
  if (words.front().empty()) return fail(ErrorCode::invalid_argument, "a command has no program");
  return words;
}

std::string key_text(std::string_view key) {
  constexpr std::size_t kMax = 80;
  std::string text = "'";
  for (const char c : key.substr(0, kMax)) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte >= 0x7f || c == '\\' || c == '\'') {
      fmt::format_to(std::back_inserter(text), "\\x{:02x}", byte);
    } else {
      text += c;
    }
  }
  return text + (key.size() > kMax ? "...'" : "'");
}

}  // namespace rockhopper::dag
