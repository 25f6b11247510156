// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/rh_dag/wfformat.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <unordered_map>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "apps/common/json.h"
#include "apps/common/steady_clock.h"
#include "apps/rh_dag/wfformat_older.h"
#include "apps/services/dag/graph/graph_limits.h"
#include "apps/services/dag/graph/task.h"

namespace rockhopper::apps::dag_node {
namespace {

using dag::key_text;

constexpr std::array<std::string_view, 2> kVersions{"1.5", "1.6"};
constexpr double kSecondsMax = 1e9;
constexpr std::uint64_t kFileBytesMax = std::uint64_t{1} << 60;

using Numbers = std::unordered_map<std::string_view, std::uint32_t>;

/// The lists of a task that name other tasks, as they are in the file.
struct Family {
  std::vector<std::string> parents;
  std::vector<std::string> children;
};

class Reader {
 public:
  Expected<Workflow> read(const nlohmann::json& document) {
    JsonObject root(document, "", errors_);
    workflow_.name = root.text("name");
    const std::string version = root.text("schemaVersion");
    if (std::find(kVersions.begin(), kVersions.end(), version) == kVersions.end()) {
      root.fail("schemaVersion", fmt::format("{} is not known; known are: 1.0 to 1.4, {}",
                                             key_text(version), fmt::join(kVersions, ", ")));
    }
    auto content = root.object("workflow");
    if (!content) root.fail("workflow", "is missing");
    if (content && !errors_.any()) read_workflow(*content);
    if (errors_.any()) return tl::make_unexpected(errors_.first());
    return std::move(workflow_);
  }

 private:
  static constexpr const char* kTasks = "workflow.specification.tasks";

  template <typename... Args>
  void refuse(const std::string& path, fmt::format_string<Args...> text, Args&&... args) {
    errors_.add(path, fmt::format(text, std::forward<Args>(args)...));
  }
  static std::string path_of(const char* list, std::size_t index, const char* member) {
    return fmt::format("{}[{}].{}", list, index, member);
  }
  static std::string path_of(const char* list, std::size_t index, const char* member,
                             std::size_t element) {
    return fmt::format("{}[{}].{}[{}]", list, index, member, element);
  }

  /// A later step relies on the earlier ones, and would only repeat their mistakes.
  void read_workflow(JsonObject& object) {
    auto specification = object.object("specification");
    if (!specification) return object.fail("specification", "is missing");
    read_files(*specification);
    if (!errors_.any()) read_tasks(*specification);
    if (!errors_.any()) check_files();
    if (!errors_.any()) check_families();
    if (!errors_.any()) join_files();
    if (auto execution = object.object("execution"); execution && !errors_.any()) {
      read_execution(*execution);
    }
  }

  /// An id that can be shown, and that nobody else in `numbers` has.
  void check_id(JsonObject& object, const std::string& id, const Numbers& numbers) {
    if (id.empty() || id.size() > dag::GraphLimits{}.key_bytes) {
      return object.fail(
          "id", fmt::format("a text of 1 to {} bytes is expected", dag::GraphLimits{}.key_bytes));
    }
    if (std::any_of(id.begin(), id.end(),
                    [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; })) {
      return object.fail("id", "has control characters");
    }
    if (numbers.contains(id)) object.fail("id", fmt::format("{} is there twice", key_text(id)));
  }

  void read_files(JsonObject& specification) {
    auto objects = specification.objects("files");
    workflow_.files.reserve(objects.size());  // keeps the ids where they are
    for (JsonObject& object : objects) {
      auto& file = workflow_.files.emplace_back();
      file.id = object.text("id");
      file.bytes = object.number("sizeInBytes", 0, kFileBytesMax);
      if (const auto known = files_.find(file.id);
          known != files_.end() && workflow_.files[known->second].bytes == file.bytes) {
        workflow_.files.pop_back();
        ++workflow_.repetitions;
        continue;
      }
      check_id(object, file.id, files_);
      if (errors_.any()) return;
      files_.emplace(file.id, static_cast<std::uint32_t>(files_.size()));
    }
  }

