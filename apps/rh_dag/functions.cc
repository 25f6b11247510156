// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/rh_dag/functions.h"

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "apps/common/signals.h"
#include "apps/common/steady_clock.h"
#include "apps/rh_dag/workflow_graph.h"
#include "apps/services/dag/graph/digest_task.h"
#include "apps/services/dag/graph/little_endian.h"

namespace rockhopper::apps::dag_node {
namespace {

constexpr std::uint64_t kPartNs = 5 * kNsPerMs;

Expected<void> pass_time(std::uint64_t ns, Wait wait, const std::function<bool()>& stopped) {
  const std::uint64_t start_ns = steady_now_ns();
  for (std::uint64_t next_ns = 0;;) {
    const std::uint64_t passed_ns = steady_now_ns() - start_ns;
    if (passed_ns >= ns) return {};
    if (passed_ns >= next_ns) {
      if (stopped()) return tl::make_unexpected(interrupted());
      next_ns = passed_ns + kPartNs;
    }
    if (wait == Wait::sleep) {
      std::this_thread::sleep_for(std::chrono::nanoseconds(std::min(ns - passed_ns, kPartNs)));
    }
  }
}

}  // namespace

std::vector<std::byte> emit_wait(std::uint64_t ns) {
  std::vector<std::byte> arguments(sizeof ns);
  dag::LittleEndianWriter(arguments).put(ns);
  return arguments;
}

Expected<dag::FunctionRegistry> make_functions(Wait wait, std::function<bool()> stopped) {
  dag::FunctionRegistry registry;
  ROCKHOPPER_TRY(dag::add_digest_function(registry, kOutputBytesMax));
  ROCKHOPPER_TRY(registry.add(
      kWaitFunction, "wait",
      [wait, stopped = std::move(stopped)](const dag::TaskCall& call,
                                           std::vector<std::byte>& output) -> Expected<void> {
        if (call.arguments.size() != sizeof(std::uint64_t)) {
          return fail(ErrorCode::invalid_argument, "the wait function takes 8 bytes, not {}",
                      call.arguments.size());
        }
        output.assign(call.previous.begin(), call.previous.end());
        dag::LittleEndianReader reader(call.arguments);
        return pass_time(reader.take<std::uint64_t>(), wait, stopped);
      }));
  return registry;
}

}  // namespace rockhopper::apps::dag_node
