// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/common/json_bytes.h"

#include <boost/locale/utf.hpp>
#include <openssl/evp.h>

namespace rockhopper::apps {
namespace {

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

}  // namespace

JsonBytes to_json_bytes(std::span<const std::byte> bytes) {
  const std::string_view text = as_text(bytes);
  if (is_utf8(text)) return {"text", std::string(text)};
  return {"base64", base64(bytes)};
}

}  // namespace rockhopper::apps
