// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <array>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include <rte_mempool.h>

#include "roce/address_handle.h"
#include "roce/async_event.h"
#include "roce/completion_queue.h"
#include "roce/counters.h"
#include "roce/device_attributes.h"
#include "roce/device_habits.h"
#include "roce/event_trace.h"
#include "roce/lock/service.h"
#include "roce/memory.h"
#include "roce/multicast_table.h"
#include "roce/persistence.h"
#include "roce/pkey_table.h"
#include "roce/qpn_allocator.h"
#include "roce/queue_pair.h"
#include "roce/random.h"
#include "roce/recovery/held_packets.h"
#include "roce/rx_packet.h"
#include "roce/shared_receive_queue.h"
#include "roce/transmit_result.h"
#include "roce/wire/short_icrc.h"
#include "stack/host.h"
#include "stack/link.h"
#include "stack/notifier.h"
#include "stack/timing_wheel.h"
#include "stack/udp_client.h"

namespace rockhopper::roce {

/// How soon it is asked again whether a next hop is known that is being looked for. ARP itself
/// repeats far less often.
inline constexpr std::uint64_t kUnresolvedRetryNs = 1'000'000;

struct EngineConfig {
  stack::Host* host = nullptr;              ///< not owned; addresses and neighbours
  rte_mempool* packet_pool = nullptr;       ///< not owned; packets to send
  Random* random = nullptr;                 ///< not owned; QPNs and keys
  std::uint32_t max_qp = 1u << 15;          ///< 1 to 65,536 / shards - 1
  std::uint32_t max_ah = 1u << 16;          ///< address handles, 1 to 65,536
  std::uint32_t max_unacked_packets = 128;  ///< request packets in flight per queue pair, 1 to 2^16
  /// Mbufs of packets that have come too early and are held, by queue pairs with selective repeat:
  /// so many of those that packets are received into are in use beside the queues. Any number; what
  /// finds no room is dropped as in go-back-N.
  std::uint32_t max_held_packets = 1024;
  /// Engines that serve one port, each on an lcore of its own: a power of two up to
  /// stack::kShardsMax. The low bits of a QPN are its engine's `shard`, for QpnSteering.
  std::uint16_t shards = 1;
  std::uint16_t shard = 0;  ///< below `shards`
  /// Not owned; null: no other process has queue pairs at this port. Excludes several shards.
  QpnAllocator* qpns = nullptr;
  /// The port's P_Key table from index 0 on, at most PkeyTable::kSize entries. Engines that serve
  /// one port are to have the same one.
  std::vector<std::uint16_t> pkeys = {wire::kDefaultPkey};
  /// An opcode that IBTA reserves in a service with acknowledgements is NAKed, which ends the
  /// connection at both ends (IBTA vol. 1, 9.9.3). Without, it is dropped: for peers with probes of
  /// their own.
  bool nak_reserved_opcodes = true;
  /// Short packets of RC are made and taken in bursts; false: each one the general way, which is
  /// slower, for tests that hold the two together.
  bool plain_bursts = true;
  CnpConfig cnp{};
  EndToEndCredits credits{};  ///< of queue pairs without QpInit::credits
  RetransmissionSchedule retransmissions{};
  /// A response that is found missing is asked for again so much later: some RNICs are slow there.
  std::uint64_t read_retry_delay_ns = 0;
  /// The link's, in bits/s, for DcqcnParameters::rpg_max_rate; 0: not known.
  std::uint64_t line_rate = 0;
  /// For DcqcnParameters::nak_cnp_period_ns where that is 0.
  std::uint64_t nak_cnp_period_ns = 0;
  stack::DropObserver* drop_observer = nullptr;  ///< not owned; may be null
  QpObserver* qp_observer = nullptr;             ///< not owned; may be null
  EventTrace* trace = nullptr;                   ///< not owned; may be null
  /// Not owned; may be null. Called when there is an asynchronous event where there was none.
  stack::Notifier* async_notifier = nullptr;
  /// Not owned; null: memory cannot be registered with kAccessOnDemand.
  MemoryPager* pager = nullptr;
  /// Not owned; may be null: then no region can have kAccessFlushPersistent.
  Persistence* persistence = nullptr;
  lock::ServiceConfig locks{};
};

class Extension;
class ExtensionContext;
class ExtensionQp;

/// The transport of one port and one lcore: memory, queue pairs, and the packets between them. It
/// is the client of its host's UDP port 4791: whoever drives the host (stack::Protocol) moves the
/// engine's packets and passes it the time. All calls on an engine and on the objects made by it
/// come from one thread.
class Engine final : private stack::UdpClient, private stack::HostObserver {
 public:
  [[nodiscard]] static Expected<std::unique_ptr<Engine>> create(const EngineConfig& config);
  ~Engine() override;

