// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include "apps/common/counters.h"
#include "apps/common/signals.h"
#include "apps/common/steady_clock.h"
#include "apps/common/version.h"
#include "apps/rh_dag/command_runner.h"
#include "apps/rh_dag/commands.h"
#include "apps/rh_dag/connection.h"
#include "apps/rh_dag/ended_runs.h"
#include "apps/rh_dag/executor.h"
#include "apps/rh_dag/functions.h"
#include "apps/rh_dag/run_journal.h"
#include "apps/services/dag/graph/edge.h"
#include "apps/services/dag/schedule/node_record.h"

namespace rockhopper::apps::dag_node {
namespace {

constexpr std::uint64_t kWorkLookNs = kNsPerMs;
/// For what is still to be told at the end.
constexpr std::uint64_t kLeaveNs = kNsPerSecond;

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

struct WorkOptions {
  std::string name;  ///< empty: the machine's, and the process's number
  std::vector<std::uint32_t> labels;
  unsigned slots = 1;
  bool runs_inline = false;
  bool allow_commands = false;
  bool no_steals = false;
  std::uint16_t window = 32;
  Wait wait = Wait::sleep;
  std::string log;         ///< a file, or a folder
  std::uint64_t runs = 0;  ///< to end after; 0: no number
  bool until_idle = false;
};

Expected<void> settle(WorkOptions& options) {
  if (options.name.empty()) options.name = default_name();
  return refuse_if({
      {!dag::is_run_name(options.name) || options.name.size() > kNameMax,
       fmt::format("--name {}: 1 to {} letters, digits, '.', '_' and '-' are a name", options.name,
                   kNameMax)},
      {options.runs_inline && options.slots > 1, "--inline and --slots exclude each other"},
  });
}

void add_work_options(const OptionSet& app, WorkOptions& options) {
  const OptionSet tasks = app.group("Tasks");
  tasks.add_option("--slots N", options.slots, "nodes that are run at a time, a thread each")
      .range(1, 1024);
  tasks.add_flag("--inline", options.runs_inline,
                 "run tasks in the thread that also moves the packets: the fastest way for tasks "
                 "of microseconds, and none for those that take a part of a lease");
  tasks.add_flag("--allow-commands", options.allow_commands,
                 "run programs that graphs name; whoever can load a graph can have any");
  tasks.add_option("--compute", options.wait,
                   "how recorded times pass: sleep leaves the CPU to others, spin keeps it busy");
  const OptionSet worker = app.group("Worker");
  worker.add_option("--name", options.name,
                    "for people and logs. Default: the machine's name and the process's number");
  worker
      .add_option("--label N", options.labels,
                  "it runs nodes with an affinity to this number; may be repeated")
      .range(0u, dag::kSameWorker - 1)
      .one_value_each();
  worker.add_option("--window N", options.window, "nodes that it has at a time, at most")
      .range(1, 1024);
  worker.add_flag("--no-steals", options.no_steals, "take nothing from other workers");
  worker.add_option("--log FILE", options.log,
                    "write down when each node ran, for report; into a folder, a file for each "
                    "run");
  worker.add_option("--runs N", options.runs, "end when so many runs at home have ended")
      .positive();
  worker.add_flag("--until-idle", options.until_idle,
                  "end when all runs at home have ended, of one at least");
  app.check([&options] { return settle(options); });
}

/// Of the client, at a time: an output and an input of each node, and some requests.
constexpr std::uint16_t operations_of(std::uint16_t window) {
  return static_cast<std::uint16_t>(2 * window + 16);
}

class Work final : public dag::ClientListener, public dag::WorkerListener {
 public:
  Work(const WorkOptions& options, const Site& site) : options_(options), site_(site) {
    if (!options.log.empty()) journal_.emplace(options.log, options.name);
  }
  ~Work() override {
    // The connection calls the listeners, and the worker uses it.
    if (connection_ != nullptr) connection_->set_work({});
    executor_.reset();
    counters_.reset();
    worker_.reset();
    connection_.reset();
  }

  [[nodiscard]] Expected<void> run() {
    auto result = open().and_then([this] { return work(); });
    auto closed = close();
    return result ? closed : result;
  }

