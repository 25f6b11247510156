// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/rh_dag/read_series.h"

#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "apps/common/steady_clock.h"
#include "apps/rh_dag/record_task.h"

namespace rockhopper::apps::dag_node {
namespace {

constexpr double kPerUs = 1e-3;

}  // namespace

ReadSeries::ReadSeries(dag::Client& client, std::span<const std::string> keys, std::uint64_t count,
                       std::uint16_t window)
    : client_(&client),
      keys_(keys),
      count_(keys.empty() ? 0 : count),
      slots_(window),
      seen_(keys.size()),
      start_ns_(steady_now_ns()) {
  for (std::uint32_t slot = 0; slot < window; ++slot) {
    free_.push_back(slot);
  }
}

void ReadSeries::start() {
  while (begun_ < count_ && !free_.empty()) {
    const std::uint32_t slot = free_.back();
    free_.pop_back();
    if (!start(slot)) return;
  }
}

/// False: none can be started now.
bool ReadSeries::start(std::uint32_t slot) {
  slots_[slot] = {.key = begun_ % keys_.size(), .start_ns = steady_now_ns()};
  const auto started = client_->read(std::as_bytes(std::span(keys_[slots_[slot].key])), slot);
  if (started == dag::Started::yes) {
    ++begun_;
    return true;
  }
  free_.push_back(slot);
  if (started == dag::Started::no_room) return false;
  ++begun_;
  end(started == dag::Started::invalid ? dag::Status::invalid : dag::Status::unreachable);
  return true;
}

void ReadSeries::end(dag::Status status) {
  ++ended_;
  ++by_status_[static_cast<std::size_t>(status)];
}

void ReadSeries::on_result(const dag::Result& result) {
  const auto index = static_cast<std::uint32_t>(result.context);
  const Slot& slot = slots_[index];
  end(result.status);
  if (result.status == dag::Status::ok) {
    latency_->add(steady_now_ns() - slot.start_ns);
    bytes_ += result.data.size();
    compare(seen_[slot.key], result);
  }
  if (begun_ < count_) {
    (void)start(index);
  } else {
    free_.push_back(index);
  }
}

void ReadSeries::compare(Seen& seen, const dag::Result& result) {
  if (seen.version == result.version) {
    if (!std::equal(seen.data.begin(), seen.data.end(), result.data.begin(), result.data.end())) {
      ++mixed_;
    }
    return;
  }
  seen.version = result.version;
  seen.data.assign(result.data.begin(), result.data.end());
}

void ReadSeries::stop() { passed_ns_ = std::max<std::uint64_t>(steady_now_ns() - start_ns_, 1); }

nlohmann::json ReadSeries::to_json() const {
  const double seconds = static_cast<double>(passed_ns_) * 1e-9;
  const LatencySummary latency = latency_->summary(kPerUs);
  nlohmann::json failed = nlohmann::json::object();
  for (std::size_t i = 1; i < by_status_.size(); ++i) {
    if (by_status_[i] > 0) {
      failed[std::string(name_of(static_cast<dag::Status>(i)))] = by_status_[i];
    }
  }
  return {{"program", "rh-dag"},
          {"reads", by_status_[0]},
          {"failed", std::move(failed)},
          {"mixed", mixed_},
          {"bytes", bytes_},
          {"seconds", seconds},
          {"reads_per_s", static_cast<double>(by_status_[0]) / seconds},
          {"latency_us",
           {{"min", latency.min_ns},
            {"p50", latency.p50_ns},
            {"p99", latency.p99_ns},
            {"max", latency.max_ns}}}};
}

std::string ReadSeries::to_line() const {
  const double seconds = static_cast<double>(passed_ns_) * 1e-9;
  const LatencySummary latency = latency_->summary(kPerUs);
  return fmt::format(
      "{} reads, {} failed, {} bytes in {:.3f} s: {:.0f} reads/s, {:.1f} us each in the middle, "
      "{:.1f} us of 99 %",
      by_status_[0], failed(), bytes_, seconds, static_cast<double>(by_status_[0]) / seconds,
      latency.p50_ns, latency.p99_ns);
}

}  // namespace rockhopper::apps::dag_node
