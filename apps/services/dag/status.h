// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>
#include <string_view>

namespace rockhopper::dag {

/// What became of an operation. Unless told otherwise, anything but `ok` means that nothing has
/// been changed, and never will be by this operation.
enum class Status : std::uint8_t {
  ok,
  not_found,         ///< there is no record with that key
  exists,            ///< there is one already
  exhausted,         ///< no memory, or as many records as there may be
  invalid,           ///< a value out of range, or an operation that the record cannot do
  too_long,          ///< more data than the record, or the client's buffer, has room for
  version_mismatch,  ///< an update that was to replace another version
  damaged,           ///< the record contradicts itself: a client has written what it should not
  timed_out,         ///< the server did not take the request in time, and will not any more
  canceled,          ///< in answers only: the client had given it up, and knows
  contended,         ///< others were always faster, or a lock was not given up in time
  unreachable,       ///< the server is gone, or has fenced this client
  /// The connection was lost when the change was on its way: it has been made or it has not.
  outcome_unknown,
};
inline constexpr unsigned kStatuses = 13;
[[nodiscard]] std::string_view to_string(Status status);

}  // namespace rockhopper::dag