  void read_tasks(JsonObject& specification) {
    auto objects = specification.objects("tasks");
    if (objects.empty()) specification.fail("tasks", "there is none");
    workflow_.tasks.reserve(objects.size());
    for (JsonObject& object : objects) {
      auto& task = workflow_.tasks.emplace_back();
      task.id = object.text("id");
      task.name = object.text("name");
      check_id(object, task.id, tasks_);
      for (const char* list : {"parents", "children"}) {
        if (!object.has(list)) object.fail(list, "is missing");
      }
      families_.push_back({object.texts("parents"), object.texts("children")});
      task.inputs = resolve_files(object, "inputFiles");
      task.outputs = resolve_files(object, "outputFiles");
      if (errors_.any()) return;
      tasks_.emplace(task.id, static_cast<std::uint32_t>(tasks_.size()));
    }
  }

  /// What a list of a task names, in ascending order; `missing` says of an id that nothing has it.
  std::vector<std::uint32_t> resolve(std::size_t task, const char* list,
                                     const std::vector<std::string>& ids, const Numbers& numbers,
                                     const char* missing) {
    std::vector<std::uint32_t> found;
    found.reserve(ids.size());
    for (std::size_t i = 0; i < ids.size(); ++i) {
      const auto number = numbers.find(ids[i]);
      if (number == numbers.end()) {
        refuse(path_of(kTasks, task, list, i), "{} {}", key_text(ids[i]), missing);
        return {};
      }
      found.push_back(number->second);
    }
    std::sort(found.begin(), found.end());
    found.erase(std::unique(found.begin(), found.end()), found.end());
    workflow_.repetitions += ids.size() - found.size();
    return found;
  }

  std::vector<std::uint32_t> resolve_files(JsonObject& task, const char* list) {
    const auto ids = task.texts(list);
    if (errors_.any()) return {};
    return resolve(tasks_.size(), list, ids, files_, "is not among workflow.specification.files");
  }

  void check_files() {
    for (std::uint32_t i = 0; i < workflow_.tasks.size(); ++i) {
      for (const std::uint32_t output : workflow_.tasks[i].outputs) {
        Workflow::File& file = workflow_.files[output];
        if (file.writer) {
          return refuse(path_of(kTasks, i, "outputFiles"), "{} is written by {} already",
                        key_text(file.id), key_text(workflow_.tasks[*file.writer].id));
        }
        file.writer = i;
      }
    }
  }

  std::vector<std::uint32_t> resolve_tasks(std::size_t task, const char* list,
                                           const std::vector<std::string>& ids) {
    return resolve(task, list, ids, tasks_, "is no task's id");
  }

  void check_families() {
    std::vector<std::vector<std::uint32_t>> children(workflow_.tasks.size());
    for (std::size_t i = 0; i < families_.size() && !errors_.any(); ++i) {
      for (const std::uint32_t parent : resolve_tasks(i, "parents", families_[i].parents)) {
        workflow_.tasks[i].dependencies.push_back({.task = parent, .data = false});
      }
      children[i] = resolve_tasks(i, "children", families_[i].children);
    }
    if (errors_.any()) return;
    for (std::uint32_t i = 0; i < workflow_.tasks.size(); ++i) {
      for (const auto& [parent, data] : workflow_.tasks[i].dependencies) {
        if (std::binary_search(children[parent].begin(), children[parent].end(), i)) continue;
        return refuse(path_of(kTasks, i, "parents"),
                      "{} is not among the children of its parent {}",
                      key_text(workflow_.tasks[i].id), key_text(workflow_.tasks[parent].id));
      }
    }
    for (std::uint32_t i = 0; i < workflow_.tasks.size(); ++i) {
      for (const std::uint32_t child : children[i]) {
        if (find_dependency(child, i) != nullptr) continue;
        return refuse(path_of(kTasks, i, "children"), "{} is not among the parents of its child {}",
                      key_text(workflow_.tasks[i].id), key_text(workflow_.tasks[child].id));
      }
    }
  }

  using Dependencies = std::vector<Workflow::Dependency>;

