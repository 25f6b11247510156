// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <algorithm>
#include <array>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "roce/wire/cm.h"
#include "roce/wire/qpn.h"

namespace rockhopper::roce::cm {

class Connection;
class Lookup;

/// What the connection manager tells the application; names as in enum rdma_cm_event_type where it
/// has them.
enum class EventType : std::uint8_t {
  connect_request,   ///< somebody wants to connect: accept(), reject() or release()
  connect_response,  ///< the peer has accepted: move the external queue pair, then confirm()
  established,       ///< both ends may send
  rejected,          ///< by the peer; see `reason` and `private_data`
  unreachable,       ///< no answer after all retries
  connect_error,     ///< the answer was no use here: the queue pair refused it
  disconnected,      ///< by the peer or by disconnect(); the queue pair is in ERR
  timewait_exit,     ///< nothing of the old connection can arrive any more
  lookup_request,    ///< somebody asks for a queue pair for datagrams: answer() or refuse()
  resolved,          ///< the answer to resolve(): `qpn`, `qkey`
  lookup_failed,     ///< it was refused (`status`), or nobody answered (`unreachable` is true)
};
[[nodiscard]] std::string_view to_string(EventType type);

/// What applications send along. Messages have a fixed room for it and no length, so what arrives
/// is that room with zeros behind.
struct PrivateData {
  std::array<std::uint8_t, 224> bytes{};
  std::uint8_t length = 0;

  PrivateData() = default;
  explicit PrivateData(std::span<const std::uint8_t> data)
      : length(static_cast<std::uint8_t>(data.size())) {
    assert(data.size() <= bytes.size());
    std::copy(data.begin(), data.end(), bytes.begin());
  }
  [[nodiscard]] std::span<const std::uint8_t> view() const {
    return std::span(bytes).first(length);
  }
};

struct Event {
  EventType type{};
  Connection* connection = nullptr;  ///< null for lookups
  Lookup* lookup = nullptr;          ///< null for connections
  wire::cm::RejectReason reason{};   ///< rejected
  wire::cm::SidrStatus status{};     ///< lookup_failed
  bool unreachable = false;          ///< lookup_failed
  wire::Qpn qpn{};                   ///< resolved
  std::uint32_t qkey = 0;            ///< resolved
  PrivateData private_data{};
};

}  // namespace rockhopper::roce::cm
