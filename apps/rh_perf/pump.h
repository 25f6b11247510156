// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "apps/common/background.h"
#include "apps/common/control_channel.h"
#include "apps/rh_perf/backend.h"
#include "apps/rh_perf/traffic.h"

namespace rockhopper::apps::perf {

/// Keeps packets and receives moving while an end waits for a message of the other.
class Pump final : public Background {
 public:
  explicit Pump(Backend& backend) : backend_(backend) {}
  void set_traffic(Traffic* traffic) { traffic_ = traffic; }

  bool turn() override {
    if (traffic_ == nullptr) return backend_.turn();
    auto polled = traffic_->poll_unwatched();
    if (!polled && !error_) error_ = polled.error();
    return polled && *polled;
  }
  [[nodiscard]] int wait_ms() const override { return backend_.wait_ms(); }
  [[nodiscard]] std::string link_name() const override { return backend_.link_name(); }

  /// What went wrong meanwhile.
  [[nodiscard]] const std::optional<Error>& error() const { return error_; }

 private:
  Backend& backend_;
  Traffic* traffic_ = nullptr;
  std::optional<Error> error_;
};

}  // namespace rockhopper::apps::perf
