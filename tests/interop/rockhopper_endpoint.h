// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <memory>
#include <vector>

#include "apps/common/endpoint.h"
#include "apps/common/page_memory.h"
#include "roce/engine.h"
#include "tests/interop/rc_endpoint.h"

namespace rockhopper::interop {

/// An end of an RC connection made by Rockhopper.
class RockhopperEndpoint final : public Endpoint {
 public:
  /// Connections use the endpoint's first address of the family asked for. With `statistics`, every
  /// counter is printed on standard error in the end.
  RockhopperEndpoint(std::unique_ptr<apps::Endpoint> endpoint, bool ipv4, bool statistics);
  ~RockhopperEndpoint() override;

  [[nodiscard]] Limits limits() const override;
  [[nodiscard]] Address open(const ConnectionConfig& config) override;
  void connect(const Address& peer, std::uint32_t path_mtu, std::uint8_t max_rd_atomic) override;
  void destroy_queue_pair() override;

  [[nodiscard]] RemoteRegion remote_region() const override;
  [[nodiscard]] std::span<std::byte> region() override { return region_.memory.bytes(); }
  [[nodiscard]] std::span<std::byte> local() override { return local_.memory.bytes(); }
  [[nodiscard]] std::span<std::byte> receive() override { return receive_.memory.bytes(); }

  void post(std::span<const Request> requests) override;
  void post(std::span<const Receive> receives) override;
  [[nodiscard]] std::size_t poll(std::span<Completed> out) override;
  void wait(int descriptor, int timeout_ms) override;

  [[nodiscard]] std::vector<std::uint32_t> renew_keys(std::uint32_t count) override;
  void on_invalidated(std::uint32_t rkey) override;

  [[nodiscard]] std::string state() override;
  [[nodiscard]] std::vector<std::string> events() override;

 private:
  struct Arena {
    apps::PageMemory memory;
    roce::MemoryRegion registration;
  };
  /// A further key of the region.
  struct Key {
    roce::MemoryKey key;
    bool invalidated;
  };

  [[nodiscard]] Arena make_arena(std::uint32_t bytes, std::uint32_t access);
  [[nodiscard]] roce::MemoryKey make_key();
  [[nodiscard]] roce::Sge sge(const Arena& arena, const Piece& piece, bool bad_lkey) const;
  void release();

  std::unique_ptr<apps::Endpoint> endpoint_;
  roce::Engine& engine_;
  const bool ipv4_;
  const bool statistics_;
  roce::ProtectionDomain pd_;
  ConnectionConfig config_;
  stack::IpAddress address_;
  std::unique_ptr<roce::CompletionQueue> cq_;
  roce::QueuePair* qp_ = nullptr;
  Arena region_;
  Arena local_;
  Arena receive_;
  std::vector<Key> keys_;
};

}  // namespace rockhopper::interop
