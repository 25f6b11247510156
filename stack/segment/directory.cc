// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "stack/segment/directory.h"

#include <cerrno>
#include <climits>
#include <cstdlib>
#include <system_error>

#include "stack/runtime_directory.h"
#include "stack/segment/reader/public_part.h"

namespace rockhopper::stack::segment {
namespace {

/// The folder above, which is this user's.
Expected<void> make_user_directory(const std::string& path) {
  if (is_in_shared_memory()) return make_private_directory(path);
  ROCKHOPPER_TRY(runtime_directory());
  return {};
}

}  // namespace

Expected<std::string> directory() {
  char buffer[PATH_MAX];
  if (!write_segment_path(buffer, sizeof buffer)) {
    return fail(ErrorCode::io, "cannot tell where the segment is: {}",
                std::generic_category().message(errno));
  }
  std::string path = buffer;
  if (const char* given = std::getenv("ROCKHOPPER_SEGMENT"); given == nullptr || *given == '\0') {
    ROCKHOPPER_TRY(make_user_directory(path.substr(0, path.rfind('/'))));
  }
  ROCKHOPPER_TRY(make_private_directory(path));
  return path;
}

}  // namespace rockhopper::stack::segment
