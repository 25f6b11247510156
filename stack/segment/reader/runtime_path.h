// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdio>
#include <cstdlib>

#include <sys/stat.h>
#include <unistd.h>

/// Where a user's sockets are. Inline and without the library, as programs that only look into a
/// segment need it, too.
namespace rockhopper::stack {

/// Why a runtime directory is not where the environment says.
enum class RuntimePlace : unsigned char {
  given,     ///< $XDG_RUNTIME_DIR
  default_,  ///< the variable is not set
  missing,   ///< what it names is not there, as after su, and in cron jobs and containers
  foreign,   ///< what it names is another user's, as after sudo -E
};

/// Whether it is a directory of this user.
inline bool is_own_directory(const char* path) {
  struct stat found = {};
  return stat(path, &found) == 0 && S_ISDIR(found.st_mode) && found.st_uid == getuid();
}

/// Writes the path of this user's runtime directory, which may not be there yet: below
/// $XDG_RUNTIME_DIR if that is a directory of this user, else below /run/user/UID, where a session
/// of this user has it, else /tmp/rockhopper-UID. So programs that have the variable and programs
/// that do not meet each other. Writes nothing and returns nothing else than the place if `size`
/// is too small: `to` is then empty.
inline RuntimePlace write_runtime_path(char* to, std::size_t size) {
  const char* given = std::getenv("XDG_RUNTIME_DIR");
  const auto user = static_cast<unsigned>(getuid());
  RuntimePlace place = RuntimePlace::default_;
  int length = 0;
  if (given != nullptr && *given != '\0') {
    place = is_own_directory(given)    ? RuntimePlace::given
            : access(given, F_OK) == 0 ? RuntimePlace::foreign
                                       : RuntimePlace::missing;
  }
  char session[32];
  (void)std::snprintf(session, sizeof session, "/run/user/%u", user);
  if (place == RuntimePlace::given) {
    length = std::snprintf(to, size, "%s/rockhopper", given);
  } else if (is_own_directory(session)) {
    length = std::snprintf(to, size, "%s/rockhopper", session);
  } else {
    length = std::snprintf(to, size, "/tmp/rockhopper-%u", user);
  }
  if ((length < 0 || static_cast<std::size_t>(length) >= size) && size > 0) *to = '\0';
  return place;
}

}  // namespace rockhopper::stack
