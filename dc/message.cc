// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "dc/message.h"

#include <algorithm>

#include "roce/wire/bytes.h"
#include "roce/wire/cm.h"
#include "roce/wire/dcsh.h"

namespace rockhopper::dc {
namespace {

using wire::load_be24;
using wire::load_be32;
using wire::load_be64;
using wire::store_be24;
using wire::store_be32;
using wire::store_be64;

enum Subtype : std::uint8_t { kConnect = 1, kAccept, kCnak, kDisconnect, kKeepAlive };

// What all messages begin with.
constexpr std::size_t kVersionAt = 4;
constexpr std::size_t kSubtypeAt = 5;
constexpr std::size_t kValueAt = 6;
constexpr std::size_t kFlagsAt = 7;
constexpr std::size_t kPrefix = 8;

constexpr std::size_t kConnectSize = 48;
constexpr std::size_t kAcceptSize = 40;
constexpr std::size_t kCnakSize = 32;
constexpr std::size_t kSessionSize = 24;  // DISCONNECT, KEEPALIVE

constexpr std::uint8_t kFull = 1 << 0;
constexpr std::uint8_t kDataFollows = 1 << 1;
constexpr std::uint8_t kExecutedKnown = 1 << 0;
constexpr std::uint8_t kAnswer = 1 << 0;

std::optional<Message> parse_connect(const std::uint8_t* p) {
  const Connect message{.full = (p[kFlagsAt] & kFull) != 0,
                        .data_follows = (p[kFlagsAt] & kDataFollows) != 0,
                        .mtu_code = p[kValueAt],
                        .initiator = wire::Qpn{load_be24(p + 9)},
                        .first_psn = wire::Psn{load_be24(p + 13)},
                        .nonce = load_be32(p + 16),
                        .lease_us = load_be32(p + 20),
                        .access_key = load_be64(p + 24),
                        .incarnation = load_be64(p + 32),
                        .stream = p[40],
                        .responder_resources = p[41]};
  if (wire::cm::mtu_bytes(message.mtu_code) == 0 || message.stream > wire::Dcsh::kStreamMax) {
    return std::nullopt;
  }
  return message;
}

std::optional<Message> parse_accept(const std::uint8_t* p) {
  const Accept message{.mtu_code = p[kValueAt],
                       .nonce = load_be32(p + 8),
                       .session_id = load_be64(p + 12),
                       .expected_psn = wire::Psn{load_be24(p + 21)},
                       .lease_us = load_be32(p + 24),
                       .responder_resources = p[28]};
  if (wire::cm::mtu_bytes(message.mtu_code) == 0) return std::nullopt;
  return message;
}

std::optional<Message> parse_cnak(const std::uint8_t* p) {
  const Cnak message{.reason = static_cast<CnakReason>(p[kValueAt]),
                     .executed_known = (p[kFlagsAt] & kExecutedKnown) != 0,
                     .nonce = load_be32(p + 8),
                     .session_id = load_be64(p + 12),
                     .expected_psn = wire::Psn{load_be24(p + 21)},
                     .backoff_us = load_be32(p + 24)};
  if (p[kValueAt] < 1 || p[kValueAt] > kCnakReasons) return std::nullopt;
  return message;
}

std::size_t emit(const Connect& message, std::uint8_t* p) {
  p[kSubtypeAt] = kConnect;
  p[kValueAt] = message.mtu_code;
  p[kFlagsAt] = static_cast<std::uint8_t>((message.full ? kFull : 0) |
                                          (message.data_follows ? kDataFollows : 0));
  store_be24(p + 9, message.initiator.value);
  store_be24(p + 13, message.first_psn.value);
  store_be32(p + 16, message.nonce);
  store_be32(p + 20, message.lease_us);
  store_be64(p + 24, message.access_key);
  store_be64(p + 32, message.incarnation);
  p[40] = message.stream;
  p[41] = message.responder_resources;
  return kConnectSize;
}

std::size_t emit(const Accept& message, std::uint8_t* p) {
  p[kSubtypeAt] = kAccept;
  p[kValueAt] = message.mtu_code;
  store_be32(p + 8, message.nonce);
  store_be64(p + 12, message.session_id);
  store_be24(p + 21, message.expected_psn.value);
  store_be32(p + 24, message.lease_us);
  p[28] = message.responder_resources;
  return kAcceptSize;
}

std::size_t emit(const Cnak& message, std::uint8_t* p) {
  p[kSubtypeAt] = kCnak;
  p[kValueAt] = static_cast<std::uint8_t>(message.reason);
  p[kFlagsAt] = message.executed_known ? kExecutedKnown : 0;
  store_be32(p + 8, message.nonce);
  store_be64(p + 12, message.session_id);
  store_be24(p + 21, message.expected_psn.value);
  store_be32(p + 24, message.backoff_us);
  return kCnakSize;
}

std::size_t emit_session(std::uint64_t session_id, wire::Psn next_psn, std::uint8_t* p) {
  store_be64(p + 8, session_id);
  store_be24(p + 17, next_psn.value);
  return kSessionSize;
}

std::size_t emit(const Disconnect& message, std::uint8_t* p) {
  p[kSubtypeAt] = kDisconnect;
  return emit_session(message.session_id, message.next_psn, p);
}

std::size_t emit(const KeepAlive& message, std::uint8_t* p) {
  p[kSubtypeAt] = kKeepAlive;
  p[kFlagsAt] = message.answer ? kAnswer : 0;
  return emit_session(message.session_id, message.next_psn, p);
}

}  // namespace

std::optional<Message> parse_message(std::span<const std::uint8_t> bytes) {
  const std::uint8_t* p = bytes.data();
  if (bytes.size() < kPrefix || load_be32(p) != kMagic || p[kVersionAt] != kVersion) {
    return std::nullopt;
  }
  const auto session = [p] { return load_be64(p + 8); };
  const auto next_psn = [p] { return wire::Psn{load_be24(p + 17)}; };
  switch (p[kSubtypeAt]) {
    case kConnect:
      return bytes.size() == kConnectSize ? parse_connect(p) : std::nullopt;
    case kAccept:
      return bytes.size() == kAcceptSize ? parse_accept(p) : std::nullopt;
    case kCnak:
      return bytes.size() == kCnakSize ? parse_cnak(p) : std::nullopt;
    case kDisconnect:
      if (bytes.size() == kSessionSize) {
        return Disconnect{.session_id = session(), .next_psn = next_psn()};
      }
      break;
    case kKeepAlive:
      if (bytes.size() == kSessionSize) {
        return KeepAlive{.answer = (p[kFlagsAt] & kAnswer) != 0,
                         .session_id = session(),
                         .next_psn = next_psn()};
      }
      break;
    default:
      break;
  }
  return std::nullopt;
}

std::size_t emit_message(const Message& message, std::span<std::uint8_t, kMessageMax> out) {
  std::ranges::fill(out, std::uint8_t{0});
  store_be32(out.data(), kMagic);
  out[kVersionAt] = kVersion;
  return std::visit([p = out.data()](const auto& content) { return emit(content, p); }, message);
}

}  // namespace rockhopper::dc
