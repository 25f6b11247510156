// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/pingpong/exchange.h"

#include <algorithm>
#include <charconv>

#include <fmt/format.h>

namespace rockhopper::apps::pingpong {
namespace {

using namespace std::string_view_literals;

/// The client's confirmation, with its NUL as in the stock tool.
constexpr std::string_view kDone = "done\0"sv;

/// All of `text` as a hexadecimal number.
std::optional<std::uint32_t> parse_hex(std::string_view text) {
  std::uint32_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, 16);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

Expected<Destinations> receive_destinations(TcpConnection& connection, std::uint32_t count,
                                            std::uint32_t timeout_ms, Background& background) {
  Destinations destinations;
  for (std::uint32_t i = 0; i < count; ++i) {
    std::array<char, kMessageBytes> message;
    if (auto got = connection.receive(message, timeout_ms, background); !got) {
      return fail(got.error().code, "no address from the peer: {}", got.error().message);
    }
    const auto destination = decode({message.data(), message.size()});
    if (!destination) {
      return fail(ErrorCode::io,
                  "the peer sent something else than the address of a queue pair; "
                  "is it ibv_rc_pingpong or another of its kind, or rh-pingpong?");
    }
    destinations.push_back(*destination);
  }
  return destinations;
}

Expected<void> send_destinations(TcpConnection& connection, const Destinations& local,
                                 std::uint32_t count, std::uint32_t timeout_ms,
                                 Background& background) {
  std::string messages;
  for (std::uint32_t i = 0; i < count; ++i) {
    const auto message = encode(i < local.size() ? local[i] : Destination{});
    messages.append(message.data(), message.size());
  }
  return connection.send(messages, timeout_ms, background);
}

}  // namespace

std::array<char, kMessageBytes> encode(const Destination& destination) {
  std::array<char, kMessageBytes> message{};
  auto out = fmt::format_to(message.begin(), "{:04x}:{:06x}:{:06x}:", destination.lid,
                            destination.qpn.value, destination.psn.value);
  for (const std::uint8_t byte : destination.gid.bytes) out = fmt::format_to(out, "{:02x}", byte);
  return message;
}

std::optional<Destination> decode(std::string_view message) {
  if (message.size() != kMessageBytes || message.back() != '\0' || message[4] != ':' ||
      message[11] != ':' || message[18] != ':') {
    return std::nullopt;
  }
  const auto lid = parse_hex(message.substr(0, 4));
  const auto qpn = parse_hex(message.substr(5, 6));
  const auto psn = parse_hex(message.substr(12, 6));
  if (!lid || !qpn || !psn) return std::nullopt;
  Destination destination{
      static_cast<std::uint16_t>(*lid), wire::Qpn::make(*qpn), wire::Psn::make(*psn), {}};
  for (std::size_t i = 0; i < destination.gid.bytes.size(); ++i) {
    const auto byte = parse_hex(message.substr(19 + 2 * i, 2));
    if (!byte) return std::nullopt;
    destination.gid.bytes[i] = static_cast<std::uint8_t>(*byte);
  }
  return destination;
}

std::string describe(const Destination& destination) {
  return fmt::format("LID 0x{:04x}, QPN 0x{:06x}, PSN 0x{:06x}, GID {}{}", destination.lid,
                     destination.qpn.value, destination.psn.value,
                     destination.gid.is_ipv4() ? "::ffff:" : "", destination.gid.to_string());
}

Expected<Destinations> exchange_as_client(TcpConnection& connection, const Destinations& local,
                                          std::uint32_t count, std::uint32_t timeout_ms,
                                          Background& background) {
  auto sent = send_destinations(connection, local, count, timeout_ms, background);
  if (!sent) return tl::make_unexpected(sent.error());
  auto remote = receive_destinations(connection, count, timeout_ms, background);
  if (!remote) return remote;
  sent = connection.send(kDone, timeout_ms, background);
  if (!sent) return tl::make_unexpected(sent.error());
  return remote;
}

Expected<Destinations> receive_from_client(TcpConnection& connection, std::uint32_t count,
                                           std::uint32_t timeout_ms, Background& background) {
  return receive_destinations(connection, count, timeout_ms, background);
}

Expected<void> answer_client(TcpConnection& connection, const Destinations& local,
                             std::uint32_t count, std::uint32_t timeout_ms,
                             Background& background) {
  auto sent = send_destinations(connection, local, count, timeout_ms, background);
  if (!sent) return sent;
  std::array<char, kDone.size()> confirmation;
  auto got = connection.receive(confirmation, timeout_ms, background);
  if (!got) return fail(got.error().code, "the client did not confirm: {}", got.error().message);
  return {};
}

}  // namespace rockhopper::apps::pingpong
