// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "tests/interop/rc_main.h"

#include <exception>
#include <iostream>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include <unistd.h>

#include "tests/interop/rc_exchange.h"
#include "tests/interop/rc_negative.h"
#include "tests/interop/rc_run.h"

namespace rockhopper::interop {
namespace {

constexpr int kConnectTimeoutS = 30;

struct Arguments {
  RunOptions options;
  std::string host;
  std::uint16_t port = 0;
  std::vector<std::string> kinds;
  std::string requester = "both";
  std::string wait_for_fence = "none";
  std::optional<std::uint32_t> first_psn;
  std::uint32_t max_path_mtu = 4096;
  bool list_cases = false;
};

void add_script_options(CLI::App& app, Arguments& arguments) {
  ScriptOptions& script = arguments.options.script;
  app.add_option("--operations", script.operations, "Operations of each kind (1000)");
  app.add_option("--kinds", arguments.kinds,
                 "Kinds of operation, with commas (the first eight): send send_imm send_inv write "
                 "write_imm read "
                 "compare_swap fetch_add; and where both ends know them, atomic_write flush")
      ->delimiter(',')
      ->allow_extra_args(false);
  app.add_option("--requester", arguments.requester, "Whose script runs (both at once)")
      ->check(CLI::IsMember({"client", "server", "both"}));
  app.add_option("--window", script.window, "Requests outstanding, 1 to 4096 (64)");
  app.add_option("--phase-operations", script.phase_operations,
                 "Operations between two checks of the whole region, 1 to 4096 (256)");
  app.add_option("--region-bytes", script.region_bytes, "Size of the region (262144)");
  app.add_option("--max-length", script.max_length, "Longest message in bytes (98304)");
  app.add_option("--max-sges", script.max_sges, "Elements of a request's list, 1 to 3 (3)");
  app.add_flag("--lasting-read-keys", script.lasting_read_keys,
               "READs use no key that SEND with Invalidate will take away");
  app.add_option("--wait-for-fence", arguments.wait_for_fence,
                 "Whose requests wait for completions instead of using a fence (nobody's)")
      ->check(CLI::IsMember({"client", "server", "both", "none"}));
  app.add_option("--late-receives", arguments.options.late_receives,
                 "Post so many receives at a time when they are needed already: provokes RNR NAKs");
  app.add_option("--negative", arguments.options.negative,
                 "Run a case that must be refused instead of the script, or \"all\"");
}

void add_connection_options(CLI::App& app, Arguments& arguments) {
  RunOptions& options = arguments.options;
  app.add_option("--max-rd-atomic", options.max_rd_atomic, "READs and atomics outstanding (16)");
  app.add_option("--timeout", options.timeout, "Local ACK timeout code, 4.096 us * 2^n (14)")
      ->check(CLI::Range(0, 31));
  app.add_option("--retry-count", options.retry_count, "Retries after a timeout, 0 to 7 (7)")
      ->check(CLI::Range(0, 7));
  app.add_option("--rnr-retry", options.rnr_retry, "Retries after RNR NAK; 7 is without limit (7)")
      ->check(CLI::Range(0, 7));
  app.add_option("--min-rnr-timer", options.min_rnr_timer, "RNR NAK timer code (12: 0.64 ms)")
      ->check(CLI::Range(0, 31));
  app.add_option("--stall-timeout", options.stall_timeout_s, "Give up without progress (60 s)");
}

void add_options_of_each_end(CLI::App& app, Arguments& arguments) {
  app.add_option("host", arguments.host, "The server; without it this end is the server");
  app.add_option("-p,--tcp-port", arguments.port,
                 "TCP port of the exchange; a server takes a free one for 0 and prints it");
  app.add_option("--psn", arguments.first_psn, "First PSN of this end's requests (random)")
      ->check(CLI::Range(0u, 0xffffffu));
  app.add_option("--path-mtu", arguments.max_path_mtu, "Greatest path MTU to agree to")
      ->check(CLI::IsMember({256u, 512u, 1024u, 2048u, 4096u}));
  app.add_flag("--list-negative", arguments.list_cases, "Print the negative cases");
}

/// Fills in what is derived; throws Failure on what CLI11 cannot check.
void complete(Arguments& arguments) {
  RunOptions& options = arguments.options;
  options.client_requests = arguments.requester != "server";
  options.server_requests = arguments.requester != "client";
  options.client_waits_for_fence =
      arguments.wait_for_fence == "client" || arguments.wait_for_fence == "both";
  options.server_waits_for_fence =
      arguments.wait_for_fence == "server" || arguments.wait_for_fence == "both";
  for (const std::string& name : arguments.kinds) {
    const std::optional<OperationKind> kind = operation_kind(name);
    if (!kind) throw Failure("--kinds: no operation '" + name + "'; see --help");
    options.script.kinds.push_back(*kind);
  }
  if (arguments.kinds.empty()) {
    for (std::size_t kind = 0; kind < kUsualKinds; ++kind) {
      options.script.kinds.push_back(static_cast<OperationKind>(kind));
    }
  }
  options.script.path_mtu = arguments.max_path_mtu;
  if (const std::string wrong = check(options.script); !wrong.empty()) throw Failure(wrong);
  if (!arguments.first_psn) arguments.first_psn = std::random_device()() & 0xffffff;
}

int fail(const char* program, const char* what, int status) {
  std::cerr << program << ": " << what << '\n';
  return status;
}

Json run_with(Endpoint& endpoint, const Arguments& arguments) {
  const Role role = arguments.host.empty() ? Role::server : Role::client;
  Exchange exchange = role == Role::server
                          ? Exchange::accept(arguments.port)
                          : Exchange::connect(arguments.host, arguments.port, kConnectTimeoutS);
  try {
    Json summary = run(endpoint, exchange, role, arguments.options, *arguments.first_psn,
                       isatty(STDERR_FILENO) != 0);
    summary["role"] = role == Role::client ? "client" : "server";
    return summary;
  } catch (const std::exception& error) {
    exchange.abort(error.what());
    throw;
  }
}

}  // namespace

int rc_main(int argc, char** argv, const std::string& description,
            const std::function<void(CLI::App&)>& add_options,
            const std::function<std::unique_ptr<Endpoint>()>& make_endpoint) {
  CLI::App app(description);
  Arguments arguments;
  add_options_of_each_end(app, arguments);
  add_options(app);
  app.add_option("--seed", arguments.options.script.seed, "What the script is drawn from (1)");
  add_script_options(app, arguments);
  add_connection_options(app, arguments);
  try {
    app.parse(argc, argv);
    complete(arguments);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  } catch (const Failure& error) {
    return fail(argv[0], error.what(), 2);
  }
  if (arguments.list_cases) {
    for (const std::string_view name : negative_cases()) {
      std::cout << name << '\n';
    }
    return 0;
  }
  try {
    const std::unique_ptr<Endpoint> endpoint = make_endpoint();
    std::cout << run_with(*endpoint, arguments).dump() << std::endl;
    return 0;
  } catch (const std::exception& error) {
    std::cout << Json{{"ok", false}, {"error", error.what()}}.dump() << std::endl;
    return fail(argv[0], error.what(), 1);
  }
}

}  // namespace rockhopper::interop
