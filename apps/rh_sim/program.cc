// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/rh_sim/program.h"

#include <cstdint>
#include <optional>
#include <string>

#include <fmt/format.h>

#include "apps/common/command_line.h"
#include "apps/common/option_set.h"
#include "apps/common/output_file.h"
#include "apps/common/progress.h"
#include "apps/common/report_page.h"
#include "apps/common/signals.h"
#include "apps/common/steady_clock.h"
#include "apps/rh_sim/plots.h"
#include "apps/rh_sim/report.h"
#include "apps/rh_sim/scenario.h"
#include "apps/rh_sim/simulation.h"

namespace rockhopper::apps::sim {

namespace {

const ProgramText kText{
    "rh-sim",
    "Runs a network of RoCEv2 endpoints, links and switches in virtual time, from a scenario file "
    "and one seed.",
    "  rh-sim run.json                   tables of flows, queues and counters\n"
    "  rh-sim run.json --seed 7 --json\n"
    "  rh-sim run.json --plot out        out-rates.svg, out-queues.svg, and figures\n"
    "  rh-sim run.json --pcap run.pcapng      a capture of each host's link\n"
    "  rh-sim run.json --report run.html      a page of what was on the wire\n"};

struct Options {
  std::string scenario;
  std::optional<std::uint64_t> seed;
  std::string pcap;
  std::string plot;
  std::string report;
  bool json = false;
};

void add_options(const OptionSet& app, Options& options) {
  app.add_option("scenario FILE", options.scenario, "the scenario file (docs/programs/rh-sim.md)")
      .required();
  app.add_option("--seed N", options.seed, "instead of the scenario's");
  app.add_option("--pcap FILE", options.pcap,
                 "capture each host's link to a pcapng file of its own: run.pcapng gives "
                 "run.HOST.pcapng");
  app.add_option("--plot PREFIX", options.plot,
                 "draw the flows' rates and the switches' queues over time: out gives "
                 "out-rates.svg, out-queues.svg, and the figures as CSV");
  app.add_option("--report FILE", options.report,
                 "make a page of what was on the wire, by rh-report: PSNs over time, ladders, "
                 "findings");
  app.add_flag("--json", options.json, "print one JSON object instead of tables");
  app.check([&options] {
    return refuse_standard_output("--pcap", options.pcap).and_then([&options] {
      return refuse_standard_output("--plot", options.plot);
    });
  });
}

/// What is real about a run goes to standard error, as it is never the same.
void print_speed(const Simulation& simulation, std::uint64_t real_ns) {
  std::uint64_t messages = 0;
  for (const auto& flow : simulation.flows()) {
    messages += flow->result().completed;
  }
  const double seconds = static_cast<double>(real_ns) * 1e-9;
  fmt::print(stderr, "rh-sim: {} messages in {:.2f} s of real time, {:.0f} a second\n", messages,
             seconds, static_cast<double>(messages) / seconds);
}

/// Why a run is no success; empty if it is one.
std::string shortcoming(const Simulation& simulation) {
  for (const auto& flow : simulation.flows()) {
    const FlowResult& result = flow->result();
    if (result.failed != 0) {
      return fmt::format("{}: {} messages failed", flow->spec().name, result.failed);
    }
    if (flow->spec().count != 0 && result.completed < flow->spec().count) {
      return fmt::format("{}: {} of {} messages at the end of the scenario", flow->spec().name,
                         result.completed, flow->spec().count);
    }
  }
  return {};
}

/// The page, and the captures that it is made of: those that are asked for, or some of a moment.
struct Report {
  ReportPage page;
  TemporaryFolder folder;
  std::string captures;
};

Expected<std::optional<Report>> prepare_report(const Options& options) {
  if (options.report.empty()) return std::nullopt;
  Report report;
  ROCKHOPPER_TRY(report.page, ReportPage::prepare(options.report));
  report.captures = options.pcap;
  if (report.captures.empty()) {
    ROCKHOPPER_TRY(report.folder, TemporaryFolder::make());
    report.captures = (report.folder.path() / "run.pcapng").string();
  }
  return report;
}

Expected<void> run(const Scenario& scenario, const Options& options,
                   const stack::Arguments& arguments, const std::optional<Report>& report) {
  ROCKHOPPER_TRY(const auto eal, stack::Eal::start(arguments, {.memory_mb = memory_mb(scenario)}));
  ROCKHOPPER_TRY(auto created,
                 Simulation::create(scenario, report ? report->captures : options.pcap));
  Simulation& simulation = *created;
  const std::uint64_t start_ns = steady_now_ns();
  {
    Progress progress("microseconds of virtual time");
    simulation.run([&](std::uint64_t passed_ns) {
      progress.update(passed_ns / 1000, scenario.duration_ns / 1000);
      return !stop_requested();
    });
  }
  print_speed(simulation, steady_now_ns() - start_ns);
  if (options.json) {
    fmt::print("{}\n", json_report(simulation));
  } else {
    print_report(stdout, simulation);
  }
  ROCKHOPPER_TRY(simulation.finish());
  if (!options.plot.empty()) ROCKHOPPER_TRY(write_plots(simulation, options.plot));
  if (report) ROCKHOPPER_TRY(report->page.make(captures_of(scenario, report->captures)));
  if (stop_requested()) return tl::make_unexpected(interrupted());
  const std::string problem = shortcoming(simulation);
  if (!problem.empty()) return fail(ErrorCode::io, "{}", problem);
  return {};
}

}  // namespace

int program(int argc, char** argv) {
  CommandLine line(argc, argv, kText);
  Options options;
  add_options(line.app(), options);
  if (const auto status = line.parse()) return *status;
  auto scenario = read_scenario(options.scenario, options.seed);
  if (!scenario) return line.input_error(scenario.error());
  const auto report = prepare_report(options);
  if (!report) return line.input_error(report.error());
  catch_stop_signals();
  return line.finish(run(*scenario, options, line.arguments(), *report));
}

}  // namespace rockhopper::apps::sim
