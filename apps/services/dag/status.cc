// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/services/dag/status.h"

namespace rockhopper::dag {

std::string_view to_string(Status status) {
  switch (status) {
    case Status::ok:
      return "ok";
    case Status::not_found:
      return "there is no record with that key";
    case Status::exists:
      return "there is a record with that key already";
    case Status::exhausted:
      return "the server has no room left";
    case Status::invalid:
      return "a value is out of range, or the record cannot do this";
    case Status::too_long:
      return "the data does not fit";
    case Status::version_mismatch:
      return "the record has another version";
    case Status::damaged:
      return "the record contradicts itself";
    case Status::timed_out:
      return "the server did not take the request in time";
    case Status::canceled:
      return "the request was canceled";
    case Status::contended:
      return "others were always faster";
    case Status::unreachable:
      return "the server is unreachable";
    case Status::outcome_unknown:
      return "the connection was lost, and the change may have been made or not";
  }
  return "?";
}

}  // namespace rockhopper::dag
