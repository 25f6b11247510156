// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/rh_perf/options.h"

#include <algorithm>
#include <array>

#include "apps/common/sizes.h"
#include "apps/rh_perf/messages.h"
#include "roce/qp_attributes.h"
#include "stack/split_list.h"

namespace rockhopper::apps::perf {
namespace {

constexpr const char* kWorkload = "Workload (the client's count)";
constexpr std::uint32_t kSweepMax = 8u << 20;

Expected<std::vector<Operation>> parse_operations(std::string_view list) {
  std::vector<Operation> operations;
  if (list == "all") {
    constexpr std::array kAll{Operation::send, Operation::write, Operation::read, Operation::cas,
                              Operation::faa};
    operations.assign(kAll.begin(), kAll.end());
    return operations;
  }
  ROCKHOPPER_TRY(stack::split_list(list, [&](std::string_view name) -> Expected<void> {
    const auto operation = parse_operation(name);
    if (!operation) {
      return fail(ErrorCode::invalid_argument,
                  "--op {}: there are send, write, read, cas, faa, lock and all", name);
    }
    operations.push_back(*operation);
    return {};
  }));
  return operations;
}

std::vector<std::uint32_t> sweep() {
  std::vector<std::uint32_t> sizes;
  for (std::uint32_t size = 2; size <= kSweepMax; size *= 2) sizes.push_back(size);
  return sizes;
}

void add_workload_options(OptionSet app, RawOptions& raw) {
  Options& options = raw.options;
  app.add_option("--op", raw.operations,
                 "send, write, read, cas, faa, a list of these, or all; or lock")
      .type_name("OPS")
      .group(kWorkload);
  app.add_option("--mode", raw.mode, "bandwidth or latency").one_of({"bw", "lat"}).group(kWorkload);
  app.add_option("--lock-mode", raw.lock_mode,
                 "where the lock of --op lock is taken: by its target, or by compare and swap from "
                 "here, which tries again. Default: target (docs/locks.md)")
      .one_of({"target", "cas"})
      .group(kWorkload);
  const Option sizes =
      app.add_option("-s,--size", raw.sizes,
                     "bytes of a message, or a list; 4k, 1M. Default: 65536 for bw, 2 "
                     "for lat; atomics and lock have 8")
          .type_name("BYTES")
          .group(kWorkload);
  app.add_flag("-a,--all", raw.all_sizes, "sizes 2, 4, 8, ... 8 MiB")
      .excludes(sizes)
      .group(kWorkload);
  const Option iterations =
      app.add_option("-n,--iters", options.iterations,
                     "operations of each queue pair and size. Default: 1000; 5000 for send and "
                     "write bw")
          .positive()
          .group(kWorkload);
  app.add_option("-D,--duration", options.duration_s, "run each size so long instead")
      .range(0.01, 86400.0)
      .type_name("SECONDS")
      .excludes(iterations)
      .group(kWorkload);
  app.add_option("--warmup", options.warmup,
                 "operations of each queue pair before the measured ones. Default: a tenth")
      .group(kWorkload);
  app.add_option("-t,--window,--tx-depth", raw.window,
                 "requests outstanding for each queue pair (bw). Default: 128; 1 for lock")
      .range(1u, roce::kMaxQpWr)
      .group(kWorkload);
  app.add_option("-r,--rx-depth", options.receive_depth, "receives posted for each queue pair")
      .range(1u, roce::kMaxQpWr)
      .group(kWorkload);
  app.add_option("-q,--qp", options.qps, "number of queue pairs (bw); DC: of targets")
      .range(1, static_cast<int>(kQpsMax))
      .group(kWorkload);
  app.add_option("-Q,--cq-mod", options.cq_moderation,
                 "a completion for every so many requests (bw); at most half the window")
      .range(1u, roce::kMaxQpWr)
      .group(kWorkload);
  app.add_option("-o,--outs", options.outstanding_reads,
                 "READs and atomics outstanding for each queue pair, as far as both ends can")
      .range(1, static_cast<int>(roce::kMaxRdAtomic))
      .group(kWorkload);
  app.add_option("-I,--inline", options.inline_bytes, "send messages up to this size inline")
      .range(0u, roce::kMaxInlineBytes)
      .type_name("BYTES")
      .group(kWorkload);
  app.add_option("--transport", raw.transport,
                 "rc, or dc: one initiator for all targets (docs/dc.md); both ends alike")
      .one_of({"rc", "dc"})
      .group(kWorkload);
  add_initiator_options(app, options.initiator, kWorkload);
  app.add_option("-m,--mtu", options.path_mtu, "path MTU. Default: the largest that both ends can")
      .one_of({256, 512, 1024, 2048, 4096})
      .type_name("BYTES")
      .group(kWorkload);
  app.add_option("-u,--qp-timeout", options.ack_timeout,
                 "local ACK timeout code: 4.096 us * 2^code")
      .range(1, 31)
      .group(kWorkload);
  app.add_option("-S,--sl", options.service_level,
                 "service level: the 802.1p priority of tagged frames (--trust pcp)")
      .range(0, 7)
      .group(kWorkload);
  app.add_option("--congestion", raw.congestion,
                 "what this end does about congestion: none, dcqcn or swift "
                 "(docs/congestion-control.md)")
      .one_of({"none", "dcqcn", "swift"})
      .group(kWorkload);
  app.add_option("--recovery", raw.recovery,
                 "how losses are made good: go-back-n or selective; the client proposes, "
                 "a server that cannot gets go-back-n (docs/loss-recovery.md)")
      .one_of({"go-back-n", "selective"})
      .group(kWorkload);
  app.add_flag("--adaptive-timeout", options.adaptive_timeout,
               "this end's ACK timeout follows the round trips, up to --qp-timeout")
      .group(kWorkload);
  app.add_flag("-b,--bidirectional", options.bidirectional,
               "both ends send; the figures are sums (bw)")
      .group(kWorkload);
  app.add_flag("--validate,!--no-validate", options.validate,
               "check the data of a final pass, and the words that atomics leave (default)")
      .group(kWorkload);
}

}  // namespace

void add_options(OptionSet app, RawOptions& raw) {
  Options& options = raw.options;
  app.add_option("host", options.host,
                 "server to connect to (its TCP address); without it, be the server");
  app.add_option("-p,--port", options.port, "TCP port to exchange addresses on");
  app.add_option("--backend", raw.backend,
                 "rockhopper, or verbs: the same workload through libibverbs")
      .one_of({"rockhopper", "verbs"});
  app.add_option("--peer", raw.peer,
                 "rh-perf, or perftest: the other end is ib_send_bw, ib_write_lat and so on; give "
                 "both ends the same operation, mode, size and iterations")
      .one_of({"rh-perf", "perftest"});
  app.add_flag("-R,--rdma_cm,--rdma-cm", options.rdma_cm,
               "with --peer perftest: both ends connect through the connection manager, with no "
               "TCP; the host is the server's RoCE address");
  app.add_option("-x,--gid-index", options.gid_index,
                 "own address: 0 is the first --ip; for verbs, the index in the device's table. "
                 "Default: one of the peer's family")
      .type_name("INDEX");
  app.add_flag("--report-gbits,--report_gbits", options.report_gbits,
               "bandwidth in Gbit/s instead of MiB/s");
  app.add_flag("--json", options.json, "print one JSON object instead of tables");
  app.add_option("--timeout", options.timeout_s, "give up when nothing has completed for so long")
      .range(0.1, 86400.0)
      .type_name("SECONDS");
  add_workload_options(app, raw);
  add_endpoint_options(app, options.endpoint, "-d,--device");
}

namespace {

/// What -R wants of the other options.
Expected<void> check_rdma_cm(const Options& options) {
  if (!options.rdma_cm) return {};
  if (options.backend == BackendKind::verbs) {
    return fail(ErrorCode::invalid_argument, "--rdma_cm is for --backend rockhopper");
  }
  if (options.port == 0) {
    return fail(ErrorCode::invalid_argument, "--port 0: with --rdma_cm nobody chooses a free one");
  }
  if (options.role() == Role::client && !stack::IpAddress::parse(options.host)) {
    return fail(ErrorCode::invalid_argument,
                "{}: with --rdma_cm the host is the server's RoCE address, as 192.168.7.1",
                options.host);
  }
  return {};
}

/// What perftest's programs have no counterpart for is refused or off.
Expected<Options> for_perftest(Options options) {
  if (options.operations.size() != 1 || options.sizes.size() > 1 || options.qps != 1 ||
      options.bidirectional || options.duration_s > 0) {
    return fail(ErrorCode::invalid_argument,
                "with --peer perftest there is one operation, one size and one queue pair, in one "
                "direction, by iterations");
  }
  ROCKHOPPER_TRY(check_rdma_cm(options));
  constexpr std::uint64_t kIterations = 1000;
  if (options.iterations == 0 && options.operations.front() != Operation::write) {
    options.iterations = kIterations;
  }
  options.warmup = 0;
  options.validate = false;
  return options;
}

/// What DC cannot have, or RC alone.
Expected<void> check_transport(const Options& options, const RawOptions& raw) {
  if (options.transport == Transport::rc) {
    if (options.initiator.are_default()) return {};
    return fail(ErrorCode::invalid_argument, "--streams and --handshake are for --transport dc");
  }
  const std::array<std::pair<bool, const char*>, 4> others{{
      {options.backend == BackendKind::verbs, "--backend verbs"},
      {raw.peer != "rh-perf", "--peer perftest"},
      {options.recovery != roce::RecoveryAlgorithm::go_back_n, "--recovery selective"},
      {options.adaptive_timeout, "--adaptive-timeout"},
  }};
  for (const auto& [given, name] : others) {
    if (given) return fail(ErrorCode::invalid_argument, "--transport dc cannot have {}", name);
  }
  return {};
}

/// Sets what --op lock has of its own.
Expected<void> settle_locks(Options& options, const RawOptions& raw) {
  const auto& ops = options.operations;
  if (std::find(ops.begin(), ops.end(), Operation::lock) == ops.end()) {
    if (raw.lock_mode.empty()) return {};
    return fail(ErrorCode::invalid_argument, "--lock-mode is for --op lock");
  }
  options.lock_mode = raw.lock_mode == "cas" ? LockMode::cas : LockMode::target;
  options.window = raw.window.value_or(1);
  const bool cas = options.lock_mode == LockMode::cas;
  struct Conflict {
    bool given;
    const char* what;
    const char* with;
  };
  const std::array<Conflict, 5> conflicts{{
      {ops.size() > 1, "--op lock", "other operations beside it"},
      {options.backend == BackendKind::verbs, "--op lock", "--backend verbs"},
      {raw.peer != "rh-perf", "--op lock", "--peer perftest"},
      {cas && options.transport == Transport::dc, "--lock-mode cas", "--transport dc"},
      {cas && options.window != 1, "--lock-mode cas", "a --window above 1"},
  }};
  for (const auto& [given, what, with] : conflicts) {
    if (given) return fail(ErrorCode::invalid_argument, "{} cannot have {}", what, with);
  }
  return {};
}

}  // namespace

Expected<Options> finish_options(const RawOptions& raw) {
  Options options = raw.options;
  options.backend = raw.backend == "verbs" ? BackendKind::verbs : BackendKind::rockhopper;
  options.device = options.endpoint.device;
  options.kind = raw.mode == "lat" ? RunKind::latency : RunKind::bandwidth;
  for (const auto algorithm :
       {roce::CongestionAlgorithm::dcqcn, roce::CongestionAlgorithm::swift}) {
    if (raw.congestion == roce::to_string(algorithm)) options.congestion = algorithm;
  }
  if (options.backend == BackendKind::verbs &&
      options.congestion != roce::CongestionAlgorithm::none) {
    return fail(ErrorCode::invalid_argument,
                "--congestion is for --backend rockhopper: a device has settings of its own");
  }
  if (options.backend == BackendKind::verbs && options.endpoint.pkey_index != 0) {
    return fail(ErrorCode::invalid_argument, "--pkey-index is for --backend rockhopper");
  }
  if (raw.recovery == roce::to_string(roce::RecoveryAlgorithm::selective_repeat)) {
    options.recovery = roce::RecoveryAlgorithm::selective_repeat;
  }
  const bool recovers =
      options.adaptive_timeout || options.recovery != roce::RecoveryAlgorithm::go_back_n;
  if (recovers && options.backend == BackendKind::verbs) {
    return fail(ErrorCode::invalid_argument,
                "--recovery and --adaptive-timeout are for --backend rockhopper");
  }
  if (options.recovery != roce::RecoveryAlgorithm::go_back_n && raw.peer != "rh-perf") {
    return fail(ErrorCode::invalid_argument, "--recovery selective needs a rh-perf as peer");
  }
  options.transport = parse_transport(raw.transport).value_or(Transport::rc);
  ROCKHOPPER_TRY(check_transport(options, raw));
  ROCKHOPPER_TRY(options.operations, parse_operations(raw.operations));
  options.window = raw.window.value_or(options.window);
  ROCKHOPPER_TRY(settle_locks(options, raw));
  if (raw.all_sizes) {
    options.sizes = sweep();
  } else if (!raw.sizes.empty()) {
    ROCKHOPPER_TRY(options.sizes, parse_sizes(raw.sizes, kSizeMax));
  }
  const auto& ops = options.operations;
  const bool write = std::find(ops.begin(), ops.end(), Operation::write) != ops.end();
  if (options.kind == RunKind::latency) {
    if (write && std::find(options.sizes.begin(), options.sizes.end(), 0u) != options.sizes.end()) {
      return fail(ErrorCode::invalid_argument,
                  "the latency of WRITEs of 0 bytes cannot be measured: nothing arrives");
    }
    // Scopes wait for each other.
    const bool one = options.qps == 1 || options.lock_mode != LockMode::none;
    if (options.bidirectional || !one) {
      return fail(ErrorCode::invalid_argument,
                  "latency is measured on one queue pair in one direction; of scopes on several");
    }
  }
  options.peer = raw.peer == "perftest" ? PeerKind::perftest : PeerKind::rh_perf;
  if (options.peer == PeerKind::perftest) return for_perftest(std::move(options));
  if (options.rdma_cm) {
    return fail(ErrorCode::invalid_argument, "--rdma_cm is for --peer perftest");
  }
  return options;
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
      spec.duration_ns = static_cast<std::uint64_t>(options.duration_s * 1e9);
      spec.warmup = options.warmup.value_or(std::min<std::uint64_t>(spec.iterations / 10, 1000));
      spec.bidirectional = options.bidirectional;
      runs.push_back(spec);
    }
  }
  return runs;
}

}  // namespace rockhopper::apps::perf
