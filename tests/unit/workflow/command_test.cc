// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstdlib>
#include <functional>
#include <iterator>
#include <sstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "apps/rh_dag/command_process.h"
#include "apps/rh_dag/command_runner.h"
#include "tests/support/child_process.h"

namespace rockhopper::apps::dag_node {
namespace {

using testing::HasSubstr;
using Bytes = std::vector<std::byte>;

class Command : public testing::Test {
 protected:
  // As catch_stop_signals() has it in each program.
  void SetUp() override { before_ = std::signal(SIGPIPE, SIG_IGN); }
  void TearDown() override { (void)std::signal(SIGPIPE, before_); }

 private:
  void (*before_)(int) = SIG_DFL;
};

/// From now on pidfd_open() is refused to this process.
void forbid_pidfd() {
  sock_filter program[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_pidfd_open, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog filter{.len = std::size(program), .filter = program};
  (void)::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  (void)::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter);
}

Bytes bytes(std::string_view text) {
  const auto view = std::as_bytes(std::span(text));
  return {view.begin(), view.end()};
}

/// What a shell command leaves, or why it fails.
std::string run_shell(const dag::CommandRunner& runner, std::string_view script,
                      std::string_view previous = {}, std::span<const dag::TaskInput> inputs = {}) {
  const std::string_view words[] = {"sh", "-c", script};
  const Bytes arguments = dag::emit_command(words);
  const Bytes before = bytes(previous);
  Bytes output;
  const auto done = runner({"the key", arguments, before, inputs}, output);
  if (!done) return done.error().message;
  return {reinterpret_cast<const char*>(output.data()), output.size()};
}

/// By a runner that ends with the command.
std::string run_shell(
    std::string_view script, std::string_view previous = {},
    std::span<const dag::TaskInput> inputs = {},
    const std::function<bool()>& stopped = [] { return false; }) {
  return run_shell(make_command_runner(stopped), script, previous, inputs);
}

TEST_F(Command, GetsItsInputsAndItsKey) {
  const Bytes first = bytes("one ");
  const Bytes second = bytes("two");
  const dag::TaskInput inputs[] = {{"a", first}, {"b", second}};
  EXPECT_EQ(run_shell("cat", "", inputs), "one two");
  EXPECT_EQ(run_shell("cat", "from the task before", inputs), "from the task before");
  EXPECT_EQ(run_shell("printf %s \"$RH_DAG_NODE\""), "the key");
  EXPECT_EQ(run_shell("true"), "");
}

// More than a pipe holds, both ways at once.
TEST_F(Command, MovesMoreThanAPipeHolds) {
  const std::string much(3'000'000, 'm');
  EXPECT_EQ(run_shell("cat; cat /dev/null", much), much);
}

TEST_F(Command, ItsEndIsTold) {
  EXPECT_EQ(run_shell("exit 7"), "program 'sh' ended with status 7");
  EXPECT_EQ(run_shell("kill -9 $$"), "program 'sh' was ended by signal 9");
  const std::string_view words[] = {"no-such-program-anywhere"};
  Bytes output;
  const Bytes arguments = dag::emit_command(words);
  EXPECT_THAT(
      make_command_runner([] { return false; })({"k", arguments, {}, {}}, output).error().message,
      HasSubstr("'no-such-program-anywhere' cannot be started: "));
}

// As in a pipeline of a shell: a program may open its standard input and output by their names,
// once more, and several may write one after another.
TEST_F(Command, StandardInputAndOutputHaveTheirNames) {
  EXPECT_EQ(run_shell("echo aaaa > /dev/stdout; echo b"), "aaaa\nb\n");
  EXPECT_EQ(run_shell("echo aaaa; echo b >> /dev/stdout; echo cc > /dev/fd/1"), "aaaa\nb\ncc\n");
  EXPECT_EQ(run_shell("echo aaaa | tee /dev/stdout"), "aaaa\naaaa\n");
  EXPECT_EQ(run_shell("read x; echo $x; cat /dev/stdin", "one\ntwo\nthree\n"), "one\ntwo\nthree\n");
}

// Who wants only the beginning of its input is not kept from ending, nor told that it failed.
TEST_F(Command, InputThatIsNotWantedIsNoError) {
  const std::string much(1'000'000, 'm');
  EXPECT_EQ(run_shell("head -c 3", much), "mmm");
  EXPECT_EQ(run_shell("exec 0<&-; echo done", much), "done\n");
}

/// Numbers of processes, as a script of ours has printed them.
std::vector<pid_t> numbers_in(const std::string& text) {
  std::istringstream stream(text);
  return {std::istream_iterator<pid_t>(stream), {}};
}

bool is_there(pid_t process) { return ::kill(process, 0) == 0; }

// What a task has started ends with it and not only with the runner, whether it keeps standard
// output open or not, and listens to SIGTERM or not.
TEST_F(Command, WhatItLeavesBehindEndsWithIt) {
  const dag::CommandRunner runner = make_command_runner([] { return false; });
  for (const char* script :
       {"sleep 60 2>/dev/null & echo $!", "sleep 60 >/dev/null 2>&1 & echo $!",
        "sh -c 'sleep 60 2>/dev/null & echo $!'",
        "sh -c 'echo $$; trap \"\" TERM; exec >/dev/null 2>&1; sleep 60; sleep 60' & sleep 0.2"}) {
    SCOPED_TRACE(script);
    const auto left = numbers_in(run_shell(runner, script));
    ASSERT_EQ(left.size(), 1u);
    EXPECT_FALSE(is_there(left[0]));
  }
}

// What a child of it still writes when the program itself has ended is not lost.
TEST_F(Command, OutputOfAChildThatEndsLaterCounts) {
  EXPECT_EQ(run_shell("(sleep 0.2; echo late) & echo early"), "early\nlate\n");
}

// A daemon has a group of its own; it ends with the runner.
TEST_F(Command, ADaemonEndsWithTheRunner) {
  const auto left =
      numbers_in(run_shell("setsid sh -c 'echo $$; exec sleep 600 >/dev/null' & sleep 0.3"));
  ASSERT_EQ(left.size(), 1u);
  EXPECT_FALSE(is_there(left[0]));
}

TEST_F(Command, WhoDoesNotListenToAStopIsKilled) {
  const test::TemporaryDirectory folder;
  const std::string file = folder.path() + "/went-on";
  // What it starts ignores the signals, too.
  const std::string said = run_shell("trap '' TERM INT; sleep 8; touch " + file, "", {},
                                     [asked = 0]() mutable { return ++asked > 3; });
  EXPECT_THAT(said, HasSubstr("interrupted"));
  EXPECT_NE(::access(file.c_str(), F_OK), 0);
}

// It is ended while it writes: without an end the output would take all memory.
TEST_F(Command, OutputIsEndedAtTheLimit) {
  const std::string_view words[] = {"head", "-c", "1000000", "/dev/zero"};
  auto process = CommandProcess::start(words, "RH_DAG_NODE=k", {});
  ASSERT_TRUE(process);
  Bytes output;
  const auto outcome = process->wait([] { return false; }, {.output_bytes = 100'000}, output);
  EXPECT_TRUE(outcome.output_over);
  EXPECT_LE(output.size(), 100'000u + (64 << 10));
}

// Containers and old kernels have no pidfd.
TEST_F(Command, RunsWithoutPidfd) {
  // In a child, as the filter stays.
  EXPECT_EXIT(
      {
        forbid_pidfd();
        const bool without = ::syscall(SYS_pidfd_open, ::getpid(), 0) < 0 && errno == EPERM;
        unsigned asked = 0;
        const bool right =
            run_shell("echo a; exit 0") == "a\n" && run_shell("exit 3").ends_with("status 3") &&
            run_shell("sleep 600", "", {}, [&asked] { return ++asked > 3; }).starts_with("inter");
        std::exit(without && right ? 0 : 1);
      },
      testing::ExitedWithCode(0), "");
}

// This program ignores SIGPIPE; a pipeline of a user relies on it.
TEST_F(Command, HasSigpipe) {
  EXPECT_EQ(run_shell("kill -PIPE $$; echo ignored"), "program 'sh' was ended by signal 13");
}

}  // namespace
}  // namespace rockhopper::apps::dag_node
