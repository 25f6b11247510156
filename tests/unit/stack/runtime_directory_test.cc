// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "stack/runtime_directory.h"

#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string>
#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "stack/segment/reader/runtime_path.h"
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

/// Where it is, if the variable leads nowhere.
std::string fallback() {
  const std::string user = std::to_string(getuid());
  const std::string session = "/run/user/" + user;
  return is_own_directory(session.c_str()) ? session + "/rockhopper" : "/tmp/rockhopper-" + user;
}

std::pair<RuntimePlace, std::string> chosen() {
  char path[PATH_MAX];
  const RuntimePlace place = write_runtime_path(path, sizeof path);
  return {place, path};
}

// su, cron and containers leave a variable that names nothing, sudo -E another user's.
TEST_F(RuntimeDirectory, IsElsewhereIfTheVariableLeadsNowhere) {
  EXPECT_EQ(chosen(), (std::pair{RuntimePlace::given, base_.path() + "/rockhopper"}));
  for (const char* nothing : {"/nonexistent", "/etc/passwd/x"}) {
    setenv("XDG_RUNTIME_DIR", nothing, 1);
    EXPECT_EQ(chosen(), (std::pair{RuntimePlace::missing, fallback()})) << nothing;
  }
  setenv("XDG_RUNTIME_DIR", "/etc/passwd", 1);
  EXPECT_EQ(chosen(), (std::pair{RuntimePlace::foreign, fallback()}));
  unsetenv("XDG_RUNTIME_DIR");
  EXPECT_EQ(chosen(), (std::pair{RuntimePlace::default_, fallback()}));
  setenv("XDG_RUNTIME_DIR", "", 1);
  EXPECT_EQ(chosen(), (std::pair{RuntimePlace::default_, fallback()}));
  if (geteuid() != 0) return;
  setenv("XDG_RUNTIME_DIR", base_.path().c_str(), 1);
  ASSERT_EQ(chown(base_.path().c_str(), 65534, 65534), 0);
  EXPECT_EQ(chosen(), (std::pair{RuntimePlace::foreign, fallback()}));
  ASSERT_EQ(chown(base_.path().c_str(), 0, 0), 0);
}

TEST_F(RuntimeDirectory, APathThatIsTooLongIsNone) {
  char path[8];
  (void)write_runtime_path(path, sizeof path);
  EXPECT_STREQ(path, "");
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