  [[nodiscard]] ProtectionDomain allocate_pd();
  /// Fails with `busy` while objects of the domain exist.
  [[nodiscard]] Expected<void> deallocate_pd(ProtectionDomain pd);

  /// As ibv_reg_mr / ibv_reg_mr_iova: see MemoryTable.
  [[nodiscard]] Expected<MemoryRegion> register_memory(ProtectionDomain pd, void* base,
                                                       std::uint64_t length, std::uint32_t access);
  [[nodiscard]] Expected<MemoryRegion> register_memory_iova(ProtectionDomain pd, void* base,
                                                            std::uint64_t length,
                                                            std::uint32_t access,
                                                            std::uint64_t iova);
  /// As ibv_rereg_mr: see MemoryTable::change_region.
  [[nodiscard]] Expected<void> change_memory(MemoryKey key, ProtectionDomain pd, void* base,
                                             std::uint64_t length, std::uint32_t access,
                                             std::uint64_t iova);
  /// From the return on, no packet reads or writes the region, not even for requests in flight.
  /// Fails with `busy` while windows are bound to it.
  [[nodiscard]] Expected<void> deregister_memory(MemoryKey key);
  /// As ib_alloc_mr: a region that reg_mr requests give memory, for up to `max_length` bytes.
  [[nodiscard]] Expected<MemoryRegion> allocate_fast_memory(ProtectionDomain pd,
                                                            std::uint64_t max_length);
  /// As ibv_alloc_mw and ibv_dealloc_mw; of either type (MemoryKind).
  [[nodiscard]] Expected<MemoryWindow> allocate_window(ProtectionDomain pd, MemoryKind type);
  [[nodiscard]] Expected<void> deallocate_window(MemoryKey rkey);

  /// Makes a queue pair in RESET. The engine owns it; destroy_qp ends it.
  [[nodiscard]] Expected<QueuePair*> create_qp(const QpInit& init);
  /// Makes queue pair 1, for management datagrams (IBTA vol. 1, 10.2.4.2): a UD queue pair, of
  /// which a port has one; with several shards it is the engine's whose shard the number 1 names.
  /// Its Q_Key is to be wire::kGsiQkey. For more than datagrams by hand, see Gsi.
  [[nodiscard]] Expected<QueuePair*> create_gsi_qp(const QpInit& init);
  void destroy_qp(QueuePair* qp);
  [[nodiscard]] QueuePair* find_qp(wire::Qpn number) const {
    const std::size_t index = index_of(number.value);
    QueuePair* qp = index < qps_.size() ? qps_[index].get() : nullptr;
    return qp != nullptr && qp->number() == number ? qp : nullptr;
  }

  /// As ibv_attach_mcast: a UD queue pair in any state receives a copy of each datagram to the
  /// group, an IPv4 or IPv6 multicast address, that its Q_Key fits; see query_device() for the
  /// limits. The first attachment to a group joins it (stack::Host::join), by IGMP or MLD. A second
  /// one of the same queue pair changes nothing. What this engine sends to the group it does not
  /// get itself. With several shards each attaches its own queue pairs.
  [[nodiscard]] Expected<void> attach_multicast(QueuePair& qp, const stack::IpAddress& group);
  /// As ibv_detach_mcast; destroy_qp() does it too. Fails with `not_found`.
  [[nodiscard]] Expected<void> detach_multicast(QueuePair& qp, const stack::IpAddress& group);

