// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/rh_dag/record_commands.h"

#include <algorithm>
#include <cstdio>
#include <iterator>
#include <memory>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "apps/common/json_bytes.h"
#include "apps/common/json_document.h"
#include "apps/rh_dag/batch.h"
#include "apps/rh_dag/quantities.h"
#include "apps/rh_dag/records.h"
#include "apps/rh_dag/run_output.h"
#include "apps/services/dag/record.h"

namespace rockhopper::apps::dag_node {
namespace {

constexpr Range kCapacity{.least = 1, .most = dag::kCapacityMax};

std::string read_standard_input() {
  std::string text;
  char buffer[1 << 16];
  for (std::size_t got = 0; (got = std::fread(buffer, 1, sizeof buffer, stdin)) > 0;) {
    text.append(buffer, got);
  }
  return text;
}

Expected<std::vector<std::byte>> value_of(const RecordOptions& options) {
  std::string text = options.value;
  if (!options.file.empty()) {
    if (options.has_value) {
      return fail(ErrorCode::invalid_argument, "a VALUE and --file exclude each other");
    }
    if (options.file == "-") {
      text = read_standard_input();
    } else {
      ROCKHOPPER_TRY(text, read_text_file(options.file));
    }
  } else if (!options.has_value) {
    return fail(ErrorCode::invalid_argument, "a VALUE or --file is needed");
  }
  if (text.size() > dag::kCapacityMax) {
    return fail(ErrorCode::invalid_argument, "a record has {} bytes at most, not {}",
                dag::kCapacityMax, text.size());
  }
  const auto bytes = std::as_bytes(std::span(text));
  return std::vector<std::byte>(bytes.begin(), bytes.end());
}

Expected<RecordResult> run(Records& records, const RecordOptions& options, const RecordTask& task) {
  if (!options.output) return records.run(task);
  return read_output(records, task.key);
}

/// The data of one key is written as it is; of several, each is a line.
void print(const RecordTask& task, const RecordResult& result, bool json, bool alone) {
  if (json) {
    fmt::print("{}\n", to_json(task, result).dump());
  } else if (task.verb == Verb::get && alone && result.status == dag::Status::ok) {
    (void)std::fwrite(result.data.data(), 1, result.data.size(), stdout);
  } else {
    fmt::print("{}\n", to_line(task, result));
  }
}

Expected<void> read_many(const RecordOptions& options, const Site& site, Records& records) {
  ROCKHOPPER_TRY(auto series, records.read_series(options.keys, options.repeat));
  fmt::print("{}\n", site.connect.json ? series.to_json().dump() : series.to_line());
  if (series.mixed() > 0) {
    return fail(ErrorCode::invalid_state, "{} reads brought other data of the same version",
                series.mixed());
  }
  if (series.failed() > 0) {
    return fail(ErrorCode::invalid_state, "{} reads failed", series.failed());
  }
  return {};
}

Expected<void> run_all(const RecordOptions& options, const RecordWork& work, const Site& site,
                       Records& records) {
  if (options.repeat > 0) return read_many(options, site, records);
  std::string first_failure;
  std::size_t failed = 0;
  for (const RecordTask& task : work.tasks) {
    ROCKHOPPER_TRY(auto result, run(records, options, task));
    const bool good = result.status == dag::Status::ok;
    if (good || site.connect.json || work.tasks.size() > 1) {
      print(task, result, site.connect.json, work.tasks.size() == 1);
    }
    if (!good && failed++ == 0) first_failure = to_line(task, result);
  }
  if (failed == 0) return {};
  if (failed == 1) return fail(ErrorCode::invalid_state, "{}", first_failure);
  return fail(ErrorCode::invalid_state, "{}, and {} more", first_failure, failed - 1);
}

void add_keys(OptionSet app, RecordOptions& options) {
  app.add_option("key", options.keys, "keys of records").required().type_name("KEY");
}

}  // namespace

void add_get_options(OptionSet app, RecordOptions& options) {
  add_keys(app, options);
  app.add_option("--repeat", options.repeat,
                 "READ the keys in turn, so many times altogether, and tell the rate")
      .range(std::uint64_t{1}, std::uint64_t{1'000'000'000'000})
      .type_name("N");
  app.add_option("--window", options.window, "with --repeat: READs at a time")
      .range(1, 4096)
      .type_name("N");
  app.add_flag("--output", options.output,
               "the keys are RUN/NODE: what these nodes have written, by its pointer");
  add_connect_options(app, options.connect);
}

void add_value_options(OptionSet app, RecordOptions& options, Verb verb) {
  app.add_option("key", options.key, "the record's key").required().type_name("KEY");
  app.add_option_function(
         "value",
         [&options](const std::string& value) {
           options.value = value;
           options.has_value = true;
         },
         "the data")
      .type_name("VALUE");
  app.add_option("--file", options.file, "the data is what a file has; - is standard input")
      .type_name("FILE");
  if (verb != Verb::update) {
    app.add_option("--capacity", options.capacity, "room for later updates, as 4KiB")
        .type_name("BYTES");
  }
  add_connect_options(app, options.connect);
}

void add_delete_options(OptionSet app, RecordOptions& options) {
  add_keys(app, options);
  add_connect_options(app, options.connect);
}

void add_batch_options(OptionSet app, RecordOptions& options) {
  app.add_option("file", options.batch, "its lines; - is standard input").type_name("FILE");
  app.add_option("--window", options.window, "of read: READs at a time")
      .range(1, 4096)
      .type_name("N");
  add_connect_options(app, options.connect);
}

Expected<RecordWork> make_work(const RecordOptions& options, Verb verb) {
  RecordWork work;
  if (options.output && options.repeat > 0) {
    return fail(ErrorCode::invalid_argument, "--output and --repeat exclude each other");
  }
  std::vector<std::string> keys = options.keys;
  if (verb != Verb::get && verb != Verb::erase) keys = {options.key};
  for (const std::string& key : keys) {
    ROCKHOPPER_TRY(check_key(key));
    if (options.output) ROCKHOPPER_TRY(check_node_key(key));
    work.tasks.push_back({.verb = verb, .key = key});
  }
  if (verb == Verb::get || verb == Verb::erase) return work;
  RecordTask& task = work.tasks.front();
  ROCKHOPPER_TRY(task.data, value_of(options));
  if (!options.capacity.empty()) {
    std::uint64_t capacity = 0;
    ROCKHOPPER_TRY(read_bytes("--capacity", options.capacity, kCapacity, capacity));
    task.capacity = static_cast<std::uint32_t>(capacity);
  }
  return work;
}

Expected<void> run_tasks(const RecordOptions& options, const RecordWork& work, const Site& site) {
  ROCKHOPPER_TRY(auto placement, options.output ? site.connect.make_home_placement()
                                                : site.connect.make_placement());
  const std::uint16_t operations = options.repeat > 0 ? options.window : std::uint16_t{1};
  ROCKHOPPER_TRY(auto records, Records::open(site.connect, site.config, site.arguments,
                                             std::move(placement), operations));
  auto result = run_all(options, work, site, *records);
  records->close();
  if (site.connect.endpoint.stats_s > 0) records->connection().print_statistics(stderr);
  return result;
}

Expected<void> run_batch(const RecordOptions& options, const Site& site) {
  ROCKHOPPER_TRY(auto placement, site.connect.make_placement());
  ROCKHOPPER_TRY(auto records, Records::open(site.connect, site.config, site.arguments,
                                             std::move(placement), options.window));
  auto result = run_batch(*records, options.batch, site.connect.json);
  records->close();
  if (site.connect.endpoint.stats_s > 0) records->connection().print_statistics(stderr);
  return result;
}

}  // namespace rockhopper::apps::dag_node
