// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <vector>

#include "apps/rh_perf/backend.h"

namespace rockhopper::apps::perf {

/// An ideal device: what is posted is done at once in the memory of the other one. What the tests
/// want to go wrong, `tamper` does.
class FakeBackend final : public Backend {
 public:
  /// May change a request before it is executed; the request is executed so many times.
  std::function<int(SendRequest& request)> tamper = [](SendRequest&) { return 1; };
  /// Called in each poll: lets the other end work, which has no thread of its own.
  std::function<void()> on_poll = [] {};
  /// Whether a session ends in the middle of this SEND, which is then sent anew.
  std::function<bool()> interrupts = [] { return false; };
  /// What the next completion fails with.
  std::string_view next_error;
  /// The largest number of requests that any queue pair has had outstanding.
  std::uint32_t outstanding_max = 0;

  void set_peer(FakeBackend* peer) { peer_ = peer; }

  [[nodiscard]] std::string name() const override { return "fake"; }
  [[nodiscard]] std::uint32_t path_mtu_max() const override { return 4096; }
  [[nodiscard]] std::uint16_t outstanding_reads_max() const override { return 16; }
  [[nodiscard]] Expected<void> wait_for_link() override { return {}; }
  [[nodiscard]] Expected<Side> prepare(const Agreement& agreement, std::size_t bytes,
                                       std::optional<bool> ipv4) override;
  [[nodiscard]] Expected<void> connect(const Agreement& agreement, const Side& remote) override;
  [[nodiscard]] std::span<std::byte> memory() override { return memory_; }
  [[nodiscard]] std::size_t post_sends(std::uint16_t qp,
                                       std::span<const SendRequest> requests) override;
  [[nodiscard]] std::size_t post_receives(std::uint16_t qp,
                                          std::span<const ReceiveRequest> requests) override;
  [[nodiscard]] std::size_t poll(std::span<Done> out) override;
  bool turn() override { return false; }

 private:
  struct QueuePairState {
    std::deque<ReceiveRequest> receives;
    std::deque<SendRequest> waiting;  ///< for a receive at the peer
    std::uint32_t outstanding = 0;
    std::uint32_t unsignaled = 0;
  };
  [[nodiscard]] bool execute(std::uint16_t qp, const SendRequest& request);
  void advance(std::uint16_t qp);

  FakeBackend* peer_ = nullptr;
  std::uint32_t window_ = 0;
  std::vector<std::byte> memory_;
  std::vector<QueuePairState> qps_;
  std::deque<Done> done_;
};

}  // namespace rockhopper::apps::perf
