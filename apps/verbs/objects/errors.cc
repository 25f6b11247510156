// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/verbs/objects/errors.h"

namespace rockhopper::verbs {

int errno_of(ErrorCode code) {
  switch (code) {
    case ErrorCode::exhausted:
      return ENOMEM;
    case ErrorCode::busy:
      return EBUSY;
    case ErrorCode::unsupported:
      return EOPNOTSUPP;
    case ErrorCode::io:
      return EIO;
    case ErrorCode::timeout:
      return ETIMEDOUT;
    case ErrorCode::invalid_argument:
    case ErrorCode::invalid_state:
    case ErrorCode::not_found:
      break;
  }
  return EINVAL;
}

int errno_of(roce::PostResult result) {
  switch (result) {
    case roce::PostResult::ok:
      return 0;
    case roce::PostResult::queue_full:
      return ENOMEM;
    default:
      return EINVAL;
  }
}

}  // namespace rockhopper::verbs
