// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstddef>
#include <span>

#include "apps/verbs/cm/agent.h"

namespace rockhopper::verbs::cm {

/// Carries out a command of rdma_user_cm.h, which a program has written to a descriptor `fd` of
/// `channel`: a header and what belongs to it, of which nothing is believed. Its answer goes where
/// the command says. Does not wait: a GET_EVENT without an event is EAGAIN. Returns 0 or the errno
/// that the kernel has for it. In a Section.
[[nodiscard]] int execute(Agent& agent, Channel& channel, int fd, std::span<const std::byte> bytes);

}  // namespace rockhopper::verbs::cm