  /// As ibv_create_srq. The engine owns it; destroy_srq ends it.
  [[nodiscard]] Expected<SharedReceiveQueue*> create_srq(const SrqInit& init);
  /// Fails with `busy` while queue pairs use it. Its receive requests are forgotten.
  [[nodiscard]] Expected<void> destroy_srq(SharedReceiveQueue* srq);
  [[nodiscard]] SharedReceiveQueue* find_srq(std::uint32_t number) const;

  /// As ibv_open_xrcd and ibv_close_xrcd, which fails with `busy` while objects of it exist. An
  /// XRC target (QpType::xrc_recv) has no completion queues: it takes receive requests from the
  /// SRQ of its domain that each message names, and memory rights are those of the SRQ's
  /// protection domain.
  [[nodiscard]] XrcDomain open_xrcd();
  [[nodiscard]] Expected<void> close_xrcd(XrcDomain xrcd);

  /// Serves the locks of `region` from now on: memory that is registered besides, by this engine's
  /// queue pairs with QpInit::lock_execution. Not owned.
  void attach_locks(lock::Region& region);
  /// Fails with `busy` while requests wait for one of its locks, or queue pairs hold one.
  [[nodiscard]] Expected<void> detach_locks(lock::Region& region);
  /// What it has for locks; null: nobody has asked for any.
  [[nodiscard]] const lock::Service* lock_service() const { return locks_.get(); }

  /// As ibv_create_ah, for queue pairs of `pd`; of a host or of a multicast group, which is sent to
  /// with remote_qpn wire::kMulticastQpn. The engine owns it; destroy_ah ends it. A request
  /// that is still to be sent to it then fails with loc_qp_op_err.
  [[nodiscard]] Expected<AddressHandle*> create_ah(ProtectionDomain pd, const AddressVector& av);
  void destroy_ah(AddressHandle* ah);
  /// What is known of the way there; looks for it where nothing is. A request to an address that is
  /// not resolved holds up what is behind it in the same send queue.
  [[nodiscard]] stack::Resolution resolve_ah(AddressHandle& ah, std::uint64_t now_ns);
  [[nodiscard]] std::size_t qp_count() const { return qp_count_; }

  /// From now on `extension`, which is not owned, gets the packets that are for it, until it is
  /// detached. Requires that the engine has no other.
  [[nodiscard]] ExtensionContext& attach_extension(Extension& extension);
  /// The extension may still destroy what it has made.
  void detach_extension();

  /// The largest path MTU whose packets, with so many bytes of headers `more`, fit the interface
  /// MTU.
  [[nodiscard]] std::uint32_t max_path_mtu(std::uint32_t more = 0) const;

  /// An unpredictable first PSN.
  [[nodiscard]] wire::Psn random_psn();

  /// As ibv_query_device and ibv_query_port.
  [[nodiscard]] DeviceAttributes query_device() const;
  [[nodiscard]] PortAttributes query_port() const;
  /// As ibv_query_gid: entry `index` of the GID table, which are the host's addresses; :: where
  /// there is none in use. Fails for an index beyond the table. Changes are asynchronous events.
  [[nodiscard]] Expected<stack::IpAddress> query_gid(std::uint16_t index) const;
  /// As ibv_query_pkey: entry `index` of the port's P_Key table.
  [[nodiscard]] Expected<std::uint16_t> query_pkey(std::uint16_t index) const {
    return pkeys_.at(index);
  }
  /// As query_pkey(), and fails for an entry that names no partition.
  [[nodiscard]] Expected<std::uint16_t> valid_pkey(std::uint16_t index) const {
    return pkeys_.valid_at(index);
  }
  /// The index of a P_Key by which we may talk to a peer that has `pkey`, if any.
  [[nodiscard]] std::optional<std::uint16_t> find_pkey(std::uint16_t pkey) const {
    return pkeys_.find(pkey);
  }
  /// Changes an entry, as a subnet manager does; 0 empties it. Queue pairs with that index have the
  /// new P_Key from now on; with an empty one they reach nobody. A change is an asynchronous event.
  [[nodiscard]] Expected<void> set_pkey(std::uint16_t index, std::uint16_t pkey);
  /// To be told by the code that watches the port: a change is an asynchronous event. Nothing else
  /// changes; what is sent meanwhile is lost on the way.
  void set_port_state(PortState state);

