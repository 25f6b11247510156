// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/verbs/abi/report.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include <sys/uio.h>
#include <unistd.h>

namespace rockhopper::verbs {
namespace {

iovec piece(const char* text) {
  return {.iov_base = const_cast<char*>(text), .iov_len = std::strlen(text)};
}

}  // namespace

void report(const char* first, const char* second) {
  const int error = errno;
  const iovec line[] = {piece("libibverbs of Rockhopper: "), piece(first), piece(second),
                        piece("\n")};
  // Nobody is left to tell if standard error cannot be written.
  if (writev(STDERR_FILENO, line, sizeof line / sizeof line[0]) < 0) errno = error;
  errno = error;
}

void end_of_stub(const char* symbol) {
  report(symbol, " is for drivers of rdma-core and not there; see docs/verbs.md");
  std::abort();
}

}  // namespace rockhopper::verbs
