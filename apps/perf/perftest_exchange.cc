// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/perf/perftest_exchange.h"

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <optional>

#include <fmt/format.h>

#include "roce/wire/bytes.h"
#include "roce/wire/cm.h"

namespace rockhopper::apps::perf {
namespace {

using namespace std::string_view_literals;

constexpr std::uint32_t kSendTimeoutMs = 30'000;
/// The version of perftest whose exchange this is.
constexpr std::string_view kVersion = "6.06";
constexpr std::size_t kVersionBytes = 16;
constexpr double kOldestVersion = 5.70;
constexpr std::uint32_t kBufferBytes = 4096;
constexpr std::uint32_t kBufferBytesMax = 64u << 20;
constexpr std::uint32_t kCacheLineBytes = 64;
constexpr std::size_t kMtuBytes = 2;
constexpr std::size_t kDestinationBytes = 108;
constexpr std::size_t kGidBytes = 16;

std::string padded(std::string text, std::size_t bytes) {
  text.resize(bytes, '\0');
  return text;
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

std::string describe(const PerftestDestination& own) {
  std::string text = fmt::format("{:04x}:{:04x}:{:06x}:{:06x}:{:08x}:{:016x}:", 0,
                                 own.outstanding_reads, own.qpn, own.psn, own.rkey, own.address);
  for (const std::uint8_t byte : own.gid.bytes) text += fmt::format("{:02x}:", byte);
  text += fmt::format("{:08x}:", 0);  // no SRQ
  return padded(text, kDestinationBytes);
}

/// Takes the next number and its colon off `text`.
std::optional<std::uint64_t> take_hex(std::string_view& text) {
  std::uint64_t value = 0;
  const char* last = text.data() + text.size();
  const auto [end, error] = std::from_chars(text.data(), last, value, 16);
  if (error != std::errc{} || end == last || *end != ':') return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(end + 1 - text.data()));
  return value;
}

std::optional<PerftestDestination> parse(std::string_view text) {
  PerftestDestination peer;
  std::uint64_t lid = 0;
  const auto take = [&text](auto& field, std::uint64_t limit) {
    const auto value = take_hex(text);
    if (!value || *value > limit) return false;
    field = static_cast<std::remove_reference_t<decltype(field)>>(*value);
    return true;
  };
  bool good = take(lid, 0xffff) && take(peer.outstanding_reads, 0xffff) &&
              take(peer.qpn, 0xffffff) && take(peer.psn, 0xffffff) && take(peer.rkey, UINT32_MAX) &&
              take(peer.address, UINT64_MAX);
  for (std::size_t i = 0; good && i < kGidBytes; ++i) good = take(peer.gid.bytes[i], 0xff);
  if (!good) return std::nullopt;
  return peer;
}

}  // namespace

Expected<std::string> PerftestExchange::swap(std::string_view own) {
  std::string peer(own.size(), '\0');
  const auto send = [&] { return connection_.send(own, kSendTimeoutMs, background_); };
  const auto receive = [&] {
    return connection_.receive(peer, TcpConnection::kNoTimeout, background_);
  };
  auto done = client_ ? send().and_then(receive) : receive().and_then(send);
  if (!done) return tl::make_unexpected(done.error());
  return peer;
}

Expected<PerftestExchange::Greeting> PerftestExchange::greet(std::uint32_t path_mtu) {
  Greeting greeting;
  auto version = swap(padded(std::string(kVersion), kVersionBytes));
  if (!version) return tl::make_unexpected(version.error());
  greeting.version = version->c_str();
  double number = 0;
  const char* last = greeting.version.data() + greeting.version.size();
  if (std::from_chars(greeting.version.data(), last, number).ec != std::errc{} ||
      number < kOldestVersion) {
    return fail(ErrorCode::unsupported, "the peer is no perftest of version {:.2f} or later",
                kOldestVersion);
  }
  auto buffer = swap(big_endian(kBufferBytes));
  if (!buffer) return tl::make_unexpected(buffer.error());
  greeting.buffer_bytes = std::max(kBufferBytes, wire::load_be32(bytes_of(*buffer)));
  if (greeting.buffer_bytes > kBufferBytesMax) {
    return fail(ErrorCode::io, "the peer wants buffers of {} bytes", greeting.buffer_bytes);
  }
  auto line = swap(big_endian(kCacheLineBytes));
  if (!line) return tl::make_unexpected(line.error());
  auto mtu = swap(padded(fmt::format("{}", wire::cm::mtu_code(path_mtu)), kMtuBytes));
  if (!mtu) return tl::make_unexpected(mtu.error());
  const std::uint32_t peer_mtu = wire::cm::mtu_bytes(static_cast<std::uint8_t>((*mtu)[0] - '0'));
  if (peer_mtu == 0) return fail(ErrorCode::io, "the peer's path MTU makes no sense");
  greeting.path_mtu = std::min(path_mtu, peer_mtu);
  return greeting;
}

Expected<PerftestDestination> PerftestExchange::shake_hands(const PerftestDestination& own) {
  auto text = swap(describe(own));
  if (!text) return tl::make_unexpected(text.error());
  const auto peer = parse(*text);
  if (!peer) {
    return fail(ErrorCode::io, "the peer sent \"{}\" where it should say what its queue pair is",
                *text);
  }
  return *peer;
}

Expected<PerftestReport> PerftestExchange::swap_reports(const PerftestReport& own) {
  PerftestReport peer;
  for (const auto field : {&PerftestReport::size, &PerftestReport::iterations}) {
    auto value = swap(big_endian(own.*field));
    if (!value) return tl::make_unexpected(value.error());
    peer.*field = wire::load_be64(bytes_of(*value));
  }
  for (const auto field :
       {&PerftestReport::peak, &PerftestReport::average, &PerftestReport::message_rate}) {
    auto value = swap(big_endian(std::bit_cast<std::uint64_t>(own.*field)));
    if (!value) return tl::make_unexpected(value.error());
    peer.*field = std::bit_cast<double>(wire::load_be64(bytes_of(*value)));
  }
  return peer;
}

Expected<void> PerftestExchange::say_done() {
  return connection_.send("done\0"sv, kSendTimeoutMs, background_);
}

}  // namespace rockhopper::apps::perf