  /// The oldest asynchronous event not yet taken. The oldest of 1024 goes when another comes; those
  /// of a queue pair or SRQ go with it.
  [[nodiscard]] std::optional<AsyncEvent> poll_async_event();

  [[nodiscard]] const EngineCounters& counters() const { return counters_; }
  /// How often queue pairs have gone to another state, by themselves too.
  [[nodiscard]] std::uint64_t state_changes() const { return state_changes_; }
  /// Calls `visit` for every counter of the engine, drops as `drop_REASON`. Any thread.
  void visit_counters(void (*visit)(void* context, const char* name, std::uint64_t value),
                      void* context) const;
  /// Calls `visit` with the name of each counter and what it counts, in one line. Any thread.
  static void describe_counters(void (*visit)(void* context, const char* name, const char* text),
                                void* context);

 private:
  friend class EngineContext;
  friend class QueuePair;

  class NotificationPoint;

  class ExtensionServices;

  /// A queue pair that takes packets with these headers as plain ones: the last that did within
  /// this burst.
  struct PlainPeer {
    std::uint64_t known = 0;             ///< UdpDatagram::known
    std::uint32_t number = UINT32_MAX;   ///< of the queue pair
    std::uint32_t version_and_pkey = 0;  ///< in the BTH
    QueuePair* qp = nullptr;
    std::uint32_t answered = 0;  ///< its oldest requests, whose responses have come in this burst
  };

  /// What computes the ICRC of a short packet, as long as they have the lengths of the last one.
  struct PlainIcrc {
    std::uint32_t lengths = 0;  ///< of the headers in front of the BTH, and of what is behind these
    const wire::IcrcMask* mask = nullptr;
    wire::ShortIcrc* compute = nullptr;
  };

  Engine(const EngineConfig& config, const PkeyTable& pkeys);

  void begin_receive(std::span<rte_mbuf* const> packets, std::uint64_t now_ns) override;
  void on_udp(const stack::UdpDatagram& datagram, std::uint64_t now_ns) override;
  void end_receive() override;
  [[nodiscard]] std::uint16_t transmit(rte_mbuf** packets, std::uint16_t count,
                                       std::uint64_t now_ns) override;
  [[nodiscard]] std::uint64_t next_deadline_ns() const override;
  void on_address_change() override;
  void on_duplicate_address(const stack::IpAddress& address) override;
  void on_packet_too_big(const stack::IpAddress& destination, std::uint32_t mtu) override;
  void prefetch_senders() const;
  void prefetch_receivers(std::span<rte_mbuf* const> packets) const;

