// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/services/dag/graph/digest_task.h"

#include <algorithm>
#include <iterator>
#include <memory>

#include <fmt/format.h>
#include <openssl/evp.h>

#include "apps/services/dag/graph/little_endian.h"

namespace rockhopper::dag {

std::optional<DigestArguments> DigestArguments::parse(std::span<const std::byte> bytes) {
  if (bytes.size() != kSize) return std::nullopt;
  LittleEndianReader reader(bytes);
  DigestArguments arguments;
  arguments.seed = reader.take<std::uint64_t>();
  arguments.output_bytes = reader.take<std::uint64_t>();
  return arguments;
}

std::vector<std::byte> DigestArguments::emit() const {
  std::vector<std::byte> bytes(kSize);
  LittleEndianWriter writer(bytes);
  writer.put(seed);
  writer.put(output_bytes);
  return bytes;
}

Digest digest_of(Sha256& sha256, const TaskCall& call, std::uint64_t seed) {
  sha256.add_with_length(call.key);
  sha256.add_number(seed);
  sha256.add_with_length(call.previous);
  sha256.add_number(call.inputs.size());
  for (const TaskInput& input : call.inputs) {
    sha256.add_with_length(input.bytes);
  }
  return sha256.finish();
}

Expected<void> expand(const Digest& digest, std::uint64_t bytes, std::vector<std::byte>& output) {
  output.assign(std::max<std::uint64_t>(bytes, digest.size()), std::byte{0});
  std::copy(digest.begin(), digest.end(), output.begin());
  if (output.size() == digest.size()) return {};
  const std::unique_ptr<EVP_CIPHER_CTX, decltype(&EVP_CIPHER_CTX_free)> context(
      EVP_CIPHER_CTX_new(), &EVP_CIPHER_CTX_free);
  constexpr unsigned char kCounter[16] = {};
  bool done = context != nullptr &&
              EVP_EncryptInit_ex2(context.get(), EVP_aes_256_ctr(),
                                  reinterpret_cast<const unsigned char*>(digest.data()), kCounter,
                                  nullptr) == 1;
  auto* at = reinterpret_cast<unsigned char*>(output.data()) + digest.size();
  for (std::size_t left = output.size() - digest.size(); done && left > 0;) {
    // The library counts in int.
    const auto part = static_cast<int>(std::min<std::size_t>(left, 1u << 30));
    int length = 0;
    done = EVP_EncryptUpdate(context.get(), at, &length, at, part) == 1 && length == part;
    at += part;
    left -= static_cast<std::size_t>(part);
  }
  if (!done) return fail(ErrorCode::exhausted, "OpenSSL makes no key stream");
  return {};
}

Expected<void> add_digest_function(FunctionRegistry& registry, std::uint64_t output_bytes_max) {
  return registry.add(
      kDigestFunction, "digest",
      [output_bytes_max](const TaskCall& call, std::vector<std::byte>& output) -> Expected<void> {
        const auto arguments = DigestArguments::parse(call.arguments);
        if (!arguments) {
          return fail(ErrorCode::invalid_argument, "the digest function takes {} bytes, not {}",
                      DigestArguments::kSize, call.arguments.size());
        }
        if (arguments->output_bytes > output_bytes_max) {
          return fail(ErrorCode::exhausted, "an output of {} bytes is asked for; the limit is {}",
                      arguments->output_bytes, output_bytes_max);
        }
        thread_local Sha256 sha256;
        return expand(digest_of(sha256, call, arguments->seed), arguments->output_bytes, output);
      });
}

void GraphDigest::add(std::string_view key, const Digest& digest_of_output) {
  sha256_.add_with_length(key);
  sha256_.add(digest_of_output);
}

std::string to_hex(const Digest& digest) {
  std::string text;
  for (const std::byte byte : digest) {
    fmt::format_to(std::back_inserter(text), "{:02x}", static_cast<unsigned>(byte));
  }
  return text;
}

}  // namespace rockhopper::dag
