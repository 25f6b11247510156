// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
// What a slot of an injection FIFO holds (AM-2, AM-7, AM-26, AM-32).
#include "apps/services/ami/descriptor.h"

#include <set>
#include <string>

#include <gtest/gtest.h>

namespace rockhopper::ami {
namespace {

/// 64 to 128 bytes (chapter 6, c), and no two of them on a cache line.
TEST(Descriptor, IsASlotOfWholeCacheLines) {
  EXPECT_EQ(sizeof(Descriptor) % 64, 0u);
  EXPECT_LE(sizeof(Descriptor), 128u);
  EXPECT_EQ(alignof(Descriptor), 64u);
}

TEST(Descriptor, IsATransferUnlessItSaysOtherwise) {
  const Descriptor descriptor;
  EXPECT_EQ(descriptor.type, Descriptor::Type::transfer);
  EXPECT_EQ(descriptor.level, Level::remote);
  EXPECT_EQ(descriptor.flags, 0);
}

/// An error is an error: people can tell one from the other, and each from success.
TEST(Status, EachHasAName) {
  std::set<std::string> names;
  for (const Status status :
       {Status::ok, Status::unreachable, Status::refused, Status::unknown_handler,
        Status::outcome_unknown, Status::flushed, Status::canceled, Status::invalid}) {
    names.emplace(to_string(status));
  }
  EXPECT_EQ(names.size(), 8u);
  EXPECT_FALSE(names.contains(std::string(to_string(static_cast<Status>(99)))));
}

}  // namespace
}  // namespace rockhopper::ami
