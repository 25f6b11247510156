// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/rh_dag/program.h"

#include "apps/common/command_line.h"
#include "apps/common/signals.h"
#include "apps/rh_dag/commands.h"

namespace rockhopper::apps::dag_node {

namespace {

const ProgramText kText{
    "rh-dag",
    "Records and graphs of tasks in a server's memory, read and run by RDMA. Looks at recorded "
    "workflows (WfFormat 1.5), runs them, and reports on runs.",
    "  rh-dag check montage.json       what it is made of, and how fast it can be\n"
    "  rh-dag run-local montage.json   here, one task after another: the digest\n"
    "  rh-dag run-local montage.json --scale 0.001 --size-scale 0.01 --log run.log\n"
    "  rh-dag report run.log --workflow montage.json --gantt run.svg\n\n"
    "  rh-dag serve                    on one terminal, and\n"
    "  rh-dag put greeting hello       on another\n"
    "  rh-dag get greeting\n"};

}  // namespace

int program(int argc, char** argv) {
  CommandLine line(argc, argv, kText);
  line.app().require_command();
  Commands commands;
  for (const auto add : {add_workflow_commands, add_serve_command, add_work_command,
                         add_load_command, add_run_commands, add_record_commands}) {
    add(line.app(), commands);
  }
  if (const auto status = line.parse()) return *status;
  catch_stop_signals();
  for (const auto& command : commands) {
    if (command->given()) return command->run(line);
  }
  return kExitUsage;
}

}  // namespace rockhopper::apps::dag_node
