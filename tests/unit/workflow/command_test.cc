// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include <csignal>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "apps/rh_dag/command_runner.h"

namespace rockhopper::apps::dag_node {
namespace {

using testing::HasSubstr;
using Bytes = std::vector<std::byte>;

Bytes bytes(std::string_view text) {
  const auto view = std::as_bytes(std::span(text));
  return {view.begin(), view.end()};
}

/// What a shell command leaves, or why it fails.
std::string run_shell(std::string_view script, std::string_view previous = {},
                      std::span<const dag::TaskInput> inputs = {}) {
  const std::string_view words[] = {"sh", "-c", script};
  const Bytes arguments = dag::emit_command(words);
  const Bytes before = bytes(previous);
  Bytes output;
  const auto done =
      make_command_runner([] { return false; })({"the key", arguments, before, inputs}, output);
  if (!done) return done.error().message;
  return {reinterpret_cast<const char*>(output.data()), output.size()};
}

TEST(Command, GetsItsInputsAndItsKey) {
  const Bytes first = bytes("one ");
  const Bytes second = bytes("two");
  const dag::TaskInput inputs[] = {{"a", first}, {"b", second}};
  EXPECT_EQ(run_shell("cat", "", inputs), "one two");
  EXPECT_EQ(run_shell("cat", "from the task before", inputs), "from the task before");
  EXPECT_EQ(run_shell("printf %s \"$RH_DAG_NODE\""), "the key");
  EXPECT_EQ(run_shell("true"), "");
}

// More than a pipe holds, both ways at once.
TEST(Command, MovesMoreThanAPipeHolds) {
  const std::string much(3'000'000, 'm');
  EXPECT_EQ(run_shell("cat; cat /dev/null", much), much);
}

TEST(Command, ItsEndIsTold) {
  EXPECT_EQ(run_shell("exit 7"), "program 'sh' ended with status 7");
  EXPECT_EQ(run_shell("kill -9 $$"), "program 'sh' was ended by signal 9");
  const std::string_view words[] = {"no-such-program-anywhere"};
  Bytes output;
  const Bytes arguments = dag::emit_command(words);
  EXPECT_THAT(
      make_command_runner([] { return false; })({"k", arguments, {}, {}}, output).error().message,
      HasSubstr("'no-such-program-anywhere' cannot be started: "));
}

// This program ignores SIGPIPE; a pipeline of a user relies on it.
TEST(Command, HasSigpipe) {
  const auto before = std::signal(SIGPIPE, SIG_IGN);
  EXPECT_EQ(run_shell("kill -PIPE $$; echo ignored"), "program 'sh' was ended by signal 13");
  (void)std::signal(SIGPIPE, before);
}

}  // namespace
}  // namespace rockhopper::apps::dag_node
