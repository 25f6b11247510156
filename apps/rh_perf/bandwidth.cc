// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include <algorithm>
#include <array>
#include <numeric>
#include <utility>
#include <vector>

#include "apps/common/progress.h"
#include "apps/common/steady_clock.h"
#include "apps/rh_perf/workload.h"

namespace rockhopper::apps::perf {
namespace {

/// Finds the best rate over a tenth of the run.
class PeakMeter {
 public:
  PeakMeter(std::uint64_t start_ns, std::uint64_t operations_total, std::uint64_t duration_ns)
      : operations_step_(std::max<std::uint64_t>(operations_total / kParts, 1)),
        duration_step_ns_(duration_ns / kParts),
        mark_ns_(start_ns) {}

  void update(std::uint64_t operations, std::uint64_t now_ns) {
    const std::uint64_t count = operations - mark_operations_;
    const std::uint64_t elapsed_ns = now_ns - mark_ns_;
    const bool full =
        duration_step_ns_ > 0 ? elapsed_ns >= duration_step_ns_ : count >= operations_step_;
    if (!full || elapsed_ns == 0) return;
    peak_ = std::max(peak_, static_cast<double>(count) * 1e9 / static_cast<double>(elapsed_ns));
    mark_operations_ = operations;
    mark_ns_ = now_ns;
  }
  [[nodiscard]] double peak() const { return peak_; }

 private:
  static constexpr std::uint64_t kParts = 10;
  std::uint64_t operations_step_;
  std::uint64_t duration_step_ns_;
  std::uint64_t mark_operations_ = 0;
  std::uint64_t mark_ns_;
  double peak_ = 0;
};

/// Posts the requests of a bandwidth run.
class Generator {
 public:
  Generator(Traffic& traffic, const RunSpec& spec, std::uint32_t cq_moderation)
      : traffic_(traffic),
        spec_(spec),
        // With more than half the window unsignaled, the queue would run empty between two
        // completions. Each scope has one.
        moderation_(spec.operation == Operation::lock
                        ? 1
                        : std::clamp<std::uint32_t>(cq_moderation, 1,
                                                    std::max(traffic.agreement().window / 2, 1u))),
        unsignaled_(traffic.agreement().qps) {}

  /// Fills the windows, up to `limit` requests since the start of the run for each queue pair.
  [[nodiscard]] Expected<void> fill(std::uint64_t limit) {
    traffic_.take_freed(todo_);
    if (limit != std::exchange(limit_, limit)) {
      todo_.resize(traffic_.agreement().qps);
      std::iota(todo_.begin(), todo_.end(), std::uint16_t{0});
    }
    for (const std::uint16_t qp : todo_) {
      while (traffic_.posted(qp) < limit && traffic_.room(qp) > 0) {
        const std::uint64_t count = std::min<std::uint64_t>(
            {batch_.size(), traffic_.room(qp), limit - traffic_.posted(qp)});
        const std::uint64_t first = traffic_.posted(qp);
        for (std::uint64_t i = 0; i < count; ++i) {
          batch_[i] = request(qp, first + i, first + i + 1 == limit);
        }
        ROCKHOPPER_TRY(traffic_.post(qp, {batch_.data(), static_cast<std::size_t>(count)}));
      }
    }
    return {};
  }

  /// Ends a run by time: each queue pair's last request must be signaled, or it would never be
  /// known to be done.
  [[nodiscard]] Expected<void> finish() {
    for (std::uint16_t qp = 0; qp < traffic_.agreement().qps; ++qp) {
      if (unsignaled_[qp] == 0) continue;
      while (traffic_.room(qp) == 0) {
        ROCKHOPPER_TRY(traffic_.poll());
      }
      const SendRequest last = request(qp, traffic_.posted(qp), true);
      ROCKHOPPER_TRY(traffic_.post(qp, {&last, 1}));
    }
    return traffic_.drain();
  }

