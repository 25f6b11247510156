// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/verbs/shim/rewrite.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "apps/verbs/abi/environment.h"

namespace rockhopper::verbs {
namespace {

constexpr const char* kFolders[] = {"/sys/class/infiniband", "/sys/class/infiniband_verbs",
                                    "/sys/class/misc/rdma_cm", "/dev/infiniband"};

// Programs change their environment, and other threads' calls must not see that half done: what
// counts is what they were started with.
char rendered_tree[PATH_MAX];

[[gnu::constructor]] void read_environment() {
  const char* given = std::getenv(kTreeVariable);
  const std::size_t size = given != nullptr ? std::strlen(given) : 0;
  if (size > 0 && size < sizeof rendered_tree) std::memcpy(rendered_tree, given, size + 1);
}

/// Returns what of `path` is behind `folder`: "" or a slash and more; null if it is elsewhere.
/// Several slashes are as one.
const char* behind(const char* path, const char* folder) {
  for (; *folder != '\0'; ++folder, ++path) {
    if (*path != *folder) return nullptr;
    while (*folder == '/' && path[1] == '/') {
      ++path;
    }
  }
  return *path == '\0' || *path == '/' ? path : nullptr;
}

bool is_of_rdma(const char* path) {
  // Nearly all paths of nearly all programs end here.
  if (path[0] != '/') return false;
  for (const char* folder : kFolders) {
    if (behind(path, folder) != nullptr) return true;
  }
  return false;
}

}  // namespace

const char* tree() { return rendered_tree; }

bool is_same_path(const char* path, const char* other) {
  const char* rest = behind(path, other);
  return rest != nullptr && *rest == '\0';
}

Rewritten::Rewritten(const char* path) : path_(path) {
  if (rendered_tree[0] == '\0' || path == nullptr || !is_of_rdma(path)) return;
  const int size = std::snprintf(buffer_, sizeof buffer_, "%s%s", rendered_tree, path);
  // A path that is too long is none of the tree's, and the system says so of the one that is given.
  if (size > 0 && static_cast<std::size_t>(size) < sizeof buffer_) path_ = buffer_;
}

}  // namespace rockhopper::verbs
