// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/rh_perf/perftest_destination.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <system_error>
#include <type_traits>

#include <fmt/format.h>

#include "roce/wire/bytes.h"

namespace rockhopper::apps::perf {
namespace {

constexpr std::size_t kTextBytes = 108;
constexpr std::size_t kGidBytes = 16;
constexpr std::uint32_t kLidMax = 0xffff;
constexpr std::uint32_t kReadsMax = 0xffff;
constexpr std::uint32_t kNumberMax = 0xffffff;  // of QPN and PSN

// Offsets of the binary form. A SRQ number and an index of the GID end it, which say nothing here.
constexpr std::size_t kLid = 0;
constexpr std::size_t kReads = 4;
constexpr std::size_t kQpn = 8;
constexpr std::size_t kPsn = 12;
constexpr std::size_t kRkey = 16;
constexpr std::size_t kAddress = 24;  // after 4 bytes that align it
constexpr std::size_t kGid = 32;
constexpr std::size_t kBinaryBytes = 56;

std::string to_text(const PerftestDestination& own) {
  std::string text = fmt::format("{:04x}:{:04x}:{:06x}:{:06x}:{:08x}:{:016x}:", 0,
                                 own.outstanding_reads, own.qpn, own.psn, own.rkey, own.address);
  for (const std::uint8_t byte : own.gid.bytes) {
    text += fmt::format("{:02x}:", byte);
  }
  text += fmt::format("{:08x}:", 0);  // no SRQ
  text.resize(kTextBytes, '\0');
  return text;
}

std::string to_binary(const PerftestDestination& own) {
  std::array<std::uint8_t, kBinaryBytes> bytes{};
  wire::store_be32(&bytes[kReads], own.outstanding_reads);
  wire::store_be32(&bytes[kQpn], own.qpn);
  wire::store_be32(&bytes[kPsn], own.psn);
  wire::store_be32(&bytes[kRkey], own.rkey);
  wire::store_be64(&bytes[kAddress], own.address);
  std::copy(own.gid.bytes.begin(), own.gid.bytes.end(), &bytes[kGid]);
  return {bytes.begin(), bytes.end()};
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

std::optional<PerftestDestination> parse_text(std::string_view text) {
  PerftestDestination peer;
  std::uint64_t lid = 0;
  const auto take = [&text](auto& field, std::uint64_t limit) {
    const auto value = take_hex(text);
    if (!value || *value > limit) return false;
    field = static_cast<std::remove_reference_t<decltype(field)>>(*value);
    return true;
  };
  bool good = take(lid, kLidMax) && take(peer.outstanding_reads, kReadsMax) &&
              take(peer.qpn, kNumberMax) && take(peer.psn, kNumberMax) &&
              take(peer.rkey, UINT32_MAX) && take(peer.address, UINT64_MAX);
  for (std::size_t i = 0; good && i < kGidBytes; ++i) {
    good = take(peer.gid.bytes[i], 0xff);
  }
  if (!good) return std::nullopt;
  return peer;
}

std::optional<PerftestDestination> parse_binary(std::string_view message) {
  if (message.size() != kBinaryBytes) return std::nullopt;
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(message.data());
  PerftestDestination peer{.outstanding_reads = wire::load_be32(bytes + kReads),
                           .qpn = wire::load_be32(bytes + kQpn),
                           .psn = wire::load_be32(bytes + kPsn),
                           .rkey = wire::load_be32(bytes + kRkey),
                           .address = wire::load_be64(bytes + kAddress),
                           .gid = stack::IpAddress::from_bytes(bytes + kGid)};
  if (wire::load_be32(bytes + kLid) > kLidMax || peer.outstanding_reads > kReadsMax ||
      peer.qpn > kNumberMax || peer.psn > kNumberMax) {
    return std::nullopt;
  }
  return peer;
}

}  // namespace

std::string to_message(const PerftestDestination& destination, PerftestForm form) {
  return form == PerftestForm::text ? to_text(destination) : to_binary(destination);
}

std::optional<PerftestDestination> parse_destination(std::string_view message, PerftestForm form) {
  return form == PerftestForm::text ? parse_text(message) : parse_binary(message);
}

}  // namespace rockhopper::apps::perf
