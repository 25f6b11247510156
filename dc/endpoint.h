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
#include "dc/endpoint_config.h"
#include "dc/message.h"
#include "roce/engine.h"
#include "roce/extension.h"
#include "roce/extension_context.h"

namespace rockhopper::dc {

class Requester;
struct EndpointContext;

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

  /// The engine's generator.
  [[nodiscard]] roce::Random& random() const;

  [[nodiscard]] const Counters& counters() const;
  /// Calls `visit` for every counter. Any thread.
  void visit_counters(void (*visit)(void* context, const char* name, std::uint64_t value),
                      void* context) const;
  /// Calls `visit` with the name of each counter and what it counts, in one line. Any thread.
  static void describe_counters(void (*visit)(void* context, const char* name, const char* text),
                                void* context);

 private:
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

  std::unique_ptr<EndpointContext> context_;  ///< what it has, and its parts have in common
};

}  // namespace rockhopper::dc
