// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
//
// A load of exactly so many operations for valgrind's callgrind, which counts the instructions of
// one side at a time: all from the work request to the packet and from the packet to the completion
// that is polled. Under callgrind it leaves one dump for each case, named in the dump's description
// as the line that it prints of it. Everything is determined: seeds, times, order.
//
//   valgrind --tool=callgrind --collect-atstart=no instruction-load
//   instruction-load --idle       the bytes of an idle connection, without valgrind
#include <array>
#include <cstdio>
#include <exception>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>

#include <valgrind/callgrind.h>

#include "bench/engine_pair.h"
#include "bench/idle_connection.h"
#include "stack/eal.h"

namespace rockhopper::bench {
namespace {

using roce::WrOpcode;
using Side = EnginePair::Side;

constexpr std::uint16_t kBurst = 32;
constexpr std::uint64_t kTurnNs = 1000;
constexpr std::uint32_t kIdleConnections = 20'000;

struct Kind {
  const char* name;
  WrOpcode opcode;
  std::uint32_t length;
};
constexpr std::array kKinds{
    Kind{"send", WrOpcode::send, 8},
    Kind{"send", WrOpcode::send, 4096},
    Kind{"write", WrOpcode::rdma_write, 8},
    Kind{"write", WrOpcode::rdma_write, 4096},
    Kind{"read", WrOpcode::rdma_read, 8},
    Kind{"read", WrOpcode::rdma_read, 4096},
    Kind{"cas", WrOpcode::atomic_cmp_and_swp, 8},
};

/// Has what a side does counted while it lives, if that is the side to count.
class Counted {
 public:
  explicit Counted(bool counted) : counted_(counted) {
    if (counted_) CALLGRIND_TOGGLE_COLLECT;
  }
  Counted(const Counted&) = delete;
  Counted& operator=(const Counted&) = delete;
  ~Counted() {
    if (counted_) CALLGRIND_TOGGLE_COLLECT;
  }

 private:
  bool counted_;
};

/// Keeps each connection's send queue full of one kind of operation.
class Load {
 public:
  Load(const Kind& kind, std::uint32_t qps)
      : kind_(kind),
        config_{.qps = qps, .outstanding = qps == 1 ? 64u : 4u},
        pair_(config_),
        local_(sge(Side::requester)),
        remote_(sge(Side::responder)),
        request_(request()) {
    for (std::uint32_t i = 0; i < config_.outstanding; ++i) {
      for (std::uint32_t qp = 0; qp < config_.qps; ++qp) {
        if (sends()) post_receive(qp);
        post(qp);
      }
    }
  }

  /// As many operations as may be outstanding at a time.
  [[nodiscard]] std::uint32_t round() const { return config_.qps * config_.outstanding; }

  /// Goes on until at least `operations` more have ended, and returns how many that were. Has
  /// counted what one side does for them, or none.
  std::uint32_t run(std::uint32_t operations, std::optional<Side> counted) {
    std::uint32_t ended = 0;
    while (ended < operations) {
      now_ns_ += kTurnNs;
      move(Side::requester, Side::responder, counted);
      move(Side::responder, Side::requester, counted);
      if (sends()) take_receives(counted == Side::responder);
      ended += take_completions(counted == Side::requester);
    }
    return ended;
  }

 private:
  [[nodiscard]] bool sends() const { return kind_.opcode == WrOpcode::send; }

  [[nodiscard]] roce::Sge sge(Side side) const {
    const roce::MemoryRegion& region = pair_.region(side);
    return {.addr = region.iova, .length = kind_.length, .lkey = region.key};
  }

  void move(Side from, Side to, std::optional<Side> counted) {
    std::array<rte_mbuf*, kBurst> packets;
    std::uint16_t count = 0;
    {
      const Counted counting(counted == from);
      count = pair_.host(from).transmit(packets.data(), kBurst, now_ns_);
    }
    if (count == 0) return;
    const Counted counting(counted == to);
    pair_.host(to).receive(packets.data(), count, now_ns_);
  }

