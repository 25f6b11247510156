// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/rh_publish/store_file.h"

#include <string>

#include <gmock/gmock.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/unit/publish/temporary_folder.h"

namespace rockhopper::apps::publish::store_file_test {
namespace {

using ::testing::HasSubstr;

constexpr std::size_t kBytes = 1 << 20;
constexpr std::size_t kBlockBytes = 512;  // of st_blocks, whatever the file system's are

std::size_t bytes_on_disk(const std::string& path) {
  struct stat status = {};
  EXPECT_EQ(::stat(path.c_str(), &status), 0);
  return static_cast<std::size_t>(status.st_blocks) * kBlockBytes;
}

// Writing into a hole of a full file system ends a process with SIGBUS.
TEST(StoreFile, HasAllItsPlaceOnTheDisk) {
  const TemporaryFolder folder;
  const std::string sparse = folder.write("sparse", "content");
  ASSERT_EQ(::truncate(sparse.c_str(), kBytes), 0);
  ASSERT_LT(bytes_on_disk(sparse), kBytes);
  for (const std::string& path : {folder.path("new"), sparse}) {
    ASSERT_TRUE(open_store_file(path, kBytes)) << path;
    EXPECT_GE(bytes_on_disk(path), kBytes) << path;
  }
  EXPECT_EQ(folder.read("sparse").substr(0, 8), std::string("content\0", 8));
}

TEST(StoreFile, AnotherSizeIsRefused) {
  const TemporaryFolder folder;
  EXPECT_THAT(open_store_file(folder.write("f", "12345"), kBytes).error().message,
              HasSubstr("has 5 bytes"));
  EXPECT_EQ(folder.read("f"), "12345");
}

}  // namespace
}  // namespace rockhopper::apps::publish::store_file_test
