// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>

namespace rockhopper::verbs {

/// Whether this process may read all of [base, base + length), and with `writable` write it: 0,
/// EFAULT, or why that cannot be found out. Where the kernel can (from Linux 5.14 on) this brings
/// the pages in, as an RNIC does; else, and with memory of a device, a byte of each is read and
/// none written. What the program unmaps later is not seen here.
[[nodiscard]] int check_memory(const void* base, std::uint64_t length, bool writable);

}  // namespace rockhopper::verbs
