// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/rh_publish/proof.h"

#include <span>

#include <fmt/format.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>

namespace rockhopper::apps::publish {
namespace {

std::string to_hex(std::span<const unsigned char> bytes) {
  std::string text;
  for (const unsigned char byte : bytes) {
    text += fmt::format("{:02x}", byte);
  }
  return text;
}

}  // namespace

std::string make_proof(std::string_view secret, std::initializer_list<std::string_view> texts) {
  // Each text behind its length: no two lists give the same bytes.
  std::string all;
  for (const std::string_view text : texts) {
    all += fmt::format("{}:", text.size());
    all += text;
  }
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned length = 0;
  HMAC(EVP_sha256(), secret.data(), static_cast<int>(secret.size()),
       reinterpret_cast<const unsigned char*>(all.data()), all.size(), digest.data(), &length);
  return to_hex(std::span(digest).first(length));
}

bool is_proof(std::string_view proof, std::string_view secret,
              std::initializer_list<std::string_view> texts) {
  const std::string expected = make_proof(secret, texts);
  return proof.size() == expected.size() && !expected.empty() &&
         CRYPTO_memcmp(proof.data(), expected.data(), expected.size()) == 0;
}

Expected<std::string> make_nonce() {
  std::array<unsigned char, kNonceDigits / 2> bytes;
  if (RAND_bytes(bytes.data(), static_cast<int>(bytes.size())) != 1) {
    return fail(ErrorCode::io, "the system has no random numbers");
  }
  return to_hex(bytes);
}

}  // namespace rockhopper::apps::publish
