// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "apps/services/ami/counters.h"
#include "apps/services/ami/lane.h"
#include "dc/dci_pool.h"
#include "dc/dct.h"
#include "dc/target_address.h"
#include "roce/owned.h"

namespace rockhopper::ami {

struct AdapterConfig {
  /// Remembered at a time: with a callback, without room at the transport, or awaiting a reply. 1
  /// to 65,536.
  std::uint32_t transfers = 4096;
  std::uint16_t immediate_bytes = 256;  ///< of any lane's FIFO, at most 768
  std::uint16_t burst = 32;  ///< descriptors of a FIFO before it is the next one's turn (AM-30)
  roce::PathMtu path_mtu = roce::PathMtu::mtu_1024;
  std::uint16_t dcis = 16;     ///< peers of dynamic connections that can be served at a time
  std::uint8_t timeout = 14;   ///< local ACK timeout code of its initiators
  std::uint8_t retry_cnt = 7;  ///< of its initiators
  /// A peer that owes a reply and is silent for so long is asked for a sign of life.
  std::uint64_t probe_ns = 500'000'000;
};

struct AdapterParts;
struct LanePort;
struct Peer;
class Receiver;
class Sender;

/// The adapter of US 8,751,595 in software: takes the descriptors of its lanes' injection FIFOs,
/// has the transport move their payloads, and sets the bits of those that are complete. All its
/// functions belong to the engine's thread; progress() is called after each of the engine's turns.
///
/// This class knows lanes and peers and leads completions to its parts: Sender posts what lanes ask
/// for, Receiver takes what peers send.
class Adapter {
 public:
  /// `endpoint` null: peers are connected by queue pairs only. Both must outlive it.
  [[nodiscard]] static Expected<std::unique_ptr<Adapter>> create(roce::Engine& engine,
                                                                 dc::Endpoint* endpoint,
                                                                 const AdapterConfig& config);
  Adapter(const Adapter&) = delete;
  Adapter& operator=(const Adapter&) = delete;
  /// Callbacks that have not been called never will be: close() the lanes first.
  ~Adapter();

  /// Returns the protection domain of the memory that instructions name.
  [[nodiscard]] roce::ProtectionDomain pd() const { return pd_.get(); }

  /// A lane for one thread of the application. The adapter's.
  [[nodiscard]] Expected<Lane*> add_lane(const LaneConfig& config);
  /// The DC target by which peers reach it.
  [[nodiscard]] const dc::Dct& target(const Lane& lane) const;
  /// A peer, by dynamic connections. It has to know us under LaneConfig::self.
  [[nodiscard]] Expected<void> add_peer(Lane& lane, EndpointId id,
                                        const dc::TargetAddress& address);
  /// For a queue pair that shall be a peer's: to be made by the engine, connected with access
  /// rights to whatever instructions of the peer name, and given to add_peer().
  [[nodiscard]] roce::QpInit qp_init(const Lane& lane) const;
  [[nodiscard]] Expected<void> add_peer(Lane& lane, EndpointId id, roce::QueuePair& qp);
  /// From now on messages are received; a peer that sends some before is told to wait (RNR). To be
  /// called after the lane's peers have been added.
  [[nodiscard]] Expected<void> open(Lane& lane);
  /// Ends all instructions that have not gone to the transport, or await a reply, as canceled, and
  /// all that are injected from now on. Those at the transport end by themselves (AM-22).
  void close(Lane& lane);
  /// All that it has taken is complete.
  [[nodiscard]] bool idle() const;

  /// One turn. True if there was something to do.
  bool progress(std::uint64_t now_ns);
  /// When progress() has something to do if nothing else happens.
  [[nodiscard]] std::uint64_t next_deadline_ns() const;

  [[nodiscard]] const Counters& counters() const;
  /// Any thread.
  void visit_counters(stack::CounterVisitor visit, void* context) const;
  /// Calls `visit` with the name of each counter and what it counts, in one line. Any thread.
  static void describe_counters(stack::CounterTextVisitor visit, void* context) {
    Counters::describe(visit, context);
  }

 private:
  Adapter(roce::Engine& engine, dc::Endpoint* endpoint, const AdapterConfig& config);
  [[nodiscard]] Expected<void> set_up();
  [[nodiscard]] Expected<Peer*> make_peer(LanePort& port, EndpointId id);
  [[nodiscard]] LanePort& port_of(const Lane& lane) const;
  [[nodiscard]] bool poll_sends();
  void on_sent(const roce::Completion& completion);

  roce::Engine& engine_;
  dc::Endpoint* endpoint_;
  roce::OwnedPd pd_;
  std::unique_ptr<roce::CompletionQueue> send_cq_;
  std::uint32_t send_room_ = 0;  ///< requests that may complete there
  std::unique_ptr<dc::DciPool> pool_;
  std::unique_ptr<AdapterParts> parts_;
  std::unique_ptr<Sender> sender_;
  std::unique_ptr<Receiver> receiver_;
  std::size_t first_port_ = 0;  ///< another one each turn, as transfers may be short
};

}  // namespace rockhopper::ami
