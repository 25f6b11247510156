// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>
#include <string_view>

#include "roce/address_vector.h"
#include "roce/types.h"
#include "roce/wire/qpn.h"
#include "stack/error.h"

namespace rockhopper::roce {

/// What modify() can set; bit values as in enum ibv_qp_attr_mask.
enum QpAttributeMask : std::uint32_t {
  kQpState = 1u << 0,
  kQpCurState = 1u << 1,
  kQpEnSqdAsyncNotify = 1u << 2,
  kQpAccessFlags = 1u << 3,
  kQpPkeyIndex = 1u << 4,
  kQpPort = 1u << 5,
  kQpQkey = 1u << 6,
  kQpAv = 1u << 7,
  kQpPathMtu = 1u << 8,
  kQpTimeout = 1u << 9,
  kQpRetryCnt = 1u << 10,
  kQpRnrRetry = 1u << 11,
  kQpRqPsn = 1u << 12,
  kQpMaxQpRdAtomic = 1u << 13,
  kQpAltPath = 1u << 14,
  kQpMinRnrTimer = 1u << 15,
  kQpSqPsn = 1u << 16,
  kQpMaxDestRdAtomic = 1u << 17,
  kQpPathMigState = 1u << 18,
  kQpCap = 1u << 19,
  kQpDestQpn = 1u << 20,
};

/// As enum ibv_mig_state.
enum class PathMigState : std::uint8_t { migrated, rearm, armed };

/// Attributes of a queue pair, as ibv_qp_attr.
struct QpAttributes {
  QpState qp_state = QpState::reset;
  QpState cur_qp_state = QpState::reset;  ///< modify: checked when kQpCurState is given
  PathMtu path_mtu = PathMtu::mtu_1024;
  std::uint32_t qkey = 0;  ///< UD: what received datagrams must carry
  wire::Psn rq_psn{};      ///< first PSN expected from the peer
  wire::Psn sq_psn{};      ///< first PSN of our requests
  wire::Qpn dest_qp_num{};
  std::uint32_t qp_access_flags = 0;
  AddressVector ah_attr{};
  std::uint16_t pkey_index = 0;         ///< of an entry of the port's P_Key table
  std::uint8_t port_num = 1;            ///< only 1 exists
  std::uint8_t max_rd_atomic = 0;       ///< READs and atomics outstanding as requester
  std::uint8_t max_dest_rd_atomic = 0;  ///< resources for the peer's READs and atomics
  std::uint8_t min_rnr_timer = 12;      ///< RNR NAK timer code (0.64 ms)
  std::uint8_t timeout = 14;            ///< local ACK timeout code: 4.096 us * 2^n; 0 = no limit
  std::uint8_t retry_cnt = 7;           ///< 0 to 7
  std::uint8_t rnr_retry = 7;           ///< 0 to 7; 7 = without limit
  bool sq_draining = false;             ///< query only: SQD and not yet drained
  bool en_sqd_async_notify = false;     ///< query only: sq_drained will be raised
  PathMigState path_mig_state = PathMigState::migrated;  ///< query only: there is one path
};

/// Limits of this implementation, as ibv_device_attr gives them.
inline constexpr std::uint32_t kMaxQpWr = 1u << 15;
inline constexpr std::uint32_t kMaxSge = 32;
inline constexpr std::uint32_t kMaxInlineBytes = 1024;
inline constexpr std::uint8_t kMaxRdAtomic = 128;

/// Checks that `mask` names all attributes that the transition of a queue pair from `current` to
/// attributes.qp_state requires and none that it forbids, as ibv_modify_qp does (IBTA vol. 1,
/// 11.2.5.2, tables of QP modifiers), and that every value named is in range.
[[nodiscard]] Expected<void> check_transition(QpType type, QpState current,
                                              const QpAttributes& attributes, std::uint32_t mask);

/// The attributes that this transition requires; 0 too where the type does not have it.
[[nodiscard]] std::uint32_t required_attributes(QpType type, QpState from, QpState to);

}  // namespace rockhopper::roce
