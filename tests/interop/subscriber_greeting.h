// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "tests/interop/rc_endpoint.h"
#include "tests/interop/rc_exchange.h"

/// How a subscriber and rh-publish get to know each other by TCP, as docs/publisher.md has it.
namespace rockhopper::interop {

/// Who the subscriber is; without a name there is no proof.
struct Identity {
  std::string name;
  std::string secret;
};

/// What the publisher has answered.
struct Greeting {
  Address publisher;
  std::uint32_t path_mtu = 0;
};

/// The next line, which must be an object with that member; returns the member. `wait` is called
/// while there is none.
[[nodiscard]] Json receive(Exchange& exchange, const char* member,
                           const std::function<void()>& wait);

/// From the publisher's challenge to its welcome, whose proof is verified. `open` makes our queue
/// pair. The path MTU is the smaller one of both. Throws Failure, with the publisher's own words if
/// it has some.
[[nodiscard]] Greeting greet(Exchange& exchange, const Identity& identity, std::uint32_t path_mtu,
                             const std::function<Address()>& open,
                             const std::function<void()>& wait);

}  // namespace rockhopper::interop
