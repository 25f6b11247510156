// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include <rte_mbuf.h>

#include "roce/counters.h"
#include "roce/lock/scope.h"
#include "roce/lock/snapshot_pool.h"
#include "roce/message_progress.h"
#include "roce/queue_pair.h"
#include "roce/rc/owed_replies.h"
#include "roce/rc/responder_resources.h"
#include "roce/responder.h"
#include "roce/wire/packet.h"

namespace rockhopper::roce::rc {

/// The responder of a reliable connection (IBTA vol. 1, 9.7.4 and 9.7.5): checks and executes
/// requests in PSN order and answers them.
///
/// Answers leave in PSN order: first what READs and atomics still owe (the responder resources,
/// a ring in PSN order), then the one pending ACK or NAK, which covers everything before it.
/// The resources stay after they have been answered, for duplicates: a READ is executed again from
/// the PSN asked for, an atomic is answered with the value it had.
class Responder final : public roce::Responder {
 public:
  explicit Responder(QueuePair& qp);
  ~Responder() override;

  void reset(wire::Psn first_psn) override;
  void stop() override;
  void set_resources(std::uint8_t max_dest_rd_atomic) override;

  void on_request(const RxPacket& packet) override;
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
  /// A message has begun and not ended.
  [[nodiscard]] bool in_message() const { return message_.is_under_way(); }

 private:
  using Resource = ResponderResource;
  using Kind = Resource::Kind;
  using Reply = OwedReplies::Reply;

  // responder_request.cc
  void execute(const RxPacket& packet);
  void execute_in_turn(const RxPacket& packet);
  [[nodiscard]] bool in_order(const RxPacket& packet);
  void on_out_of_order(const RxPacket& packet, std::uint32_t distance);
  void ask_for_missing();
  void execute_send(const RxPacket& packet);
  void execute_write(const RxPacket& packet);
  void execute_read(const RxPacket& packet);
  void execute_atomic(const RxPacket& packet);
  struct AtomicTarget {
    std::uint64_t va;
    std::uint32_t rkey;
  };
  [[nodiscard]] static AtomicTarget atomic_target(const wire::Headers& headers);
  [[nodiscard]] static std::uint64_t atomic_result(const wire::Headers& headers,
                                                   std::uint64_t value);
  [[nodiscard]] static std::uint64_t perform_atomic(const wire::Headers& headers,
                                                    std::byte* target);
  void note_write(const std::byte* data, std::uint64_t length);
  void finish_packet(const RxPacket& packet);
  [[nodiscard]] bool take_resource(const Resource& resource);
  void drop_oldest_resource() {
    const Resource& oldest = resources_.drop_oldest();
    if (oldest.snapshot.exists()) [[unlikely]] {
      release_snapshot(oldest);
    }
  }
  void release_snapshot(const Resource& resource);
  void put_resource(const Resource& resource);
  void drop(DropReason reason, const RxPacket& packet);

  // responder_early.cc
  [[nodiscard]] HeldPackets* held_requests() const;
  [[nodiscard]] bool is_holding() const {
    const HeldPackets* held = held_requests();
    return held != nullptr && !held->empty();
  }
  [[nodiscard]] bool hold(const RxPacket& packet, std::uint32_t distance);
  void execute_held(wire::Psn turn);
  [[nodiscard]] rte_mbuf* build_selective_acknowledge(const HeldPackets& held);

