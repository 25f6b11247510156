// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "roce/qp_attributes.h"

#include <algorithm>
#include <array>
#include <span>

namespace rockhopper::roce {
namespace {

/// One row of IBTA's tables of queue pair modifiers.
struct Transition {
  QpState from;
  QpState to;
  std::uint32_t required;
  std::uint32_t optional;
};

constexpr std::uint32_t kPathMigration = kQpAltPath | kQpPathMigState;

constexpr std::array kRcTransitions = {
    Transition{QpState::reset, QpState::init, kQpPkeyIndex | kQpPort | kQpAccessFlags, 0},
    Transition{QpState::init, QpState::init, 0, kQpPkeyIndex | kQpPort | kQpAccessFlags},
    Transition{QpState::init, QpState::rtr,
               kQpAv | kQpPathMtu | kQpDestQpn | kQpRqPsn | kQpMaxDestRdAtomic | kQpMinRnrTimer,
               kQpAltPath | kQpAccessFlags | kQpPkeyIndex},
    Transition{QpState::rtr, QpState::rts,
               kQpSqPsn | kQpTimeout | kQpRetryCnt | kQpRnrRetry | kQpMaxQpRdAtomic,
               kQpCurState | kQpAccessFlags | kQpMinRnrTimer | kPathMigration},
    Transition{QpState::rts, QpState::rts, 0,
               kQpCurState | kQpAccessFlags | kQpMinRnrTimer | kPathMigration},
    Transition{QpState::rts, QpState::sqd, 0, kQpEnSqdAsyncNotify},
    Transition{QpState::sqd, QpState::rts, 0,
               kQpCurState | kQpAccessFlags | kQpMinRnrTimer | kPathMigration},
    Transition{QpState::sqd, QpState::sqd, 0,
               kQpPort | kQpAv | kQpTimeout | kQpRetryCnt | kQpRnrRetry | kQpMaxQpRdAtomic |
                   kQpMaxDestRdAtomic | kQpCurState | kQpAltPath | kQpAccessFlags | kQpPkeyIndex |
                   kQpMinRnrTimer | kQpPathMigState},
};

constexpr std::array kUcTransitions = {
    Transition{QpState::reset, QpState::init, kQpPkeyIndex | kQpPort | kQpAccessFlags, 0},
    Transition{QpState::init, QpState::init, 0, kQpPkeyIndex | kQpPort | kQpAccessFlags},
    Transition{QpState::init, QpState::rtr, kQpAv | kQpPathMtu | kQpDestQpn | kQpRqPsn,
               kQpAltPath | kQpAccessFlags | kQpPkeyIndex},
    Transition{QpState::rtr, QpState::rts, kQpSqPsn, kQpCurState | kQpAccessFlags | kPathMigration},
    Transition{QpState::rts, QpState::rts, 0, kQpCurState | kQpAccessFlags | kPathMigration},
    Transition{QpState::rts, QpState::sqd, 0, kQpEnSqdAsyncNotify},
    Transition{QpState::sqd, QpState::rts, 0, kQpCurState | kQpAccessFlags | kPathMigration},
    Transition{QpState::sqd, QpState::sqd, 0,
               kQpAv | kQpCurState | kQpAccessFlags | kQpPkeyIndex | kPathMigration},
    Transition{QpState::sqe, QpState::rts, 0, kQpCurState | kQpAccessFlags},
};

constexpr std::array kUdTransitions = {
    Transition{QpState::reset, QpState::init, kQpPkeyIndex | kQpPort | kQpQkey, 0},
    Transition{QpState::init, QpState::init, 0, kQpPkeyIndex | kQpPort | kQpQkey},
    Transition{QpState::init, QpState::rtr, 0, kQpPkeyIndex | kQpQkey},
    Transition{QpState::rtr, QpState::rts, kQpSqPsn, kQpCurState | kQpQkey},
    Transition{QpState::rts, QpState::rts, 0, kQpCurState | kQpQkey},
    Transition{QpState::rts, QpState::sqd, 0, kQpEnSqdAsyncNotify},
    Transition{QpState::sqd, QpState::rts, 0, kQpCurState | kQpQkey},
    Transition{QpState::sqd, QpState::sqd, 0, kQpCurState | kQpPkeyIndex | kQpQkey},
    Transition{QpState::sqe, QpState::rts, 0, kQpCurState | kQpQkey},
};

constexpr std::array kXrcSendTransitions = {
    Transition{QpState::reset, QpState::init, kQpPkeyIndex | kQpPort | kQpAccessFlags, 0},
    Transition{QpState::init, QpState::init, 0, kQpPkeyIndex | kQpPort | kQpAccessFlags},
    Transition{QpState::init, QpState::rtr, kQpAv | kQpPathMtu | kQpDestQpn | kQpRqPsn,
               kQpAltPath | kQpAccessFlags | kQpPkeyIndex},
    Transition{QpState::rtr, QpState::rts,
               kQpSqPsn | kQpTimeout | kQpRetryCnt | kQpRnrRetry | kQpMaxQpRdAtomic,
               kQpCurState | kQpAccessFlags | kPathMigration},
    Transition{QpState::rts, QpState::rts, 0, kQpCurState | kQpAccessFlags | kPathMigration},
    Transition{QpState::rts, QpState::sqd, 0, kQpEnSqdAsyncNotify},
    Transition{QpState::sqd, QpState::rts, 0, kQpCurState | kQpAccessFlags | kPathMigration},
    Transition{QpState::sqd, QpState::sqd, 0,
               kQpPort | kQpAv | kQpTimeout | kQpRetryCnt | kQpRnrRetry | kQpMaxQpRdAtomic |
                   kQpCurState | kQpAltPath | kQpAccessFlags | kQpPkeyIndex | kQpPathMigState},
};

constexpr std::array kXrcRecvTransitions = {
    Transition{QpState::reset, QpState::init, kQpPkeyIndex | kQpPort | kQpAccessFlags, 0},
    Transition{QpState::init, QpState::init, 0, kQpPkeyIndex | kQpPort | kQpAccessFlags},
    Transition{QpState::init, QpState::rtr,
               kQpAv | kQpPathMtu | kQpDestQpn | kQpRqPsn | kQpMaxDestRdAtomic | kQpMinRnrTimer,
               kQpAltPath | kQpAccessFlags | kQpPkeyIndex},
    Transition{QpState::rtr, QpState::rts, kQpSqPsn | kQpTimeout,
               kQpCurState | kQpAccessFlags | kQpMinRnrTimer | kPathMigration},
    Transition{QpState::rts, QpState::rts, 0,
               kQpCurState | kQpAccessFlags | kQpMinRnrTimer | kPathMigration},
};

std::span<const Transition> transitions_of(QpType type) {
  switch (type) {
    case QpType::rc:
      return kRcTransitions;
    case QpType::uc:
      return kUcTransitions;
    case QpType::ud:
      return kUdTransitions;
    case QpType::xrc_send:
      return kXrcSendTransitions;
    case QpType::xrc_recv:
      return kXrcRecvTransitions;
    case QpType::extension_initiator:
    case QpType::extension_responder:
      break;  // an Extension moves them
  }
  return {};
}

/// Returns null if queue pairs of that type have no such transition.
const Transition* find_transition(QpType type, QpState from, QpState to) {
  const std::span<const Transition> rows = transitions_of(type);
  const auto row = std::find_if(rows.begin(), rows.end(),
                                [&](const Transition& t) { return t.from == from && t.to == to; });
  return row == rows.end() ? nullptr : &*row;
}

Expected<void> check_values(const QpAttributes& a, std::uint32_t mask) {
  const auto given = [mask](std::uint32_t bit) { return (mask & bit) != 0; };
  if (given(kQpAltPath) || given(kQpPathMigState)) {
    return fail(ErrorCode::unsupported, "automatic path migration is not supported");
  }
  if (given(kQpPort) && a.port_num != 1) {
    return fail(ErrorCode::invalid_argument, "there is port 1 only, not {}", a.port_num);
  }
  if (given(kQpAccessFlags) && (a.qp_access_flags & ~kAccessQp) != 0) {
    return fail(ErrorCode::invalid_argument, "unknown access flags {:#x}",
                a.qp_access_flags & ~kAccessQp);
  }
  if (given(kQpPathMtu)) {
    const std::uint32_t mtu = bytes(a.path_mtu);
    if (mtu != 256 && mtu != 512 && mtu != 1024 && mtu != 2048 && mtu != 4096) {
      return fail(ErrorCode::invalid_argument, "{} is no path MTU", mtu);
    }
  }
  if ((given(kQpMaxQpRdAtomic) && a.max_rd_atomic > kMaxRdAtomic) ||
      (given(kQpMaxDestRdAtomic) && a.max_dest_rd_atomic > kMaxRdAtomic)) {
    return fail(ErrorCode::invalid_argument, "at most {} READs and atomics can be outstanding",
                kMaxRdAtomic);
  }
  if ((given(kQpMinRnrTimer) && a.min_rnr_timer > 31) || (given(kQpTimeout) && a.timeout > 31)) {
    return fail(ErrorCode::invalid_argument, "timer codes are 0 to 31");
  }
  if ((given(kQpRetryCnt) && a.retry_cnt > 7) || (given(kQpRnrRetry) && a.rnr_retry > 7)) {
    return fail(ErrorCode::invalid_argument, "retry counts are 0 to 7");
  }
  if ((given(kQpRqPsn) && a.rq_psn.value > wire::kMask24) ||
      (given(kQpSqPsn) && a.sq_psn.value > wire::kMask24) ||
      (given(kQpDestQpn) && a.dest_qp_num.value > wire::kMask24)) {
    return fail(ErrorCode::invalid_argument, "PSNs and QPNs have 24 bits");
  }
  if (given(kQpAv)) return check_address_vector(a.ah_attr);
  return {};
}

}  // namespace

Expected<void> check_transition(QpType type, QpState current, const QpAttributes& attributes,
                                std::uint32_t mask) {
  const QpState next = (mask & kQpState) != 0 ? attributes.qp_state : current;
  if ((mask & kQpCurState) != 0 && attributes.cur_qp_state != current) {
    return fail(ErrorCode::invalid_state, "the queue pair is in {}, not in {}", to_string(current),
                to_string(attributes.cur_qp_state));
  }
  const std::uint32_t rest = mask & ~std::uint32_t{kQpState};
  if (next == QpState::reset || next == QpState::err) {
    // Any state may go there; nothing else can be set on the way.
    if (rest != 0 && rest != kQpCurState) {
      return fail(ErrorCode::invalid_argument, "no attribute can be set on the way to {}",
                  to_string(next));
    }
    return {};
  }
  const Transition* row = find_transition(type, current, next);
  if (row == nullptr) {
    return fail(ErrorCode::invalid_state, "a queue pair of {} cannot go from {} to {}",
                to_string(type), to_string(current), to_string(next));
  }
  if (const std::uint32_t missing = row->required & ~mask; missing != 0) {
    return fail(ErrorCode::invalid_argument, "{} to {} needs the attributes {:#x} too",
                to_string(current), to_string(next), missing);
  }
  if (const std::uint32_t extra = rest & ~(row->required | row->optional); extra != 0) {
    return fail(ErrorCode::invalid_argument, "{} to {} cannot set the attributes {:#x}",
                to_string(current), to_string(next), extra);
  }
  return check_values(attributes, mask);
}

std::uint32_t required_attributes(QpType type, QpState from, QpState to) {
  const Transition* row = find_transition(type, from, to);
  return row == nullptr ? 0 : row->required;
}

}  // namespace rockhopper::roce
