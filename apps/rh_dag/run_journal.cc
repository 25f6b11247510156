// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/rh_dag/run_journal.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>
#include <sys/stat.h>

namespace rockhopper::apps::dag_node {
namespace {

bool is_folder(const std::string& path) {
  struct stat status = {};
  return ::stat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode);
}

}  // namespace

RunJournal::RunJournal(std::string path, std::string worker)
    : path_(std::move(path)), worker_(std::move(worker)), folder_(is_folder(path_)) {}

RunLogWriter* RunJournal::log_of(std::string_view run, std::uint64_t nodes) {
  const auto found = logs_.find(run);
  if (found != logs_.end()) return &found->second;
  if (failure_ || (!folder_ && !logs_.empty())) return nullptr;
  const std::string path = folder_ ? fmt::format("{}/{}.{}.log", path_, run, worker_) : path_;
  auto log = RunLogWriter::create(path, {.graph = std::string(run), .nodes = nodes});
  if (!log) {
    failure_ = log.error();
    return nullptr;
  }
  return &logs_.emplace(run, std::move(*log)).first->second;
}

void RunJournal::add(const dag::NodeReport& report, std::uint64_t nodes) {
  RunLogWriter* log = log_of(report.run, nodes);
  if (log == nullptr) {
    ++left_out_;
    return;
  }
  log->write(to_line(NodeRun{.node = std::string(report.key),
                             .worker = worker_,
                             .start_ns = report.start_ns,
                             .end_ns = report.end_ns,
                             .stolen = report.stolen,
                             .attempts = report.attempts,
                             .committed = report.committed}));
}

Expected<void> RunJournal::close(std::uint64_t steals, std::uint64_t successes) {
  for (auto& [run, log] : logs_) {
    log.write(to_line(Steals{
        .worker = worker_, .attempts = std::max(steals, successes), .successes = successes}));
    auto closed = log.close();
    if (!closed && !failure_) failure_ = closed.error();
  }
  if (failure_) return tl::make_unexpected(*failure_);
  return {};
}

}  // namespace rockhopper::apps::dag_node
