// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "stack/runtime_directory.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "stack/unix_socket.h"
#include "tests/support/child_process.h"

namespace rockhopper::stack {
namespace {

using ::testing::HasSubstr;

class RuntimeDirectory : public ::testing::Test {
 protected:
  RuntimeDirectory() {
    if (const char* value = std::getenv("XDG_RUNTIME_DIR")) before_ = value;
    setenv("XDG_RUNTIME_DIR", base_.path().c_str(), 1);
  }
  ~RuntimeDirectory() override {
    if (before_) {
      setenv("XDG_RUNTIME_DIR", before_->c_str(), 1);
    } else {
      unsetenv("XDG_RUNTIME_DIR");
    }
  }

  test::TemporaryDirectory base_;
  std::optional<std::string> before_;
};

TEST_F(RuntimeDirectory, IsMadeForThisUserAlone) {
  for (int i = 0; i < 2; ++i) {
    const auto directory = runtime_directory();
    ASSERT_TRUE(directory.has_value()) << directory.error().message;
    EXPECT_EQ(*directory, base_.path() + "/rockhopper");
    struct stat status = {};
    ASSERT_EQ(stat(directory->c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 0777, 0700u);
  }
}

TEST_F(RuntimeDirectory, RefusesOneThatOthersMayEnter) {
  ASSERT_EQ(mkdir((base_.path() + "/rockhopper").c_str(), 0700), 0);
  ASSERT_EQ(chmod((base_.path() + "/rockhopper").c_str(), 0755), 0);
  EXPECT_THAT(runtime_directory().error().message, HasSubstr("this user alone"));
}

TEST_F(RuntimeDirectory, RefusesALink) {
  ASSERT_EQ(symlink(base_.path().c_str(), (base_.path() + "/rockhopper").c_str()), 0);
  EXPECT_THAT(runtime_directory().error().message, HasSubstr("this user alone"));
}

TEST_F(RuntimeDirectory, RefusesOneThatAnotherOwns) {
  if (geteuid() != 0) {
    GTEST_SKIP() << "needs root to make one";
  }
  ASSERT_EQ(mkdir((base_.path() + "/rockhopper").c_str(), 0700), 0);
  ASSERT_EQ(chown((base_.path() + "/rockhopper").c_str(), 65534, 65534), 0);
  EXPECT_THAT(runtime_directory().error().message, HasSubstr("this user alone"));
}

TEST_F(RuntimeDirectory, SaysWhenItCannotBeMade) {
  setenv("XDG_RUNTIME_DIR", "/nonexistent", 1);
  EXPECT_THAT(runtime_directory().error().message, HasSubstr("/nonexistent/rockhopper"));
}

TEST(RemoveDeadSocket, RemovesOnlySocketsWithoutListener) {
  const test::TemporaryDirectory directory;
  const std::string path = directory.path() + "/socket";
  const auto exists = [&path] { return access(path.c_str(), F_OK) == 0; };
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.data(), path.size());
  for (const int type : {SOCK_STREAM, SOCK_SEQPACKET}) {
    const int fd = socket(AF_UNIX, type, 0);
    ASSERT_EQ(bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
    ASSERT_EQ(listen(fd, 1), 0);
    remove_dead_socket(path, type);
    EXPECT_TRUE(exists()) << "it answers";
    close(fd);
    remove_dead_socket(path, type);
    EXPECT_FALSE(exists());
  }
  std::fclose(std::fopen(path.c_str(), "w"));
  remove_dead_socket(path, SOCK_STREAM);
  EXPECT_TRUE(exists()) << "not a socket";
}

}  // namespace
}  // namespace rockhopper::stack
