// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <atomic>

#include "roce/wire/psn.h"

namespace rockhopper::wire {

/// A PSN that one thread writes and any thread may read: it costs the writer what a plain one
/// costs, and a reader sees a recent one.
class SharedPsn {
 public:
  SharedPsn() = default;
  SharedPsn(const SharedPsn& other) : value_(static_cast<Psn>(other)) {}
  SharedPsn& operator=(const SharedPsn& other) { return *this = static_cast<Psn>(other); }
  ~SharedPsn() = default;

  SharedPsn& operator=(Psn psn) {
    value_.store(psn, std::memory_order_relaxed);
    return *this;
  }
  // NOLINTNEXTLINE(google-explicit-constructor): it stands where a Psn stood.
  operator Psn() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<Psn> value_{};
};

}  // namespace rockhopper::wire
