// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <sys/types.h>

#include "apps/common/file_descriptor.h"
#include "stack/error.h"

namespace rockhopper::apps::dag_node {

/// A program that a task has started, and whatever that has started in its turn: all of them are
/// one process group, and none of them outlives this object. The program reads a pipe and writes
/// into one, as it would in a shell's pipeline.
///
/// When the program has ended, what it has left behind may go on writing for a second. When all are
/// to end they are asked to (SIGTERM), and after three seconds they are killed.
///
/// One thread. The caller's process has to ignore SIGPIPE, and should be the parent of orphans
/// (PR_SET_CHILD_SUBREAPER): otherwise it is init that has to take note of their end.
class CommandProcess {
 public:
  struct Limits {
    std::uint64_t output_bytes = 0;
  };
  /// How the program has ended.
  struct Outcome {
    int status = 0;            ///< waitpid()'s
    bool stopped = false;      ///< it had been asked to end, as `stopped` said so
    bool output_over = false;  ///< it had written more than the limit, and was ended
  };

  /// `words` are the program, found by PATH, and its arguments, each with a zero byte behind it;
  /// `input` must outlive the object. `variable` is put into its environment, as NAME=VALUE.
  [[nodiscard]] static Expected<CommandProcess> start(
      std::span<const std::string_view> words, std::string_view variable,
      std::vector<std::span<const std::byte>> input);
  CommandProcess(CommandProcess&& other) noexcept;
  CommandProcess& operator=(CommandProcess&&) = delete;
  ~CommandProcess();

  /// Moves what it reads and writes until all of the group have ended. `stopped` is asked several
  /// times a second. Adds to `output`.
  [[nodiscard]] Outcome wait(const std::function<bool()>& stopped, const Limits& limits,
                             std::vector<std::byte>& output);

  /// Kills the programs of all objects. Only for a handler of a signal: is safe in one.
  static void kill_all();

 private:
  CommandProcess(pid_t group, FileDescriptor input, FileDescriptor output,
                 std::vector<std::span<const std::byte>> left);

  void write_input();
  void read_output(const Limits& limits, std::vector<std::byte>& output);
  /// Takes note of who has ended.
  void reap(std::uint64_t now_ns);
  [[nodiscard]] bool is_alive() const;
  void signal_all(int signal) const;
  void ask_to_end(std::uint64_t now_ns);
  void sleep(std::uint64_t now_ns) const;

  pid_t group_ = 0;  ///< also the program's own number; 0: moved from, or all is over
  FileDescriptor input_;
  FileDescriptor output_;
  FileDescriptor process_;                        ///< a pidfd, where the system has them
  std::vector<std::span<const std::byte>> left_;  ///< to be written, the last piece first
  std::optional<int> status_;
  bool output_over_ = false;
  std::uint64_t left_behind_ns_ = UINT64_MAX;  ///< until then the others of its group may go on
  std::uint64_t kill_ns_ = UINT64_MAX;
  std::uint64_t give_up_ns_ = UINT64_MAX;
};

}  // namespace rockhopper::apps::dag_node
