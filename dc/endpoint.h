// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "dc/counters.h"
#include "dc/dci.h"
#include "dc/dct.h"
#include "dc/message.h"
#include "dc/session_table.h"
#include "roce/engine.h"
#include "roce/extension.h"
#include "roce/extension_context.h"

namespace rockhopper::dc {

class CnakQueue;
class Targets;

struct EndpointConfig {
  /// Of the sessions as target. The shard is the engine's.
  SessionTable::Config sessions{};
  std::uint32_t lease_us = 2'000'000;  ///< after which an idle session is closed, above 0
  /// READs and atomics that each session may have outstanding, 1 to roce::kMaxRdAtomic; with
  /// lock_execution from kLockResources on.
  std::uint8_t responder_resources = 16;
  bool lock_execution = false;  ///< its targets serve locks (docs/locks.md)
  /// A session that has been idle so long may make room for another when no context is free.
  std::uint64_t idle_ns = 100'000;
  std::uint32_t backoff_us = 50;                 ///< what those are told for whom there is no room
  std::uint32_t cnaks_per_second = 100'000;      ///< to one source
  std::uint32_t all_cnaks_per_second = 200'000;  ///< to all of them together
};

/// Dynamically connected transport on one engine (docs/dc.md): makes its initiators and targets,
/// and leads packets to them. Called on the engine's thread; the engine must outlive it, and it
/// the queues that its initiators and targets use.
class Endpoint final : public roce::Extension {
 public:
  [[nodiscard]] static Expected<std::unique_ptr<Endpoint>> create(roce::Engine& engine,
                                                                  const EndpointConfig& config);
  ~Endpoint() override;

  /// The endpoint owns it; destroy_dci ends it, without completions for what is outstanding. Its
  /// sessions end with their leases.
  [[nodiscard]] Expected<Dci*> create_dci(const DciInit& init);
  void destroy_dci(Dci* dci);
  /// The endpoint owns it; destroy_dct ends it, and its sessions at once: see Dct::drain().
  [[nodiscard]] Expected<Dct*> create_dct(const DctInit& init);
  void destroy_dct(Dct* dct);

  /// Largest path MTU whose packets, session header included, fit the interface MTU.
  [[nodiscard]] std::uint32_t max_path_mtu() const;
  /// Sessions that are open as target.
  [[nodiscard]] std::size_t session_count() const;

  [[nodiscard]] const Counters& counters() const { return counters_; }
  /// Calls `visit` for every counter. Any thread.
  void visit_counters(void (*visit)(void* context, const char* name, std::uint64_t value),
                      void* context) const;

 private:
  friend class CnakQueue;
  friend class Dci;
  friend class DciPool;
  friend class Requester;
  friend class Responder;
  friend class Targets;

  Endpoint(roce::Engine& engine, const EndpointConfig& config);

  [[nodiscard]] std::optional<roce::DropReason> accept(const stack::UdpDatagram& datagram,
                                                       const roce::RxPacket& packet,
                                                       std::uint64_t now_ns) override;
  [[nodiscard]] bool has_packets() const override;
  [[nodiscard]] bool uses(roce::ProtectionDomain pd) const override;
  [[nodiscard]] roce::TransmitResult transmit(rte_mbuf** packets, std::uint16_t count,
                                              std::uint64_t now_ns) override;

  [[nodiscard]] std::optional<roce::DropReason> accept_cnp(const stack::UdpDatagram& datagram,
                                                           const roce::RxPacket& packet,
                                                           std::uint64_t now_ns) const;
  [[nodiscard]] std::optional<roce::DropReason> accept_control(const stack::UdpDatagram& datagram,
                                                               const roce::RxPacket& packet,
                                                               std::uint64_t now_ns);
  [[nodiscard]] std::optional<roce::DropReason> accept_connect_data(
      const stack::UdpDatagram& datagram, const roce::RxPacket& packet, std::uint64_t now_ns);
  [[nodiscard]] std::optional<roce::DropReason> accept_response(const stack::UdpDatagram& datagram,
                                                                const roce::RxPacket& packet,
                                                                std::uint64_t now_ns);
  /// The stream that an ACCEPT or CNAK is about; null: none.
  [[nodiscard]] Requester* find_stream(wire::Qpn initiator, std::uint32_t nonce,
                                       std::uint64_t session_id,
                                       const stack::UdpDatagram& datagram) const;

  [[nodiscard]] Dci* find_dci(wire::Qpn number) const;
  [[nodiscard]] Dct* find_dct(wire::Qpn number) const;
  /// A free number of the window, unpredictable as far as there is choice.
  [[nodiscard]] Expected<wire::Qpn> choose_number();
  struct Place {
    std::unique_ptr<Dci> dci;
    std::unique_ptr<Dct> dct;
    [[nodiscard]] bool taken() const { return dci != nullptr || dct != nullptr; }
  };
  /// The place that a number leads to, if there are so many.
  [[nodiscard]] std::size_t index_of(wire::Qpn number) const {
    return (number.value & 0xffff) >> shard_bits_;
  }
  /// Null: no such place.
  [[nodiscard]] const Place* place_of(wire::Qpn number) const;

  /// A message to the peer of `qp`, whose flow is ready; null: no mbuf.
  [[nodiscard]] static rte_mbuf* build(roce::ExtensionQp& qp, const Message& message);
  [[nodiscard]] roce::Random& random() const { return *context_.config().random; }
  [[nodiscard]] std::uint64_t incarnation() const { return incarnation_; }

  roce::Engine& engine_;
  roce::ExtensionContext& context_;
  EndpointConfig config_;
  int shard_bits_;
  std::uint64_t incarnation_;
  std::vector<Place> places_;  ///< by the low 16 bits of the number, without the shard's
  std::size_t taken_ = 0;
  Counters counters_;
  std::unique_ptr<CnakQueue> cnaks_;
  std::unique_ptr<Targets> targets_;
};

}  // namespace rockhopper::dc
