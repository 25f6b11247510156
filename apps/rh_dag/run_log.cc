// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/rh_dag/run_log.h"

#include <cerrno>
#include <cstring>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "apps/common/json_document.h"
#include "apps/common/json_object.h"
#include "apps/services/dag/graph/graph_limits.h"

namespace rockhopper::apps::workflow {
namespace {

constexpr const char* kKind = "rh-dag";
constexpr std::uint64_t kVersion = 1;

RunHeader take_header(JsonObject& object) {
  RunHeader header;
  if (object.text("log") != kKind) object.fail("log", "this is no log of rh-dag");
  if (object.number("version", 0, UINT64_MAX) != kVersion) {
    object.fail("version", "is another one than this program's");
  }
  header.graph = object.text("graph");
  header.nodes = object.number("nodes", 1, UINT32_MAX);
  header.work_ns = object.number("work_ns", 0, dag::kTotalTimeMaxNs, 0);
  header.critical_path_ns = object.number("critical_path_ns", 0, dag::kTotalTimeMaxNs, 0);
  return header;
}

NodeRun take_run(JsonObject& object) {
  NodeRun run;
  run.node = object.text("node");
  run.worker = object.text("worker");
  run.start_ns = object.number("start_ns", 0, dag::kTotalTimeMaxNs);
  run.end_ns = object.number("end_ns", 0, dag::kTotalTimeMaxNs);
  run.stolen = object.flag("stolen", false);
  run.attempts = object.number("attempts", 1, UINT32_MAX, 1);
  run.committed = object.flag("committed", true);
  if (run.end_ns < run.start_ns) object.fail("end_ns", "is before start_ns");
  return run;
}

Steals take_steals(JsonObject& object) {
  Steals steals;
  steals.worker = object.text("worker");
  steals.attempts = object.number("attempts", 0, UINT64_MAX);
  steals.successes = object.number("successes", 0, steals.attempts);
  return steals;
}

/// What one line says.
Expected<void> add_line(RunLog& log, bool is_header, bool first, std::string_view line) {
  ROCKHOPPER_TRY(const auto document, parse_json(line));
  JsonErrors errors;
  JsonObject object(document, "", errors);
  if (is_header) {
    RunHeader header = take_header(object);
    if (!errors.any() && !first && header != log.header) {
      return fail(ErrorCode::invalid_argument, "the log is of another run than those before it");
    }
    log.header = std::move(header);
  } else if (object.has("node")) {
    log.runs.push_back(take_run(object));
    const std::uint64_t passed_ns = log.runs.back().end_ns - log.runs.back().start_ns;
    if (!errors.any() && passed_ns > dag::kTotalTimeMaxNs - log.passed_ns) {
      object.fail("end_ns", "all runs together take too long");
    }
    if (!errors.any()) log.passed_ns += passed_ns;
  } else if (auto steals = object.object("steals")) {
    log.steals.push_back(take_steals(*steals));
  } else {
    object.fail("neither a node nor steals");
  }
  if (errors.any()) return tl::make_unexpected(errors.first());
  return {};
}

}  // namespace

std::string to_line(const RunHeader& header) {
  return nlohmann::json{{"log", kKind},
                        {"version", kVersion},
                        {"graph", header.graph},
                        {"nodes", header.nodes},
                        {"work_ns", header.work_ns},
                        {"critical_path_ns", header.critical_path_ns}}
      .dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string to_line(const NodeRun& run) {
  return nlohmann::json{{"node", run.node},          {"worker", run.worker},
                        {"start_ns", run.start_ns},  {"end_ns", run.end_ns},
                        {"stolen", run.stolen},      {"attempts", run.attempts},
                        {"committed", run.committed}}
      .dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string to_line(const Steals& steals) {
  return nlohmann::json{
      {"steals",
       {{"worker", steals.worker}, {"attempts", steals.attempts}, {"successes", steals.successes}}}}
      .dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

Expected<void> add_log(RunLog& log, bool first, std::string_view text) {
  if (text.empty()) return fail(ErrorCode::invalid_argument, "the log is empty");
  for (std::size_t number = 1; !text.empty(); ++number) {
    const std::size_t end = text.find('\n');
    // A worker that was killed while it wrote.
    if (end == std::string_view::npos && number > 1) {
      ++log.torn_lines;
      break;
    }
    auto added = add_line(log, number == 1, first, text.substr(0, end));
    if (!added) {
      return fail(ErrorCode::invalid_argument, "line {}: {}", number, added.error().message);
    }
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
  return {};
}

Expected<RunLog> read_logs(std::span<const std::string> paths) {
  RunLog log;
  bool first = true;
  for (const std::string& path : paths) {
    ROCKHOPPER_TRY(const auto text, read_text_file(path));
    if (auto added = add_log(log, first, text); !added) {
      return fail(added.error().code, "{}: {}", path, added.error().message);
    }
    first = false;
  }
  return log;
}

Expected<RunLogWriter> RunLogWriter::create(const std::string& path, const RunHeader& header) {
  std::FILE* file = std::fopen(path.c_str(), "we");
  if (file == nullptr) {
    return fail(ErrorCode::io, "{} cannot be written: {}", path, std::strerror(errno));
  }
  // Whoever is killed leaves all lines that it has written.
  (void)std::setvbuf(file, nullptr, _IOLBF, BUFSIZ);
  RunLogWriter writer(path, file);
  writer.write(to_line(header));
  return writer;
}

void RunLogWriter::write(const std::string& line) {
  // What fails is seen by close().
  (void)std::fwrite(line.data(), 1, line.size(), file_.get());
  (void)std::fputc('\n', file_.get());
}

Expected<void> RunLogWriter::close() {
  std::FILE* file = file_.release();
  const bool failed = std::ferror(file) != 0;
  if (std::fclose(file) != 0 || failed) {
    return fail(ErrorCode::io, "{} cannot be written: {}", path_, std::strerror(errno));
  }
  return {};
}

}  // namespace rockhopper::apps::workflow
