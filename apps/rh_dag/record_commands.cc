// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include <cstdio>
#include <iostream>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "apps/common/json.h"
#include "apps/rh_dag/batch.h"
#include "apps/rh_dag/commands.h"
#include "apps/rh_dag/record_task.h"
#include "apps/rh_dag/records.h"
#include "apps/rh_dag/run_output.h"
#include "apps/services/dag/record.h"

namespace rockhopper::apps::dag_node {
namespace {

constexpr Range kCapacity{.least = 1, .most = dag::kCapacityMax};

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

/// READs the keys in turn, `count` times altogether.
Expected<void> read_many(Records& records, const std::vector<std::string>& keys,
                         std::uint64_t count, bool json) {
  ROCKHOPPER_TRY(auto series, records.read_series(keys, count));
  fmt::print("{}\n", json ? series.to_json().dump() : series.to_line());
  if (series.mixed() > 0) {
    return fail(ErrorCode::invalid_state, "{} reads brought other data of the same version",
                series.mixed());
  }
  if (series.failed() > 0) {
    return fail(ErrorCode::invalid_state, "{} reads failed", series.failed());
  }
  return {};
}

/// Does the tasks one after another. `outputs`: their keys are nodes', whose outputs are wanted.
Expected<void> run_tasks(Records& records, const std::vector<RecordTask>& tasks, bool outputs,
                         bool json) {
  std::string first_failure;
  std::size_t failed = 0;
  for (const RecordTask& task : tasks) {
    ROCKHOPPER_TRY(auto result, outputs ? read_output(records, task.key) : records.run(task));
    const bool good = result.status == dag::Status::ok;
    if (good || json || tasks.size() > 1) print(task, result, json, tasks.size() == 1);
    if (!good && failed++ == 0) first_failure = to_line(task, result);
  }
  if (failed == 0) return {};
  if (failed == 1) return fail(ErrorCode::invalid_state, "{}", first_failure);
  return fail(ErrorCode::invalid_state, "{}, and {} more", first_failure, failed - 1);
}

/// A command that does something with records, which `work` is given.
template <typename Work>
Expected<void> with_records(const Site& site, Expected<dag::Placement> placement,
                            std::uint16_t operations, Work work) {
  ROCKHOPPER_TRY(placement);
  ROCKHOPPER_TRY(auto records, Records::open(site.connect, site.config, site.arguments,
                                             std::move(*placement), operations));
  Expected<void> result = work(*records);
  records->close();
  if (site.connect.endpoint.stats_s > 0) records->connection().print_statistics(stderr);
  return result;
}

/// `get` and `delete`.
class KeysCommand final : public ClientCommand {
 public:
  KeysCommand(const OptionSet& app, Verb verb, std::string_view summary)
      : ClientCommand(app, name_of(verb), summary), verb_(verb) {
    options().add_option("key KEY", keys_, "keys of records").required();
    if (verb == Verb::get) add_get_options();
    add_connection();
  }

 private:
  void add_get_options() {
    options()
        .add_option("--repeat N", repeat_,
                    "READ the keys in turn, so many times altogether, and tell the rate")
        .range(std::uint64_t{1}, std::uint64_t{1'000'000'000'000});
    options().add_option("--window N", window_, "with --repeat: READs at a time").range(1, 4096);
    options().add_flag("--output", output_,
                       "the keys are RUN/NODE: what these nodes have written, by its pointer");
  }

  [[nodiscard]] Expected<void> prepare() override {
    ROCKHOPPER_TRY(
        refuse_if({{output_ && repeat_ > 0, "--output and --repeat exclude each other"}}));
    for (const std::string& key : keys_) {
      ROCKHOPPER_TRY(check_key(key));
      if (output_) ROCKHOPPER_TRY(check_node_key(key));
      tasks_.push_back({.verb = verb_, .key = key});
    }
    return {};
  }

  [[nodiscard]] Expected<void> execute(const Site& site) override {
    const ConnectOptions& connect = site.connect;
    return with_records(site, output_ ? connect.make_home_placement() : connect.make_placement(),
                        repeat_ > 0 ? window_ : std::uint16_t{1}, [&](Records& records) {
                          return repeat_ > 0 ? read_many(records, keys_, repeat_, connect.json)
                                             : run_tasks(records, tasks_, output_, connect.json);
                        });
  }

