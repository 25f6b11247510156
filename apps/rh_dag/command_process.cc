// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/rh_dag/command_process.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cassert>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <utility>

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "apps/common/steady_clock.h"
#include "apps/services/dag/graph/task.h"
#include "stack/time_units.h"

namespace rockhopper::apps::dag_node {
namespace {

constexpr std::uint64_t kLeftBehindNs = 1000 * kNsPerMs;
constexpr std::uint64_t kGraceNs = 3000 * kNsPerMs;
/// Between two questions whether to stop.
constexpr int kLookMs = 100;
/// Between two looks at processes of which no descriptor tells.
constexpr int kReapMs = 5;
constexpr std::size_t kPieceBytes = 64 << 10;

/// The groups of all objects, for kill_all(). More than these are not killed by it.
std::array<std::atomic<pid_t>, 1024> groups{};
static_assert(std::atomic<pid_t>::is_always_lock_free);

void exchange_group(pid_t from, pid_t to) {
  for (std::atomic<pid_t>& group : groups) {
    pid_t expected = from;
    if (group.compare_exchange_strong(expected, to)) return;
  }
}

struct Pipe {
  FileDescriptor reader;
  FileDescriptor writer;
};

Expected<Pipe> make_pipe() {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) {
    return fail(ErrorCode::exhausted, "no pipe to a program can be made: {}", std::strerror(errno));
  }
  return Pipe{FileDescriptor(ends[0]), FileDescriptor(ends[1])};
}

/// Of this side alone: the program's end of the pipe waits, as programs expect.
void do_not_wait(const FileDescriptor& file) {
  (void)::fcntl(file.get(), F_SETFL, ::fcntl(file.get(), F_GETFL) | O_NONBLOCK);
}

/// What posix_spawn is told, freed at the end.
class SpawnPlan {
 public:
  SpawnPlan(const FileDescriptor& input, const FileDescriptor& output) {
    posix_spawn_file_actions_init(&actions_);
    posix_spawn_file_actions_adddup2(&actions_, input.get(), STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&actions_, output.get(), STDOUT_FILENO);
    posix_spawnattr_init(&attributes_);
    // This program ignores it; others rely on it.
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGPIPE);
    posix_spawnattr_setsigdefault(&attributes_, &signals);
    posix_spawnattr_setpgroup(&attributes_, 0);
    posix_spawnattr_setflags(&attributes_, POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);
  }
  SpawnPlan(const SpawnPlan&) = delete;
  SpawnPlan& operator=(const SpawnPlan&) = delete;
  ~SpawnPlan() {
    posix_spawn_file_actions_destroy(&actions_);
    posix_spawnattr_destroy(&attributes_);
  }

  [[nodiscard]] Expected<pid_t> start(std::span<const std::string_view> words,
                                      std::string_view variable) const {
    std::vector<char*> arguments;
    for (const std::string_view word : words) {
      arguments.push_back(const_cast<char*>(word.data()));
    }
    arguments.push_back(nullptr);
    std::string own(variable);
    const std::size_t name_length = own.find('=') + 1;
    std::vector<char*> environment{own.data()};
    for (char** other = environ; *other != nullptr; ++other) {
      if (std::strncmp(*other, own.data(), name_length) != 0) environment.push_back(*other);
    }
    environment.push_back(nullptr);
    pid_t child = 0;
    const int error = ::posix_spawnp(&child, arguments[0], &actions_, &attributes_,
                                     arguments.data(), environment.data());
    if (error == 0) return child;
    return fail(ErrorCode::not_found, "program {} cannot be started: {}", dag::key_text(words[0]),
                std::strerror(error));
  }

 private:
  posix_spawn_file_actions_t actions_;
  posix_spawnattr_t attributes_;
};

}  // namespace

Expected<CommandProcess> CommandProcess::start(std::span<const std::string_view> words,
                                               std::string_view variable,
                                               std::vector<std::span<const std::byte>> input) {
  ROCKHOPPER_TRY(auto to_program, make_pipe());
  ROCKHOPPER_TRY(auto from_program, make_pipe());
  do_not_wait(to_program.writer);
  do_not_wait(from_program.reader);
  ROCKHOPPER_TRY(const auto child,
                 SpawnPlan(to_program.reader, from_program.writer).start(words, variable));
  std::reverse(input.begin(), input.end());
  return CommandProcess(child, std::move(to_program.writer), std::move(from_program.reader),
                        std::move(input));
}

CommandProcess::CommandProcess(pid_t group, FileDescriptor input, FileDescriptor output,
                               std::vector<std::span<const std::byte>> left)
    : group_(group),
      input_(std::move(input)),
      output_(std::move(output)),
      process_(static_cast<int>(::syscall(SYS_pidfd_open, group, 0))),
      left_(std::move(left)) {
  exchange_group(0, group_);
}

