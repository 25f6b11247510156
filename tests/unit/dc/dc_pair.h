// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "dc/endpoint.h"
#include "tests/sim/sim_network.h"

namespace rockhopper::test {

constexpr std::uint64_t kDelayNs = 10'000'000;  // one way

/// The first packets that a node sends, to be lost.
[[nodiscard]] std::set<std::pair<unsigned, std::uint64_t>> first_packets(unsigned node,
                                                                         std::uint64_t count);

/// Two endpoints on a link: initiators at node 0, targets at node 1. Time passes only in run().
class DcPair {
 public:
  static constexpr std::size_t kMemoryBytes = 65536;

  explicit DcPair(const dc::EndpointConfig& target_config = {},
                  const sim::NetworkFaults& faults = {}, std::uint64_t delay_ns = kDelayNs);

  [[nodiscard]] sim::SimNetwork& network() { return network_; }
  [[nodiscard]] dc::Endpoint& endpoint(unsigned node) { return *endpoints_.at(node); }
  [[nodiscard]] roce::Engine& engine(unsigned node) { return network_.node(node).engine(); }
  [[nodiscard]] const dc::Counters& sent() { return endpoints_[0]->counters(); }
  [[nodiscard]] const dc::Counters& received() { return endpoints_[1]->counters(); }

  [[nodiscard]] dc::DciInit dci_init() const;
  [[nodiscard]] dc::DctInit dct_init() const;
  [[nodiscard]] dc::Dci& make_dci(const std::function<void(dc::DciInit&)>& change = {});
  [[nodiscard]] dc::Dct& make_dct(const std::function<void(dc::DctInit&)>& change = {});

  /// Each node's memory, registered with all rights.
  [[nodiscard]] std::uint8_t* memory(unsigned node) { return memory_.at(node).data(); }
  [[nodiscard]] std::uint64_t word(unsigned node, std::size_t offset) const;
  void set_word(unsigned node, std::size_t offset, std::uint64_t value);
  [[nodiscard]] roce::MemoryKey key(unsigned node) const { return keys_.at(node); }
  [[nodiscard]] std::uint64_t va(unsigned node, std::size_t offset) const;

  /// A request of `length` bytes at `offset` of the own memory, to the same place of the target's;
  /// `change` may change it.
  [[nodiscard]] roce::PostResult post(dc::Dci& dci, const dc::Dct& dct, roce::WrOpcode opcode,
                                      std::uint32_t length, std::size_t offset = 0,
                                      std::uint8_t stream = 0,
                                      const std::function<void(roce::SendWr&)>& change = {});
  /// An 8-byte WRITE.
  void write(dc::Dci& dci, const dc::Dct& dct, std::size_t offset = 0, std::uint8_t stream = 0) {
    ASSERT_EQ(post(dci, dct, roce::WrOpcode::rdma_write, 8, offset, stream), roce::PostResult::ok);
  }
  void post_receive(std::uint32_t length = 1024, std::size_t offset = 32768);
  [[nodiscard]] roce::AddressHandle*& ah() { return ah_; }

  /// Lets time pass, so much or until nothing is left to do.
  void run_for(std::uint64_t ns);
  /// Until `done()`; false if it is not within 100 seconds.
  [[nodiscard]] bool run_until(const std::function<bool()>& done);
  [[nodiscard]] std::uint64_t now_ns() const { return network_.now_ns(); }

  [[nodiscard]] std::vector<roce::Completion> send_completions();
  [[nodiscard]] std::vector<roce::Completion> recv_completions();
  /// The statuses of the next `count` completions of requests, waiting for them.
  [[nodiscard]] std::vector<roce::WcStatus> statuses(std::size_t count);

 private:
  sim::SimNetwork network_;
  std::array<std::vector<std::uint8_t>, 2> memory_;
  std::array<roce::ProtectionDomain, 2> pds_;
  std::array<roce::MemoryKey, 2> keys_{};
  std::unique_ptr<roce::CompletionQueue> send_cq_;
  std::unique_ptr<roce::CompletionQueue> recv_cq_;
  roce::SharedReceiveQueue* srq_ = nullptr;
  roce::AddressHandle* ah_ = nullptr;
  std::array<std::unique_ptr<dc::Endpoint>, 2> endpoints_;
};

}  // namespace rockhopper::test
