// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/rh_dag/command_runner.h"

#include <cerrno>
#include <csignal>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <poll.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "apps/common/signals.h"
#include "apps/rh_dag/workflow_graph.h"

namespace rockhopper::apps::dag_node {
namespace {

using dag::key_text;

constexpr int kLookMs = 100;  // for a stop signal

/// A descriptor that is closed at the end.
class Descriptor {
 public:
  explicit Descriptor(int descriptor) : descriptor_(descriptor) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() {
    if (descriptor_ >= 0) (void)::close(descriptor_);
  }
  [[nodiscard]] int get() const { return descriptor_; }

 private:
  int descriptor_;
};

/// Files in memory instead of pipes: neither side waits for the other.
Descriptor make_file(const char* name) { return Descriptor(::memfd_create(name, MFD_CLOEXEC)); }

bool write_all(int file, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(file, bytes.data(), bytes.size());
    if (written < 0 && errno != EINTR) return false;
    if (written > 0) bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
  return true;
}

bool write_inputs(int file, const dag::TaskCall& call) {
  bool written = write_all(file, call.previous);
  if (call.previous.empty()) {
    for (const dag::TaskInput& input : call.inputs) {
      written = written && write_all(file, input.bytes);
    }
  }
  return written && ::lseek(file, 0, SEEK_SET) == 0;
}

Expected<void> read_output(int file, std::string_view program, std::vector<std::byte>& output) {
  const off_t size = ::lseek(file, 0, SEEK_END);
  if (size < 0 || static_cast<std::uint64_t>(size) > kOutputBytesMax) {
    return fail(ErrorCode::exhausted, "program {} has written {} bytes; the limit is {}",
                key_text(program), size, kOutputBytesMax);
  }
  output.resize(static_cast<std::size_t>(size));
  for (std::size_t at = 0; at < output.size();) {
    const ssize_t got =
        ::pread(file, output.data() + at, output.size() - at, static_cast<off_t>(at));
    if (got <= 0) {
      return fail(ErrorCode::io, "the output of {} cannot be read: {}", key_text(program),
                  std::strerror(errno));
    }
    at += static_cast<std::size_t>(got);
  }
  return {};
}

/// What posix_spawn is told, freed at the end.
class SpawnPlan {
 public:
  SpawnPlan(int input, int output) {
    posix_spawn_file_actions_init(&actions_);
    posix_spawn_file_actions_adddup2(&actions_, input, STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&actions_, output, STDOUT_FILENO);
    posix_spawnattr_init(&attributes_);
    // This program ignores it; others rely on it.
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGPIPE);
    posix_spawnattr_setsigdefault(&attributes_, &signals);
    posix_spawnattr_setflags(&attributes_, POSIX_SPAWN_SETSIGDEF);
  }
  SpawnPlan(const SpawnPlan&) = delete;
  SpawnPlan& operator=(const SpawnPlan&) = delete;
  ~SpawnPlan() {
    posix_spawn_file_actions_destroy(&actions_);
    posix_spawnattr_destroy(&attributes_);
  }

  [[nodiscard]] Expected<pid_t> start(const std::vector<std::string_view>& words,
                                      std::string_view key) const {
    // Views of words that each have a zero byte behind them.
    std::vector<char*> arguments;
    for (const std::string_view word : words) {
      arguments.push_back(const_cast<char*>(word.data()));
    }
    arguments.push_back(nullptr);
    std::string node = "RH_DAG_NODE=" + std::string(key);
    std::vector<char*> environment{node.data()};
    for (char** variable = environ; *variable != nullptr; ++variable) {
      if (std::strncmp(*variable, "RH_DAG_NODE=", 12) != 0) environment.push_back(*variable);
    }
    environment.push_back(nullptr);
    pid_t child = 0;
    const int error = ::posix_spawnp(&child, arguments[0], &actions_, &attributes_,
                                     arguments.data(), environment.data());
    if (error != 0) {
      return fail(ErrorCode::not_found, "program {} cannot be started: {}", key_text(words[0]),
                  std::strerror(error));
    }
    return child;
  }

 private:
  posix_spawn_file_actions_t actions_;
  posix_spawnattr_t attributes_;
};

/// Waits for its end; ends it if this program is to stop.
int wait_for(pid_t child, const std::function<bool()>& stopped) {
  const Descriptor process(static_cast<int>(::syscall(SYS_pidfd_open, child, 0)));
  bool ended = process.get() < 0;
  while (!ended) {
    if (stopped()) (void)::kill(child, SIGTERM);
    pollfd wanted{.fd = process.get(), .events = POLLIN, .revents = 0};
    ended = ::poll(&wanted, 1, kLookMs) > 0;
  }
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return status;
}

Expected<void> run_command(const dag::TaskCall& call, std::vector<std::byte>& output,
                           const std::function<bool()>& stopped) {
  ROCKHOPPER_TRY(const auto words, dag::parse_command(call.arguments));
  const Descriptor input_file = make_file("input");
  const Descriptor output_file = make_file("output");
  if (input_file.get() < 0 || output_file.get() < 0 || !write_inputs(input_file.get(), call)) {
    return fail(ErrorCode::exhausted, "a program's input cannot be kept: {}", std::strerror(errno));
  }
  ROCKHOPPER_TRY(const auto child,
                 SpawnPlan(input_file.get(), output_file.get()).start(words, call.key));
  const int status = wait_for(child, stopped);
  if (stopped()) return tl::make_unexpected(interrupted());
  if (WIFSIGNALED(status)) {
    return fail(ErrorCode::io, "program {} was ended by signal {}", key_text(words.front()),
                WTERMSIG(status));
  }
  if (WEXITSTATUS(status) != 0) {
    return fail(ErrorCode::io, "program {} ended with status {}", key_text(words.front()),
                WEXITSTATUS(status));
  }
  return read_output(output_file.get(), words.front(), output);
}

}  // namespace

dag::CommandRunner make_command_runner(std::function<bool()> stopped) {
  return [stopped = std::move(stopped)](const dag::TaskCall& call, std::vector<std::byte>& output) {
    return run_command(call, output, stopped);
  };
}

}  // namespace rockhopper::apps::dag_node
