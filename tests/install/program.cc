// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
//
// What a user's program outside the tree looks like: headers below <prefix>/include/rockhopper,
// and pkg-config for the rest. Exit status 0 when an ICRC that it computes verifies.
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <span>

#include "roce/engine.h"
#include "roce/wire/bth.h"
#include "roce/wire/opcode.h"
#include "stack/ip_address.h"

int main() {
  namespace wire = rockhopper::wire;
  wire::Bth bth{};
  bth.opcode = 0x04;
  std::array<std::uint8_t, wire::Bth::kSize> bytes{};
  bth.emit(bytes);
  const auto name = wire::info(bytes[0]).name;
  const auto address = rockhopper::stack::IpAddress::parse("10.42.0.1");
  const auto engine = rockhopper::roce::Engine::create({});
  std::printf("%s %d %d\n", name, address.has_value() ? 1 : 0, engine.has_value() ? 1 : 0);
  return address.has_value() && !engine.has_value() && wire::Bth::parse(bytes) == bth ? 0 : 1;
}
