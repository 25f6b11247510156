// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/rh_dag/command_runner.h"

#include <chrono>
#include <csignal>
#include <fstream>
#include <iterator>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "apps/common/signals.h"
#include "apps/common/steady_clock.h"
#include "apps/rh_dag/command_process.h"
#include "apps/rh_dag/workflow_graph.h"

namespace rockhopper::apps::dag_node {
namespace {

/// What commands have started and let go (a daemon has a group of its own) becomes this process's
/// child when its parent has ended, and ends with this object.
class Orphans {
 public:
  Orphans() { (void)::prctl(PR_SET_CHILD_SUBREAPER, 1); }
  Orphans(const Orphans&) = delete;
  Orphans& operator=(const Orphans&) = delete;
  ~Orphans() {
    const std::uint64_t kill_ns = steady_now_ns() + kOrphanGraceNs;
    const std::uint64_t give_up_ns = kill_ns + kOrphanGraceNs;
    for (std::uint64_t now_ns = 0; now_ns < give_up_ns; now_ns = steady_now_ns()) {
      const std::vector<pid_t> left = children();
      if (left.empty()) return;
      for (const pid_t child : left) {
        (void)::kill(child, now_ns < kill_ns ? SIGTERM : SIGKILL);
        (void)::waitpid(child, nullptr, WNOHANG);
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
  }

 private:
  static constexpr std::uint64_t kOrphanGraceNs = 1000 * kNsPerMs;

  /// Those of the thread that orphans are given to, the process's first one. Commands that run are
  /// children of the threads that started them.
  [[nodiscard]] static std::vector<pid_t> children() {
    std::ifstream file(fmt::format("/proc/self/task/{}/children", ::getpid()));
    return {std::istream_iterator<pid_t>(file), {}};
  }
};

std::vector<std::span<const std::byte>> input_of(const dag::TaskCall& call) {
  if (!call.previous.empty()) return {call.previous};
  std::vector<std::span<const std::byte>> pieces;
  for (const dag::TaskInput& input : call.inputs) {
    pieces.push_back(input.bytes);
  }
  return pieces;
}

Expected<void> run_command(const dag::TaskCall& call, std::vector<std::byte>& output,
                           const std::function<bool()>& stopped) {
  ROCKHOPPER_TRY(const auto words, dag::parse_command(call.arguments));
  const std::string program = dag::key_text(words.front());
  ROCKHOPPER_TRY(auto process, CommandProcess::start(words, "RH_DAG_NODE=" + std::string(call.key),
                                                     input_of(call)));
  output.clear();
  const auto [status, was_stopped, output_over] =
      process.wait(stopped, {.output_bytes = kOutputBytesMax}, output);
  if (was_stopped) return tl::make_unexpected(interrupted());
  if (output_over) {
    return fail(ErrorCode::exhausted, "program {} has written more than {} bytes", program,
                kOutputBytesMax);
  }
  if (WIFSIGNALED(status)) {
    return fail(ErrorCode::io, "program {} was ended by signal {}", program, WTERMSIG(status));
  }
  if (WEXITSTATUS(status) != 0) {
    return fail(ErrorCode::io, "program {} ended with status {}", program, WEXITSTATUS(status));
  }
  return {};
}

}  // namespace

dag::CommandRunner make_command_runner(std::function<bool()> stopped) {
  on_second_stop_signal(&CommandProcess::kill_all);
  (void)std::signal(SIGPIPE, SIG_IGN);
  return [stopped = std::move(stopped), orphans = std::make_shared<Orphans>()](
             const dag::TaskCall& call, std::vector<std::byte>& output) {
    return run_command(call, output, stopped);
  };
}

}  // namespace rockhopper::apps::dag_node
