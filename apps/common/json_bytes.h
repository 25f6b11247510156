// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace rockhopper::apps {

/// Bytes as a member of a JSON object, so that none is lost: as "text" if they are UTF-8, else as
/// "base64".
struct JsonBytes {
  const char* name;
  std::string value;
};
[[nodiscard]] JsonBytes to_json_bytes(std::span<const std::byte> bytes);

[[nodiscard]] inline std::string_view as_text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace rockhopper::apps
