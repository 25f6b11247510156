// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>
#include <string_view>

#include "roce/wire/qpn.h"
#include "stack/ip_address.h"

namespace rockhopper::roce {

class CompletionQueue;
class SharedReceiveQueue;

/// Asynchronous events (IBTA vol. 1, 11.6.3); names as in enum ibv_event_type.
enum class AsyncEventType : std::uint8_t {
  cq_err,
  qp_fatal,  ///< in ERR for a reason that no completion and no other event tells
  qp_req_err,
  qp_access_err,
  comm_est,
  sq_drained,
  srq_limit_reached,
  /// A queue pair of an SRQ is in ERR and takes no more receive requests from it: what it had is
  /// flushed.
  qp_last_wqe_reached,
  port_active,
  port_err,
  pkey_change,
  gid_change,  ///< addresses of the host have come or gone
  /// Ours: another station has `address`. A new address is not used then.
  duplicate_address,
  /// Ours: a router says that packets to `address` are too big, and that IP packets of `mtu` bytes
  /// are not, or 0. Anybody can make it say so; at most one a second.
  path_mtu_exceeded,
};
[[nodiscard]] std::string_view to_string(AsyncEventType type);

/// What happened, and to what: the member that the type is about, the others are null or 0.
struct AsyncEvent {
  AsyncEventType type;
  wire::Qpn qp_num{};
  const CompletionQueue* cq = nullptr;
  const SharedReceiveQueue* srq = nullptr;
  stack::IpAddress address{};
  std::uint32_t mtu = 0;  ///< bytes
};

}  // namespace rockhopper::roce
