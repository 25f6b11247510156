// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/rh_perf/options.h"

#include <algorithm>

#include <fmt/format.h>

#include "apps/common/output_file.h"
#include "apps/common/sizes.h"
#include "apps/rh_perf/messages.h"
#include "roce/qp_attributes.h"

namespace rockhopper::apps::perf {
namespace {

using roce::CongestionAlgorithm;
using roce::RecoveryAlgorithm;

constexpr std::uint32_t kSweepMax = 8u << 20;
constexpr std::uint32_t kSwiftTargetUsMax = 10'000'000;

std::vector<std::uint32_t> sweep() {
  std::vector<std::uint32_t> sizes;
  for (std::uint32_t size = 2; size <= kSweepMax; size *= 2) {
    sizes.push_back(size);
  }
  return sizes;
}

bool has(const Options& options, Operation operation) {
  const auto& all = options.operations;
  return std::find(all.begin(), all.end(), operation) != all.end();
}

Expected<void> check_backend(const Options& options) {
  const bool verbs = options.backend == BackendKind::verbs;
  const bool perftest = options.peer == PeerKind::perftest;
  const bool selective = options.recovery != RecoveryAlgorithm::go_back_n;
  const bool dc = options.transport == Transport::dc;
  return refuse_if({
      {verbs && options.congestion != CongestionAlgorithm::none,
       "--congestion is for --backend rockhopper: a device has settings of its own"},
      {options.congestion != CongestionAlgorithm::swift &&
           options.swift_target_us != kSwiftTargetUs,
       "--swift-target-delay is for --congestion swift"},
      {verbs && !options.report.empty(),
       "--report is for --backend rockhopper: what a device sends "
       "is not seen here"},
      {!options.report.empty() && is_standard_output(options.endpoint.pcap),
       "--report needs the capture in a file, as --pcap FILE"},
      {verbs && options.endpoint.pkey_index != 0, "--pkey-index is for --backend rockhopper"},
      {verbs && (options.adaptive_timeout || selective),
       "--recovery and --adaptive-timeout are for --backend rockhopper"},
      {selective && perftest, "--recovery selective needs a rh-perf as peer"},
      {!dc && !options.initiator.are_default(), "--streams and --handshake are for --transport dc"},
      {dc && verbs, "--transport dc cannot have --backend verbs"},
      {dc && perftest, "--transport dc cannot have --peer perftest"},
      {dc && selective, "--transport dc cannot have --recovery selective"},
      {dc && options.adaptive_timeout, "--transport dc cannot have --adaptive-timeout"},
  });
}

/// Sets what --op lock has of its own.
Expected<void> settle_locks(Options& options, bool window_given) {
  if (!has(options, Operation::lock)) {
    return refuse_if({{options.lock_mode != LockMode::none, "--lock-mode is for --op lock"}});
  }
  if (options.lock_mode == LockMode::none) options.lock_mode = LockMode::target;
  if (!window_given) options.window = 1;
  const bool cas = options.lock_mode == LockMode::cas;
  return refuse_if({
      {options.operations.size() > 1, "--op lock cannot have other operations beside it"},
      {options.backend == BackendKind::verbs, "--op lock cannot have --backend verbs"},
      {options.peer == PeerKind::perftest, "--op lock cannot have --peer perftest"},
      {cas && options.transport == Transport::dc, "--lock-mode cas cannot have --transport dc"},
      {cas && options.window != 1, "--lock-mode cas cannot have a --window above 1"},
  });
}

Expected<void> check_latency(const Options& options) {
  if (options.kind != RunKind::latency) return {};
  const auto& sizes = options.sizes;
  const bool nothing = std::find(sizes.begin(), sizes.end(), 0u) != sizes.end();
  // Scopes wait for each other.
  const bool one = options.qps == 1 || options.lock_mode != LockMode::none;
  return refuse_if({
      {has(options, Operation::write) && nothing,
       "the latency of WRITEs of 0 bytes cannot be measured: nothing arrives"},
      {options.bidirectional || !one,
       "latency is measured on one queue pair in one direction; of scopes on several"},
  });
}

/// What perftest's programs have no counterpart for is refused or off.
Expected<void> settle_perftest(Options& options) {
  if (options.peer != PeerKind::perftest) {
    return refuse_if({{options.rdma_cm, "--rdma_cm is for --peer perftest"}});
  }
  const bool client = options.role() == Role::client;
  ROCKHOPPER_TRY(refuse_if({
      {options.operations.size() != 1 || options.sizes.size() > 1 || options.qps != 1 ||
           options.bidirectional || options.duration_s > 0,
       "with --peer perftest there is one operation, one size and one queue pair, in one "
       "direction, by iterations"},
      {options.rdma_cm && options.backend == BackendKind::verbs,
       "--rdma_cm is for --backend rockhopper"},
      {options.rdma_cm && options.port == 0, "--port 0: with --rdma_cm nobody chooses a free one"},
      {options.rdma_cm && client && !stack::IpAddress::parse(options.host),
       fmt::format("{}: with --rdma_cm the host is the server's RoCE address, as 192.168.7.1",
                   options.host)},
  }));
  constexpr std::uint64_t kIterations = 1000;
  if (options.iterations == 0 && options.operations.front() != Operation::write) {
    options.iterations = kIterations;
  }
  options.warmup = 0;
  options.validate = false;
  return {};
}

void add_operation_options(const OptionSet& app, Options& options) {
  using enum Operation;
  app.add_parsed(
      "--op OPS", "send",
      [&options](const std::string& list) -> Expected<void> {
        ROCKHOPPER_TRY(options.operations, (parse_operations(list, {send, write, read, cas, faa})));
        return {};
      },
      "send, write, read, cas, faa, a list of these, or all; or lock");
  const auto take_mode = [&options](const std::string& mode) {
    options.kind = mode == "lat" ? RunKind::latency : RunKind::bandwidth;
  };
  app.add_option_function("--mode", take_mode, "bandwidth or latency")
      .one_of({"bw", "lat"})
      .default_text("bw");
  const auto take_lock_mode = [&options](const std::string& mode) {
    options.lock_mode = *parse_name<LockMode>(mode);
  };
  app.add_option_function(
         "--lock-mode", take_lock_mode,
         "where the lock of --op lock is taken: by its target, or by compare and swap from here, "
         "which tries again. Default: target (docs/locks.md)")
      .one_of({"target", "cas"});
  const Option sizes = app.add_parsed(
      "-s,--size BYTES", "",
      [&options](const std::string& list) -> Expected<void> {
        if (list.empty()) return {};
        ROCKHOPPER_TRY(options.sizes, parse_sizes(list, kSizeMax));
        return {};
      },
      "bytes of a message, or a list; 4k, 1M. Default: 65536 for bw, 2 for lat; atomics and lock "
      "have 8");
  app.add_flag("-a,--all", options.all_sizes, "sizes 2, 4, 8, ... 8 MiB").excludes(sizes);
}

Option add_workload_options(const OptionSet& app, Options& options) {
  add_operation_options(app, options);
  add_run_length_options(
      app, options,
      {.iterations = "operations of each queue pair and size. Default: 1000; 5000 for send and "
                     "write bw",
       .warmup = "operations of each queue pair before the measured ones. Default: a tenth"});
  const Option window =
      app.add_option("-t,--window,--tx-depth", options.window,
                     "requests outstanding for each queue pair (bw). Default: 128; 1 for lock")
          .range(1u, roce::kMaxQpWr)
          .default_text("");
  app.add_option("-r,--rx-depth", options.receive_depth, "receives posted for each queue pair")
      .range(1u, roce::kMaxQpWr);
  app.add_option("-q,--qp", options.qps, "number of queue pairs (bw); DC: of targets")
      .range(1, static_cast<int>(kQpsMax));
  app.add_option("-Q,--cq-mod", options.cq_moderation,
                 "a completion for every so many requests (bw); at most half the window")
      .range(1u, roce::kMaxQpWr);
  app.add_option("-o,--outs", options.outstanding_reads,
                 "READs and atomics outstanding for each queue pair, as far as both ends can")
      .range(1, static_cast<int>(roce::kMaxRdAtomic));
  app.add_option("-I,--inline BYTES", options.inline_bytes, "send messages up to this size inline")
      .range(0u, roce::kMaxInlineBytes);
  const Option transport =
      app.add_option("--transport", options.transport,
                     "rc, or dc: one initiator for all targets (docs/dc.md); both ends alike");
  const auto take_connection = [&options](const std::string& type) {
    options.transport = type == "DC" ? Transport::dc : Transport::rc;
  };
  app.add_option_function("-c,--connection TYPE", take_connection, "the same in perftest's words")
      .one_of({"RC", "DC"})
      .excludes(transport);
  add_initiator_options(app, options.initiator);
  add_queue_pair_options(app, options);
  app.add_option("-S,--sl", options.service_level,
                 "service level: the 802.1p priority of tagged frames (--trust pcp)")
      .range(0, 7);
  app.add_option(
      "--congestion", options.congestion,
      {CongestionAlgorithm::none, CongestionAlgorithm::dcqcn, CongestionAlgorithm::swift},
      "what this end does about congestion: none, dcqcn or swift (docs/congestion-control.md)");
  app.add_option("--swift-target-delay US", options.swift_target_us,
                 "round trip that swift keeps below; more where processors are shared or far away")
      .range(1u, kSwiftTargetUsMax);
  app.add_option("--recovery", options.recovery,
                 {RecoveryAlgorithm::go_back_n, RecoveryAlgorithm::selective_repeat},
                 "how losses are made good: go-back-n or selective; the client proposes, a server "
                 "that cannot gets go-back-n (docs/loss-recovery.md)");
  app.add_flag("--adaptive-timeout", options.adaptive_timeout,
               "this end's ACK timeout follows the round trips, up to --qp-timeout");
  app.add_flag("-b,--bidirectional", options.bidirectional,
               "both ends send; the figures are sums (bw)");
  app.add_flag("--validate,!--no-validate", options.validate,
               "check the data of a final pass, and the words that atomics leave (default)");
  return window;
}

}  // namespace

void add_options(const OptionSet& app, Options& options) {
  add_measuring_options(app, options, "--report-gbits,--report_gbits");
  app.add_option("--backend", options.backend,
                 "rockhopper, or verbs: the same workload through libibverbs");
  app.add_option("--peer", options.peer,
                 "rh-perf, or perftest: the other end is ib_send_bw, ib_write_lat and so on; give "
                 "both ends the same operation, mode, size and iterations");
  app.add_flag("-F,--CPU-freq", options.ignored, "of perftest; there is nothing to do here");
  app.add_flag("-R,--rdma_cm,--rdma-cm", options.rdma_cm,
               "with --peer perftest: both ends connect through the connection manager, with no "
               "TCP; the host is the server's RoCE address");
  app.add_option("-x,--gid-index INDEX", options.gid_index,
                 "own address: 0 is the first --ip; for verbs, the index in the device's table. "
                 "Default: one of the peer's family");
  app.add_option("--report FILE", options.report,
                 "make a page of what was on the wire, by rh-report: PSNs over time, ladders, "
                 "findings");
  const Option window = add_workload_options(app.group("Workload (the client's count)"), options);
  add_endpoint_options(app, options.endpoint);
  app.check([&options, window]() -> Expected<void> {
    if (options.all_sizes) options.sizes = sweep();
    ROCKHOPPER_TRY(check_backend(options));
    ROCKHOPPER_TRY(settle_locks(options, window.given()));
    ROCKHOPPER_TRY(check_latency(options));
    return settle_perftest(options);
  });
}

std::vector<RunSpec> plan(const Options& options) {
  std::vector<RunSpec> runs;
  for (const Operation operation : options.operations) {
    std::vector<std::uint32_t> sizes = options.sizes;
    if (sizes.empty()) sizes.push_back(options.kind == RunKind::latency ? 2 : 65536);
    if (is_atomic(operation)) sizes.assign(1, 8);
    for (const std::uint32_t size : sizes) {
      RunSpec spec;
      spec.operation = operation;
      spec.kind = options.kind;
      spec.size = size;
      const bool one_sided_data = operation == Operation::send || operation == Operation::write;
      const std::uint64_t usual =
          options.kind == RunKind::bandwidth && one_sided_data ? 5000 : 1000;
      spec.iterations = options.iterations != 0 ? options.iterations : usual;
      spec.duration_ns = options.duration_ns();
      spec.warmup = options.warmup.value_or(std::min<std::uint64_t>(spec.iterations / 10, 1000));
      spec.bidirectional = options.bidirectional;
      runs.push_back(spec);
    }
  }
  return runs;
}

}  // namespace rockhopper::apps::perf
