// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
// A target of locks, or an initiator, whose application and engine are processes of their own:
// tests stop the one while the other works, and kill both.
#include <algorithm>
#include <chrono>
#include <csignal>
#include <thread>

#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "apps/common/command_line.h"
#include "apps/common/option_set.h"
#include "apps/common/signals.h"
#include "tests/live/lock_node.h"

namespace {

using namespace rockhopper;
using namespace rockhopper::live;

const apps::ProgramText kText{
    "lock-node", "A target of locks, or initiators that keep it busy.",
    "  lock-node target --memory FILE --ip 10.42.0.1/24 --memif-role client "
    "--memif-socket switch0.sock\n"
    "  lock-node initiator --peer FILE --journal FILE --ip 10.42.0.2/24 --memif-role client "
    "--memif-socket switch1.sock\n"};

struct Options {
  std::string role;
  apps::EndpointOptions endpoint;
  LockOptions lock;
};

void add_options(apps::OptionSet app, Options& options) {
  app.add_option("role", options.role).one_of({"target", "initiator"}).required();
  apps::add_endpoint_options(app, options.endpoint, "--device");
  LockOptions& lock = options.lock;
  app.add_option("--transport", lock.transport).one_of({"rc", "dc"});
  app.add_option("--bytes", lock.bytes, "that each scope writes").range(1, 1 << 20);
  app.add_option("--memory", lock.memory, "target: file of its records");
  app.add_option("--records", lock.records).range(1, 1000);
  app.add_option("--lease-us", lock.lease_us).range(1, 10'000'000);
  app.add_option("--peer", lock.peer, "file with the target's first line");
  app.add_option("--journal", lock.journal, "file of what has become of the scopes");
  app.add_option("--name", lock.name).range(1, 255);
  app.add_option("--slots", lock.slots, "scopes on their way at a time")
      .range(std::size_t{1}, std::min(Journal::kSlots, std::size_t{256}));
  app.add_option("--scopes", lock.scopes, "how many; 0: no end");
  app.add_option("--pause-us", lock.pause_us);
  app.add_flag("--cut-through", lock.cut_through);
  app.add_flag("--stop", lock.stop, "stop the application when the first scopes are posted");
  app.add_option("--timeout", lock.timeout, "local ACK timeout code").range(1, 31);
}

/// The child.
Expected<void> run_engine(LockNode& node, int parent, const apps::EndpointConfig& config,
                          const stack::Arguments& arguments) {
  // It does not outlive its application.
  if (::prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || ::getppid() != parent) {
    return fail(ErrorCode::invalid_state, "the application has ended");
  }
  auto endpoint = apps::Endpoint::create(config, arguments);
  if (!endpoint) return tl::make_unexpected(endpoint.error());
  return node.run_engine(**endpoint);
}

/// The parent; false: the engine has failed, and has said why.
bool run_application(LockNode& node, pid_t engine) {
  int status = 0;
  bool ended = false;
  while (!ended && !apps::stop_requested() && !node.mailbox().ready.load()) {
    ended = ::waitpid(engine, &status, WNOHANG) == engine;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  if (!ended) {
    if (!apps::stop_requested()) node.run_application(engine);
    (void)::kill(engine, SIGTERM);
    (void)::waitpid(engine, &status, 0);
  }
  if (WIFSIGNALED(status)) {
    fmt::print(stderr, "lock-node: signal {} has ended the engine\n", WTERMSIG(status));
  }
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) return false;
  node.report();
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  apps::CommandLine line(argc, argv, kText);
  Options options;
  add_options(line.app(), options);
  if (const auto status = line.parse()) return *status;
  const bool is_target = options.role == "target";
  const auto config = apps::make_endpoint_config(
      options.endpoint, {.role = is_target ? apps::Role::server : apps::Role::client,
                         .use_eal_ports = !line.arguments().embedded});
  if (!config) return line.usage_error(config.error());
  const auto node =
      is_target ? make_lock_target(options.lock) : make_lock_initiator(options.lock, config->seed);
  if (auto shared = node->share(); !shared) return line.finish(shared);
  apps::catch_stop_signals();
  const pid_t parent = ::getpid();
  const pid_t engine = ::fork();
  if (engine < 0) return line.finish(fail(ErrorCode::exhausted, "no process for the engine"));
  if (engine == 0) return line.finish(run_engine(*node, parent, *config, line.arguments()));
  return run_application(*node, engine) ? apps::kExitOk : apps::kExitFailed;
}
