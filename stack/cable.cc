// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "stack/cable.h"

#include <atomic>
#include <utility>

#include <fmt/format.h>
#include <rte_errno.h>
#include <rte_ring.h>

#include "stack/mbuf_pool.h"
#include "stack/port.h"

namespace rockhopper::stack {
namespace {

constexpr std::uint32_t kPacketsMax = 1u << 16;
/// Each direction may have as many under way, and those who received them may hold as many again.
constexpr std::uint32_t kMbufsPerPacket = 4;

}  // namespace

/// What is under way, by the end that receives it.
struct Cable::Wires {
  Wires() = default;
  Wires(const Wires&) = delete;
  Wires& operator=(const Wires&) = delete;
  ~Wires() {
    for (rte_ring* ring : rings) {
      void* packet = nullptr;
      while (ring != nullptr && rte_ring_dequeue(ring, &packet) == 0) {
        rte_pktmbuf_free(static_cast<rte_mbuf*>(packet));
      }
      rte_ring_free(ring);
    }
  }

  MbufPool pool;
  std::array<rte_ring*, 2> rings{};
  unsigned number = 0;  ///< among the cables of the process
};

class Cable::End final : public Link {
 public:
  End(Wires& wires, unsigned index, std::uint16_t mtu) : wires_(wires), index_(index), mtu_(mtu) {}

  [[nodiscard]] std::uint16_t rx_burst(rte_mbuf** packets, std::uint16_t count,
                                       std::uint64_t /*now_ns*/) override {
    return static_cast<std::uint16_t>(rte_ring_sc_dequeue_burst(
        wires_.rings[index_], reinterpret_cast<void**>(packets), count, nullptr));
  }

  [[nodiscard]] std::uint16_t tx_burst(rte_mbuf** packets, std::uint16_t count,
                                       std::uint64_t /*now_ns*/) override {
    std::uint16_t sent = 0;
    for (; sent < count; ++sent) {
      rte_ring* ring = wires_.rings[1 - index_];
      if (rte_ring_full(ring) != 0) break;
      rte_mbuf* copy = rte_pktmbuf_copy(packets[sent], wires_.pool.get(), 0, UINT32_MAX);
      if (copy == nullptr) break;
      copy->ol_flags = 0;  // what the sender asks of a device
      (void)rte_ring_sp_enqueue(ring, copy);
    }
    rte_pktmbuf_free_bulk(packets, sent);
    return sent;
  }

  [[nodiscard]] rte_ether_addr mac() const override {
    // Locally administered, so no vendor's device has it; others for each cable of the process.
    return {{0x02, 0x52, 0x48, 0xca, static_cast<std::uint8_t>(wires_.number),
             static_cast<std::uint8_t>(index_ + 1)}};
  }
  [[nodiscard]] std::uint16_t mtu() const override { return mtu_; }

 private:
  Wires& wires_;
  unsigned index_;
  std::uint16_t mtu_;
};

Cable::Cable(std::unique_ptr<Wires> wires) : wires_(std::move(wires)) {}

Cable::~Cable() = default;

Expected<std::unique_ptr<Cable>> Cable::create(const CableConfig& config) {
  if (config.packets == 0 || config.packets > kPacketsMax) {
    return fail(ErrorCode::invalid_argument, "a cable holds 1 to {} packets, not {}", kPacketsMax,
                config.packets);
  }
  if (config.mtu > kMtuMax) {
    return fail(ErrorCode::invalid_argument, "a cable has an MTU of up to {}, not {}", kMtuMax,
                config.mtu);
  }
  auto wires = std::make_unique<Wires>();
  ROCKHOPPER_TRY(
      wires->pool,
      MbufPool::create({.size = kMbufsPerPacket * config.packets + 1023,
                        .data_room = static_cast<std::uint16_t>(config.mtu + kFrameOverhead),
                        .of_this_process = true}));
  static std::atomic<unsigned> cables{0};
  wires->number = cables.fetch_add(1, std::memory_order_relaxed);
  for (unsigned index = 0; index < wires->rings.size(); ++index) {
    wires->rings[index] =
        rte_ring_create(fmt::format("cable-{}-{}", wires->number, index).c_str(), config.packets,
                        SOCKET_ID_ANY, RING_F_SP_ENQ | RING_F_SC_DEQ | RING_F_EXACT_SZ);
    if (wires->rings[index] == nullptr) {
      return fail(ErrorCode::exhausted, "no ring for a cable: {}", rte_strerror(rte_errno));
    }
  }
  std::unique_ptr<Cable> cable(new Cable(std::move(wires)));
  for (unsigned index = 0; index < cable->ends_.size(); ++index) {
    cable->ends_[index] = std::make_unique<End>(*cable->wires_, index, config.mtu);
  }
  return cable;
}

Link& Cable::end(unsigned index) { return *ends_.at(index); }

}  // namespace rockhopper::stack
