// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <string>

namespace rockhopper::stack {

/// Removes a socket file that a process left behind when it died, as nobody could bind to it any
/// more. One that answers stays. `type` is SOCK_STREAM or SOCK_SEQPACKET.
void remove_dead_socket(const std::string& path, int type);

}  // namespace rockhopper::stack
