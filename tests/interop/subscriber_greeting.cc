// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "tests/interop/subscriber_greeting.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <initializer_list>
#include <span>

#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>

namespace rockhopper::interop {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::seconds kLimit{60};

std::string to_hex(std::span<const unsigned char> bytes) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (const unsigned char byte : bytes) {
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
  return text;
}

std::string nonce() {
  std::array<unsigned char, 32> bytes;
  if (RAND_bytes(bytes.data(), static_cast<int>(bytes.size())) != 1) {
    throw Failure("the system has no random numbers");
  }
  return to_hex(bytes);
}

/// HMAC-SHA-256 over the texts, each behind its length in decimal digits and a colon.
std::string proof(const std::string& secret, std::initializer_list<std::string> texts) {
  std::string all;
  for (const std::string& text : texts) {
    all += std::to_string(text.size()) + ":" + text;
  }
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned length = 0;
  HMAC(EVP_sha256(), secret.data(), static_cast<int>(secret.size()),
       reinterpret_cast<const unsigned char*>(all.data()), all.size(), digest.data(), &length);
  return to_hex(std::span(digest).first(length));
}

/// Without white space, members sorted by name.
std::string without_proof(Json object) {
  object.erase("proof");
  return object.dump();
}

}  // namespace

Json receive(Exchange& exchange, const char* member, const std::function<void()>& wait) {
  const auto limit = Clock::now() + kLimit;
  while (Clock::now() < limit) {
    const auto line = exchange.poll();
    if (!line) {
      wait();
      continue;
    }
    if (line->contains("error")) throw Failure("the publisher: " + (*line)["error"].dump());
    if (!line->contains(member)) {
      throw Failure(std::string("no ") + member + ", but " + line->dump());
    }
    return (*line)[member];
  }
  throw Failure(std::string("no ") + member + " came");
}

Greeting greet(Exchange& exchange, const Identity& identity, std::uint32_t path_mtu,
               const std::function<Address()>& open, const std::function<void()>& wait) {
  const Json challenge = receive(exchange, "challenge", wait);
  if (challenge.at("version") != 1 || challenge.at("transport") != "rc") {
    throw Failure("cannot answer " + challenge.dump());
  }
  const auto agreed = std::min(path_mtu, challenge.at("path_mtu").get<std::uint32_t>());
  const Address own = open();
  Json hello{{"name", identity.name},
             {"nonce", nonce()},
             {"path_mtu", agreed},
             {"side", {{"gid", own.gid}, {"qpn", own.qpn}, {"psn", own.psn}, {"access_key", 0u}}}};
  if (!identity.name.empty()) {
    hello["proof"] =
        proof(identity.secret, {"rh-subscribe", challenge.dump(), without_proof(hello)});
  }
  exchange.send({{"hello", hello}});
  const Json welcome = receive(exchange, "welcome", wait);
  if (!identity.name.empty() &&
      welcome.at("proof") !=
          proof(identity.secret,
                {"rh-publish", challenge.dump(), without_proof(hello), without_proof(welcome)})) {
    throw Failure("the publisher does not know our secret");
  }
  const Json& side = welcome.at("side");
  return {.publisher = {.qpn = side.at("qpn"), .psn = side.at("psn"), .gid = side.at("gid")},
          .path_mtu = agreed};
}

}  // namespace rockhopper::interop
