// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "stack/udp_bindings.h"

#include <cstdint>

#include <gtest/gtest.h>

namespace rockhopper::stack {
namespace {

class Nothing final : public UdpHandler {
 public:
  void on_udp(const UdpDatagram& /*datagram*/, std::uint64_t /*now_ns*/) override {}
};

TEST(UdpBindings, EachPortHasItsHandler) {
  Nothing first;
  Nothing second;
  UdpBindings bindings;
  EXPECT_EQ(bindings.find(4791), nullptr);
  bindings.bind(4791, &first);
  bindings.bind(4792, &second);
  EXPECT_EQ(bindings.find(4791), &first);
  EXPECT_EQ(bindings.find(4792), &second);
  EXPECT_EQ(bindings.find(4793), nullptr);
}

TEST(UdpBindings, ThePortIsTheLastOnes) {
  Nothing first;
  Nothing second;
  UdpBindings bindings;
  bindings.bind(4791, &first);
  bindings.bind(4791, &second);
  EXPECT_EQ(bindings.find(4791), &second);
  bindings.bind(4791, nullptr);
  EXPECT_EQ(bindings.find(4791), nullptr) << "the first one does not come back";
}

}  // namespace
}  // namespace rockhopper::stack