  // responder_lock.cc
  void execute_lock(const RxPacket& packet);
  void execute_acquire(const RxPacket& packet);
  [[nodiscard]] std::optional<wire::NakCode> collect_claims(const RxPacket& packet);
  [[nodiscard]] std::optional<wire::NakCode> add_claim(lock::Claim claim, std::uint32_t rkey,
                                                       std::uint64_t va);
  [[nodiscard]] std::optional<wire::LockCause> ask(bool again);
  [[nodiscard]] std::uint64_t wait_deadline_ns() const;
  void gather(const RxPacket& packet);
  void ask_when_gathered();
  [[nodiscard]] bool wait();
  [[nodiscard]] bool stall(lock::Scope::State state, std::uint64_t deadline_ns);
  void decide(wire::LockCause cause);
  void fail_scope(wire::LockCause cause);
  void fail_open_scope(wire::LockCause cause);
  void execute_release(const RxPacket& packet);
  [[nodiscard]] bool release(const RxPacket& packet);
  void execute_cancel(const RxPacket& packet);
  void answer_other(std::uint16_t id, wire::LockStatus status, wire::LockCause cause);
  [[nodiscard]] bool may_execute_in_scope(const RxPacket& packet) const;
  void flush(const RxPacket& packet);
  void answer_lock(wire::LockStatus status, wire::LockCause cause, std::uint64_t previous,
                   std::uint64_t value, std::uint32_t psn_count = 1);
  [[nodiscard]] bool take_snapshot(const MemoryAccess& source, Resource& resource);
  void abort_scope();
  void repeat_lock(const RxPacket& packet);
  // What is behind a lock that is waited for.
  [[nodiscard]] bool stalls() const { return scope_ != nullptr && scope_->stalls(); }
  void park(const RxPacket& packet);
  void on_parked_again(const RxPacket& packet);
  void resume();
  void drop_parked();
  void owe_sign_of_life();
  void arm_scope_timer();
  void on_scope_timer(std::uint64_t now_ns);
  [[nodiscard]] rte_mbuf* build_lock_response(const Resource& owing);
  [[nodiscard]] rte_mbuf* build_sign_of_life();

  // responder_placement.cc
  void execute_atomic_write(const RxPacket& packet);
  void execute_flush(const RxPacket& packet);
  void confirm_placement(const wire::Reth& reth);
  void repeat_placement(const RxPacket& packet);

  // responder_duplicate.cc
  void on_duplicate(const RxPacket& packet);
  void repeat_read(const RxPacket& packet);
  void repeat_atomic(const RxPacket& packet);
  void owe(Resource& resource, std::uint32_t index);

  // responder_reply.cc
  void acknowledge(Reply kind = Reply::ack);
  void refuse(wire::NakCode code, const RxPacket& packet);
  void rnr_nak(const RxPacket& packet);
  [[nodiscard]] rte_mbuf* next_reply();
  [[nodiscard]] rte_mbuf* build_reply();
  [[nodiscard]] wire::Psn acknowledged_psn();
  void forget();
  [[nodiscard]] std::unique_ptr<lock::Scope> make_scope();
  [[nodiscard]] bool is_stale_repetition(const Resource& owing) const;
  [[nodiscard]] rte_mbuf* build_response(Resource& owing);
  [[nodiscard]] rte_mbuf* build_read_response(Resource& owing);
  [[nodiscard]] rte_mbuf* build_atomic_acknowledge(const Resource& owing);
  [[nodiscard]] rte_mbuf* build_acknowledge(wire::Psn psn, std::uint8_t syndrome,
                                            std::uint32_t msn);
  [[nodiscard]] rte_mbuf* refuse_read(const Resource& owing);
  [[nodiscard]] wire::Headers reply_headers(wire::Opcode opcode, wire::Psn psn) const;
  [[nodiscard]] std::uint8_t ack_syndrome() const;

  /// Of the next request packet: behind what waits for a lock.
  [[nodiscard]] wire::Psn received_psn() const {
    return scope_ == nullptr ? expected_psn_ : expected_psn_ + scope_->parked_psns;
  }

  QueuePair& qp_;
  wire::Psn expected_psn_;  ///< of the next request to execute
  std::uint32_t msn_ = 0;   ///< messages completed, 24 bits

  MessageProgress message_;
  ResponderResources resources_;
  std::unique_ptr<lock::Scope> scope_;  ///< null: no locks
  OwedReplies owed_;
};

}  // namespace rockhopper::roce::rc
