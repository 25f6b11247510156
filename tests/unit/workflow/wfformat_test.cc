// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
//
// Workflows as files: what is read, and one line for each mistake.
#include "apps/rh_dag/wfformat.h"

#include <functional>
#include <random>

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "apps/rh_dag/workflow_graph.h"
#include "tests/support/seed.h"
#include "tests/unit/workflow/workflow_file.h"

namespace rockhopper::apps::dag_node {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

// DG-1, DG-2, DG-3: tasks, files and dependencies with their kinds.
TEST(WfFormat, HasWhatTheFileHas) {
  const auto workflow = parse_wfformat(letters().dump());
  ASSERT_TRUE(workflow) << workflow.error().message;
  EXPECT_EQ(workflow->name, "letters");
  ASSERT_EQ(workflow->tasks.size(), 5u);
  const Workflow::Task& merge = workflow->tasks[3];
  EXPECT_EQ(merge.id, "merge_1");
  EXPECT_EQ(merge.name, "merge");
  ASSERT_EQ(merge.dependencies.size(), 2u);
  EXPECT_EQ(merge.dependencies[0].task, 1u);
  EXPECT_TRUE(merge.dependencies[0].data);
  EXPECT_EQ(merge.runtime_ns, 125'000'000u);
  EXPECT_EQ(merge.priority, 20);
  EXPECT_THAT(merge.command, ElementsAre("sort"));
  EXPECT_THAT(workflow->tasks[1].command, ElementsAre("sh", "-c", "tr -d bc"));
  const Workflow::Task& notify = workflow->tasks[4];
  ASSERT_EQ(notify.dependencies.size(), 1u);
  EXPECT_FALSE(notify.dependencies[0].data) << "it reads nothing";
  EXPECT_EQ(workflow->files[1].bytes, 2600u);
  EXPECT_EQ(workflow->files[1].writer, 0u);
  EXPECT_FALSE(workflow->files[0].writer);
  EXPECT_EQ(workflow->makespan_ns, 9'000'000'000u);
  EXPECT_EQ(workflow->dependencies_by_files, 0u);
}

// What the schema does not ask for may be missing, and what it does not know may be there.
TEST(WfFormat, TakesTheLeastAndTheMost) {
  json document = letters();
  document["schemaVersion"] = "1.6";
  document["workflow"].erase("execution");
  document["workflow"]["specification"]["metrics"] = {{"numberOfTasks", 5}};
  document["workflow"]["specification"]["tasks"][0]["colour"] = "red";
  const auto workflow = parse_wfformat(document.dump());
  ASSERT_TRUE(workflow) << workflow.error().message;
  EXPECT_FALSE(workflow->tasks[0].runtime_ns);
  EXPECT_FALSE(workflow->makespan_ns);
  const auto least = parse_wfformat(
      R"({"name": "n", "schemaVersion": "1.5", "workflow": {"specification": {"tasks": [
          {"name": "t", "id": "t", "parents": [], "children": []}]}}})");
  ASSERT_TRUE(least) << least.error().message;
  EXPECT_THAT(least->tasks[0].dependencies, IsEmpty());
}

// A file tells of a dependency also where the writer is not a parent, and one that is changed in
// place of none.
TEST(WfFormat, FilesMakeDependencies) {
  json document = letters();
  auto& tasks = document["workflow"]["specification"]["tasks"];
  tasks[3]["inputFiles"].push_back("half.1");
  tasks[4]["inputFiles"] = {"text.txt"};
  tasks[2]["inputFiles"].push_back("count.2");
  const auto workflow = parse_wfformat(document.dump());
  ASSERT_TRUE(workflow) << workflow.error().message;
  EXPECT_EQ(workflow->dependencies_by_files, 1u);
  ASSERT_EQ(workflow->tasks[3].dependencies.size(), 3u);
  EXPECT_EQ(workflow->tasks[3].dependencies[0].task, 0u);
  EXPECT_EQ(workflow->tasks[2].dependencies.size(), 1u);
}

