// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/rh_pingpong/exchange.h"

#include <algorithm>
#include <charconv>
#include <system_error>

#include <fmt/format.h>

namespace rockhopper::apps::pingpong {
namespace {

using namespace std::string_view_literals;

/// The client's confirmation, with its NUL as in the stock tool.
constexpr std::string_view kDone = "done\0"sv;

// What lines behind the exchange begin with.
constexpr std::string_view kTermsMark = "terms:";
constexpr std::string_view kErrorMark = "error:";
constexpr std::size_t kReasonMax = 500;

/// What a DC target's message has in the place of a LID, which is hexadecimal.
constexpr std::string_view kTargetMark = "DCT1"sv;

/// All of `text` as a hexadecimal number.
template <typename Value>
std::optional<Value> parse_hex(std::string_view text) {
  Value value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, 16);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

/// `start` is as much of a message as the stock tools' have.
Expected<void> check_start(std::string_view start, Transport transport) {
  const bool target = start.starts_with(kTargetMark);
  if (target == (transport == Transport::dc)) return {};
  if (target) {
    return fail(ErrorCode::io, "the peer has --transport dc; give both ends the same --transport");
  }
  if (decode(start)) {
    return fail(ErrorCode::io,
                "the peer has a queue pair, not --transport dc; give both ends the same "
                "--transport");
  }
  return {};
}

Expected<Destination> receive_destination(TcpConnection& connection, Transport transport,
                                          std::uint32_t timeout_ms, Background& background) {
  std::array<char, kTargetMessageBytes> buffer;
  const auto receive = [&](std::span<char> part) {
    auto got = connection.receive(part, timeout_ms, background);
    return got ? got : fail(got.error().code, "no address from the peer: {}", got.error().message);
  };
  const auto mark = std::span(buffer).first<kErrorMark.size()>();
  ROCKHOPPER_TRY(receive(mark));
  // A peer that gives up has no address to tell.
  if (std::string_view(mark.data(), mark.size()) == kErrorMark) {
    ROCKHOPPER_TRY(const auto reason, connection.receive_line(timeout_ms, background));
    ROCKHOPPER_TRY(check_line(std::string(kErrorMark) + reason, {}));
  }
  const auto start = std::span(buffer).first<kMessageBytes>();
  ROCKHOPPER_TRY(receive(start.subspan(mark.size())));
  std::string_view message(start.data(), start.size());
  ROCKHOPPER_TRY(check_start(message, transport));
  const bool target = message.starts_with(kTargetMark);
  if (target) {
    ROCKHOPPER_TRY(receive(std::span(buffer).subspan<kMessageBytes>()));
    message = {buffer.data(), buffer.size()};
  }
  const auto destination = target ? decode_target(message) : decode(message);
  if (!destination) {
    return fail(ErrorCode::io,
                "the peer sent something else than the address of a queue pair; "
                "is it ibv_rc_pingpong or another of its kind, or rh-pingpong?");
  }
  return *destination;
}

Expected<Destinations> receive_destinations(TcpConnection& connection, Transport transport,
                                            std::uint32_t timeout_ms, Background& background) {
  Destinations destinations;
  for (std::uint32_t i = 0; i < info(transport).destinations; ++i) {
    ROCKHOPPER_TRY(auto destination,
                   receive_destination(connection, transport, timeout_ms, background));
    destinations.push_back(destination);
  }
  return destinations;
}

Expected<void> send_destinations(TcpConnection& connection, const Destinations& local,
                                 Transport transport, std::uint32_t timeout_ms,
                                 Background& background) {
  std::string messages;
  const auto append = [&messages](const auto& message) {
    messages.append(message.data(), message.size());
  };
  for (std::uint32_t i = 0; i < info(transport).destinations; ++i) {
    const Destination destination = i < local.size() ? local[i] : Destination{};
    if (transport == Transport::dc) {
      append(encode_target(destination));
    } else {
      append(encode(destination));
    }
  }
  return connection.send(messages, timeout_ms, background);
}

}  // namespace

std::array<char, kMessageBytes> encode(const Destination& destination) {
  std::array<char, kMessageBytes> message{};
  auto out = fmt::format_to(message.begin(), "{:04x}:{:06x}:{:06x}:", destination.lid,
                            destination.qpn.value, destination.psn.value);
  for (const std::uint8_t byte : destination.gid.bytes) {
    out = fmt::format_to(out, "{:02x}", byte);
  }
  return message;
}

std::optional<Destination> decode(std::string_view message) {
  if (message.size() != kMessageBytes || message.back() != '\0' || message[4] != ':' ||
      message[11] != ':' || message[18] != ':') {
    return std::nullopt;
  }
  const auto lid = parse_hex<std::uint32_t>(message.substr(0, 4));
  const auto qpn = parse_hex<std::uint32_t>(message.substr(5, 6));
  const auto psn = parse_hex<std::uint32_t>(message.substr(12, 6));
  if (!lid || !qpn || !psn) return std::nullopt;
  Destination destination{.lid = static_cast<std::uint16_t>(*lid),
                          .qpn = wire::Qpn::make(*qpn),
                          .psn = wire::Psn::make(*psn),
                          .gid = {}};
  for (std::size_t i = 0; i < destination.gid.bytes.size(); ++i) {
    const auto byte = parse_hex<std::uint32_t>(message.substr(19 + 2 * i, 2));
    if (!byte) return std::nullopt;
    destination.gid.bytes[i] = static_cast<std::uint8_t>(*byte);
  }
  return destination;
}

std::array<char, kTargetMessageBytes> encode_target(const Destination& target) {
  std::array<char, kTargetMessageBytes> message{};
  auto out = std::ranges::copy(encode(target), message.begin()).out;
  std::ranges::copy(kTargetMark, message.begin());
  fmt::format_to(out - 1, ":{:016x}", target.access_key);
  return message;
}

std::optional<Destination> decode_target(std::string_view message) {
  if (message.size() != kTargetMessageBytes || message.back() != '\0' ||
      !message.starts_with(kTargetMark) || message[kMessageBytes - 1] != ':') {
    return std::nullopt;
  }
  std::string stock(message.substr(0, kMessageBytes));
  stock.replace(0, kTargetMark.size(), "0000");
  stock.back() = '\0';
  auto target = decode(stock);
  const auto access_key = parse_hex<std::uint64_t>(message.substr(kMessageBytes, 16));
  if (!target || !access_key) return std::nullopt;
  target->access_key = *access_key;
  return target;
}

std::string describe(const Destination& destination) {
  return fmt::format("LID 0x{:04x}, QPN 0x{:06x}, PSN 0x{:06x}, GID {}{}", destination.lid,
                     destination.qpn.value, destination.psn.value,
                     destination.gid.is_ipv4() ? "::ffff:" : "", destination.gid.to_string());
}

std::string to_line(const Terms& terms) {
  return fmt::format("{} --transport {} --size {} --iters {}\n", kTermsMark,
                     name_of(terms.transport), terms.size, terms.iterations);
}

std::string to_line(const Error& error) {
  std::string text = error.message.substr(0, kReasonMax);
  std::replace(text.begin(), text.end(), '\n', ' ');
  return fmt::format("{} {}\n", kErrorMark, text);
}

Expected<void> check_line(std::string_view line, const Terms& own) {
  std::string text(line.substr(0, kReasonMax));
  std::ranges::replace_if(
      text, [](char c) { return c < ' ' || c > '~'; }, '?');
  if (text.starts_with(kErrorMark)) {
    return fail(ErrorCode::io, "the peer reports:{}", text.substr(kErrorMark.size()));
  }
  std::string ours = to_line(own);
  ours.pop_back();
  if (!text.starts_with(kTermsMark) || text == ours) return {};
  return fail(ErrorCode::invalid_argument, "the client has{}, the server{}",
              text.substr(kTermsMark.size()), ours.substr(kTermsMark.size()));
}

Expected<Destinations> exchange_as_client(TcpConnection& connection, const Destinations& local,
                                          Transport transport, std::uint32_t timeout_ms,
                                          Background& background) {
  ROCKHOPPER_TRY(send_destinations(connection, local, transport, timeout_ms, background));
  ROCKHOPPER_TRY(auto remote, receive_destinations(connection, transport, timeout_ms, background));
  ROCKHOPPER_TRY(connection.send(kDone, timeout_ms, background));
  return remote;
}

Expected<Destinations> receive_from_client(TcpConnection& connection, Transport transport,
                                           std::uint32_t timeout_ms, Background& background) {
  return receive_destinations(connection, transport, timeout_ms, background);
}

Expected<void> answer_client(TcpConnection& connection, const Destinations& local,
                             Transport transport, std::uint32_t timeout_ms,
                             Background& background) {
  ROCKHOPPER_TRY(send_destinations(connection, local, transport, timeout_ms, background));
  std::array<char, kDone.size()> confirmation;
  auto got = connection.receive(confirmation, timeout_ms, background);
  if (!got) return fail(got.error().code, "the client did not confirm: {}", got.error().message);
  return {};
}

}  // namespace rockhopper::apps::pingpong
