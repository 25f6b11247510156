// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/rh_dag/work_options.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>
#include <unistd.h>

#include "apps/services/dag/graph/edge.h"
#include "apps/services/dag/schedule/node_record.h"

namespace rockhopper::apps::dag_node {
namespace {

constexpr const char* kTasks = "Tasks";
constexpr const char* kWorker = "Worker";
constexpr std::size_t kNameMax = 31;

std::string default_name() {
  std::array<char, 256> host{};
  if (::gethostname(host.data(), host.size() - 1) != 0) host[0] = '\0';
  const std::string process = fmt::format("-{}", ::getpid());
  std::string name = host.data();
  std::replace_if(
      name.begin(), name.end(), [](char c) { return !dag::is_run_name(std::string_view(&c, 1)); },
      '-');
  name.resize(std::min(name.size(), kNameMax - process.size()));
  return name.empty() ? "worker" + process : name + process;
}

}  // namespace

void add_work_options(OptionSet app, WorkOptions& options) {
  app.add_option("--slots", options.slots, "nodes that are run at a time, a thread each")
      .range(1, 1024)
      .type_name("N")
      .group(kTasks);
  app.add_flag("--inline", options.runs_inline,
               "run tasks in the thread that also moves the packets: the fastest way for tasks "
               "of microseconds, and none for those that take a part of a lease")
      .group(kTasks);
  app.add_flag("--allow-commands", options.allow_commands,
               "run programs that graphs name; whoever can load a graph can have any")
      .group(kTasks);
  app.add_option("--compute", options.compute,
                 "how recorded times pass: sleep leaves the CPU to others, spin keeps it busy")
      .one_of({"sleep", "spin"})
      .group(kTasks);
  app.add_option("--name", options.name,
                 "for people and logs. Default: the machine's name and the process's number")
      .group(kWorker);
  app.add_option("--label", options.labels,
                 "it runs nodes with an affinity to this number; may be repeated")
      .range(0u, dag::kSameWorker - 1)
      .type_name("N")
      .one_value_each()
      .group(kWorker);
  app.add_option("--window", options.window, "nodes that it has at a time, at most")
      .range(1, 1024)
      .type_name("N")
      .group(kWorker);
  app.add_flag("--no-steals", options.no_steals, "take nothing from other workers").group(kWorker);
  app.add_option("--log", options.log,
                 "write down when each node ran, for report; into a folder, a file for each run")
      .type_name("FILE")
      .group(kWorker);
  app.add_option("--runs", options.runs, "end when so many runs at home have ended")
      .positive()
      .type_name("N")
      .group(kWorker);
  app.add_flag("--until-idle", options.until_idle,
               "end when all runs at home have ended, of one "
               "at least")
      .group(kWorker);
  options.connect.record_max = kSmallRecordMax;
  add_connect_options(app, options.connect);
}

Expected<void> finish_options(WorkOptions& options) {
  if (options.name.empty()) options.name = default_name();
  if (!dag::is_run_name(options.name) || options.name.size() > kNameMax) {
    return fail(ErrorCode::invalid_argument,
                "--name {}: 1 to {} letters, digits, '.', '_' and '-' are a name", options.name,
                kNameMax);
  }
  if (options.runs_inline && options.slots > 1) {
    return fail(ErrorCode::invalid_argument, "--inline and --slots exclude each other");
  }
  return {};
}

}  // namespace rockhopper::apps::dag_node
