// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/rh_perf/program.h"

#include <memory>
#include <string>

#include <fmt/format.h>

#include "apps/common/command_line.h"
#include "apps/common/endpoint.h"
#include "apps/common/measuring.h"
#include "apps/common/report_page.h"
#include "apps/common/signals.h"
#include "apps/common/tcp.h"
#include "apps/rh_perf/client.h"
#include "apps/rh_perf/dc_backend.h"
#include "apps/rh_perf/options.h"
#include "apps/rh_perf/perftest_rdma_cm.h"
#include "apps/rh_perf/perftest_run.h"
#include "apps/rh_perf/rc_backend.h"
#include "apps/rh_perf/server.h"
#include "apps/rh_perf/verbs_backend.h"
#include "roce/random.h"
#include "stack/time_units.h"

namespace rockhopper::apps::perf {

namespace {

const ProgramText kText{
    "rh-perf",
    "Bandwidth, message rate and latency of RDMA operations, in perftest's tables. The same "
    "workload runs on Rockhopper and, with --backend verbs, on any RDMA device; the two talk to "
    "each other.",
    "  rh-perf                                 on one terminal, and\n"
    "  rh-perf --op write localhost            on another: over a memif link\n\n"
    "  rh-perf --op all --mode lat localhost   latency of all five operations\n"
    "  rh-perf --op send -a --json localhost   a sweep of sizes as JSON\n\n"
    "  rh-perf --op lock -q 8 localhost        8 queue pairs contend for a lock\n\n"
    "  rh-perf --transport dc                  one initiator, and\n"
    "  rh-perf --transport dc -q 1000 -t 1 --op write -s 64 localhost\n"
    "                                          1000 targets that take turns\n\n"
    "  rh-perf --backend verbs -d rxe0         a server on an RDMA device, and\n"
    "  rh-perf --op read --device net_af_packet0,iface=eth1 --ip 192.168.7.1/24 HOST\n"
    "                                          its client\n\n"
    "  rh-perf --peer perftest --op write -s 4096 -n 1000\n"
    "                                          a server for ib_write_bw, same options\n"
    "  rh-perf --peer perftest -R --op read -n 1000 192.168.7.2\n"
    "                                          a client of ib_read_bw -R\n"};

EndpointBackend::LocalOptions local_options(const Options& options) {
  roce::CongestionConfig congestion;
  congestion.algorithm = options.congestion;
  congestion.swift.base_target_delay_ns = options.swift_target_us * kNsPerUs;
  return {.gid_index = options.gid_index,
          .congestion = congestion,
          .pkey_index = options.endpoint.pkey_index,
          .adaptive_timeout = options.adaptive_timeout};
}

Expected<std::unique_ptr<RcBackend>> open_rc(const Options& options, const EndpointConfig& config,
                                             const stack::Arguments& arguments) {
  ROCKHOPPER_TRY(auto endpoint, Endpoint::create(config, arguments));
  return std::make_unique<RcBackend>(std::move(endpoint), local_options(options));
}

Expected<std::unique_ptr<DcBackend>> open_dc(const Options& options, const EndpointConfig& config,
                                             const stack::Arguments& arguments) {
  ROCKHOPPER_TRY(auto endpoint, Endpoint::create(config, arguments));
  return DcBackend::open(std::move(endpoint), local_options(options), options.initiator);
}

Expected<std::unique_ptr<Backend>> open_backend(const Options& options,
                                                const std::optional<EndpointConfig>& config,
                                                const stack::Arguments& arguments) {
  const auto widen = [](auto opened) -> Expected<std::unique_ptr<Backend>> {
    ROCKHOPPER_TRY(auto backend, std::move(opened));
    return backend;
  };
  if (options.backend == BackendKind::verbs) {
    return widen(
        VerbsBackend::open(options.endpoint.device, options.gid_index,
                           static_cast<std::uint32_t>(options.endpoint.connect_timeout_s * 1000)));
  }
  if (options.transport == Transport::dc) return widen(open_dc(options, *config, arguments));
  return widen(open_rc(options, *config, arguments));
}

Expected<void> run_with_rdma_cm(const Options& options, const EndpointConfig& config,
                                const stack::Arguments& arguments) {
  ROCKHOPPER_TRY(auto backend, open_rc(options, config, arguments));
  ROCKHOPPER_TRY(auto rdma_cm, PerftestRdmaCm::create(*backend, options));
  auto result = run_side(PerftestRun(*backend, options, rdma_cm.get()), options.json);
  if (options.endpoint.stats_s > 0 || stop_requested()) rdma_cm->print_statistics(stderr);
  return result;
}

Expected<void> run(const Options& options, const std::optional<EndpointConfig>& config,
                   const stack::Arguments& arguments) {
  if (options.rdma_cm) return run_with_rdma_cm(options, *config, arguments);
  if (options.role() == Role::client) ROCKHOPPER_TRY(check_host(options.host));
  ROCKHOPPER_TRY(auto backend, open_backend(options, config, arguments));
  const std::uint64_t seed = options.endpoint.seed.value_or(roce::SystemRandom().next());
  auto result = options.peer == PeerKind::perftest
                    ? run_side(PerftestRun(*backend, options, nullptr), options.json)
                : options.role() == Role::client
                    ? run_side(Client(*backend, options, seed), options.json)
                    : run_side(Server(*backend, options), options.json);
  if (options.endpoint.stats_s > 0 || stop_requested()) backend->print_statistics();
  return result;
}

struct Report {
  ReportPage page;
  TemporaryFolder folder;  ///< of the capture, where none is asked for
};

/// Finds what makes the page, and sees to it that there is a capture.
Expected<std::optional<Report>> prepare_report(Options& options) {
  if (options.report.empty()) return std::nullopt;
  Report report;
  ROCKHOPPER_TRY(report.page, ReportPage::prepare(options.report));
  if (options.endpoint.pcap.empty()) {
    ROCKHOPPER_TRY(report.folder, TemporaryFolder::make());
    options.endpoint.pcap = (report.folder.path() / "run.pcapng").string();
  }
  return report;
}

/// The page is made of runs that failed, too: then it is needed most.
Expected<void> run_and_report(const Options& options, const std::optional<EndpointConfig>& config,
                              const stack::Arguments& arguments,
                              const std::optional<Report>& report) {
  auto result = run(options, config, arguments);
  if (!report) return result;
  auto made = report->page.make({options.endpoint.pcap});
  return result ? made : result;
}

/// None for the verbs backend.
Expected<std::optional<EndpointConfig>> endpoint_config(const Options& options,
                                                        const CommandLine& line) {
  if (options.backend == BackendKind::verbs) return std::nullopt;
  ROCKHOPPER_TRY(auto config, line.endpoint_config(options.endpoint, options.role(),
                                                   options.path_mtu.value_or(0)));
  if (options.gid_index && *options.gid_index >= config.addresses.size()) {
    return fail(ErrorCode::invalid_argument, "--gid-index {}: there are {} own addresses",
                *options.gid_index, config.addresses.size());
  }
  return config;
}

}  // namespace

int program(int argc, char** argv) {
  CommandLine line(argc, argv, kText);
  Options options;
  add_options(line.app(), options);
  if (const auto status = line.parse()) return *status;
  const auto report = prepare_report(options);
  if (!report) return line.input_error(report.error());
  return line.run(endpoint_config(options, line), options.json,
                  [&](const auto& config, const stack::Arguments& arguments) {
                    return run_and_report(options, config, arguments, *report);
                  });
}

}  // namespace rockhopper::apps::perf
