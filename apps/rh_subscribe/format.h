// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "apps/common/names.h"
#include "apps/rh_subscribe/delivery.h"

namespace rockhopper::apps::subscribe {

/// How messages are written.
enum class Format : std::uint8_t {
  lines,    ///< the payload and LF
  records,  ///< a little endian word of 32 bits with the payload's length, and the payload
  json,     ///< an object a line
};

constexpr auto names_of(Format) {
  return std::array{Names{"lines"}, Names{"records"}, Names{"json"}};
}

/// Of a file in that format, with its dot.
[[nodiscard]] std::string_view extension(Format format);

/// Appends the message to `out`. A JSON object has store, epoch, seq, time_ns, and the payload as
/// "text" if it is UTF-8, else as "base64".
void append(Format format, const Delivery& delivery, std::string& out);
/// Appends what the format has for messages that are lost: a JSON object with store, epoch and
/// "lost", the first and the last sequence number. Lines and records have nothing.
void append(Format format, const Loss& loss, std::string& out);

}  // namespace rockhopper::apps::subscribe
