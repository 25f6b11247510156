// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>
#include <string_view>

namespace rockhopper::roce {

/// Services of queue pairs (IBTA vol. 1, 9.1); values as in enum ibv_qp_type, but for the last two,
/// which verbs know as "driver specific": halves of queue pairs that only an Extension makes.
enum class QpType : std::uint8_t {
  rc = 2,
  uc = 3,
  ud = 4,
  xrc_send = 9,
  xrc_recv = 10,
  extension_initiator = 0xf0,
  extension_responder = 0xf1,
};
[[nodiscard]] std::string_view to_string(QpType type);

/// Either end of an extended reliable connection (IBTA vol. 1, annex A14): initiator and target.
[[nodiscard]] constexpr bool is_xrc(QpType type) {
  return type == QpType::xrc_send || type == QpType::xrc_recv;
}

/// Made by an Extension, at either end.
[[nodiscard]] constexpr bool is_of_extension(QpType type) {
  return type == QpType::extension_initiator || type == QpType::extension_responder;
}

/// One half of a queue pair only: the peer sends it only requests, or only responses.
[[nodiscard]] constexpr bool is_half(QpType type) { return is_xrc(type) || is_of_extension(type); }
[[nodiscard]] constexpr bool only_responds(QpType type) {
  return type == QpType::xrc_recv || type == QpType::extension_responder;
}

/// Queue pair states (IBTA vol. 1, 10.3.1).
enum class QpState : std::uint8_t { reset, init, rtr, rts, sqd, sqe, err };

/// The states in which the responder is at work (IBTA vol. 1, 10.3.1).
[[nodiscard]] constexpr bool takes_requests(QpState state) {
  return state == QpState::rtr || state == QpState::rts || state == QpState::sqd ||
         state == QpState::sqe;
}
[[nodiscard]] std::string_view to_string(QpState state);

/// Path MTU: bytes of payload in a full packet.
enum class PathMtu : std::uint16_t {
  mtu_256 = 256,
  mtu_512 = 512,
  mtu_1024 = 1024,
  mtu_2048 = 2048,
  mtu_4096 = 4096,
};
[[nodiscard]] constexpr std::uint32_t bytes(PathMtu mtu) { return static_cast<std::uint32_t>(mtu); }

/// Access rights of memory regions and queue pairs; bit values as in enum ibv_access_flags.
enum Access : std::uint32_t {
  kAccessLocalWrite = 1u << 0,
  kAccessRemoteWrite = 1u << 1,
  kAccessRemoteRead = 1u << 2,
  kAccessRemoteAtomic = 1u << 3,
  kAccessMwBind = 1u << 4,           ///< regions: memory windows may be bound to it
  kAccessZeroBased = 1u << 5,        ///< regions and windows: addresses count from 0
  kAccessOnDemand = 1u << 6,         ///< regions: the memory need not always be there
  kAccessFlushGlobal = 1u << 8,      ///< the peer may FLUSH with global visibility
  kAccessFlushPersistent = 1u << 9,  ///< the peer may FLUSH to persistence
  /// Our own: the peer's SEND with Invalidate may invalidate the region's key. In verbs only memory
  /// windows and fast-registered regions allow that.
  kAccessRemoteInvalidate = 1u << 16,
};
/// The peer's rights to a window.
inline constexpr std::uint32_t kAccessRemote =
    kAccessRemoteWrite | kAccessRemoteRead | kAccessRemoteAtomic;
/// All rights but the special ones.
inline constexpr std::uint32_t kAccessAll = kAccessLocalWrite | kAccessRemote;
/// All that a queue pair can grant, that a fast region and that any region can have.
inline constexpr std::uint32_t kAccessQp = kAccessAll | kAccessFlushGlobal | kAccessFlushPersistent;
inline constexpr std::uint32_t kAccessFastRegion = kAccessQp | kAccessMwBind;
inline constexpr std::uint32_t kAccessRegion =
    kAccessFastRegion | kAccessRemoteInvalidate | kAccessOnDemand;

/// Remote write and atomic rights need local write (ibv_reg_mr).
[[nodiscard]] constexpr bool is_consistent_access(std::uint32_t access) {
  return (access & (kAccessRemoteWrite | kAccessRemoteAtomic)) == 0 ||
         (access & kAccessLocalWrite) != 0;
}

/// Keys of registered memory. The same value serves as lkey and rkey.
enum class MemoryKey : std::uint32_t {};

/// A protection domain (IBTA vol. 1, 10.2.3): objects work together only within one.
struct ProtectionDomain {
  std::uint32_t id = 0;
  friend bool operator==(ProtectionDomain, ProtectionDomain) = default;
};

/// What joins XRC targets and the shared receive queues that their peers may address, as ibv_xrcd.
struct XrcDomain {
  std::uint32_t id = 0;  ///< 0: none
  friend bool operator==(XrcDomain, XrcDomain) = default;
};

/// Largest message in bytes (IBTA vol. 1, 9.7.6: 2^31).
inline constexpr std::uint32_t kMaxMessageBytes = 1u << 31;

}  // namespace rockhopper::roce
