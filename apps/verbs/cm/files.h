// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstddef>

#include <infiniband/verbs.h>
#include <sys/stat.h>
#include <sys/types.h>

namespace rockhopper::verbs::cm {

// What librh-paths.so calls in the place of system calls on /dev/infiniband/rdma_cm, by the table.
// Any thread. A child of fork() has none of its parent's channels.

/// As open() of it: returns a descriptor, or -1 and errno. `device`: the first of the thin
/// library's, or of a copy of these.
[[nodiscard]] int open_channel(const ibv_device* device, int flags);
/// As write() to it: returns true and the result if `fd` is such a descriptor, else false.
[[nodiscard]] bool write_channel(int fd, const void* bytes, std::size_t size, ssize_t* result);
/// Whether such a descriptor, which is a pipe, has that inode.
[[nodiscard]] bool is_channel(ino_t inode);
/// A descriptor of one was closed.
void closed_channel();

}  // namespace rockhopper::verbs::cm
