// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cassert>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include <rte_mbuf.h>

#include "roce/atomic_operation.h"
#include "roce/counters.h"
#include "roce/message_progress.h"
#include "roce/rc/owed_replies.h"
#include "roce/rc/responder_resources.h"
#include "roce/rc/target_scope.h"
#include "roce/recovery/held_packets.h"
#include "roce/responder.h"
#include "roce/rx_packet.h"
#include "roce/segmentation.h"
#include "roce/transport_context.h"
#include "roce/wire/aeth.h"
#include "roce/wire/psn.h"
#include "roce/wire/shared_psn.h"

namespace rockhopper::roce::rc {

/// The responder of a reliable connection (IBTA vol. 1, 9.7.4 and 9.7.5): checks and executes
/// requests in PSN order and answers them.
///
/// Answers leave in PSN order: first what READs and atomics still owe (the responder resources,
/// a ring in PSN order), then the one pending ACK or NAK, which covers everything before it.
/// The resources stay after they have been answered, for duplicates: a READ is executed again from
/// the PSN asked for, an atomic is answered with the value it had.
///
/// This class joins its parts, each of which has its own state, and says whose turn a packet is:
/// Execution, Placement and LockExecution do what the next request asks for, Duplicate what is
/// asked for again, and ReplySender sends what is owed.
class Responder final : public roce::Responder {
 public:
  explicit Responder(const TransportContext& qp);
  ~Responder() override;

  void reset(wire::Psn first_psn) override;
  void stop() override;
  void set_resources(std::uint8_t max_dest_rd_atomic) override;

  void on_request(const RxPacket& packet) override;
  [[nodiscard]] bool take_plain(const PlainPacket& packet) override;
  void on_receive_posted() override;

  [[nodiscard]] bool has_replies() const override;
  [[nodiscard]] bool has_responses() const override { return resources_.owes(); }
  [[nodiscard]] bool may_wait() const override { return !has_responses() && owed_.may_wait(); }
  void defer() override { owed_.defer(); }
  /// READ responses, atomic acknowledgements, ACKs and NAKs. Goes on in ERR, so that the NAK which
  /// tells why still leaves.
  [[nodiscard]] TransmitResult transmit(rte_mbuf** packets, std::uint16_t count) override;
  /// The peer will ask again.
  void on_unreachable() override;

  [[nodiscard]] wire::Psn expected_psn() const override { return received_psn(); }
  [[nodiscard]] wire::Psn told_psn() const override { return expected_psn_; }
  /// A message has begun and not ended.
  [[nodiscard]] bool in_message() const { return message_.is_under_way(); }

 private:
  class Duplicate;
  class Execution;
  class LockExecution;
  class Placement;
  class PlainExecution;
  class PlainReplySender;
  class ReplyPacket;
  class ReplySender;
  using Resource = ResponderResource;
  using Kind = Resource::Kind;
  using Reply = OwedReplies::Reply;

  // These decide which packet is executed next.
  void take(const RxPacket& packet);
  void on_early(const RxPacket& packet, std::uint32_t distance);
  [[nodiscard]] bool hold(const RxPacket& packet, std::uint32_t distance);
  void take_held(wire::Psn turn);
  [[nodiscard]] HeldPackets* held_requests() const;
  [[nodiscard]] bool is_holding() const;
  /// Returns the PSN of the next request packet: behind what waits for a lock.
  [[nodiscard]] wire::Psn received_psn() const {
    return scope_ == nullptr ? expected_psn_ : expected_psn_ + scope_->parked().psns();
  }
  /// Returns the MSN of the next message to be completed.
  [[nodiscard]] std::uint32_t next_msn() const { return (msn_ + 1) & wire::kMask24; }
  /// The next request to execute waits for a lock.
  [[nodiscard]] bool stalls() const { return scope_ != nullptr && scope_->stalls(); }

  /// Finds the aligned 8 bytes that a request names, and may use by `right`, or leaves `word`
  /// alone. Returns how it is refused; nothing if it is not.
  [[nodiscard]] std::optional<wire::NakCode> find_word(MemoryKey key, std::uint64_t va,
                                                       std::uint32_t right, std::byte*& word) const;

