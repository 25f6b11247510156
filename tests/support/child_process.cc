// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "tests/support/child_process.h"

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <system_error>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

namespace rockhopper::test {
namespace {

using Clock = std::chrono::steady_clock;

int milliseconds_until(Clock::time_point end) {
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - Clock::now());
  return left.count() > 0 ? static_cast<int>(left.count()) : 0;
}

}  // namespace

ChildProcess::ChildProcess(std::vector<std::string> arguments) {
  std::signal(SIGPIPE, SIG_IGN);  // a child that dies early fails a check, not the test program
  int input[2];
  int output[2];
  if (pipe2(input, O_CLOEXEC) != 0 || pipe2(output, O_CLOEXEC) != 0) {
    ADD_FAILURE() << "pipe: " << std::strerror(errno);
    return;
  }
  std::vector<char*> argv;
  for (std::string& argument : arguments) {
    argv.push_back(argument.data());
  }
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, input[0], STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, output[1], STDOUT_FILENO);
  const int result = posix_spawnp(&pid_, argv[0], &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  close(input[0]);
  close(output[1]);
  input_ = input[1];
  output_ = output[0];
  if (result != 0) {
    pid_ = -1;
    ADD_FAILURE() << "cannot run " << arguments[0] << ": " << std::strerror(result);
  }
}

ChildProcess::~ChildProcess() {
  close_input();
  if (output_ >= 0) close(output_);
  if (pid_ > 0) {
    kill();
    waitpid(pid_, nullptr, 0);
  }
}

std::string ChildProcess::read_line(int timeout_ms) {
  const auto end = Clock::now() + std::chrono::milliseconds(timeout_ms);
  for (;;) {
    if (const std::size_t at = buffered_.find('\n'); at != std::string::npos) {
      std::string line = buffered_.substr(0, at);
      buffered_.erase(0, at + 1);
      return line;
    }
    pollfd readable{output_, POLLIN, 0};
    if (poll(&readable, 1, milliseconds_until(end)) <= 0) return {};
    char bytes[4096];
    const ssize_t size = read(output_, bytes, sizeof(bytes));
    if (size <= 0) return {};
    buffered_.append(bytes, static_cast<std::size_t>(size));
  }
}

void ChildProcess::write(const std::string& text) const {
  EXPECT_EQ(::write(input_, text.data(), text.size()), static_cast<ssize_t>(text.size()));
}

void ChildProcess::close_input() {
  if (input_ >= 0) close(input_);
  input_ = -1;
}

void ChildProcess::kill() const {
  if (pid_ > 0) ::kill(pid_, SIGKILL);
}

int ChildProcess::wait(int timeout_ms) {
  if (pid_ <= 0) return -1;
  const auto process = static_cast<int>(syscall(SYS_pidfd_open, pid_, 0));
  pollfd ended{process, POLLIN, 0};
  const bool in_time = poll(&ended, 1, timeout_ms) > 0;
  close(process);
  if (!in_time) return -1;
  int status = 0;
  waitpid(pid_, &status, 0);
  pid_ = -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

int run(std::vector<std::string> arguments) { return ChildProcess(std::move(arguments)).wait(); }

ForkedProcess::ForkedProcess(const std::function<void()>& act) {
  int ready[2];
  EXPECT_EQ(pipe2(ready, O_CLOEXEC), 0);
  pid_ = fork();
  EXPECT_GE(pid_, 0) << std::strerror(errno);
  if (pid_ == 0) {
    act();
    if (::write(ready[1], "r", 1) != 1) _exit(1);
    for (;;) {
      pause();
    }
  }
  close(ready[1]);
  char answer = 0;
  EXPECT_EQ(::read(ready[0], &answer, 1), 1) << "it ended";
  close(ready[0]);
}

ForkedProcess::~ForkedProcess() {
  if (pid_ <= 0) return;
  ::kill(pid_, SIGKILL);
  EXPECT_EQ(waitpid(pid_, nullptr, 0), pid_);
}

TemporaryDirectory::TemporaryDirectory() {
  std::string pattern = "/tmp/rockhopper-test-XXXXXX";
  if (mkdtemp(pattern.data()) == nullptr) {
    ADD_FAILURE() << "mkdtemp: " << std::strerror(errno);
    return;
  }
  path_ = pattern;
}

TemporaryDirectory::~TemporaryDirectory() {
  std::error_code ignored;
  if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
}

}  // namespace rockhopper::test
