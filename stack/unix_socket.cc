// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "stack/unix_socket.h"

#include <cerrno>
#include <cstring>
#include <fstream>

#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

namespace rockhopper::stack {

namespace {

constexpr int kGreetingTimeoutMs = 1000;

bool is_socket(const std::string& path) {
  struct stat status = {};
  return lstat(path.c_str(), &status) == 0 && S_ISSOCK(status.st_mode);
}

/// Whether a process of this network namespace has the socket open: the last word of a line.
bool is_known_to_kernel(const std::string& path) {
  std::ifstream sockets("/proc/net/unix");
  for (std::string line; std::getline(sockets, line);) {
    if (line.size() > path.size() && line.ends_with(path) &&
        line[line.size() - path.size() - 1] == ' ') {
      return true;
    }
  }
  return false;
}

}  // namespace

void remove_dead_socket(const std::string& path, int type) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof(address.sun_path) || !is_socket(path) || is_known_to_kernel(path)) {
    return;
  }
  std::memcpy(address.sun_path, path.data(), path.size());
  const int fd = socket(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return;
  const auto* generic = reinterpret_cast<const sockaddr*>(&address);
  // Its process may live in another namespace: the last test is whether it answers.
  if (connect(fd, generic, sizeof(address)) != 0) {
    if (errno == ECONNREFUSED) unlink(path.c_str());
  } else if (type == SOCK_SEQPACKET) {
    // A memif server that DPDK's driver is by itself (22.11 to 25.11) panics when a client is gone
    // before its greeting.
    pollfd greeting{fd, POLLIN, 0};
    (void)poll(&greeting, 1, kGreetingTimeoutMs);
  }
  close(fd);
}

}  // namespace rockhopper::stack