 private:
  /// The queue pair's request number `number` of the run. Atomics count on from 0.
  [[nodiscard]] SendRequest request(std::uint16_t qp, std::uint64_t number, bool last) {
    SendRequest request;
    const std::uint32_t since = ++unsignaled_[qp];
    request.id = WorkId{false, qp, since}.encode();
    request.operation = spec_.operation;
    request.signaled = last || since == moderation_;
    if (request.signaled) unsignaled_[qp] = 0;
    request.length = spec_.size;
    request.local_offset = traffic_.layout().local(qp, 0);
    request.remote_address = traffic_.remote_target(qp, 0);
    request.compare_add = spec_.operation == Operation::cas ? number : 1;
    request.swap = number + 1;
    return request;
  }

  Traffic& traffic_;
  const RunSpec& spec_;
  std::uint32_t moderation_;
  std::uint64_t limit_ = 0;
  std::vector<std::uint16_t> todo_;        ///< queue pairs that may take more
  std::vector<std::uint32_t> unsignaled_;  ///< posted since the last signaled request
  std::array<SendRequest, Backend::kBatch> batch_;
};

Expected<Measurement> run_iterations(Traffic& traffic, Generator& generator, const RunSpec& spec) {
  const std::uint64_t total = spec.iterations * traffic.agreement().qps;
  const std::uint64_t before = traffic.completed();
  Progress progress("operations");
  const std::uint64_t start_ns = steady_now_ns();
  PeakMeter peak(start_ns, total, 0);
  while (traffic.completed() - before < total) {
    ROCKHOPPER_TRY(generator.fill(spec.warmup + spec.iterations));
    ROCKHOPPER_TRY(auto polled, traffic.poll());
    if (!polled) continue;
    const std::uint64_t done = traffic.completed() - before;
    peak.update(done, steady_now_ns());
    progress.update(done, total);
  }
  Measurement result;
  result.operations = total;
  result.seconds = static_cast<double>(steady_now_ns() - start_ns) * 1e-9;
  result.peak_operations_per_s = peak.peak();
  return result;
}

Expected<Measurement> run_duration(Traffic& traffic, Generator& generator, const RunSpec& spec) {
  const std::uint64_t before = traffic.completed();
  Progress progress("operations");
  const std::uint64_t start_ns = steady_now_ns();
  PeakMeter peak(start_ns, 0, spec.duration_ns);
  std::uint64_t now_ns = start_ns;
  while (now_ns - start_ns < spec.duration_ns) {
    ROCKHOPPER_TRY(generator.fill(UINT64_MAX));
    ROCKHOPPER_TRY(traffic.poll());
    now_ns = steady_now_ns();
    peak.update(traffic.completed() - before, now_ns);
    progress.update(traffic.completed() - before, 0);
  }
  Measurement result;
  result.operations = traffic.completed() - before;
  result.seconds = static_cast<double>(now_ns - start_ns) * 1e-9;
  result.peak_operations_per_s = peak.peak();
  ROCKHOPPER_TRY(generator.finish());
  return result;
}

}  // namespace

Expected<Measurement> run_bandwidth(Traffic& traffic, const RunSpec& spec,
                                    std::uint32_t cq_moderation) {
  Generator generator(traffic, spec, cq_moderation);
  traffic.watch().set_impatient(true);
  ROCKHOPPER_TRY(generator.fill(spec.warmup));
  while (traffic.completed() < spec.warmup * traffic.agreement().qps) {
    ROCKHOPPER_TRY(traffic.poll());
    ROCKHOPPER_TRY(generator.fill(spec.warmup));
  }
  // From here on, with nothing outstanding, to the end, when nothing is outstanding again.
  const std::uint64_t operations_before = traffic.completed();
  const std::uint64_t packets_before = traffic.packets();
  auto result = spec.duration_ns > 0 ? run_duration(traffic, generator, spec)
                                     : run_iterations(traffic, generator, spec);
  if (result && traffic.completed() > operations_before) {
    result->packets_per_operation = static_cast<double>(traffic.packets() - packets_before) /
                                    static_cast<double>(traffic.completed() - operations_before);
  }
  traffic.watch().set_impatient(false);
  return result;
}

}  // namespace rockhopper::apps::perf
