// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>

#include <unistd.h>

#include "stack/ip_address.h"
#include "stack/random.h"
#include "tests/support/seed.h"

namespace rockhopper::test {

/// Another address of the loopback device for each call and for each process, so that tests that
/// run side by side do not meet. One thread.
[[nodiscard]] inline stack::IpAddress loopback_address() {
  static stack::Random random(seed() ^ static_cast<std::uint64_t>(::getpid()) << 32);
  return stack::IpAddress::from_ipv4(
      127u << 24 | static_cast<std::uint32_t>(random.next() & 0xfffffe) | 1u << 16);
}

}  // namespace rockhopper::test
