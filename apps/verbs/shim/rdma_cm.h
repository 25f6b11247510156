// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

namespace rockhopper::verbs {

/// Whether `path` is that of the connection manager's device and there is a rendered tree.
[[nodiscard]] bool is_rdma_cm(const char* path);
/// As open() of it.
[[nodiscard]] int open_rdma_cm(int flags);

}  // namespace rockhopper::verbs
