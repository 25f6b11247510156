// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/rh_dag/wfformat_older.h"

#include <algorithm>
#include <array>
#include <initializer_list>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include <nlohmann/json.hpp>

#include "apps/services/dag/graph/task.h"

namespace rockhopper::apps::dag_node {
namespace {

using nlohmann::json;

constexpr std::array<std::string_view, 5> kOlder{"1.0", "1.1", "1.2", "1.3", "1.4"};

/// The member by the first of its names that is there; null if none is.
const json* find(const json& object, std::initializer_list<const char*> names) {
  if (!object.is_object()) return nullptr;
  for (const char* name : names) {
    if (const auto found = object.find(name); found != object.end()) return &*found;
  }
  return nullptr;
}

void copy(const json& from, std::initializer_list<const char*> names, json& to, const char* as) {
  if (const json* found = find(from, names)) to[as] = *found;
}

class Converter {
 public:
  [[nodiscard]] Expected<json> convert(const json& document) {
    const json* workflow = find(document, {"workflow"});
    const char* list =
        workflow != nullptr && find(*workflow, {"tasks"}) != nullptr ? "tasks" : "jobs";
    const json* tasks = workflow == nullptr ? nullptr : find(*workflow, {list});
    if (tasks == nullptr || !tasks->is_array()) {
      return fail(ErrorCode::invalid_argument, "workflow.tasks: a list is expected");
    }
    for (std::size_t i = 0; i < tasks->size(); ++i) {
      const json* name = find((*tasks)[i], {"name"});
      if (name == nullptr || !name->is_string()) {
        return fail(ErrorCode::invalid_argument, "workflow.{}[{}].name: a text is expected", list,
                    i);
      }
    }
    name_tasks(*tasks);
    for (const json& task : *tasks) {
      add(task);
    }
    if (!has_children_) add_children();
    json result = document;
    result["schemaVersion"] = "1.5";
    result["workflow"] = {{"specification", {{"tasks", specified_}, {"files", files_}}},
                          {"execution", {{"tasks", executed_}}}};
    copy(*workflow, {"makespanInSeconds", "makespan"}, result["workflow"]["execution"],
         "makespanInSeconds");
    return result;
  }

 private:
  /// Names are what tasks are called by, if they can be.
  void name_tasks(const json& tasks) {
    std::set<std::string> names;
    for (const json& task : tasks) {
      names.insert(task["name"]);
    }
    const bool by_name = names.size() == tasks.size();
    for (const json& task : tasks) {
      const std::string name = task["name"];
      const json* id = find(task, {"id"});
      const bool has_id = id != nullptr && id->is_string();
      const std::string key = by_name || !has_id ? name : id->get<std::string>();
      keys_.push_back(key);
      by_any_name_.emplace(key, key);
      by_any_name_.emplace(name, key);
      if (has_id) by_any_name_.emplace(id->get<std::string>(), key);
    }
  }

  /// The relatives by their keys; one that is unknown stays as it is, to be refused.
  [[nodiscard]] json relatives(const json& task, const char* list) const {
    const json* named = find(task, {list});
    if (named == nullptr) return json::array();
    json result = *named;
    if (!result.is_array()) return result;
    for (json& one : result) {
      if (!one.is_string()) continue;
      const auto found = by_any_name_.find(one.get<std::string>());
      if (found != by_any_name_.end()) one = found->second;
    }
    return result;
  }

  void add(const json& task) {
    const std::string& key = keys_[specified_.size()];
    has_children_ = has_children_ || find(task, {"children"}) != nullptr;
    json specified{{"name", find(task, {"category", "name"})->get<json>()},
                   {"id", key},
                   {"parents", relatives(task, "parents")},
                   {"children", relatives(task, "children")},
                   {"inputFiles", json::array()},
                   {"outputFiles", json::array()}};
    if (const json* files = find(task, {"files"}); files != nullptr && files->is_array()) {
      for (const json& file : *files) {
        add_file(file, specified);
      }
    }
    specified_.push_back(std::move(specified));
    json executed{{"id", key}};
    copy(task, {"runtimeInSeconds", "runtime"}, executed, "runtimeInSeconds");
    // What was not measured has no entry: a runtime is what an entry has to have.
    if (executed.size() == 1) return;
    copy(task, {"command"}, executed, "command");
    copy(task, {"priority"}, executed, "priority");
    executed_.push_back(std::move(executed));
  }

  void add_file(const json& file, json& task) {
    const json* name = find(file, {"name"});
    const json* link = find(file, {"link"});
    json entry{{"id", name == nullptr ? json() : *name}};
    copy(file, {"sizeInBytes", "size"}, entry, "sizeInBytes");
    const bool is_output = link != nullptr && *link == "output";
    task[is_output ? "outputFiles" : "inputFiles"].push_back(entry["id"]);
    const auto [known, added] = places_.emplace(entry["id"].dump(), files_.size());
    if (added) {
      files_.push_back(std::move(entry));
    } else if (is_output) {
      files_[known->second] = std::move(entry);
    }
  }

  void add_children() {
    std::unordered_map<std::string, std::size_t> places;
    for (std::size_t i = 0; i < keys_.size(); ++i) {
      places.emplace(keys_[i], i);
    }
    for (std::size_t i = 0; i < keys_.size(); ++i) {
      if (!specified_[i]["parents"].is_array()) continue;
      for (const json& parent : specified_[i]["parents"]) {
        const auto found =
            parent.is_string() ? places.find(parent.get<std::string>()) : places.end();
        if (found != places.end()) specified_[found->second]["children"].push_back(keys_[i]);
      }
    }
  }

  std::vector<std::string> keys_;  ///< by task
  std::unordered_map<std::string, std::string> by_any_name_;
  json specified_ = json::array();
  json executed_ = json::array();
  json files_ = json::array();
  std::unordered_map<std::string, std::size_t> places_;  ///< in files_, by the name as JSON
  bool has_children_ = false;
};

}  // namespace

bool is_older_wfformat(const json& document) {
  const json* version = find(document, {"schemaVersion"});
  return version != nullptr && version->is_string() &&
         std::find(kOlder.begin(), kOlder.end(), version->get_ref<const std::string&>()) !=
             kOlder.end();
}

Expected<json> to_current_wfformat(const json& document) { return Converter().convert(document); }

}  // namespace rockhopper::apps::dag_node