  static Dependencies::iterator place_of(Dependencies& all, std::uint32_t on) {
    return std::lower_bound(
        all.begin(), all.end(), on,
        [](const Workflow::Dependency& a, std::uint32_t wanted) { return a.task < wanted; });
  }

  Workflow::Dependency* find_dependency(std::uint32_t task, std::uint32_t on) {
    auto& all = workflow_.tasks[task].dependencies;
    const auto found = place_of(all, on);
    return found != all.end() && found->task == on ? &*found : nullptr;
  }

  void join_files() {
    for (std::uint32_t i = 0; i < workflow_.tasks.size(); ++i) {
      Workflow::Task& task = workflow_.tasks[i];
      for (const std::uint32_t input : task.inputs) {
        const auto& writer = workflow_.files[input].writer;
        // Who changes a file in place waits for nobody.
        if (!writer || *writer == i) continue;
        if (Workflow::Dependency* known = find_dependency(i, *writer); known != nullptr) {
          known->data = true;
          continue;
        }
        task.dependencies.insert(place_of(task.dependencies, *writer),
                                 {.task = *writer, .data = true});
        ++workflow_.dependencies_by_files;
      }
    }
  }

  void read_execution(JsonObject& execution) {
    workflow_.makespan_ns = seconds(execution, "makespanInSeconds");
    std::vector<bool> recorded(workflow_.tasks.size());
    for (JsonObject& object : execution.objects("tasks")) {
      const std::string id = object.text("id");
      if (errors_.any()) return;
      const auto found = tasks_.find(id);
      if (found == tasks_.end()) {
        return object.fail("id", fmt::format("{} is not among {}", key_text(id), kTasks));
      }
      if (recorded[found->second]) {
        return object.fail("id", fmt::format("{} is there twice", key_text(id)));
      }
      recorded[found->second] = true;
      Workflow::Task& task = workflow_.tasks[found->second];
      if (!object.has("runtimeInSeconds")) object.fail("runtimeInSeconds", "is missing");
      task.runtime_ns = seconds(object, "runtimeInSeconds");
      task.priority =
          static_cast<std::int32_t>(std::lround(object.real("priority", INT32_MIN, INT32_MAX, 0)));
      if (auto command = object.object("command")) read_command(*command, task);
      if (errors_.any()) return;
    }
  }

  static std::optional<std::uint64_t> seconds(JsonObject& object, const char* key) {
    if (!object.has(key)) return std::nullopt;
    return static_cast<std::uint64_t>(
        std::llround(object.real(key, 0, kSecondsMax, 0) * static_cast<double>(kNsPerSecond)));
  }

  void read_command(JsonObject& command, Workflow::Task& task) {
    const std::string program = command.text("program", "");
    const auto arguments = command.texts("arguments");
    if (program.empty()) return;
    task.command.push_back(program);
    task.command.insert(task.command.end(), arguments.begin(), arguments.end());
    for (const std::string& word : task.command) {
      if (word.find('\0') != std::string::npos) {
        return command.fail("a word with a zero byte cannot be given to a program");
      }
    }
  }

  JsonErrors errors_;
  Workflow workflow_;
  Numbers files_;
  Numbers tasks_;
  std::vector<Family> families_;  ///< by task
};

}  // namespace

Expected<Workflow> parse_wfformat(std::string_view json_text) {
  ROCKHOPPER_TRY(const auto document, parse_json(json_text));
  if (!is_older_wfformat(document)) return Reader().read(document);
  ROCKHOPPER_TRY(const auto current, to_current_wfformat(document));
  auto workflow = Reader().read(current);
  if (workflow) return workflow;
  return fail(ErrorCode::invalid_argument, "as WfFormat 1.5: {}", workflow.error().message);
}

Expected<Workflow> read_wfformat(const std::string& path) {
  ROCKHOPPER_TRY(const auto text, read_text_file(path));
  auto workflow = parse_wfformat(text);
  if (!workflow) return fail(ErrorCode::invalid_argument, "{}: {}", path, workflow.error().message);
  return workflow;
}

}  // namespace rockhopper::apps::dag_node
