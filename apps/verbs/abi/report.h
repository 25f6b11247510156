// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

namespace rockhopper::verbs {

/// Writes one line to standard error in one piece: the library's name, and `first` and `second` as
/// they are. It allocates nothing and leaves errno as it was.
void report(const char* first, const char* second = "");

/// The end of a program that calls what only a driver of rdma-core may call, or the ABI of 2006.
[[noreturn]] void end_of_stub(const char* symbol);

}  // namespace rockhopper::verbs
