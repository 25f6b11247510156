// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "apps/common/background.h"
#include "apps/common/tcp.h"
#include "apps/rh_pingpong/transport.h"
#include "roce/wire/psn.h"
#include "roce/wire/qpn.h"
#include "stack/error.h"
#include "stack/ip_address.h"

namespace rockhopper::apps::pingpong {

/// What one end of ibv_rc_pingpong, or of its sisters, tells the other over TCP of a queue pair.
struct Destination {
  std::uint16_t lid = 0;  ///< 0 with RoCE
  wire::Qpn qpn;
  wire::Psn psn;
  stack::IpAddress gid;
  std::uint64_t access_key = 0;  ///< of a DC target, whose number is `qpn`
};

using Destinations = std::vector<Destination>;

/// "LLLL:QQQQQQ:PPPPPP:GGGG..." in hexadecimal and a NUL. The stock tool reads it with one read(),
/// so it must go out in one piece.
inline constexpr std::size_t kMessageBytes = 52;

[[nodiscard]] std::array<char, kMessageBytes> encode(const Destination& destination);
/// Nothing but exactly that form is accepted.
[[nodiscard]] std::optional<Destination> decode(std::string_view message);

/// Of a DC target: "DCT1:QQQQQQ:PPPPPP:GGGG...:KKKK..." and a NUL. It begins as no stock tool does,
/// and is longer than what they send.
inline constexpr std::size_t kTargetMessageBytes = kMessageBytes + 17;

[[nodiscard]] std::array<char, kTargetMessageBytes> encode_target(const Destination& target);
/// Nothing but exactly that form is accepted.
[[nodiscard]] std::optional<Destination> decode_target(std::string_view message);

/// What the stock tool prints of a destination.
[[nodiscard]] std::string describe(const Destination& destination);

/// What both ends have to have alike, besides the number of queue pairs. Programs of the stock kind
/// do not tell each other.
struct Terms {
  Transport transport = Transport::rc;
  std::uint32_t size = 0;        ///< bytes of a message
  std::uint64_t iterations = 0;  ///< messages each way

  friend bool operator==(const Terms&, const Terms&) = default;
};

/// The line by which a client that gives up says what it wanted.
[[nodiscard]] std::string to_line(const Terms& terms);
/// The line by which an end that gives up says why.
[[nodiscard]] std::string to_line(const Error& error);
/// Fails with what a line of the peer tells: terms that are not ours, or that it gives up. What
/// else stands there is let pass.
[[nodiscard]] Expected<void> check_line(std::string_view line, const Terms& own);

/// The client's side: sends its own, receives the server's, confirms. Each end tells as many
/// destinations as the transport says, those that it does not have as zeros.
[[nodiscard]] Expected<Destinations> exchange_as_client(TcpConnection& connection,
                                                        const Destinations& local,
                                                        Transport transport,
                                                        std::uint32_t timeout_ms,
                                                        Background& background);
/// The server's side in two steps, as its queue pairs must be ready to receive before it answers.
[[nodiscard]] Expected<Destinations> receive_from_client(TcpConnection& connection,
                                                         Transport transport,
                                                         std::uint32_t timeout_ms,
                                                         Background& background);
[[nodiscard]] Expected<void> answer_client(TcpConnection& connection, const Destinations& local,
                                           Transport transport, std::uint32_t timeout_ms,
                                           Background& background);

}  // namespace rockhopper::apps::pingpong