  // What becomes of the next request.
  void finish_packet(const RxPacket& packet);
  void finish_with(const Resource& resource);
  /// What a READ of `reth` that is the next request owes.
  [[nodiscard]] Resource resource_of(const wire::Reth& reth) const;
  /// The next request is the atomic, whose `word` has been found.
  void perform(const AtomicOperation& operation, std::byte* word);
  /// Somebody may wait for a lock word in [data, data + length), which has been written.
  void note_write(const std::byte* data, std::uint64_t length) const {
    if (qp_.engine().locks() != nullptr) [[unlikely]] {
      tell_waiters(data, length);
    }
  }
  void tell_waiters(const std::byte* data, std::uint64_t length) const;
  void refuse(wire::NakCode code, const RxPacket& packet);
  void refuse_for_now(const RxPacket& packet);
  void drop(DropReason reason, const RxPacket& packet) const;

  // What is owed.
  void acknowledge(Reply kind = Reply::ack);
  void ask_for_missing();
  void drop_oldest_resource();
  void forget();
  void abort_scope();
  [[nodiscard]] std::unique_ptr<TargetScope> make_scope();

  TransportContext qp_;
  wire::SharedPsn expected_psn_;  ///< of the next request to execute
  std::uint32_t msn_ = 0;         ///< messages completed, 24 bits
  MessageProgress message_;
  ResponderResources resources_;
  std::unique_ptr<TargetScope> scope_;  ///< null: no locks
  OwedReplies owed_;
};

inline std::optional<wire::NakCode> Responder::find_word(MemoryKey key, std::uint64_t va,
                                                         std::uint32_t right,
                                                         std::byte*& word) const {
  if (va % sizeof(std::uint64_t) != 0) return wire::NakCode::invalid_request;
  const MemoryAccess target = qp_.remote_access(key, va, sizeof(std::uint64_t), right);
  if (target.status != MemoryStatus::ok) return wire::NakCode::remote_access_error;
  // An iova can be aligned where the memory is not.
  if (reinterpret_cast<std::uintptr_t>(target.data) % sizeof(std::uint64_t) != 0) {
    return wire::NakCode::invalid_request;
  }
  word = target.data;
  return std::nullopt;
}

/// The packet, a SEND or WRITE that is executed or flushed, was the next one.
inline void Responder::finish_packet(const RxPacket& packet) {
  assert(message_.is_under_way());
  expected_psn_ = expected_psn_ + 1;
  if (packet.headers.opcode->ends()) {
    message_.end();
    msn_ = next_msn();
  }
  if (packet.headers.bth.ack_request) acknowledge();
}

inline void Responder::drop_oldest_resource() {
  const Resource& oldest = resources_.drop_oldest();
  if (oldest.snapshot.exists()) [[unlikely]] {
    qp_.engine().locks()->snapshots.release(oldest.snapshot);
  }
}

/// The next request is executed and has a response of its own, `resource`, which takes the place of
/// the oldest one when there is no other. Requires resources_.has_place().
inline void Responder::finish_with(const Resource& resource) {
  assert(resource.first_psn == expected_psn_ && resource.msn == next_msn());
  if (resources_.is_full()) drop_oldest_resource();
  resources_.put(resource);
  if (owed_.reply() == Reply::ack) {
    owed_.drop_ack();
    qp_.engine().counters().ack_deferred.add();
  }
  msn_ = resource.msn;
  expected_psn_ = expected_psn_ + resource.psn_count;
  qp_.schedule();
}

inline Responder::Resource Responder::resource_of(const wire::Reth& reth) const {
  return {.first_psn = expected_psn_,
          .psn_count = packets_of(reth.length, bytes(qp_.attributes().path_mtu)),
          .msn = next_msn(),
          .length = reth.length,
          .rkey = reth.rkey,
          .pd = qp_.remote_pd(),
          .va = reth.va};
}

}  // namespace rockhopper::roce::rc
