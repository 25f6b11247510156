// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>

#include "roce/congestion/congestion_control.h"

namespace rockhopper::roce {

/// The reaction point of DCQCN (SIGCOMM 2015, section 3.1, algorithm 1). At the line's rate until
/// the first CNP, and again once the rate has recovered to it: then everything begins anew.
class Dcqcn final : public CongestionControl {
 public:
  explicit Dcqcn(const DcqcnParameters& parameters);

  void reset() override;
  void on_sent(std::uint64_t bytes, std::uint64_t now_ns) override;
  void on_cnp(std::uint64_t now_ns) override;
  void on_loss(bool by_timeout, std::uint64_t now_ns) override;
  [[nodiscard]] std::uint64_t rate(std::uint64_t now_ns) override;
  [[nodiscard]] bool uses_ecn() const override { return true; }

  [[nodiscard]] double alpha() const { return alpha_; }
  [[nodiscard]] double current_rate() const { return current_; }
  [[nodiscard]] double target_rate() const { return target_; }

 private:
  void advance(std::uint64_t now_ns);
  void increase();

  DcqcnParameters parameters_;
  bool limited_ = false;
  double current_ = 0;  ///< R_C, bits/s
  double target_ = 0;   ///< R_T, bits/s
  double alpha_ = 0;
  std::uint64_t bytes_ = 0;             ///< since the last increase by bytes
  std::uint32_t byte_increases_ = 0;    ///< BC
  std::uint32_t time_increases_ = 0;    ///< T
  std::uint64_t next_increase_ns_ = 0;  ///< by time
  std::uint64_t next_alpha_ns_ = 0;     ///< decrease
  std::uint64_t last_reduction_ns_ = 0;
  std::uint64_t ignores_cnps_until_ns_ = 0;
};

}  // namespace rockhopper::roce