  void on_result(const dag::Result& result) override {
    if (worker_ != nullptr && (result.context & dag::Worker::kContext) != 0) {
      worker_->on_result(result);
    }
  }
  void on_server_lost(std::uint16_t server) override {
    lost_servers_.push_back(server);
    if (worker_ != nullptr) worker_->on_server_lost(server);
  }

  void on_node(const dag::NodeReport& report) override {
    if (report.committed) {
      ++nodes_;
      if (report.stolen) ++stolen_;
      first_start_ns_ = std::min(first_start_ns_, report.start_ns);
      last_end_ns_ = std::max(last_end_ns_, report.end_ns);
    }
    if (!journal_) return;
    std::uint64_t nodes = 0;
    for (const auto& run : worker_->runs()) {
      if (run.name == report.run) nodes = run.nodes;
    }
    journal_->add(report, std::max<std::uint64_t>(nodes, 1));
  }
  void on_lost(dag::Status why) override { lost_ = why; }

 private:
  [[nodiscard]] Expected<void> open() {
    ROCKHOPPER_TRY(functions_, make_functions(options_.wait, &ThreadExecutor::is_abandoned));
    dag::CommandRunner commands;
    if (options_.allow_commands) commands = make_command_runner(&ThreadExecutor::is_abandoned);
    if (options_.runs_inline) {
      executor_ = std::make_unique<InlineExecutor>(functions_, std::move(commands));
    } else {
      executor_ = std::make_unique<ThreadExecutor>(functions_, commands, options_.slots);
    }
    ROCKHOPPER_TRY(connection_, Connection::create(site_.connect, site_.config, site_.arguments,
                                                   *this, operations_of(options_.window)));
    ROCKHOPPER_TRY(auto placement, site_.connect.make_home_placement());
    ROCKHOPPER_TRY(connection_->connect(std::move(placement)));
    connection_->set_work([this](std::uint64_t now_ns) { return turn(now_ns); });
    return join();
  }

  /// As another client of the home, each time.
  [[nodiscard]] Expected<void> join() {
    ROCKHOPPER_TRY(auto outputs, site_.connect.make_placement());
    const std::uint16_t home = site_.connect.home;
    ROCKHOPPER_TRY(worker_, dag::Worker::create({.engine = connection_->engine(),
                                                 .endpoint = *connection_->dc(),
                                                 .client = connection_->client(),
                                                 .home = home,
                                                 .home_av = connection_->path(home),
                                                 .grant = connection_->grant(home),
                                                 .outputs = std::move(outputs),
                                                 .executor = *executor_,
                                                 .listener = *this},
                                                {.name = options_.name,
                                                 .labels = options_.labels,
                                                 .window = options_.window,
                                                 .steals = !options_.no_steals,
                                                 .seed = roce::SystemRandom().next()}));
    executor_->set_worker(worker_.get());
    ROCKHOPPER_TRY(counters_, stack::add_counter_group("dag_worker", *worker_));
    ++joined_;
    return {};
  }

  bool turn(std::uint64_t now_ns) {
    bool worked = executor_->deliver();
    if (worker_ != nullptr) worked = worker_->progress(now_ns) || worked;
    return worked;
  }

  [[nodiscard]] Expected<void> work() {
    bool draining = false;
    std::uint64_t next_look_ns = 0;
    for (;;) {
      (void)connection_->turn();
      if (lost_ || !lost_servers_.empty()) {
        // What it had begun is somebody else's now.
        if (lost_ && draining) return {};
        ROCKHOPPER_TRY(reconnect());
        continue;
      }
      if (draining && worker_->idle()) return {};
      const std::uint64_t now_ns = connection_->now_ns();
      if (now_ns < next_look_ns) continue;
      next_look_ns = now_ns + kWorkLookNs;
      if (!draining && (stop_requested() || is_over())) {
        worker_->drain();
        draining = true;
      }
    }
  }

  [[nodiscard]] bool is_over() {
    if (options_.runs == 0 && !options_.until_idle) return false;
    if (!worker_->has_seen_board()) return false;
    runs_.see(worker_->runs());
    return (options_.runs > 0 && runs_.count() >= options_.runs) ||
           (options_.until_idle && !runs_.awaits_more() && runs_.count() > 0);
  }