CommandProcess::CommandProcess(CommandProcess&& other) noexcept
    : group_(std::exchange(other.group_, 0)),
      input_(std::move(other.input_)),
      output_(std::move(other.output_)),
      process_(std::move(other.process_)),
      left_(std::move(other.left_)),
      status_(other.status_),
      output_over_(other.output_over_),
      left_behind_ns_(other.left_behind_ns_),
      kill_ns_(other.kill_ns_),
      give_up_ns_(other.give_up_ns_) {}

CommandProcess::~CommandProcess() {
  if (group_ == 0) return;
  signal_all(SIGKILL);
  while (!status_) {
    reap(steady_now_ns());
    sleep(0);
  }
  exchange_group(group_, 0);
}

void CommandProcess::kill_all() {
  for (const std::atomic<pid_t>& group : groups) {
    if (const pid_t number = group.load(); number != 0) (void)::kill(-number, SIGKILL);
  }
}

CommandProcess::Outcome CommandProcess::wait(const std::function<bool()>& stopped,
                                             const Limits& limits, std::vector<std::byte>& output) {
  bool was_stopped = false;
  for (;;) {
    const std::uint64_t now_ns = steady_now_ns();
    write_input();
    read_output(limits, output);
    reap(now_ns);
    const bool over = status_ && (!output_.valid() || now_ns >= left_behind_ns_);
    // What not even the kernel can end is waited for no longer.
    if (over && (!is_alive() || now_ns >= give_up_ns_)) break;
    was_stopped = was_stopped || stopped();
    if (was_stopped || output_over_ || over) ask_to_end(now_ns);
    if (now_ns >= kill_ns_) signal_all(SIGKILL);
    sleep(now_ns);
  }
  exchange_group(group_, 0);
  group_ = 0;
  return {.status = *status_, .stopped = was_stopped, .output_over = output_over_};
}

void CommandProcess::write_input() {
  while (input_.valid()) {
    while (!left_.empty() && left_.back().empty()) {
      left_.pop_back();
    }
    ssize_t written = 0;
    if (!left_.empty()) {
      written = ::write(input_.get(), left_.back().data(), left_.back().size());
      if (written < 0 && errno == EINTR) continue;
      if (written < 0 && errno == EAGAIN) return;
      if (written > 0) {
        left_.back() = left_.back().subspan(static_cast<std::size_t>(written));
        continue;
      }
    }
    // All is written, or the program does not want the rest.
    input_ = FileDescriptor();
  }
}

void CommandProcess::read_output(const Limits& limits, std::vector<std::byte>& output) {
  while (output_.valid()) {
    const std::size_t size = output.size();
    if (size > limits.output_bytes) {
      output_over_ = true;
      output_ = FileDescriptor();
      return;
    }
    output.resize(size + kPieceBytes);
    const ssize_t got = ::read(output_.get(), output.data() + size, kPieceBytes);
    output.resize(size + static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == EAGAIN) return;
    if (got <= 0) output_ = FileDescriptor();
  }
}

void CommandProcess::reap(std::uint64_t now_ns) {
  int status = 0;
  // By its own number: it may have gone into another group.
  if (!status_ && ::waitpid(group_, &status, WNOHANG) == group_) {
    status_ = status;
    left_behind_ns_ = now_ns + kLeftBehindNs;
    process_ = FileDescriptor();
  }
  // Those whose parent has ended are this process's, if it asked for that.
  while (status_ && ::waitpid(-group_, nullptr, WNOHANG) > 0) {
  }
}

bool CommandProcess::is_alive() const { return !status_ || ::kill(-group_, 0) == 0; }

void CommandProcess::signal_all(int signal) const {
  (void)::kill(-group_, signal);
  if (!status_) (void)::kill(group_, signal);
}

void CommandProcess::ask_to_end(std::uint64_t now_ns) {
  if (kill_ns_ != UINT64_MAX) return;
  kill_ns_ = now_ns + kGraceNs;
  give_up_ns_ = kill_ns_ + kGraceNs;
  signal_all(SIGTERM);
}

void CommandProcess::sleep(std::uint64_t now_ns) const {
  // A descriptor of -1 is passed over.
  std::array<pollfd, 3> wanted{pollfd{input_.get(), POLLOUT, 0}, pollfd{output_.get(), POLLIN, 0},
                               pollfd{process_.get(), POLLIN, 0}};
  const int most_ms = process_.valid() ? kLookMs : kReapMs;
  const std::uint64_t left_ms = now_ns < kill_ns_ ? (kill_ns_ - now_ns) / kNsPerMs : 0;
  const auto wait_ms =
      static_cast<int>(std::clamp<std::uint64_t>(left_ms, 1, static_cast<std::uint64_t>(most_ms)));
  (void)::poll(wanted.data(), wanted.size(), wait_ms);
}

}  // namespace rockhopper::apps::dag_node
