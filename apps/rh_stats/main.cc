// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <ctime>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <unistd.h>

#include "apps/common/command_line.h"
#include "apps/common/option_set.h"
#include "apps/common/signals.h"
#include "apps/common/steady_clock.h"
#include "apps/rh_stats/program.h"
#include "apps/rh_stats/sockets.h"
#include "apps/rh_stats/view.h"

namespace {

using namespace rockhopper;
using namespace rockhopper::apps;
using namespace rockhopper::apps::stats;

const ProgramText kText{
    "rh-stats",
    "Shows the counters of running Rockhopper programs, read from their DPDK telemetry.",
    "  rh-stats --list                   what runs\n"
    "  rh-stats                          counters of all programs that are not 0\n"
    "  rh-stats --describe 'drop_*'      what these counters count\n"
    "  rh-stats --pid 4711 --group port0 --watch 1\n"
    "  rh-stats --json --watch 1 --count 10 > rates.jsonl\n"};

struct Options {
  bool list = false;
  std::string file_prefix;
  std::optional<std::int64_t> pid;
  std::vector<std::string> groups;
  bool describe = false;
  std::string pattern = "*";
  double watch_s = 0;
  std::uint64_t count = 0;
  bool zeros = false;
  bool json = false;
};

/// A program and the counters that it showed last.
struct Watched {
  Program program;
  std::optional<Snapshot> last{};
};

void add_options(OptionSet app, Options& options) {
  app.add_flag("--list", options.list, "list the DPDK programs that run, and their groups");
  app.add_option("--file-prefix", options.file_prefix, "only the program with this EAL file prefix")
      .type_name("NAME");
  app.add_option("--pid", options.pid, "only the program with this process id")
      .positive()
      .type_name("N");
  app.add_option("--group", options.groups, "only this group of counters; may be repeated")
      .type_name("NAME")
      .one_value_each();
  const Option described = app.add_flag("--describe", options.describe,
                                        "say what the counters count, in place of their values");
  app.add_option("pattern", options.pattern,
                 "with --describe: only counters whose name matches this pattern of the shell")
      .type_name("PATTERN")
      .needs(described);
  app.add_option("--watch", options.watch_s, "repeat every so many seconds, with rates")
      .range(0.05, 86400.0)
      .type_name("SECONDS");
  app.add_option("--count", options.count, "end after so many repetitions. Default: no end")
      .type_name("N");
  app.add_flag("--all", options.zeros, "counters that are 0, too");
  app.add_flag("--json", options.json, "print a JSON object instead, with --watch one a line");
}

void note(const Error& error) { fmt::print(stderr, "rh-stats: skipped {}\n", error.message); }

std::vector<Watched> connect_programs(const Options& options) {
  std::vector<Watched> programs;
  std::size_t dead = 0;
  for (const TelemetrySocket& socket : find_sockets(runtime_parents())) {
    if (!options.file_prefix.empty() && socket.file_prefix != options.file_prefix) continue;
    auto program = Program::connect(socket);
    if (!program && program.error().code == ErrorCode::not_found) {
      ++dead;
    } else if (!program) {
      note(program.error());
    } else if (!options.pid || *options.pid == program->pid()) {
      programs.push_back({std::move(*program)});
    }
  }
  if (dead > 0) {
    fmt::print(stderr, "rh-stats: skipped {} sockets of programs that have ended\n", dead);
  }
  return programs;
}

Expected<void> list(const Options& options, const std::vector<Watched>& programs) {
  if (options.json) {
    Json all = Json::array();
    for (const Watched& watched : programs) all.push_back(program_to_json(watched.program));
    fmt::print("{}\n", Json{{"programs", all}}.dump());
    return {};
  }
  fmt::print("{:>8}  {:<16} {:<24} {}\n", "PID", "PROGRAM", "FILE PREFIX", "GROUPS");
  for (const Watched& watched : programs) {
    const Program& program = watched.program;
    std::string groups = fmt::format("{}", fmt::join(program.groups(), " "));
    if (groups.empty()) groups = "(none: not a Rockhopper program)";
    fmt::print("{:>8}  {:<16} {:<24} {}\n", program.pid(), program.name(),
               program.socket().file_prefix, groups);
  }
  return {};
}

/// Leaves the programs that have counters, and fails where nothing is left to show.
Expected<void> choose(const Options& options, std::vector<Watched>& programs) {
  std::erase_if(programs, [](const Watched& w) { return w.program.groups().empty(); });
  if (programs.empty()) {
    const bool filtered = options.pid || !options.file_prefix.empty();
    return fail(ErrorCode::not_found, "no Rockhopper program of this user runs{}",
                filtered ? " with that --pid or --file-prefix; see rh-stats --list" : "");
  }
  for (const std::string& group : options.groups) {
    const bool known = std::any_of(programs.begin(), programs.end(), [&](const Watched& w) {
      const auto& names = w.program.groups();
      return std::find(names.begin(), names.end(), group) != names.end();
    });
    if (!known) {
      return fail(ErrorCode::not_found, "no program has a group {}; there are, in {}: {}", group,
                  programs.front().program.name(),
                  fmt::join(programs.front().program.groups(), ", "));
    }
  }
  return {};
}

/// Reads and shows every program once. Those that have ended are taken out.
void show(const Options& options, std::vector<Watched>& programs) {
  Json all = Json::array();
  if (!options.json && options.watch_s > 0 && isatty(STDOUT_FILENO) != 0) {
    fmt::print("\033[H\033[2J");
  }
  std::erase_if(programs, [&](Watched& watched) {
    auto now = watched.program.read(options.groups);
    if (!now) {
      note({now.error().code, fmt::format("{} (pid {}): {}", watched.program.name(),
                                          watched.program.pid(), now.error().message)});
      return true;
    }
    const Snapshot* before = watched.last ? &*watched.last : nullptr;
    if (options.json) {
      all.push_back(counters_to_json(watched.program, *now, before));
    } else {
      print_counters(stdout, watched.program, *now, before, options.zeros);
    }
    watched.last = std::move(*now);
    return false;
  });
  if (options.json && !programs.empty()) fmt::print("{}\n", Json{{"programs", all}}.dump());
  (void)std::fflush(stdout);
}

/// Says what the counters of every program count, each in the words of the program itself.
Expected<void> describe(const Options& options, std::vector<Watched>& programs) {
  Json all = Json::array();
  bool any = false;
  for (Watched& watched : programs) {
    auto texts = watched.program.describe(options.groups);
    if (!texts) {
      note({texts.error().code, fmt::format("{} (pid {}): {}", watched.program.name(),
                                            watched.program.pid(), texts.error().message)});
      continue;
    }
    keep_matching(*texts, options.pattern);
    if (texts->empty()) continue;
    any = true;
    if (options.json) {
      all.push_back(texts_to_json(watched.program, *texts));
    } else {
      print_texts(stdout, watched.program, *texts);
    }
  }
  if (!any) {
    return fail(ErrorCode::not_found, "no program tells of a counter whose name matches {}",
                options.pattern);
  }
  if (options.json) fmt::print("{}\n", Json{{"programs", all}}.dump());
  return {};
}

/// Returns false if a stop was requested meanwhile.
bool wait_until(std::uint64_t time_ns) {
  while (!stop_requested()) {
    const std::uint64_t now_ns = steady_now_ns();
    if (now_ns >= time_ns) return true;
    const auto pause_ns = std::min<std::uint64_t>(time_ns - now_ns, 100 * kNsPerMs);
    const timespec duration{0, static_cast<long>(pause_ns)};
    clock_nanosleep(CLOCK_MONOTONIC, 0, &duration, nullptr);
  }
  return false;
}

Expected<void> watch(const Options& options, std::vector<Watched>& programs) {
  const auto interval_ns = static_cast<std::uint64_t>(options.watch_s * 1e9);
  std::uint64_t next_ns = steady_now_ns();
  for (std::uint64_t done = 0;;) {
    show(options, programs);
    if (programs.empty()) {
      if (options.count == 0 && done > 0) return {};
      return fail(ErrorCode::not_found, "no program is left after {} of {} repetitions", done,
                  options.count);
    }
    if (++done == options.count) return {};
    next_ns += interval_ns;
    if (!wait_until(next_ns)) return {};
  }
}

Expected<void> run(const Options& options) {
  std::vector<Watched> programs = connect_programs(options);
  if (options.list) return list(options, programs);
  ROCKHOPPER_TRY(choose(options, programs));
  if (options.describe) return describe(options, programs);
  if (options.watch_s > 0) return watch(options, programs);
  show(options, programs);
  if (programs.empty()) return fail(ErrorCode::not_found, "no program is left");
  return {};
}

}  // namespace

int main(int argc, char** argv) {
  CommandLine line(argc, argv, kText);
  Options options;
  add_options(line.app(), options);
  if (const auto status = line.parse()) return *status;
  if (!line.arguments().embedded) {
    return line.usage_error({ErrorCode::invalid_argument, "takes no EAL arguments; leave out --"});
  }
  if (options.describe && (options.list || options.watch_s > 0)) {
    return line.usage_error(
        {ErrorCode::invalid_argument, "--describe goes with neither --list nor --watch"});
  }
  if (options.count > 0 && options.watch_s == 0) {
    return line.usage_error({ErrorCode::invalid_argument, "--count needs --watch"});
  }
  catch_stop_signals();
  return line.finish(run(options));
}
