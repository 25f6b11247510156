// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>
#include <vector>

#include "apps/rh_sim/scenario.h"
#include "roce/engine.h"
#include "roce/queue_pair.h"
#include "stack/link.h"

namespace rockhopper::apps::sim {

/// What a flow has done. Times are virtual and count from the scenario's start.
struct FlowResult {
  std::uint64_t posted = 0;
  std::uint64_t completed = 0;  ///< successfully
  std::uint64_t failed = 0;
  std::uint64_t delivered = 0;       ///< messages that took a receive request at the other end
  std::uint64_t bytes = 0;           ///< of completed messages
  std::uint64_t measured_bytes = 0;  ///< of these, from `measure_from` on
  std::uint64_t first_ns = stack::kNever;  ///< when the first was posted
  std::uint64_t last_ns = 0;               ///< when the last completed
  std::uint64_t latency_sum_ns = 0;
  std::uint64_t latency_max_ns = 0;
};

/// The requesting side of a flow: posts its messages and takes their completions.
class Flow {
 public:
  /// `source` and `target` are addresses of as many bytes as a message has, registered under the
  /// keys.
  struct Memory {
    std::uint64_t source = 0;
    roce::MemoryKey source_key{};
    std::uint64_t target = 0;
    roce::MemoryKey target_key{};
  };
  /// `start_ns` is when the scenario starts.
  Flow(const FlowSpec& spec, std::uint64_t start_ns);
  Flow(const Flow&) = delete;
  Flow& operator=(const Flow&) = delete;

  /// Of its requests, and of the receive requests for it.
  [[nodiscard]] std::uint64_t id() const { return reinterpret_cast<std::uintptr_t>(this); }
  [[nodiscard]] static Flow& of_id(std::uint64_t id) { return *reinterpret_cast<Flow*>(id); }

  /// Neither is owned. `ah`, `remote` and `qkey` are for datagrams.
  void connect(roce::QueuePair& qp, const Memory& memory, const roce::AddressHandle* ah,
               wire::Qpn remote, std::uint32_t qkey);

  /// Posts what may be posted now.
  void post(std::uint64_t now_ns);
  void on_completion(const roce::Completion& completion, std::uint64_t now_ns,
                     std::uint64_t measure_from_ns);
  /// At the other end.
  void on_delivery() { ++result_.delivered; }
  /// When post() has work again if no completion comes before; kNever if it has not.
  [[nodiscard]] std::uint64_t next_post_ns(std::uint64_t now_ns) const;
  /// Nothing is to be posted or outstanding any more.
  [[nodiscard]] bool finished(std::uint64_t now_ns) const;

  [[nodiscard]] const FlowSpec& spec() const { return spec_; }
  [[nodiscard]] const FlowResult& result() const { return result_; }
  [[nodiscard]] std::uint64_t last_latency_ns() const { return last_latency_ns_; }

 private:
  [[nodiscard]] bool may_post(std::uint64_t now_ns) const;
  [[nodiscard]] std::uint64_t due_ns(std::uint64_t message) const;

  FlowSpec spec_;
  std::uint64_t start_ns_;
  roce::QueuePair* qp_ = nullptr;
  Memory memory_;
  const roce::AddressHandle* ah_ = nullptr;
  wire::Qpn remote_{};
  std::uint32_t qkey_ = 0;
  std::vector<std::uint64_t> posted_ns_;  ///< by message, modulo the window
  std::uint64_t last_latency_ns_ = 0;
  FlowResult result_;
};

}  // namespace rockhopper::apps::sim