  [[nodiscard]] bool accept_plain(const stack::UdpDatagram& datagram, std::uint64_t now_ns);
  [[nodiscard]] bool find_plain_peer(const stack::UdpDatagram& datagram, wire::Qpn number,
                                     std::uint32_t version_and_pkey);
  /// To be called where something changes that find_plain_peer() has looked at.
  void forget_plain_peer() {
    assert(plain_peer_.answered == 0);
    plain_peer_ = {};
  }
  /// To be called before anything but the next response comes to its requester.
  void retire_answered() {
    if (plain_peer_.answered > 0) retire_all_answered();
  }
  void retire_all_answered();
  [[nodiscard, gnu::always_inline]] bool take_plain_response(const PlainPacket& packet);
  void note_plain_icrc(std::uint32_t l3_length, std::uint32_t length);
  [[nodiscard]] std::optional<DropReason> read(const stack::UdpDatagram& datagram,
                                               wire::Headers& headers) const;
  [[nodiscard]] std::optional<DropReason> accept(const stack::UdpDatagram& datagram,
                                                 std::uint64_t now_ns);
  [[nodiscard]] std::optional<DropReason> accept_multicast(const stack::UdpDatagram& datagram,
                                                           const RxPacket& packet,
                                                           std::uint64_t now_ns);
  void detach_from_all(QueuePair& qp);
  [[nodiscard]] std::optional<DropReason> accept_for(QueuePair& qp,
                                                     const stack::UdpDatagram& datagram,
                                                     const RxPacket& packet, std::uint64_t now_ns);
  [[nodiscard]] std::optional<DropReason> take(QueuePair& qp, const stack::UdpDatagram& datagram,
                                               const RxPacket& packet, std::uint64_t now_ns);
  void deliver(QueuePair& qp, const RxPacket& packet, std::uint64_t now_ns) {
    if (!packet.headers.opcode->is_request) {
      qp.transport_.requester->on_response(packet, now_ns);
      return;
    }
    if (qp.state() == QpState::rtr) [[unlikely]] {
      note_established(qp);
    }
    qp.transport_.responder->on_request(packet);
  }
  void note_established(QueuePair& qp);
  void on_marked(QueuePair& qp, const wire::OpcodeInfo& opcode, std::uint64_t now_ns);
  [[nodiscard]] std::optional<DropReason> accept_cnp(const stack::UdpDatagram& datagram,
                                                     QueuePair& qp, std::uint64_t now_ns);
  /// Returns false if the queue pair has no use for congestion notifications.
  [[nodiscard]] static bool obey_cnp(QueuePair& qp, std::uint64_t now_ns);
  void count_cnp(bool obeyed) {
    (obeyed ? counters_.rp_cnp_handled : counters_.rp_cnp_ignored).add();
  }
  /// The partition lets `qp` take a packet with this P_Key.
  [[nodiscard]] bool admits(const QueuePair& qp, std::uint16_t pkey) const {
    return wire::pkeys_match(qp.pkey_, pkey) || (qp.number() == wire::kGsiQpn && has_pkey(pkey));
  }
  [[nodiscard]] bool has_pkey(std::uint16_t pkey) const;
  [[nodiscard]] bool resolve(QueuePair& qp);
  void wait_until(std::uint64_t retry_ns);
  [[nodiscard]] std::uint16_t transmit_cnps(rte_mbuf** packets, std::uint16_t count);
  [[nodiscard]] TransmitResult transmit_from(QueuePair& qp, rte_mbuf** packets, std::uint16_t count,
                                             bool requests_first = false);
  [[nodiscard]] TransmitResult transmit_paced(QueuePair& qp, rte_mbuf** packets,
                                              std::uint16_t count);
  [[nodiscard]] bool has_pd(ProtectionDomain pd) const;
  [[nodiscard]] Expected<void> check_memory(ProtectionDomain pd, std::uint32_t access) const;
  [[nodiscard]] Expected<void> check_qp_init(const QpInit& init) const;
  [[nodiscard]] static Expected<void> check_sizes(const QpInit& init);
  [[nodiscard]] bool has_xrcd(XrcDomain xrcd) const;
  [[nodiscard]] Expected<void> check_xrc(const QpInit& init) const;
  [[nodiscard]] Expected<void> check_receive_side(const QpInit& init) const;
  /// Takes it from config_.qpns. Errors: `exhausted`.
  [[nodiscard]] Expected<wire::Qpn> choose_qpn();
  [[nodiscard]] wire::Qpn random_qpn_at(std::size_t index);
  [[nodiscard]] bool claim(wire::Qpn number) {
    return config_.qpns == nullptr || config_.qpns->claim(number);
  }
  /// Makes room in qps_ for `used` queue pairs, half of the places free if possible.
  void grow_qp_table(std::size_t used);
  [[nodiscard]] QueuePair* add_qp(wire::Qpn number, const QpInit& init);
  static void count_users(const QpInit& init, int change);
  /// Queue pair 1 belongs to this shard.
  [[nodiscard]] bool has_gsi() const {
    return config_.shard == (wire::kGsiQpn.value & (config_.shards - 1u));
  }
  /// The place in qps_ that the number, of which the low 16 bits matter, leads to.
  [[nodiscard]] std::size_t index_of(std::uint32_t qpn) const {
    return (qpn & 0xffff) >> shard_bits_;
  }
  /// Returns null if it is gone.
  [[nodiscard]] AddressHandle* find_ah(std::uint64_t id) const;
  /// Puts the queue pair in line for transmit(); harmless when it is there already.
  void schedule(QueuePair& qp) {
    if (!qp.is_linked()) ready_.push_back(qp);
  }
  /// Makes what locks need, if it is not there yet.
  lock::Service& need_locks();
  void unschedule(QueuePair& qp);
  void count_drop(DropReason reason, const rte_mbuf* packet);
  void free_spent();
  void raise(const AsyncEvent& event);
  /// The completion queue overran: every queue pair that uses it goes to ERR.
  void on_cq_overrun(const CompletionQueue& cq);
  void fail_users_of_overrun_cqs();

