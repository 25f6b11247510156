// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/rh_ami/ping_pong.h"

#include <fmt/format.h>

#include "apps/common/pattern.h"
#include "apps/common/steady_clock.h"

namespace rockhopper::apps::messages {
namespace {

/// Pings whose callbacks are still to come, while the next ones go.
constexpr std::uint32_t kWindow = 64;

}  // namespace

PingPong::PingPong(Node& node, const Options& options, const RunSpec& spec)
    : Run(kWindow),
      node_(node),
      options_(options),
      spec_(spec),
      random_(spec.seed),
      histogram_(std::make_unique<LatencyHistogram>()) {}

bool PingPong::turn() {
  bool worked = node_.context().advance() > 0;
  if (goes_on() && !waits_) worked = ping() || worked;
  tell_progress(answered_);
  return worked;
}

bool PingPong::is_over(std::uint64_t now_ns) const {
  if (next_ < spec_.warmup) return false;
  return spec_.iterations > 0 ? next_ == spec_.warmup + spec_.iterations
                              : next_ > spec_.warmup && now_ns - start_ns_ >= spec_.duration_ns;
}

bool PingPong::ping() {
  const std::uint64_t now_ns = steady_now_ns();
  if (next_ == spec_.warmup && start_ns_ == 0) {
    start_ns_ = now_ns;
    callbacks_before_ = ledger_.expected();
  }
  if (is_over(now_ns)) {
    if (ledger_.outstanding() > 0) return false;
    measurement_.seconds = static_cast<double>(now_ns - start_ns_) * 1e-9;
    measurement_.instructions = next_ - spec_.warmup;
    measurement_.callbacks = ledger_.calls() - callbacks_before_;
    measurement_.latency = histogram_->summary(0.5);
    finish();
    return false;
  }
  if (!ledger_.has_place(next_)) return false;
  const Layout& layout = node_.layout();
  if (options_.check) {
    fill_pattern(node_.memory().subspan(layout.local(next_), spec_.size), spec_.seed, next_);
  }
  ami::Completion completion{.level = options_.level};
  const bool callback = options_.callbacks == 100 || random_.below(100) < options_.callbacks;
  if (callback) completion.callback = {.function = &on_end, .context = this, .cookie = next_};
  const auto header =
      options_.check ? std::as_bytes(std::span(&next_, 1)) : std::span<const std::byte>();
  const auto injected = node_.context().send(
      kServerId, kPing, header, node_.local(layout.local(next_), spec_.size), completion);
  if (injected == ami::Injected::again) return false;
  sent_ns_ = now_ns;
  waits_ = true;
  if (callback) ledger_.expect(next_);
  ++next_;
  return true;
}

void PingPong::on_pong(const ami::Message& message) {
  if (next_ > spec_.warmup) histogram_->add(steady_now_ns() - sent_ns_);
  if (!waits_ || message.payload.size() != spec_.size ||
      (options_.check && find_pattern_mismatch(message.payload, spec_.seed, answered_))) {
    set_fault(fmt::format("the answer to message {} is not that message", answered_));
  }
  waits_ = false;
  ++answered_;
}

}  // namespace rockhopper::apps::messages
