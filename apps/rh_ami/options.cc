// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/rh_ami/options.h"

#include <algorithm>
#include <bit>
#include <string>

#include <fmt/format.h>

#include "apps/common/sizes.h"
#include "apps/services/ami/injection_fifo.h"

namespace rockhopper::apps::messages {
namespace {

constexpr std::uint32_t kAtomicBytes = 8;
/// Of both areas of an end's memory.
constexpr std::uint64_t kCheckedBytesMax = std::uint64_t{1} << 30;

void add_workload_options(const OptionSet& app, Options& options) {
  using enum Operation;
  app.add_parsed(
      "--op OPS", "am_lat",
      [&options](const std::string& list) -> Expected<void> {
        ROCKHOPPER_TRY(options.operations,
                       (parse_operations(list, {am_lat, am_bw, put, put_notify, get, fetch_add})));
        return {};
      },
      "am_lat: active messages there and back; am_bw: a window of them; put, put_notify, get, "
      "fetch_add: a window of these; a list, or all");
  app.add_parsed(
      "-s,--size BYTES", "8",
      [&options](const std::string& list) -> Expected<void> {
        ROCKHOPPER_TRY(options.sizes, parse_sizes(list, kSizeMax));
        return {};
      },
      "bytes of a payload, or a list; 4k, 1M. fetch_add has 8");
  add_run_length_options(app, options,
                         {.iterations = "instructions of each size",
                          .warmup = "instructions before the measured ones. Default: a tenth"});
  app.add_option("-t,--window", options.window,
                 "instructions on their way: not known to be complete (not am_lat)")
      .range(1u, kWindowMax);
  app.add_option("--level", options.level,
                 "when an instruction is complete: local, its buffer is free; remote, the peer has "
                 "it; handled, its handler has run");
  app.add_option("--callbacks PERCENT", options.callbacks,
                 "percent of the instructions that have a callback, chosen at random; at least one "
                 "in a window has")
      .range(0, 100);
  app.add_option("--eager BYTES", options.eager_bytes,
                 "longer payloads of active messages are read by the receiver (rendezvous)")
      .range(0u, 1u << 20);
  app.add_option("--transport", options.transport,
                 "rc, or dc: dynamic connections (docs/dc.md); both ends alike");
  add_queue_pair_options(app, options);
}

void add_lane_options(const OptionSet& app, Options& options) {
  app.add_option("--mode", options.completion,
                 "how the adapter tells of complete transfers: mask, a bit for each, in any order; "
                 "counter, how many, in the order of injection (docs/ami.md)");
  app.add_option("--slots", options.slots, "descriptors that it holds: a power of two")
      .range(2u, ami::InjectionFifo<>::kMaxSlots);
  app.add_option("--threads", options.threads,
                 "1: application and adapter take turns on one core; 2: the application injects "
                 "from a thread of its own")
      .range(1, 2);
}

Expected<void> check(const Options& options) {
  const std::uint64_t size_max = *std::max_element(options.sizes.begin(), options.sizes.end());
  return refuse_if({
      {!std::has_single_bit(options.slots),
       fmt::format("--slots {}: a power of two, as 1024", options.slots)},
      {options.check && size_max * options.window * 2 > kCheckedBytesMax,
       fmt::format("--check needs memory for a window of {} payloads of {} bytes: take a smaller "
                   "--window",
                   options.window, size_max)},
      {options.transport == Transport::dc && options.endpoint.pkey_index != 0,
       "--pkey-index is for --transport rc"},
  });
}

}  // namespace

void add_options(const OptionSet& app, Options& options) {
  add_measuring_options(app, options, "--report-gbits");
  app.add_flag("--check", options.check,
               "compare all content, and see that each callback is called once and not before the "
               "data are there");
  add_workload_options(app.group("Workload (the client's count)"), options);
  add_lane_options(app.group("Injection FIFO (each end its own)"), options);
  add_endpoint_options(app, options.endpoint);
  app.check([&options] { return check(options); });
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
      spec.duration_ns = options.duration_ns();
      spec.warmup = options.warmup.value_or(timed ? 1000 : options.iterations / 10);
      specs.push_back(spec);
      if (operation == Operation::fetch_add) break;
    }
  }
  return specs;
}

}  // namespace rockhopper::apps::messages