  EngineConfig config_;
  int shard_bits_ = 0;  ///< of a QPN
  MemoryTable memory_;
  stack::TimingWheel timers_;
  HeldPacketBudget held_packets_;                ///< outlives the queue pairs
  std::unique_ptr<lock::Service> locks_;         ///< likewise; null: nobody has asked for locks
  std::vector<std::unique_ptr<QueuePair>> qps_;  ///< by index_of() the QPN
  std::size_t qp_count_ = 0;
  Extension* extension_ = nullptr;
  std::unique_ptr<ExtensionContext> extension_context_;  ///< null: there was no extension yet
  std::vector<std::unique_ptr<ExtensionQp>> extension_qps_;
  std::vector<std::unique_ptr<SharedReceiveQueue>> srqs_;  ///< by the low 16 bits of the number
  std::size_t srq_count_ = 0;
  std::vector<std::unique_ptr<AddressHandle>> ahs_;  ///< by the low 16 bits of their ids
  std::vector<std::uint16_t> free_ahs_;              ///< places in ahs_
  std::uint64_t ahs_made_ = 0;
  QpList ready_;              ///< have something to send
  QpList next_turn_;          ///< have something to send, but not before the next transmit()
  QpList waiting_;            ///< have something to send, but no mbuf or not the next hop's MAC
  std::uint64_t now_ns_ = 0;  ///< of the call that is under way
  std::array<rte_mbuf*, 64> spent_;  ///< packets of this burst that have been taken or dropped
  std::size_t spent_count_ = 0;      ///< 0 outside of receive()
  PlainPeer plain_peer_;
  PlainIcrc plain_icrc_;
  std::uint64_t waiting_retry_ns_ = stack::kNever;
  std::uint32_t next_pd_ = 1;
  std::vector<ProtectionDomain> pds_;
  std::uint32_t next_xrcd_ = 1;
  std::vector<XrcDomain> xrcds_;
  std::deque<AsyncEvent> async_events_;
  PortState port_state_ = PortState::active;
  std::uint64_t state_changes_ = 0;
  PkeyTable pkeys_;
  std::vector<const CompletionQueue*> overrun_cqs_;
  stack::Timer overrun_timer_;
  MulticastTable multicast_;
  EngineCounters counters_;
  std::unique_ptr<NotificationPoint> notifications_;
};

// Here, as it is asked for with each packet and needs to know the engine.
inline MemoryAccess QueuePair::remote_access(ProtectionDomain pd, MemoryKey key, std::uint64_t addr,
                                             std::uint64_t length, std::uint32_t right) {
  const MemoryAccess found = engine_.memory_.remote_access(key, {pd, number_}, addr, length, right);
  if (found.status == MemoryStatus::stale_generation) [[unlikely]] {
    engine_.counters_.stale_keys.add();
  }
  return found;
}

}  // namespace rockhopper::roce