  /// To all servers that are lost. If the home is one of them, or the worker does not know what has
  /// become of something that it did there, as another worker.
  [[nodiscard]] Expected<void> reconnect() {
    const std::uint16_t home = site_.connect.home;
    if (lost_) {
      fmt::print(stderr, "{}: lost the home: {}; joins again\n", options_.name,
                 dag::to_string(*lost_));
      ROCKHOPPER_TRY(forget_worker());
      lost_servers_.push_back(home);
    }
    while (!lost_servers_.empty()) {
      const std::uint16_t server = lost_servers_.back();
      // The home's loss is the worker's, who tells of it.
      if (server == home && !lost_ && worker_ != nullptr) {
        (void)connection_->turn();
        if (!lost_) continue;
        return reconnect();
      }
      auto connected = connection_->reconnect(server);
      lost_servers_.erase(std::remove(lost_servers_.begin(), lost_servers_.end(), server),
                          lost_servers_.end());
      if (!connected) return connected;
    }
    lost_.reset();
    return worker_ == nullptr ? join() : Expected<void>{};
  }

  [[nodiscard]] Expected<void> forget_worker() {
    executor_->set_worker(nullptr);
    executor_->abandon_all();
    while (!executor_->idle()) {
      (void)connection_->turn();
    }
    steals_ += worker_->counters().steals.value();
    steals_successful_ += worker_->counters().steals_successful.value();
    counters_.reset();
    worker_.reset();
    return {};
  }

  [[nodiscard]] Expected<void> close() {
    if (worker_ != nullptr) {
      worker_->leave();
      const std::uint64_t deadline_ns = steady_now_ns() + kLeaveNs;
      while (connection_->client().in_use() > 0 && steady_now_ns() < deadline_ns) {
        (void)connection_->turn();
      }
      print();
      if (site_.connect.endpoint.stats_s > 0) {
        connection_->print_statistics(stderr);
        print_counters(stderr, "worker", *worker_);
      }
      ROCKHOPPER_TRY(forget_worker());
    }
    if (!journal_) return {};
    if (journal_->left_out() > 0) {
      fmt::print(stderr, "{}: {} nodes of other runs were left out; --log a folder has all\n",
                 options_.log, journal_->left_out());
    }
    return journal_->close(steals_, steals_successful_);
  }

  void print() const {
    // From the first node's begin to the last one's end.
    const double seconds =
        nodes_ == 0 ? 0 : static_cast<double>(last_end_ns_ - first_start_ns_) * 1e-9;
    if (!site_.connect.json) {
      fmt::print("{}: {} nodes in {:.3f} s, {} of them stolen\n", options_.name, nodes_, seconds,
                 stolen_);
      return;
    }
    fmt::print("{}\n", nlohmann::json{{"program", "rh-dag"},
                                      {"version", kVersion},
                                      {"worker", options_.name},
                                      {"nodes", nodes_},
                                      {"seconds", seconds},
                                      {"stolen", stolen_},
                                      {"joined", joined_},
                                      {"counters", counters_to_json(*worker_)}}
                           .dump());
  }

  const WorkOptions& options_;
  const Site& site_;
  dag::FunctionRegistry functions_;
  std::optional<RunJournal> journal_;
  std::unique_ptr<Executor> executor_;
  std::unique_ptr<Connection> connection_;
  std::unique_ptr<dag::Worker> worker_;
  std::optional<stack::CounterGroup> counters_;
  std::optional<dag::Status> lost_;
  std::vector<std::uint16_t> lost_servers_;
  EndedRuns runs_;
  std::uint64_t nodes_ = 0;
  std::uint64_t stolen_ = 0;
  std::uint64_t first_start_ns_ = UINT64_MAX;
  std::uint64_t last_end_ns_ = 0;
  std::uint64_t joined_ = 0;
  std::uint64_t steals_ = 0;  ///< of workers that were lost
  std::uint64_t steals_successful_ = 0;
};

class WorkCommand final : public ClientCommand {
 public:
  explicit WorkCommand(const OptionSet& app)
      : ClientCommand(app, "work",
                      "Runs nodes of the graphs at a home, beside any number of others.") {
    add_work_options(options(), work_options_);
    add_connection(kSmallRecordMax);
  }

 private:
  [[nodiscard]] Expected<void> execute(const Site& site) override {
    return Work(work_options_, site).run();
  }

  WorkOptions work_options_;
};

}  // namespace

void add_work_command(const OptionSet& app, Commands& commands) {
  commands.push_back(std::make_unique<WorkCommand>(app));
}

}  // namespace rockhopper::apps::dag_node
