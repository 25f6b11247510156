// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include <boost/intrusive/list.hpp>

#include "apps/services/ami/batch.h"
#include "apps/services/ami/counters.h"
#include "apps/services/ami/lane.h"
#include "apps/services/ami/peer.h"
#include "apps/services/ami/transfer.h"
#include "dc/endpoint.h"
#include "roce/engine.h"

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

struct LanePort;

/// The adapter of US 8,751,595 in software: takes the descriptors of its lanes' injection FIFOs,
/// has the transport move their payloads, and sets the bits of those that are complete. All its
/// functions belong to the engine's thread; progress() is called after each of the engine's turns.
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
  [[nodiscard]] roce::ProtectionDomain pd() const { return pd_; }

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
  [[nodiscard]] bool idle() const { return transfers_->in_use() == 0; }

  /// One turn. True if there was something to do.
  bool progress(std::uint64_t now_ns);
  /// When progress() has something to do if nothing else happens.
  [[nodiscard]] std::uint64_t next_deadline_ns() const;

  [[nodiscard]] const Counters& counters() const { return counters_; }
  /// Any thread.
  void visit_counters(void (*visit)(void* context, const char* name, std::uint64_t value),
                      void* context) const;
  /// Calls `visit` with the name of each counter and what it counts, in one line. Any thread.
  static void describe_counters(void (*visit)(void* context, const char* name, const char* text),
                                void* context);

 private:
  Adapter(roce::Engine& engine, dc::Endpoint* endpoint, const AdapterConfig& config);
  [[nodiscard]] Expected<void> set_up();
  [[nodiscard]] Expected<void> set_up(LanePort& port);
  [[nodiscard]] Expected<Peer*> make_peer(LanePort& port, EndpointId id);
  [[nodiscard]] LanePort& port_of(const Lane& lane) const;
  void post_receive(LanePort& port, std::uint32_t buffer);
  /// The next completions of a queue.
  [[nodiscard]] std::span<const roce::Completion> poll(roce::CompletionQueue& cq) {
    return {polled_.data(), cq.poll(polled_)};
  }

  // adapter_send.cc: from FIFOs to the transport.
  [[nodiscard]] bool take_descriptors(LanePort& port);
  /// Returns null if the lane has as many as are left for all others, or if all are taken.
  [[nodiscard]] Transfer* take_transfer(LanePort& port);
  [[nodiscard]] bool start(LanePort& port, const Descriptor& descriptor);
  /// Without a Transfer.
  [[nodiscard]] Posted start_untracked(Peer& peer, const Descriptor& descriptor);
  void end_at_once(LanePort& port, Status status);
  void link_completion(LanePort& port);
  /// What a message begins with; its transfer has the tag.
  [[nodiscard]] static MessageHeader header_of(const Peer& peer, const Descriptor& descriptor,
                                               const Transfer* transfer);
  /// The batch as one SEND.
  [[nodiscard]] Posted post_batch(Peer& peer, const Transfer* first);
  /// Posts what take_descriptors() has put into the batch.
  void flush_batch();
  /// Posts part `part` of a transfer, whose bytes are `immediate`. With a transfer its completion
  /// is told of.
  [[nodiscard]] Posted post_part(Peer& peer, const Descriptor& descriptor, unsigned part,
                                 const std::byte* immediate, Transfer* transfer);
  /// The first transfers that wait, as many as go in one SEND. False: the peer takes no more for
  /// now.
  [[nodiscard]] bool post_messages(Peer& peer);
  /// Returns false if its peer takes no more for now.
  [[nodiscard]] bool post(Transfer& transfer);
  /// All of it has been posted.
  void on_posted(Transfer& transfer);
  void await_reply(Transfer& transfer);
  /// At the end of this turn, or of the next one.
  void drain_later(Peer& peer);
  void drain(Peer& peer);
  [[nodiscard]] bool post_replies(Peer& peer);
  /// Returns true if it has been posted. Else it sees to it that the peer is tried again, or fails
  /// it.
  [[nodiscard]] bool takes(Peer& peer, Posted posted);
  /// Tells of it if it has ended, and forgets it.
  void settle(Transfer& transfer);
  void stop_awaiting(Transfer& transfer);

  // adapter_receive.cc: completions and messages.
  [[nodiscard]] bool poll_sends();
  void on_sent(const roce::Completion& completion);
  void on_part(Transfer& transfer, Status status);
  void end_all(Peer& peer, Status status);
  void fail_peer(Peer& peer);
  static void tell_failed(LanePort& port, EndpointId id);
  [[nodiscard]] bool poll_receives(LanePort& port);
  /// Returns true if the buffer is the application's now.
  [[nodiscard]] bool accept(LanePort& port, const roce::Completion& completion);
  [[nodiscard]] bool accept_eager(Peer& peer, std::span<const std::byte> send,
                                  std::uint32_t buffer);
  void announce(Peer& peer, const MessageHeader& message, const std::byte* header);
  void on_replies(Peer& peer, const MessageHeader& message, const std::byte* entries);
  void read_payloads(LanePort& port);
  void on_payload(LanePort& port, std::uint32_t index, Status status);
  [[nodiscard]] bool take_handled(LanePort& port);
  /// To those messages of a SEND that want it.
  void reply(LanePort& port, const Handled& handled);
  void owe(Peer& peer, const Reply& reply);
  [[nodiscard]] bool watches() const;
  void probe(std::uint64_t now_ns);
  void probe(Peer& peer);

  roce::Engine& engine_;
  dc::Endpoint* endpoint_;
  AdapterConfig config_;
  roce::ProtectionDomain pd_;
  std::unique_ptr<roce::CompletionQueue> send_cq_;
  std::uint32_t send_room_ = 0;  ///< requests that may complete there
  std::unique_ptr<dc::DciPool> pool_;
  std::vector<std::unique_ptr<LanePort>> ports_;
  std::size_t first_port_ = 0;  ///< another one each turn, as transfers may be short
  std::vector<std::unique_ptr<Peer>> peers_;

  std::size_t stride_ = 0;  ///< of a transfer's bytes
  std::vector<std::byte> transfer_bytes_;
  roce::MemoryKey transfer_key_{};
  std::unique_ptr<TransferTable> transfers_;

  template <auto Hook>
  using PeerList = boost::intrusive::list<
      Peer, boost::intrusive::member_hook<Peer, boost::intrusive::list_member_hook<>, Hook>,
      boost::intrusive::constant_time_size<false>>;
  using DrainList = PeerList<&Peer::drain_hook>;
  DrainList to_drain_;
  /// Gathers untracked messages while a lane's descriptors are taken.
  Batch batch_;
  Peer* batch_peer_ = nullptr;
  PeerList<&Peer::watched_hook> watched_;
  std::array<roce::Completion, 32> polled_{};
  std::uint64_t now_ns_ = 0;
  std::uint64_t next_probe_ns_ = 0;
  Counters counters_;
};

}  // namespace rockhopper::ami