// What is listed twice says the same twice.
TEST(WfFormat, RepetitionsThatChangeNothingCountOnce) {
  json document = letters();
  auto& specification = document["workflow"]["specification"];
  auto& tasks = specification["tasks"];
  const auto before = parse_wfformat(document.dump());
  specification["files"].push_back(specification["files"][3]);
  tasks[0]["children"].push_back("count_2");
  tasks[2]["parents"].push_back("split_1");
  tasks[2]["inputFiles"].push_back("half.2");
  tasks[2]["outputFiles"].push_back(tasks[2]["outputFiles"][0]);
  const auto workflow = parse_wfformat(document.dump());
  ASSERT_TRUE(workflow) << workflow.error().message;
  EXPECT_EQ(workflow->repetitions, 5u);
  EXPECT_EQ(workflow->files.size(), before->files.size());
  EXPECT_EQ(workflow->tasks[2].inputs, before->tasks[2].inputs);
  EXPECT_EQ(workflow->tasks[2].outputs, before->tasks[2].outputs);
  EXPECT_EQ(workflow->tasks[2].dependencies.size(), 1u);
}

/// A workflow as versions before 1.5 have it.
json older(const char* version) {
  json document = json::parse(R"({"name": "old", "workflow": {"executedAt": "once",
      "machines": [], "TASKS": [
    {"name": "split_ID1", "id": "ID1", "category": "split", "type": "compute", "RUNTIME": 1.5,
     "command": {"program": "sh", "arguments": ["-c", "true"]}, "priority": 3,
     "files": [{"name": "in", "SIZE": 100, "link": "input"},
               {"name": "half", "SIZE": 50, "link": "output"}]},
    {"name": "count_ID2", "id": "ID2", "type": "compute", "RUNTIME": 0.25,
     "parents": ["split_ID1"],
     "files": [{"name": "half", "SIZE": 0, "link": "input"},
               {"name": "count", "SIZE": 7, "link": "output"}]},
    {"name": "merge_ID3", "id": "ID3", "type": "compute", "parents": ["count_ID2", "ID1"]}]}})");
  const std::string of(version);
  document["schemaVersion"] = of;
  std::string text = document.dump();
  const auto replace = [&text](const std::string& word, const std::string& by) {
    for (auto at = text.find(word); at != std::string::npos; at = text.find(word)) {
      text.replace(at, word.size(), by);
    }
  };
  replace("TASKS", of < "1.3" ? "jobs" : "tasks");
  replace("RUNTIME", of < "1.4" ? "runtime" : "runtimeInSeconds");
  replace("SIZE", of < "1.4" ? "size" : "sizeInBytes");
  document = json::parse(text);
  document["workflow"][of < "1.4" ? "makespan" : "makespanInSeconds"] = 9;
  return document;
}

