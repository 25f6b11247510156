// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <infiniband/verbs.h>

#include "tests/interop/rc_endpoint.h"

namespace rockhopper::interop {

/// An endpoint on any RDMA device, through libibverbs.
class VerbsEndpoint final : public Endpoint {
 public:
  struct Device {
    std::string name;  ///< empty: the first one
    std::uint8_t port = 1;
    std::optional<int> gid_index;  ///< else that of `address`, else the first RoCEv2 IPv4 one
    std::string address;
  };
  explicit VerbsEndpoint(const Device& device);
  ~VerbsEndpoint() override;

  [[nodiscard]] Limits limits() const override;
  [[nodiscard]] Address open(const ConnectionConfig& config) override;
  void connect(const Address& peer, std::uint32_t path_mtu, std::uint8_t max_rd_atomic) override;
  void destroy_queue_pair() override;
  [[nodiscard]] RemoteRegion remote_region() const override;
  [[nodiscard]] std::span<std::byte> region() override { return region_.bytes(); }
  [[nodiscard]] std::span<std::byte> local() override { return local_.bytes(); }
  [[nodiscard]] std::span<std::byte> receive() override { return receive_.bytes(); }
  void post(std::span<const Request> requests) override;
  void post(std::span<const Receive> receives) override;
  [[nodiscard]] std::size_t poll(std::span<Completed> out) override;
  void wait(int descriptor, int timeout_ms) override;
  [[nodiscard]] std::vector<std::uint32_t> renew_keys(std::uint32_t count) override;
  void on_invalidated(std::uint32_t rkey) override;
  [[nodiscard]] std::string state() override;
  [[nodiscard]] std::vector<std::string> events() override;

 private:
  template <auto Destroy>
  struct Deleter {
    template <typename T>
    void operator()(T* object) const {
      (void)Destroy(object);
    }
  };
  using Context = std::unique_ptr<ibv_context, Deleter<ibv_close_device>>;
  using ProtectionDomain = std::unique_ptr<ibv_pd, Deleter<ibv_dealloc_pd>>;
  using Channel = std::unique_ptr<ibv_comp_channel, Deleter<ibv_destroy_comp_channel>>;
  using CompletionQueue = std::unique_ptr<ibv_cq, Deleter<ibv_destroy_cq>>;
  using QueuePair = std::unique_ptr<ibv_qp, Deleter<ibv_destroy_qp>>;

  /// Page-aligned memory and its registration.
  class Memory {
   public:
    Memory() = default;
    Memory(ibv_pd* pd, std::size_t length, int access);
    [[nodiscard]] std::span<std::byte> bytes() const { return {data_.get(), length_}; }
    [[nodiscard]] ibv_mr* registration() const { return registration_.get(); }

   private:
    struct Free {
      void operator()(std::byte* memory) const;
    };
    std::unique_ptr<std::byte, Free> data_;
    std::size_t length_ = 0;
    std::unique_ptr<ibv_mr, Deleter<ibv_dereg_mr>> registration_;
  };

  /// A type 2 memory window over the region: the kind of key that a peer can invalidate.
  struct Window {
    struct Free {
      void operator()(ibv_mw* memory_window) const;
    };
    std::unique_ptr<ibv_mw, Free> window;
    std::uint32_t rkey = 0;
    bool bound = false;
  };

  void open_device(const Device& device);
  void choose_gid(const Device& device);
  void create_queue_pair();
  void modify(ibv_qp_attr& attributes, int mask, const char* what);
  void bind(std::span<Window*> windows);
  void post_usual(std::span<const Request> requests);
  void post_placement(const Request& request);
  void fill_sges(std::span<const Piece> pieces, const Memory& memory, bool bad_lkey,
                 std::vector<ibv_sge>& out) const;

  Context context_;
  ibv_device_attr device_attributes_{};
  ibv_port_attr port_attributes_{};
  std::uint8_t port_ = 1;
  int gid_index_ = 0;
  ibv_gid gid_{};
  ProtectionDomain pd_;
  Channel channel_;
  ConnectionConfig config_;
  Memory region_;
  Memory local_;
  Memory receive_;
  CompletionQueue cq_;
  QueuePair queue_pair_;
  std::vector<Window> windows_;  // before the queue pair goes they are freed
  std::vector<ibv_send_wr> send_wrs_;
  std::vector<ibv_recv_wr> recv_wrs_;
  std::vector<ibv_sge> sges_;
  bool armed_ = false;
  unsigned int unacknowledged_events_ = 0;
};

}  // namespace rockhopper::interop
