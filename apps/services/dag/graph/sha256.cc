// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/services/dag/graph/sha256.h"

#include <bit>
#include <cstdlib>

#include <openssl/evp.h>

namespace rockhopper::dag {
namespace {

static_assert(std::endian::native == std::endian::little, "no other byte order is supported");

EVP_MD_CTX* of(void* context) { return static_cast<EVP_MD_CTX*>(context); }

/// OpenSSL's hash functions fail only where memory is lacking, and a wrong digest would be worse.
void expect(bool done) {
  if (!done) std::abort();
}

}  // namespace

void Sha256::Free::operator()(void* context) const { EVP_MD_CTX_free(of(context)); }

Sha256::Sha256() : context_(EVP_MD_CTX_new()) {
  expect(context_ != nullptr);
  expect(EVP_DigestInit_ex2(of(context_.get()), EVP_sha256(), nullptr) == 1);
}

void Sha256::add(std::span<const std::byte> bytes) {
  expect(EVP_DigestUpdate(of(context_.get()), bytes.data(), bytes.size()) == 1);
}

void Sha256::add_number(std::uint64_t number) { add(std::as_bytes(std::span(&number, 1))); }

void Sha256::add_with_length(std::span<const std::byte> bytes) {
  add_number(bytes.size());
  add(bytes);
}

Digest Sha256::finish() {
  Digest digest;
  unsigned length = 0;
  expect(EVP_DigestFinal_ex(of(context_.get()), reinterpret_cast<unsigned char*>(digest.data()),
                            &length) == 1);
  // Without a type: the same again, which spares looking for it.
  expect(EVP_DigestInit_ex2(of(context_.get()), nullptr, nullptr) == 1);
  return digest;
}

}  // namespace rockhopper::dag
