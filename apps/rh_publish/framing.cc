// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/rh_publish/framing.h"

#include <cstring>

#include <boost/endian/conversion.hpp>

namespace rockhopper::apps::publish {
namespace {

Frame first_line(std::span<const std::byte> bytes, std::size_t known, std::size_t payload_max) {
  const auto rest = bytes.subspan(known);
  const void* end = rest.empty() ? nullptr : std::memchr(rest.data(), '\n', rest.size());
  if (end == nullptr) {
    return {.kind = bytes.size() > payload_max ? Frame::Kind::too_long : Frame::Kind::partial,
            .length = bytes.size()};
  }
  const auto length = static_cast<std::size_t>(static_cast<const std::byte*>(end) - bytes.data());
  if (length > payload_max) return {.kind = Frame::Kind::too_long, .length = length};
  return {.kind = Frame::Kind::whole,
          .payload = bytes.first(length),
          .taken = length + 1,
          .length = length};
}

Frame first_record(std::span<const std::byte> bytes, std::size_t payload_max) {
  if (bytes.size() < kRecordLengthBytes) return {};
  const std::uint64_t length =
      boost::endian::load_little_u32(reinterpret_cast<const unsigned char*>(bytes.data()));
  if (length > payload_max) return {.kind = Frame::Kind::too_long, .length = length};
  if (bytes.size() - kRecordLengthBytes < length) return {.length = length};
  return {.kind = Frame::Kind::whole,
          .payload = bytes.subspan(kRecordLengthBytes, length),
          .taken = kRecordLengthBytes + length,
          .length = length};
}

}  // namespace

Frame first_frame(Framing framing, std::span<const std::byte> bytes, std::size_t known,
                  std::size_t payload_max) {
  return framing == Framing::lines ? first_line(bytes, known, payload_max)
                                   : first_record(bytes, payload_max);
}

}  // namespace rockhopper::apps::publish