  Verb verb_;
  std::vector<std::string> keys_;
  std::uint64_t repeat_ = 0;  ///< 0: each key once, and its data
  std::uint16_t window_ = 16;
  bool output_ = false;  ///< the keys are those of nodes, whose outputs are wanted
  std::vector<RecordTask> tasks_;
};

/// `put`, `create` and `update`.
class ValueCommand final : public ClientCommand {
 public:
  ValueCommand(const OptionSet& app, Verb verb, std::string_view summary)
      : ClientCommand(app, name_of(verb), summary), task_{.verb = verb} {
    options().add_option("key KEY", task_.key, "the record's key").required();
    options().add_option_function(
        "value VALUE", [this](const std::string& value) { value_ = value; }, "the data");
    options().add_option("--file FILE", file_, "the data is what a file has; - is standard input");
    if (verb != Verb::update) {
      options().add_bytes("--capacity BYTES", capacity_, "", kCapacity,
                          "room for later updates, as 4KiB");
    }
    add_connection();
  }

 private:
  [[nodiscard]] Expected<std::string> data() const {
    if (file_.empty()) return *value_;
    if (file_ == "-") return std::string(std::istreambuf_iterator<char>(std::cin), {});
    return read_text_file(file_);
  }

  [[nodiscard]] Expected<void> prepare() override {
    ROCKHOPPER_TRY(check_key(task_.key));
    ROCKHOPPER_TRY(refuse_if({
        {!file_.empty() && value_, "a VALUE and --file exclude each other"},
        {file_.empty() && !value_, "a VALUE or --file is needed"},
    }));
    ROCKHOPPER_TRY(const auto text, data());
    if (text.size() > dag::kCapacityMax) {
      return fail(ErrorCode::invalid_argument, "a record has {} bytes at most, not {}",
                  dag::kCapacityMax, text.size());
    }
    const auto bytes = std::as_bytes(std::span(text));
    task_.data.assign(bytes.begin(), bytes.end());
    task_.capacity = static_cast<std::uint32_t>(capacity_);
    return {};
  }

  [[nodiscard]] Expected<void> execute(const Site& site) override {
    return with_records(site, site.connect.make_placement(), 1, [&](Records& records) {
      return run_tasks(records, {task_}, false, site.connect.json);
    });
  }

  RecordTask task_;
  std::optional<std::string> value_;
  std::string file_;
  std::uint64_t capacity_ = 0;  ///< 0: what the value needs
};

class BatchCommand final : public ClientCommand {
 public:
  explicit BatchCommand(const OptionSet& app)
      : ClientCommand(app, "batch",
                      "Does what lines say, in order, by one connection: get KEY, put KEY "
                      "VALUE...") {
    options().add_option("file FILE", file_, "its lines; - is standard input");
    options().add_option("--window N", window_, "of read: READs at a time").range(1, 4096);
    add_connection();
  }

 private:
  [[nodiscard]] Expected<void> execute(const Site& site) override {
    return with_records(site, site.connect.make_placement(), window_, [&](Records& records) {
      return run_batch(records, file_, site.connect.json);
    });
  }

  std::string file_ = "-";
  std::uint16_t window_ = 16;
};

}  // namespace

void add_record_commands(const OptionSet& app, Commands& commands) {
  const auto add_keys = [&](Verb verb, std::string_view summary) {
    commands.push_back(std::make_unique<KeysCommand>(app, verb, summary));
  };
  const auto add_value = [&](Verb verb, std::string_view summary) {
    commands.push_back(std::make_unique<ValueCommand>(app, verb, summary));
  };
  add_keys(Verb::get, "Reads records by key, with nobody's help (one RDMA READ).");
  add_value(Verb::put, "Makes a record, or gives it new data and what room it needs.");
  add_value(Verb::create, "Makes a record that is not there yet.");
  add_value(Verb::update, "Replaces a record's data, by RDMA alone.");
  add_keys(Verb::erase, "Deletes records.");
  commands.push_back(std::make_unique<BatchCommand>(app));
}

}  // namespace rockhopper::apps::dag_node
