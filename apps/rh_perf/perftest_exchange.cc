// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/rh_perf/perftest_exchange.h"

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cstring>
#include <system_error>

#include <fmt/format.h>

#include "roce/wire/bytes.h"
#include "roce/wire/cm.h"

namespace rockhopper::apps::perf {
namespace {

/// The version of perftest whose exchange this is.
constexpr std::string_view kPerftestVersion = "6.06";
constexpr std::size_t kVersionBytes = 16;
constexpr double kOldestVersion = 5.70;
/// It waits for one more phase, also of peers that do not have it; 6.28 asks who they are.
constexpr std::string_view kNegotiatingVersion = "6.27";
constexpr std::uint32_t kBufferBytes = 4096;
constexpr std::uint32_t kBufferBytesMax = 64u << 20;
constexpr std::uint32_t kCacheLineBytes = 64;
constexpr std::size_t kMtuBytes = 2;

std::string padded(std::string_view text, std::size_t bytes) {
  std::string result(bytes, '\0');
  text.copy(result.data(), bytes);
  return result;
}

/// A number as the programs send it, most significant byte first.
std::string big_endian(std::uint32_t value) {
  std::array<std::uint8_t, sizeof value> bytes{};
  wire::store_be32(bytes.data(), value);
  return {bytes.begin(), bytes.end()};
}
std::string big_endian(std::uint64_t value) {
  std::array<std::uint8_t, sizeof value> bytes{};
  wire::store_be64(bytes.data(), value);
  return {bytes.begin(), bytes.end()};
}

const std::uint8_t* bytes_of(const std::string& text) {
  return reinterpret_cast<const std::uint8_t*>(text.data());
}

}  // namespace

Expected<std::string> PerftestExchange::swap(std::string_view own) {
  const auto send = [&] { return carrier_.send(own); };
  const auto receive = [&] { return carrier_.receive(own.size()); };
  if (client_) return send().and_then(receive);
  ROCKHOPPER_TRY(auto peer, receive());
  ROCKHOPPER_TRY(send());
  return peer;
}

Expected<PerftestExchange::Greeting> PerftestExchange::greet(std::uint32_t path_mtu) {
  Greeting greeting;
  ROCKHOPPER_TRY(greeting.version, swap(padded(kPerftestVersion, kVersionBytes)));
  greeting.version.resize(std::strlen(greeting.version.c_str()));
  double number = 0;
  const char* last = greeting.version.data() + greeting.version.size();
  if (greeting.version.find_first_not_of("0123456789.") != std::string::npos ||
      std::from_chars(greeting.version.data(), last, number).ec != std::errc{} ||
      number < kOldestVersion) {
    return fail(ErrorCode::unsupported, "the peer is no perftest of version {:.2f} or later",
                kOldestVersion);
  }
  if (greeting.version == kNegotiatingVersion) {
    return fail(ErrorCode::unsupported,
                "perftest {} waits for a negotiation that others do not have: take 6.26 or 6.28",
                kNegotiatingVersion);
  }
  ROCKHOPPER_TRY(auto buffer, swap(big_endian(kBufferBytes)));
  greeting.buffer_bytes = std::max(kBufferBytes, wire::load_be32(bytes_of(buffer)));
  if (greeting.buffer_bytes > kBufferBytesMax) {
    return fail(ErrorCode::io, "the peer wants buffers of {} bytes", greeting.buffer_bytes);
  }
  ROCKHOPPER_TRY(swap(big_endian(kCacheLineBytes)));
  ROCKHOPPER_TRY(auto mtu,
                 swap(padded(fmt::format("{}", wire::cm::mtu_code(path_mtu)), kMtuBytes)));
  const std::uint32_t peer_mtu = wire::cm::mtu_bytes(static_cast<std::uint8_t>(mtu[0] - '0'));
  if (peer_mtu == 0) return fail(ErrorCode::io, "the peer's path MTU makes no sense");
  greeting.path_mtu = std::min(path_mtu, peer_mtu);
  return greeting;
}

Expected<PerftestDestination> PerftestExchange::shake_hands(const PerftestDestination& own) {
  ROCKHOPPER_TRY(auto text, swap(to_message(own, carrier_.form())));
  const auto peer = parse_destination(text, carrier_.form());
  if (!peer) {
    return fail(ErrorCode::io, "the peer does not say what its queue pair is: is it perftest?");
  }
  return *peer;
}

Expected<PerftestReport> PerftestExchange::swap_reports(const PerftestReport& own) {
  PerftestReport peer;
  for (const auto field : {&PerftestReport::size, &PerftestReport::iterations}) {
    ROCKHOPPER_TRY(auto value, swap(big_endian(own.*field)));
    peer.*field = wire::load_be64(bytes_of(value));
  }
  for (const auto field :
       {&PerftestReport::peak, &PerftestReport::average, &PerftestReport::message_rate}) {
    ROCKHOPPER_TRY(auto value, swap(big_endian(std::bit_cast<std::uint64_t>(own.*field))));
    peer.*field = std::bit_cast<double>(wire::load_be64(bytes_of(value)));
  }
  return peer;
}

}  // namespace rockhopper::apps::perf
