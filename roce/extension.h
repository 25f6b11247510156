// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>
#include <optional>

#include "roce/counters.h"
#include "roce/engine.h"
#include "roce/packet_builder.h"
#include "roce/queue_pair.h"
#include "roce/rx_packet.h"
#include "roce/transmit_result.h"
#include "stack/udp_datagram.h"

namespace rockhopper::roce {

/// A transport that stands on an engine: it gets the packets of dynamic connections, sends packets
/// of its own, and makes queue pairs whose requesters and responders are its own and whose numbers
/// it gives. An engine has at most one. Called on the engine's thread; the engine must outlive it.
///
/// What is protected here is all that such a transport may do to the engine and its queue pairs.
class Extension {
 public:
  Extension(const Extension&) = delete;
  Extension& operator=(const Extension&) = delete;
  virtual ~Extension();

  /// A packet with a DCSH, DC control, or a congestion notification for a number that no queue pair
  /// of the engine has. Framing and ICRC are right, nothing else has been looked at.
  [[nodiscard]] virtual std::optional<DropReason> accept(const stack::UdpDatagram& datagram,
                                                         const RxPacket& packet,
                                                         std::uint64_t now_ns) = 0;
  [[nodiscard]] virtual bool has_packets() const = 0;
  /// What the engine does not own itself needs that protection domain.
  [[nodiscard]] virtual bool uses(ProtectionDomain pd) const = 0;
  /// Writes up to `count` packets of its own; fewer: it has no more, or cannot send them.
  [[nodiscard]] virtual TransmitResult transmit(rte_mbuf** packets, std::uint16_t count,
                                                std::uint64_t now_ns) = 0;

 protected:
  /// Registers itself. Requires that the engine has no other.
  explicit Extension(Engine& engine);

  [[nodiscard]] Engine& engine() const { return engine_; }
  /// The largest path MTU whose packets fit with so many bytes of headers more.
  [[nodiscard]] std::uint32_t max_path_mtu(std::uint32_t more) const {
    return engine_.max_path_mtu(more);
  }
  [[nodiscard]] const EngineConfig& config() const { return engine_.config_; }
  [[nodiscard]] stack::TimingWheel& timers() const { return engine_.timers_; }
  /// Returns the time of the call that is under way.
  [[nodiscard]] std::uint64_t now_ns() const { return engine_.now_ns_; }
  [[nodiscard]] AddressHandle* find_ah(std::uint64_t id) const { return engine_.find_ah(id); }
  /// As for a queue pair that the engine has found by its number.
  [[nodiscard]] std::optional<DropReason> deliver(QueuePair& qp, const stack::UdpDatagram& datagram,
                                                  const RxPacket& packet,
                                                  std::uint64_t now_ns) const {
    return engine_.accept_for(qp, datagram, packet, now_ns);
  }

  /// The partition lets `qp` take the packet.
  [[nodiscard]] bool admits(const QueuePair& qp, const RxPacket& packet) const {
    return engine_.admits(qp, packet.headers.bth.pkey);
  }
  /// A congestion notification is for `qp`. False: it has no use for it.
  [[nodiscard]] static bool obey_cnp(QueuePair& qp, std::uint64_t now_ns) {
    return Engine::obey_cnp(qp, now_ns);
  }
  /// Once for each notification.
  void count_cnp(bool obeyed) const { engine_.count_cnp(obeyed); }

  /// What serves many queue pairs: whether they can be made with it, and that it is in use.
  [[nodiscard]] Expected<void> check_receive_side(ProtectionDomain pd,
                                                  const SharedReceiveQueue* srq,
                                                  const CompletionQueue* cq) const;
  static void use_receive_side(SharedReceiveQueue* srq, CompletionQueue* cq, int change) {
    QpInit init;
    init.recv_cq = cq;
    init.srq = srq;
    Engine::count_users(init, change);
  }

  /// A queue pair of is_dc(init.qp_type) that no packet finds by its number. The engine owns it.
  [[nodiscard]] Expected<QueuePair*> create_qp(wire::Qpn number, const QpInit& init,
                                               const TransportMaker& make_transport) const;
  void destroy_qp(QueuePair* qp) const;
  /// In RESET: from now on the queue pair is `number`, in a protection domain and with queues.
  static void assign(QueuePair& qp, wire::Qpn number, ProtectionDomain pd, SharedReceiveQueue* srq,
                     CompletionQueue* recv_cq);
  /// From RESET to RTS, without a peer, and from RESET to RTR, with one. The attributes are not
  /// checked.
  static void start_initiator(QueuePair& qp, const QpAttributes& attributes);
  static void start_responder(QueuePair& qp, const QpAttributes& attributes);
  /// Where the packets go from now on; with another address vector, congestion control begins anew.
  /// In any state, while nothing is on its way. The queue pair has to be scheduled then.
  static void redirect(QueuePair& qp, const AddressVector& av, wire::Qpn destination, PathMtu mtu);
  static void set_dcsh(QueuePair& qp, const wire::Dcsh& dcsh) { qp.dc_headers_->dcsh = dcsh; }
  /// Until it is set to null, packets carry this connect and are of dc_connect_data.
  static void set_dcch(QueuePair& qp, const wire::Dcch* dcch) { qp.dc_headers_->dcch = dcch; }
  static void set_max_rd_atomic(QueuePair& qp, std::uint8_t count) {
    qp.attributes_.max_rd_atomic = count;
  }
  [[nodiscard]] static SendQueue& send_queue(QueuePair& qp) { return qp.send_queue_; }
  [[nodiscard]] static const DcTarget& target(QueuePair& qp, std::uint64_t sequence) {
    return qp.extension(sequence).target;
  }
  /// See QueuePair; to the peer of `qp`, whose flow has to be ready.
  [[nodiscard]] static PacketBuilder start_packet(QueuePair& qp, wire::Headers& headers,
                                                  std::uint32_t payload_length) {
    return qp.start_packet(headers, payload_length);
  }
  [[nodiscard]] static wire::Qpn destination(const QueuePair& qp) {
    return qp.attributes_.dest_qp_num;
  }
  [[nodiscard]] static PathMtu path_mtu(const QueuePair& qp) { return qp.attributes_.path_mtu; }
  [[nodiscard]] static std::uint16_t pkey(const QueuePair& qp) { return qp.pkey_; }
  [[nodiscard]] static bool comes_from_peer(const QueuePair& qp,
                                            const stack::UdpDatagram& datagram) {
    return qp.accepts(datagram);
  }
  [[nodiscard]] static const stack::Flow& flow(const QueuePair& qp) { return qp.flow_; }
  static void schedule(QueuePair& qp) { qp.schedule(); }

 private:
  Engine& engine_;
};

}  // namespace rockhopper::roce
