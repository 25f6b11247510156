// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "stack/pcap_writer.h"

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>

#include <gtest/gtest.h>

#include "stack/cable.h"
#include "tests/support/child_process.h"

namespace rockhopper::stack {
namespace {

class PcapFile : public ::testing::Test {
 protected:
  Expected<std::unique_ptr<PcapWriter>> open(const std::string& path) {
    return PcapWriter::open(cable_.value()->end(0), {.path = path});
  }

  test::TemporaryDirectory folder_;
  std::string path_ = folder_.path() + "/capture.pcapng";
  Expected<std::unique_ptr<Cable>> cable_ = Cable::create();
};

TEST_F(PcapFile, HasOneWriter) {
  auto first = open(path_);
  ASSERT_TRUE(first) << first.error().message;
  const auto size = std::filesystem::file_size(path_);
  EXPECT_GT(size, 0u);
  const auto second = open(path_);
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, ErrorCode::busy);
  EXPECT_NE(second.error().message.find(path_), std::string::npos);
  EXPECT_EQ(std::filesystem::file_size(path_), size) << "what the first has written stays";
  first->reset();
  EXPECT_TRUE(open(path_));
}

TEST_F(PcapFile, IsEmptiedFirst) {
  std::ofstream(path_) << std::string(10'000, 'x');
  ASSERT_TRUE(open(path_));
  EXPECT_LT(std::filesystem::file_size(path_), 1'000u);
}

TEST_F(PcapFile, MayBeADevice) {
  const auto first = open("/dev/null");
  EXPECT_TRUE(first);
  EXPECT_TRUE(open("/dev/null"));
}

TEST_F(PcapFile, CannotBeAFolder) {
  const auto opened = open(folder_.path());
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().code, ErrorCode::io);
}

}  // namespace
}  // namespace rockhopper::stack