  void take_receives(bool counted) {
    const Counted counting(counted);
    const std::size_t count = pair_.cq(Side::responder).poll(completions_);
    for (std::size_t i = 0; i < count; ++i) {
      check(completions_[i].status);
      post_receive(static_cast<std::uint32_t>(completions_[i].wr_id));
    }
  }

  [[nodiscard]] std::uint32_t take_completions(bool counted) {
    const Counted counting(counted);
    const std::size_t count = pair_.cq(Side::requester).poll(completions_);
    for (std::size_t i = 0; i < count; ++i) {
      check(completions_[i].status);
      post(static_cast<std::uint32_t>(completions_[i].wr_id));
    }
    return static_cast<std::uint32_t>(count);
  }

  [[nodiscard]] roce::SendWr request() const {
    return {.sg_list = {&local_, 1},
            .opcode = kind_.opcode,
            .send_flags = roce::kSendSignaled,
            .remote_addr = sends() ? 0 : remote_.addr,
            .rkey = sends() ? roce::MemoryKey{} : remote_.lkey};
  }
  void post(std::uint32_t qp) {
    request_.wr_id = qp;
    check(pair_.qp(qp).post_send(request_));
  }
  void post_receive(std::uint32_t qp) {
    check(pair_.peer(qp).post_recv({.wr_id = qp, .sg_list = {&remote_, 1}}));
  }

  static void check(roce::PostResult result) {
    if (result != roce::PostResult::ok) throw std::runtime_error("a request could not be posted");
  }
  static void check(roce::WcStatus status) {
    if (status != roce::WcStatus::success) throw std::runtime_error("a request failed");
  }

  Kind kind_;
  EnginePairConfig config_;
  EnginePair pair_;
  roce::Sge local_;
  roce::Sge remote_;
  roce::SendWr request_;  ///< but for its id, as programs keep one
  std::array<roce::Completion, 64> completions_;
  std::uint64_t now_ns_ = 1'000'000;
};

/// Prints "case operations" for both sides of one kind; the dump's description is the case.
void count(const Kind& kind, std::uint32_t qps) {
  Load load(kind, qps);
  CALLGRIND_START_INSTRUMENTATION;
  // The first operations fill tables, caches of pools, and the completion queue's pages.
  load.run(4 * load.round(), std::nullopt);
  const std::uint32_t operations = qps == 1 ? 16 * load.round() : load.round();
  for (const Side side : {Side::requester, Side::responder}) {
    CALLGRIND_ZERO_STATS;
    const std::uint32_t ended = load.run(operations, side);
    const std::string name = std::string(kind.name) + '/' + std::to_string(kind.length) +
                             "/qps=" + std::to_string(qps) + '/' +
                             (side == Side::requester ? "requester" : "responder");
    CALLGRIND_DUMP_STATS_AT(name.c_str());
    std::printf("%s %u\n", name.c_str(), ended);
  }
  CALLGRIND_STOP_INSTRUMENTATION;
}

void run(bool idle) {
  if (idle) {
    std::printf("idle %.0f\n", idle_connection_bytes(kIdleConnections, 1));
    return;
  }
  for (const std::uint32_t qps : {1u, 1000u}) {
    for (const Kind& kind : kKinds) {
      count(kind, qps);
    }
  }
}

}  // namespace
}  // namespace rockhopper::bench

int main(int argc, char** argv) {
  const bool idle = argc == 2 && std::string_view(argv[1]) == "--idle";
  if (argc > 1 && !idle) {
    std::fprintf(stderr, "instruction-load: the only argument is --idle\n");
    return 2;
  }
  try {
    const auto eal = rockhopper::bench::must(rockhopper::stack::Eal::start({}, {.memory_mb = 512}));
    rockhopper::bench::run(idle);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "instruction-load: %s\n", error.what());
    return 1;
  }
  return 0;
}
