// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/rh_run/program.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <unistd.h>

#include "apps/common/exit_status.h"
#include "apps/common/option_set.h"
#include "apps/common/version.h"
#include "apps/rh_run/check.h"
#include "apps/rh_run/environment.h"
#include "apps/rh_run/options.h"

namespace rockhopper::apps::launcher {

namespace {

// As shells have them, and env(1).
constexpr int kExitCannotRun = 126;
constexpr int kExitNotFound = 127;

constexpr char kFooter[] =
    "EXAMPLES\n"
    "  rh-run ibv_devinfo                one device, rh0, of all this user runs\n"
    "  rh-run ib_write_bw                on one terminal\n"
    "  rh-run ib_write_bw localhost      on another\n"
    "  rh-run --uplink udp ib_write_bw -x 0 HOST    to a host where the same waits\n"
    "  rh-run --pcap run-%p.pcapng --faults loss=1% ib_send_bw\n"
    "  rh-run --check ucx_perftest       whether all is there that it needs\n"
    "  ROCKHOPPER_VERBS=off rh-run ibv_devices      the system's devices\n\n"
    "EXIT STATUS\n"
    "  that of the command, which takes this program's place; else\n"
    "  1    --check found something missing, or the command could not be prepared\n"
    "  2    bad arguments\n"
    "  126  the command is there and cannot be run\n"
    "  127  there is no such command";

int complain(const Error& error, int status) {
  fmt::print(stderr, "rh-run: {}{}\n", error.message,
             status == kExitUsage ? " (see rh-run --help)" : "");
  return status;
}

int cannot_run(const Error& error) {
  return complain(error, error.code == ErrorCode::not_found ? kExitNotFound : kExitCannotRun);
}

int execute(const std::vector<std::string>& command) {
  const auto program = find_program(command.front());
  if (!program) return cannot_run(program.error());
  std::vector<char*> arguments;
  arguments.reserve(command.size() + 1);
  for (const std::string& argument : command) {
    arguments.push_back(const_cast<char*>(argument.c_str()));
  }
  arguments.push_back(nullptr);
  execvp(program->c_str(), arguments.data());  // a file that is no program is run by sh
  const int error = errno;
  const std::string interpreter = interpreter_of(*program);
  fmt::print(stderr, "rh-run: {}: {}{}\n", *program, std::strerror(error),
             interpreter.empty() ? "" : " (" + interpreter + " is to run it)");
  return kExitCannotRun;
}

int run(const Options& options, const std::vector<std::string>& command) {
  const auto folder = library_folder();
  const auto off = is_off();
  if (!off) return complain(off.error(), kExitUsage);
  if (*off && !options.check) {
    if (folder) clear_environment(*folder);
    return execute(command);
  }
  if (!folder) return complain(folder.error(), kExitFailed);
  if (auto set = set_environment(options, *folder); !set) return complain(set.error(), kExitFailed);
  if (!options.check) return execute(command);
  const auto program = find_program(command.front());
  if (!program) return cannot_run(program.error());
  if (auto good = check_program(*program); !good) return complain(good.error(), kExitFailed);
  return kExitOk;
}

}  // namespace

int program(int argc, char** argv) {
  const Split split = split_command(argc, argv);
  OptionParser parser({.name = "rh-run",
                       .summary =
                           "Runs a program that speaks verbs on Rockhopper's device, without "
                           "an RNIC, a kernel module or root rights: rh-run [options] [--] "
                           "COMMAND [arguments]",
                       .version = fmt::format("rh-run {}", kVersion),
                       .footer = kFooter});
  Options options;
  add_options(parser.options(), options);
  const auto outcome = parser.parse(split.own);
  if (!outcome) return complain(outcome.error(), kExitUsage);
  if (*outcome == OptionParser::Outcome::shown) {
    const auto written = write_out();
    return written ? kExitOk : complain(written.error(), kExitFailed);
  }
  if (const auto good = check(options); !good) return complain(good.error(), kExitUsage);
  if (split.command.empty()) {
    return complain({ErrorCode::invalid_argument, "no command to run"}, kExitUsage);
  }
  return run(options, split.command);
}

}  // namespace rockhopper::apps::launcher
