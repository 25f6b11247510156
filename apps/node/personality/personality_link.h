// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include <rte_mbuf.h>
#include <rte_mempool.h>

#include "apps/node/personality/personality.h"
#include "apps/node/personality/read_repair.h"
#include "apps/node/personality/roce_frame.h"
#include "roce/engine.h"
#include "stack/counter.h"
#include "stack/link.h"

namespace rockhopper {

struct PersonalityCounters {
  stack::Counter changed;
  stack::Counter held_acks;
  stack::Counter replaced_acks;
  stack::Counter delayed_naks;
  stack::Counter repeated_naks;
  stack::Counter cnps;
  stack::Counter unsent_repetitions;
  stack::Counter partial_reads;
  stack::Counter unseen_acks;
  stack::Counter refused_requests;
  stack::Counter probes;
  stack::Counter copy_failed;
};

/// Gives a node's packets the look and the timing of another device: what of a Personality the
/// engine does not do itself. Between the host and all that captures, traces or impairs the link.
/// Slow, as each packet is copied: it is for trying peers, not for speed.
class PersonalityLink final : public stack::Link {
 public:
  /// None is owned. `pool` has room for whole frames.
  PersonalityLink(stack::Link& inner, rte_mempool* pool, const Personality& personality);
  ~PersonalityLink() override;

  /// The engine whose packets these are knows which queue pairs are connected. To be called before
  /// the first packet.
  void attach(const roce::Engine& engine) { engine_ = &engine; }

  [[nodiscard]] std::uint16_t rx_burst(rte_mbuf** packets, std::uint16_t count,
                                       std::uint64_t now_ns) override;
  [[nodiscard]] std::uint16_t tx_burst(rte_mbuf** packets, std::uint16_t count,
                                       std::uint64_t now_ns) override;
  [[nodiscard]] std::uint64_t next_deadline_ns() const override;
  [[nodiscard]] rte_ether_addr mac() const override { return inner_.mac(); }
  [[nodiscard]] std::uint16_t mtu() const override { return inner_.mtu(); }

  [[nodiscard]] const PersonalityCounters& counters() const { return counters_; }
  /// Mbufs that it holds: of packets that wait, and of those that it may send again.
  [[nodiscard]] std::size_t mbufs_held() const;
  /// Any thread.
  void visit_counters(void (*visit)(void* context, const char* name, std::uint64_t value),
                      void* context) const;
  static void describe_counters(void (*visit)(void* context, const char* name, const char* text),
                                void* context);

 private:
  using Mbuf = OwnedMbuf;

  /// A queue pair of the peer's, by its number and address.
  struct Peer {
    stack::IpAddress address{};
    wire::Qpn number{};
    friend bool operator==(const Peer&, const Peer&) = default;
  };
  struct PeerHash {
    std::size_t operator()(const Peer& peer) const;
  };
  struct LastAck {
    wire::Psn psn{};
    wire::Aeth aeth{};
  };
  /// What is known of the packets from and to one of these.
  struct Conversation {
    Mbuf held_ack;  ///< may still be replaced
    std::uint64_t ack_release_ns = 0;
    Mbuf nak;  ///< of sequence: the last one, while its packet has not come
    wire::Psn nak_psn{};
    std::optional<wire::Psn> expected;   ///< of the peer's requests
    std::uint32_t behind_gap = 0;        ///< that came since there was no NAK
    std::optional<wire::Psn> last_sent;  ///< the first PSN of the newest request
    std::uint32_t last_read_bytes = 0;   ///< that it asks for, if it is a READ
    std::uint32_t mtu = 0;               ///< the path MTU; 0 before the first answer
    std::optional<wire::Psn> named;      ///< by the peer's NAK
    std::optional<LastAck> last_ack;     ///< the peer's
    ReadRepair reads;
  };

  // Out.
  void send(rte_mbuf* original, std::uint64_t now_ns);
  void dress(RoceFrame& frame);
  void dress_cnp(RoceFrame& frame) const;
  /// Returns how long the packet waits, or nothing where it is not sent or has been taken.
  [[nodiscard]] std::optional<std::uint64_t> pass_reply(Conversation& peer, RoceFrame& frame,
                                                        Mbuf& packet, std::uint64_t now_ns);
  [[nodiscard]] bool pass_request(Conversation& peer, RoceFrame& frame, rte_mbuf* packet);
  void send_cnp(rte_mbuf* like, std::uint64_t release_ns);
  void repeat_nak(Conversation& peer, std::uint64_t now_ns);
  void probe(std::uint64_t now_ns);
  void queue(Mbuf packet, std::uint64_t release_ns);
  void release(std::uint64_t now_ns);
  // In.
  /// Returns false if the engine is not to see the packet.
  [[nodiscard]] bool receive(rte_mbuf*& packet, std::uint64_t now_ns);
  [[nodiscard]] bool receive_request(Conversation& peer, RoceFrame& frame, std::uint64_t now_ns);
  [[nodiscard]] bool receive_reply(Conversation& peer, RoceFrame& frame, Mbuf& packet,
                                   std::uint64_t now_ns);
  void note_order(Conversation& peer, const RoceFrame& frame, std::uint64_t now_ns);
  [[nodiscard]] bool is_refused(const RoceFrame& frame) const;
  [[nodiscard]] Mbuf copy_of(rte_mbuf* packet);
  [[nodiscard]] Conversation& with(const Peer& peer);

  stack::Link& inner_;
  rte_mempool* pool_;
  const Personality personality_;
  const roce::Engine* engine_ = nullptr;
  PersonalityCounters counters_;
  std::unordered_map<Peer, Conversation, PeerHash> peers_;
  std::multimap<std::uint64_t, Mbuf> waiting_;  ///< by the time at which they leave
  std::vector<rte_mbuf*> due_;                  ///< that the inner link has not taken yet
  std::vector<Mbuf> arrived_;                   ///< for the engine, beyond what it asked for
  Mbuf probe_;                                  ///< what probes look like; null without traffic
  std::uint64_t next_probe_ns_ = 0;
  std::uint64_t last_traffic_ns_ = 0;
  std::uint32_t probes_ = 0;
  std::uint16_t identification_ = 1;
};

}  // namespace rockhopper