TEST(WfFormat, ReadsOlderVersions) {
  for (const char* version : {"1.2", "1.3", "1.4"}) {
    SCOPED_TRACE(version);
    const auto workflow = parse_wfformat(older(version).dump());
    ASSERT_TRUE(workflow) << workflow.error().message;
    EXPECT_EQ(workflow->makespan_ns, 9'000'000'000u);
    ASSERT_EQ(workflow->tasks.size(), 3u);
    const Workflow::Task& split = workflow->tasks[0];
    EXPECT_EQ(split.id, "split_ID1");
    EXPECT_EQ(split.name, "split");
    EXPECT_EQ(split.runtime_ns, 1'500'000'000u);
    EXPECT_EQ(split.priority, 3);
    EXPECT_THAT(split.command, ElementsAre("sh", "-c", "true"));
    ASSERT_EQ(workflow->files.size(), 3u);
    EXPECT_EQ(workflow->files[0].bytes, 100u);
    EXPECT_FALSE(workflow->files[0].writer);
    EXPECT_EQ(workflow->files[1].bytes, 50u) << "who writes a file knows its size";
    ASSERT_EQ(workflow->tasks[1].dependencies.size(), 1u);
    EXPECT_TRUE(workflow->tasks[1].dependencies[0].data);
    EXPECT_EQ(workflow->tasks[2].dependencies.size(), 2u) << "one by its name, one by its id";
    EXPECT_FALSE(workflow->tasks[2].runtime_ns);
    EXPECT_EQ(workflow->repetitions, 0u);
  }
}

TEST(WfFormat, MistakesOfOlderVersions) {
  struct Case {
    std::function<void(json& workflow)> change;
    std::string expected;
  };
  const Case cases[] = {
      {[](json& w) { w.erase("tasks"); }, "workflow.tasks: a list is expected"},
      {[](json& w) { w["tasks"][1].erase("name"); }, "workflow.tasks[1].name: a text is expected"},
      {[](json& w) { w["tasks"][1] = 5; }, "workflow.tasks[1].name: a text is expected"},
      {[](json& w) { w["tasks"][1]["parents"][0] = "nobody"; }, "'nobody' is no task's id"},
      {[](json& w) { w["tasks"][1]["parents"] = 5; }, "parents: a list is expected"},
      {[](json& w) { w["tasks"][1]["files"][1]["name"] = "half"; }, "is written by"},
      {[](json& w) { w["tasks"][1]["files"][0].erase("name"); }, "a text is expected"},
      {[](json& w) { w["tasks"][1]["files"][1]["sizeInBytes"] = "much"; }, "sizeInBytes"},
      {[](json& w) { w["tasks"][0]["children"] = {"merge_ID3"}; }, "is not among the children"},
      {[](json& w) {
         w["tasks"][1]["name"] = "split_ID1";
         w["tasks"][1]["id"] = "ID1";
       },
       "'ID1' is there twice"},
  };
  for (const Case& one : cases) {
    json document = older("1.4");
    one.change(document["workflow"]);
    const auto workflow = parse_wfformat(document.dump());
    ASSERT_FALSE(workflow) << one.expected;
    EXPECT_THAT(workflow.error().message, HasSubstr(one.expected));
  }
}

// DG-33: each mistake has its line, with its place in the file.
TEST(WfFormat, MistakesAreNamedByPlace) {
  struct Case {
    std::function<void(json& document, json& tasks, json& executed)> change;
    std::string expected;
  };
  const std::string spec = "workflow.specification.";
  const std::string execution = "workflow.execution.";
  const Case cases[] = {
      {[](json& d, json&, json&) { d = json::array(); }, "the document: an object is expected"},
      {[](json& d, json&, json&) { d.erase("name"); }, "name: is missing"},
      {[](json& d, json&, json&) { d["schemaVersion"] = "2.0"; },
       "schemaVersion: '2.0' is not known; known are: 1.0 to 1.4, 1.5, 1.6"},
      {[](json& d, json&, json&) { d.erase("workflow"); }, "workflow: is missing"},
      {[](json& d, json&, json&) { d["workflow"] = 5; }, "workflow: an object is expected"},
      {[](json& d, json&, json&) { d["workflow"].erase("specification"); },
       "workflow.specification: is missing"},
      {[](json&, json& t, json&) { t = json::array(); }, spec + "tasks: there is none"},
      {[](json&, json& t, json&) { t = "none"; }, spec + "tasks: a list is expected"},
      {[](json&, json& t, json&) { t[2] = 7; }, spec + "tasks[2]: an object is expected"},
      {[](json&, json& t, json&) { t[2].erase("id"); }, spec + "tasks[2].id: is missing"},
      {[](json&, json& t, json&) { t[2]["id"] = ""; }, spec + "tasks[2].id: a text of 1 to"},
      {[](json&, json& t, json&) { t[2]["id"] = "a\tb"; },
       spec + "tasks[2].id: has control characters"},
      {[](json&, json& t, json&) { t[2]["id"] = std::string(2000, 'a'); },
       spec + "tasks[2].id: a text of 1 to 1024 bytes"},
      {[](json&, json& t, json&) { t[2]["id"] = "count_1"; },
       spec + "tasks[2].id: 'count_1' is there twice"},
      {[](json&, json& t, json&) { t[2]["name"] = 3; }, spec + "tasks[2].name: a text is expected"},
      {[](json&, json& t, json&) { t[2].erase("parents"); }, spec + "tasks[2].parents: is missing"},
      {[](json&, json& t, json&) { t[2]["parents"][0] = 3; },
       spec + "tasks[2].parents[0]: a text is expected"},
      {[](json&, json& t, json&) { t[2]["parents"][0] = "nobody"; },
       spec + "tasks[2].parents[0]: 'nobody' is no task's id"},
      {[](json&, json& t, json&) { t[0]["children"][1] = "nobody"; },
       spec + "tasks[0].children[1]: 'nobody' is no task's id"},
      {[](json&, json& t, json&) { t[0]["children"].erase(1); },
       spec + "tasks[2].parents: 'count_2' is not among the children of its parent 'split_1'"},
      {[](json&, json& t, json&) { t[2]["parents"].clear(); },
       spec + "tasks[0].children: 'split_1' is not among the parents of its child 'count_2'"},
      {[](json&, json& t, json&) { t[2]["inputFiles"][0] = "lost"; },
       spec + "tasks[2].inputFiles[0]: 'lost' is not among workflow.specification.files"},
      {[](json&, json& t, json&) { t[2]["outputFiles"].push_back("half.1"); },
       spec + "tasks[2].outputFiles: 'half.1' is written by 'split_1' already"},
      {[](json& d, json&, json&) {
         d["workflow"]["specification"]["files"][3]["sizeInBytes"] = -1;
       },
       spec + "files[3].sizeInBytes: a whole number from 0"},
      {[](json& d, json&, json&) {
         d["workflow"]["specification"]["files"][3].erase("sizeInBytes");
       },
       spec + "files[3].sizeInBytes: is missing"},
      {[](json& d, json&, json&) { d["workflow"]["specification"]["files"][3]["id"] = "half.1"; },
       spec + "files[3].id: 'half.1' is there twice"},
      {[](json&, json&, json& e) { e[1]["id"] = "nobody"; },
       execution + "tasks[1].id: 'nobody' is not among workflow.specification.tasks"},
      {[](json&, json&, json& e) { e[1]["id"] = "split_1"; },
       execution + "tasks[1].id: 'split_1' is there twice"},
      {[](json&, json&, json& e) { e[1].erase("runtimeInSeconds"); },
       execution + "tasks[1].runtimeInSeconds: is missing"},
      {[](json&, json&, json& e) { e[1]["runtimeInSeconds"] = -0.5; },
       execution + "tasks[1].runtimeInSeconds: a number from 0"},
      {[](json&, json&, json& e) { e[1]["runtimeInSeconds"] = "1"; },
       execution + "tasks[1].runtimeInSeconds: a number from 0"},
      {[](json&, json&, json& e) { e[1]["priority"] = 1e10; },
       execution + "tasks[1].priority: a number from"},
      {[](json&, json&, json& e) { e[1]["command"] = "ls"; },
       execution + "tasks[1].command: an object is expected"},
      {[](json&, json&, json& e) { e[1]["command"]["arguments"][2] = 1; },
       execution + "tasks[1].command.arguments[2]: a text is expected"},
      {[](json&, json&, json& e) { e[1]["command"]["arguments"][2] = std::string("a\0b", 3); },
       execution + "tasks[1].command: a word with a zero byte"},
  };
  for (const Case& one : cases) {
    json document = letters();
    one.change(document, document["workflow"]["specification"]["tasks"],
               document["workflow"]["execution"]["tasks"]);
    const auto workflow = parse_wfformat(document.dump());
    ASSERT_FALSE(workflow) << one.expected;
    EXPECT_THAT(workflow.error().message, StartsWith(one.expected));
    EXPECT_EQ(workflow.error().message.find('\n'), std::string::npos);
  }
}

TEST(WfFormat, RefusesWhatIsNoJson) {
  EXPECT_THAT(parse_wfformat("{\"name\": ").error().message, StartsWith("no JSON: "));
  EXPECT_THAT(parse_wfformat(R"({"name": "a", "name": "b"})").error().message,
              StartsWith("name: is there twice"));
  EXPECT_THAT(read_wfformat("/no/such/file").error().message,
              HasSubstr("/no/such/file cannot be read"));
}

// DG-33: parents and children that agree can still make a cycle, also together with the files.
TEST(WfFormat, CyclesAreFoundWithTheGraph) {
  json document = letters();
  auto& tasks = document["workflow"]["specification"]["tasks"];
  tasks[0]["inputFiles"].push_back("result.txt");
  const auto workflow = parse_wfformat(document.dump());
  ASSERT_TRUE(workflow) << workflow.error().message;
  EXPECT_EQ(to_graph(*workflow, {}, functions()).error().message,
            "the graph has a cycle: 'count_1' -> 'merge_1' -> 'split_1' -> 'count_1'");
}

// Whatever a value is replaced by: a workflow, or one line.
TEST(WfFormat, AnyReplacedValueIsTakenOrRefused) {
  std::mt19937_64 random(rockhopper::test::seed());
  const json values[] = {nullptr,
                         true,
                         -1,
                         3.5,
                         "x",
                         "split_1",
                         json::array(),
                         json::object(),
                         json::array({"split_1"}),
                         1e300};
  for (int round = 0; round < 1000; ++round) {
    json document = letters();
    json* place = &document;
    while (place->is_structured() && !place->empty() && (place == &document || random() % 8 != 0)) {
      auto next = place->begin();
      std::advance(next, static_cast<std::ptrdiff_t>(random() % place->size()));
      place = &*next;
    }
    *place = values[random() % std::size(values)];
    const auto workflow = parse_wfformat(document.dump());
    if (workflow) {
      const auto graph = to_graph(*workflow, {.scale = 1, .size_scale = 1}, functions());
      EXPECT_TRUE(!graph || graph->size() == workflow->tasks.size());
    } else {
      EXPECT_FALSE(workflow.error().message.empty());
      EXPECT_EQ(workflow.error().message.find('\n'), std::string::npos);
    }
  }
}

// A hundred thousand tasks: lists that are searched in turn would take minutes.
TEST(WfFormat, ReadsLargeWorkflows) {
  constexpr std::size_t kTasks = 100'000;
  std::string tasks;
  std::string files;
  std::string children;
  std::string outputs;
  for (std::size_t i = 1; i < kTasks; ++i) {
    children += fmt::format("{}\"{}\"", i == 1 ? "" : ",", i);
    outputs += fmt::format("{}\"f{}\"", i == 1 ? "" : ",", i);
    tasks += fmt::format(
        ",{{\"name\":\"t\",\"id\":\"{0}\",\"parents\":[\"0\"],\"children\":[],"
        "\"inputFiles\":[\"f{0}\"]}}",
        i);
    files += fmt::format("{}{{\"id\":\"f{}\",\"sizeInBytes\":1}}", i == 1 ? "" : ",", i);
  }
  const auto workflow = parse_wfformat(fmt::format(
      "{{\"name\":\"wide\",\"schemaVersion\":\"1.5\",\"workflow\":{{\"specification\":{{\"tasks\":["
      "{{\"name\":\"t\",\"id\":\"0\",\"parents\":[],\"children\":[{}],\"outputFiles\":[{}]}}{}],"
      "\"files\":[{}]}}}}}}",
      children, outputs, tasks, files));
  ASSERT_TRUE(workflow) << workflow.error().message;
  const auto graph = to_graph(*workflow, {}, functions());
  ASSERT_TRUE(graph) << graph.error().message;
  EXPECT_EQ(graph->edges(), kTasks - 1);
}

}  // namespace
}  // namespace rockhopper::apps::dag_node
