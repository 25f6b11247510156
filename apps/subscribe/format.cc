// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/subscribe/format.h"

#include <array>
#include <utility>

#include <boost/endian/conversion.hpp>
#include <boost/locale/utf.hpp>
#include <nlohmann/json.hpp>
#include <openssl/evp.h>

namespace rockhopper::apps::subscribe {
namespace {

std::string_view as_text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

bool is_utf8(std::string_view text) {
  using Utf8 = boost::locale::utf::utf_traits<char>;
  for (auto at = text.begin(); at != text.end();) {
    if (!boost::locale::utf::is_valid_codepoint(Utf8::decode(at, text.end()))) return false;
  }
  return true;
}

std::string base64(std::span<const std::byte> bytes) {
  // With room for the 0 that the library writes behind it.
  std::string text(4 * ((bytes.size() + 2) / 3) + 1, '\0');
  const int length = EVP_EncodeBlock(reinterpret_cast<unsigned char*>(text.data()),
                                     reinterpret_cast<const unsigned char*>(bytes.data()),
                                     static_cast<int>(bytes.size()));
  text.resize(static_cast<std::size_t>(length));
  return text;
}

void append_json(const Delivery& delivery, std::string& out) {
  nlohmann::ordered_json object{{"store", delivery.store},
                                {"epoch", delivery.epoch},
                                {"seq", delivery.sequence},
                                {"time_ns", delivery.time_ns}};
  const std::string_view text = as_text(delivery.payload);
  if (is_utf8(text)) {
    object["text"] = text;
  } else {
    object["base64"] = base64(delivery.payload);
  }
  out += object.dump();
  out += '\n';
}

}  // namespace

std::optional<Format> parse_format(std::string_view name) {
  constexpr std::array<std::pair<std::string_view, Format>, 3> kFormats{
      {{"lines", Format::lines}, {"records", Format::records}, {"json", Format::json}}};
  for (const auto& [known, format] : kFormats) {
    if (name == known) return format;
  }
  return std::nullopt;
}

std::string_view extension(Format format) {
  switch (format) {
    case Format::lines:
      return ".txt";
    case Format::records:
      return ".records";
    case Format::json:
      break;
  }
  return ".jsonl";
}

void append(Format format, const Delivery& delivery, std::string& out) {
  switch (format) {
    case Format::lines:
      out += as_text(delivery.payload);
      out += '\n';
      break;
    case Format::records: {
      std::array<unsigned char, 4> length;
      boost::endian::store_little_u32(length.data(),
                                      static_cast<std::uint32_t>(delivery.payload.size()));
      out.append(reinterpret_cast<const char*>(length.data()), length.size());
      out += as_text(delivery.payload);
      break;
    }
    case Format::json:
      append_json(delivery, out);
      break;
  }
}

void append(Format format, const Loss& loss, std::string& out) {
  if (format != Format::json) return;
  const nlohmann::ordered_json object{
      {"store", loss.store}, {"epoch", loss.epoch}, {"lost", {loss.first, loss.last}}};
  out += object.dump();
  out += '\n';
}

}  // namespace rockhopper::apps::subscribe
