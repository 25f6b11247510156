// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
//
// For executables only, in place of the C library's function: see DriverFolder.
#include <cerrno>

#include <fcntl.h>
#include <sys/stat.h>

#include "stack/driver_folder.h"

extern "C" int stat_unless_hidden(const char* path, struct stat64* result) __asm__("stat64");

int stat_unless_hidden(const char* path, struct stat64* result) {
  if (rockhopper::stack::DriverFolder::hides(path)) {
    errno = ENOENT;
    return -1;
  }
  return fstatat64(AT_FDCWD, path, result, 0);
}
