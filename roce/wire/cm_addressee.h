// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "roce/wire/mad.h"

namespace rockhopper::wire::cm {

/// Whom a connection manager's message is for where several managers share a port.
struct Addressee {
  /// A request (REQ, SIDR_REQ) has it: who serves it is to get the request. Else 0.
  std::uint64_t service_id = 0;
  /// All others have it: the receiver's communication or request ID, which it has chosen. 0: the
  /// sender does not know it, as in a REJ for want of an answer.
  std::uint32_t receiver_id = 0;
  bool is_request = false;
};

/// The bytes of a message that addressee_of() reads.
inline constexpr std::size_t kAddresseeBytes = MadHeader::kSize + 16;

/// Nothing: it is no message of a connection manager.
[[nodiscard]] std::optional<Addressee> addressee_of(
    std::span<const std::uint8_t, kAddresseeBytes> mad);

}  // namespace rockhopper::wire::cm
