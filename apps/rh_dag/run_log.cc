// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/rh_dag/run_log.h"

#include <cstdio>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "apps/common/fields.h"
#include "apps/services/dag/graph/graph_limits.h"

namespace rockhopper::apps::dag_node {
namespace {

constexpr const char* kKind = "rh-dag";
constexpr std::uint64_t kLogVersion = 1;

struct StealsLine {
  Steals steals{};
  void describe(Fields& fields) { fields.object("steals", steals); }
};

/// What one line says.
Expected<void> add_line(RunLog& log, bool is_header, bool first, std::string_view line) {
  ROCKHOPPER_TRY(const auto document, parse_json(line));
  if (is_header) {
    ROCKHOPPER_TRY(auto header, read_fields<RunHeader>(document));
    if (!first && header != log.header) {
      return fail(ErrorCode::invalid_argument, "the log is of another run than those before it");
    }
    log.header = std::move(header);
  } else if (document.contains("node")) {
    ROCKHOPPER_TRY(auto run, read_fields<NodeRun>(document));
    const std::uint64_t passed_ns = run.end_ns - run.start_ns;
    if (passed_ns > dag::kTotalTimeMaxNs - log.passed_ns) {
      return fail(ErrorCode::invalid_argument, "end_ns: all runs together take too long");
    }
    log.passed_ns += passed_ns;
    log.runs.push_back(std::move(run));
  } else if (document.contains("steals")) {
    ROCKHOPPER_TRY(auto told, read_fields<StealsLine>(document));
    log.steals.push_back(std::move(told.steals));
  } else {
    return fail(ErrorCode::invalid_argument, "the document: neither a node nor steals");
  }
  return {};
}

std::string to_text(const nlohmann::json& line) {
  return line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace

void RunHeader::describe(Fields& fields) {
  std::string kind = kKind;
  fields.text("log", kind);
  fields.require(kind == kKind, "log", "this is no log of rh-dag");
  fields.constant("version", kLogVersion);
  fields.text("graph", graph);
  fields.number("nodes", nodes, 1, UINT32_MAX);
  if (fields.has("work_ns")) fields.number("work_ns", work_ns, 0, dag::kTotalTimeMaxNs);
  if (fields.has("critical_path_ns")) {
    fields.number("critical_path_ns", critical_path_ns, 0, dag::kTotalTimeMaxNs);
  }
}

void NodeRun::describe(Fields& fields) {
  fields.text("node", node);
  fields.text("worker", worker);
  fields.number("start_ns", start_ns, 0, dag::kTotalTimeMaxNs);
  fields.number("end_ns", end_ns, 0, dag::kTotalTimeMaxNs);
  fields.require(end_ns >= start_ns, "end_ns", "is before start_ns");
  if (fields.has("stolen")) fields.flag("stolen", stolen);
  if (fields.has("attempts")) fields.number("attempts", attempts, 1, UINT32_MAX);
  if (fields.has("committed")) fields.flag("committed", committed);
}

void Steals::describe(Fields& fields) {
  fields.text("worker", worker);
  fields.number("attempts", attempts);
  fields.number("successes", successes, 0, attempts);
}

std::string to_line(const RunHeader& header) { return to_text(fields_to_json(header)); }

std::string to_line(const NodeRun& run) { return to_text(fields_to_json(run)); }

std::string to_line(const Steals& steals) { return to_text(fields_to_json(StealsLine{steals})); }

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
  ROCKHOPPER_TRY(auto file, open_output(path));
  // Whoever is killed leaves all lines that it has written.
  (void)std::setvbuf(file.get(), nullptr, _IOLBF, BUFSIZ);
  RunLogWriter writer(path, std::move(file));
  writer.write(to_line(header));
  return writer;
}

void RunLogWriter::write(const std::string& line) {
  // What fails is seen by close().
  (void)std::fwrite(line.data(), 1, line.size(), file_.get());
  (void)std::fputc('\n', file_.get());
}

Expected<void> RunLogWriter::close() { return close_output(std::move(file_), path_); }

}  // namespace rockhopper::apps::dag_node
