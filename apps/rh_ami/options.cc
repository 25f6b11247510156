// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/rh_ami/options.h"

#include <algorithm>
#include <bit>

#include "apps/common/sizes.h"
#include "apps/services/ami/injection_fifo.h"
#include "stack/split_list.h"

namespace rockhopper::apps::messages {
namespace {

constexpr const char* kWorkload = "Workload (the client's count)";
constexpr const char* kLane = "Injection FIFO (each end its own)";
constexpr std::uint32_t kAtomicBytes = 8;
/// Of both areas of an end's memory.
constexpr std::uint64_t kCheckedBytesMax = std::uint64_t{1} << 30;

Expected<std::vector<Operation>> parse_operations(std::string_view list) {
  using enum Operation;
  if (list == "all") return std::vector{am_lat, am_bw, put, put_notify, get, fetch_add};
  std::vector<Operation> operations;
  ROCKHOPPER_TRY(stack::split_list(list, [&](std::string_view name) -> Expected<void> {
    const auto operation = parse_operation(name);
    if (!operation) {
      return fail(ErrorCode::invalid_argument,
                  "--op {}: there are am_lat, am_bw, put, put_notify, get, fetch_add and all",
                  name);
    }
    operations.push_back(*operation);
    return {};
  }));
  return operations;
}

void add_workload_options(OptionSet app, RawOptions& raw) {
  Options& options = raw.options;
  app.add_option("--op", raw.operations,
                 "am_lat: active messages there and back; am_bw: a window of them; put, "
                 "put_notify, get, fetch_add: a window of these; a list, or all")
      .type_name("OPS")
      .group(kWorkload);
  app.add_option("-s,--size", raw.sizes, "bytes of a payload, or a list; 4k, 1M. fetch_add has 8")
      .type_name("BYTES")
      .group(kWorkload);
  const Option iterations =
      app.add_option("-n,--iters", options.iterations, "instructions of each size")
          .positive()
          .group(kWorkload);
  app.add_option("-D,--duration", options.duration_s, "run each size so long instead")
      .range(0.01, 86400.0)
      .type_name("SECONDS")
      .excludes(iterations)
      .group(kWorkload);
  app.add_option("--warmup", options.warmup,
                 "instructions before the measured ones. Default: a tenth")
      .group(kWorkload);
  app.add_option("-t,--window", options.window,
                 "instructions on their way: not known to be complete (not am_lat)")
      .range(1u, kWindowMax)
      .group(kWorkload);
  app.add_option("--level", raw.level,
                 "when an instruction is complete: local, its buffer is free; remote, the peer has "
                 "it; handled, its handler has run")
      .one_of({"local", "remote", "handled"})
      .group(kWorkload);
  app.add_option("--callbacks", options.callbacks,
                 "percent of the instructions that have a callback, chosen at random; at least one "
                 "in a window has")
      .range(0, 100)
      .type_name("PERCENT")
      .group(kWorkload);
  app.add_flag("--check", options.check,
               "compare all content, and see that each callback is called once and not before "
               "the data are there");
  app.add_option("--eager", options.eager_bytes,
                 "longer payloads of active messages are read by the receiver (rendezvous)")
      .range(0u, 1u << 20)
      .type_name("BYTES")
      .group(kWorkload);
  app.add_option("--transport", raw.transport,
                 "rc, or dc: dynamic connections (docs/dc.md); both ends alike")
      .one_of({"rc", "dc"})
      .group(kWorkload);
  app.add_option("-m,--mtu", options.path_mtu, "path MTU. Default: the largest that both ends can")
      .one_of({256, 512, 1024, 2048, 4096})
      .type_name("BYTES")
      .group(kWorkload);
  app.add_option("-u,--qp-timeout", options.ack_timeout,
                 "local ACK timeout code: 4.096 us * 2^code")
      .range(1, 31)
      .group(kWorkload);
}

void add_lane_options(OptionSet app, RawOptions& raw) {
  Options& options = raw.options;
  app.add_option("--mode", raw.completion,
                 "how the adapter tells of complete transfers: mask, a bit for each, in any order; "
                 "counter, how many, in the order of injection (docs/ami.md)")
      .one_of({"mask", "counter"})
      .group(kLane);
  app.add_option("--slots", options.slots, "descriptors that it holds: a power of two")
      .range(2u, ami::InjectionFifo<>::kMaxSlots)
      .group(kLane);
  app.add_option("--threads", options.threads,
                 "1: application and adapter take turns on one core; 2: the application injects "
                 "from a thread of its own")
      .range(1, 2)
      .group(kLane);
}

}  // namespace

std::string_view to_string(ami::CompletionMode mode) {
  return mode == ami::CompletionMode::counter ? "counter" : "mask";
}

void add_options(OptionSet app, RawOptions& raw) {
  Options& options = raw.options;
  app.add_option("host", options.host,
                 "server to connect to (its TCP address); without it, be the server");
  app.add_option("-p,--port", options.port, "TCP port to exchange addresses on");
  app.add_flag("--report-gbits", options.report_gbits, "bandwidth in Gbit/s instead of MiB/s");
  app.add_flag("--json", options.json, "print one JSON object instead of tables");
  app.add_option("--timeout", options.timeout_s, "give up when nothing has completed for so long")
      .range(0.1, 86400.0)
      .type_name("SECONDS");
  add_workload_options(app, raw);
  add_lane_options(app, raw);
  add_endpoint_options(app, options.endpoint, "-d,--device");
}

Expected<Options> finish_options(const RawOptions& raw) {
  Options options = raw.options;
  options.transport = parse_transport(raw.transport).value_or(Transport::rc);
  options.completion =
      raw.completion == "counter" ? ami::CompletionMode::counter : ami::CompletionMode::mask;
  options.level = parse_level(raw.level).value_or(ami::Level::remote);
  if (!std::has_single_bit(options.slots)) {
    return fail(ErrorCode::invalid_argument, "--slots {}: a power of two, as 1024", options.slots);
  }
  ROCKHOPPER_TRY(options.operations, parse_operations(raw.operations));
  ROCKHOPPER_TRY(options.sizes, parse_sizes(raw.sizes, kSizeMax));
  const std::uint64_t size_max = *std::max_element(options.sizes.begin(), options.sizes.end());
  if (options.check && size_max * options.window * 2 > kCheckedBytesMax) {
    return fail(ErrorCode::invalid_argument,
                "--check needs memory for a window of {} payloads of {} bytes: take a smaller "
                "--window",
                options.window, size_max);
  }
  return options;
}

std::vector<RunSpec> plan(const Options& options) {
  std::vector<RunSpec> specs;
  for (const Operation operation : options.operations) {
    for (const std::uint32_t size : options.sizes) {
      const bool timed = options.duration_s > 0;
      RunSpec spec;
      spec.operation = operation;
      spec.size = operation == Operation::fetch_add ? kAtomicBytes : size;
      spec.iterations = timed ? 0 : options.iterations;
      spec.duration_ns = static_cast<std::uint64_t>(options.duration_s * 1e9);
      spec.warmup = options.warmup.value_or(timed ? 1000 : options.iterations / 10);
      specs.push_back(spec);
      if (operation == Operation::fetch_add) break;
    }
  }
  return specs;
}

}  // namespace rockhopper::apps::messages
