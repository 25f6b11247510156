// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
// An adapter whose peer has a queue pair and sends what it likes: what is refused has a counter,
// its sender is told where it can be, and what comes behind it is handled (AM-27, SYS-2).
#include <array>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "apps/services/ami/adapter.h"
#include "apps/services/ami/batch.h"
#include "apps/services/ami/context.h"
#include "apps/services/ami/unanswered.h"
#include "tests/sim/seeded_runs.h"

namespace rockhopper::ami::adapter_refusals_test {
namespace {

using sim::must;

constexpr std::uint16_t kHandler = 1;
constexpr EndpointId kPeer = 3;
constexpr EndpointId kOther = 4;  ///< known, by another queue pair
constexpr std::uint16_t kBuffers = 3;
constexpr std::uint32_t kEagerBytes = 2048;
constexpr std::uint32_t kMaxMessage = 4096;
constexpr std::size_t kMemory = 65536;
/// Of each of the peer's receives: what the smallest lane has.
constexpr std::size_t kReceive = MessageHeader::kSize + kMaxHeaderBytes;

class AdapterRefusals : public testing::Test {
 protected:
  AdapterRefusals() : network_({.seed = 1, .pools = &sim::pools()}), memory_(kMemory) {
    adapter_ = must(Adapter::create(network_.node(0).engine(), nullptr, {}));
    LaneConfig lane;
    lane.self = 0;
    lane.receive_buffers = kBuffers;
    lane.eager_bytes = kEagerBytes;
    lane.max_message_bytes = kMaxMessage;
    lane.rendezvous_buffers = 1;
    lane_ = must(adapter_->add_lane(lane));
    context_ = std::make_unique<Context>(*lane_);
    context_->set_handler(kHandler, [this](const Message& message) {
      ++handled_;
      EXPECT_EQ(message.source, kPeer);
      payload_.assign(message.payload.begin(), message.payload.end());
    });
    cq_ = must(roce::CompletionQueue::create(1024));
    recv_cq_ = must(roce::CompletionQueue::create(1024));
    roce::Engine& engine = network_.node(1).engine();
    const roce::ProtectionDomain pd = engine.allocate_pd();
    region_ = must(engine.register_memory(pd, memory_.data(), memory_.size(), roce::kAccessAll));
    own_region_ = must(network_.node(0).engine().register_memory(
        adapter_->pd(), own_memory_.data(), own_memory_.size(), roce::kAccessAll));
    for (const EndpointId id : {kPeer, kOther}) {
      roce::QpInit init;
      init.pd = pd;
      init.send_cq = cq_.get();
      init.recv_cq = recv_cq_.get();
      init.max_send_wr = 512;
      init.max_recv_wr = 64;
      roce::QueuePair* qp = must(engine.create_qp(init));
      (id == kPeer ? qp_ : other_qp_) = qp;
      roce::QpAttributes attributes;
      attributes.path_mtu = roce::PathMtu::mtu_1024;
      attributes.max_rd_atomic = attributes.max_dest_rd_atomic = 16;
      attributes.min_rnr_timer = 1;
      attributes.timeout = 9;
      attributes.retry_cnt = 3;
      attributes.rnr_retry = 7;
      roce::QueuePair* ours = must(network_.node(0).engine().create_qp(adapter_->qp_init(*lane_)));
      network_.connect({ours, qp}, attributes);
      must(adapter_->add_peer(*lane_, id, *ours));
    }
    for (std::uint32_t i = 0; i < 64; ++i) {
      const roce::Sge to{region_.iova + kMemory / 2 + i * kReceive, kReceive, region_.key};
      (void)qp_->post_recv({.wr_id = i, .sg_list = {&to, 1}});
    }
    must(adapter_->open(*lane_));
  }

  void run(bool advances = true) {
    for (unsigned i = 0; i < 200; ++i) {
      const bool moved = network_.poll();
      const bool worked = adapter_->progress(network_.now_ns());
      if (advances) (void)context_->advance();
      if (!moved && !worked && !network_.advance(network_.now_ns() + 10'000)) {
        network_.advance_to(network_.now_ns() + 10'000);
      }
    }
  }
  void send(const MessageHeader& header, std::size_t behind, bool advances = true) {
    header.emit(std::span<std::byte, MessageHeader::kSize>(memory_.data(), MessageHeader::kSize));
    send_bytes(MessageHeader::kSize + behind, advances);
  }
  void send_bytes(std::size_t length, bool advances = true) {
    post({.opcode = roce::WrOpcode::send}, length, advances);
  }
  void post(roce::SendWr wr, std::size_t length, bool advances = true) {
    const roce::Sge sge{region_.iova, static_cast<std::uint32_t>(length), region_.key};
    wr.sg_list = {&sge, 1};
    ASSERT_EQ(qp_->post_send(wr), roce::PostResult::ok);
    run(advances);
  }
  [[nodiscard]] static MessageHeader eager(std::uint32_t length, bool wants_reply = false) {
    return {.wants_reply = wants_reply,
            .source = kPeer,
            .handler = kHandler,
            .tag = 77,
            .length = length};
  }
  [[nodiscard]] MessageHeader announced(std::uint32_t length) const {
    MessageHeader header = eager(length, true);
    header.type = MessageHeader::Type::rendezvous;
    header.rkey = region_.key;
    header.addr = region_.iova;
    return header;
  }
  /// Of the replies that have come to the peer so far.
  [[nodiscard]] std::vector<Reply> replies() {
    std::vector<Reply> found;
    roce::Completion completion;
    while (recv_cq_->poll({&completion, 1}) == 1) {
      const std::byte* bytes = memory_.data() + kMemory / 2 + completion.wr_id * kReceive;
      const auto header = MessageHeader::parse({bytes, completion.byte_len});
      if (!header || header->type != MessageHeader::Type::reply) continue;
      for (std::uint32_t i = 0; i < header->length; ++i) {
        found.push_back(Reply::parse(std::span<const std::byte, Reply::kSize>(
            bytes + MessageHeader::kSize + i * Reply::kSize, Reply::kSize)));
      }
    }
    return found;
  }
  /// The lane still works.
  void expect_alive() {
    const unsigned before = handled_;
    send(eager(8), 8);
    EXPECT_EQ(handled_, before + 1);
  }
  [[nodiscard]] const Counters& counters() const { return adapter_->counters(); }

  sim::SimNetwork network_;
  std::vector<std::byte> memory_;
  std::vector<std::byte> own_memory_ = std::vector<std::byte>(kMaxMessage);
  roce::MemoryRegion region_{};
  roce::MemoryRegion own_region_{};
  std::unique_ptr<roce::CompletionQueue> cq_;
  std::unique_ptr<roce::CompletionQueue> recv_cq_;
  std::unique_ptr<Adapter> adapter_;
  Lane* lane_ = nullptr;
  std::unique_ptr<Context> context_;
  roce::QueuePair* qp_ = nullptr;        ///< kPeer's
  roce::QueuePair* other_qp_ = nullptr;  ///< kOther's
  unsigned handled_ = 0;
  std::vector<std::byte> payload_;
};

TEST_F(AdapterRefusals, HeadersAndLengths) {
  send_bytes(31);
  MessageHeader header = eager(8);
  send(header, 7);
  send(header, 9);
  header.type = MessageHeader::Type{9};
  send(header, 8);
  header = eager(8);
  header.type = MessageHeader::Type::reply;
  send(header, 8);  // eight entries it would be
  EXPECT_EQ(counters().rx_malformed.value(), 5u);
  header = eager(0);
  header.header_length = kMaxHeaderBytes + 1;
  send(header, kMaxHeaderBytes + 1);
  EXPECT_EQ(counters().rx_long_header.value(), 1u);
  EXPECT_EQ(handled_, 0u);
  expect_alive();
}

/// One of several in a SEND is wrong: none of them is handled.
TEST_F(AdapterRefusals, ASendIsTakenWholeOrNotAtAll) {
  const auto send_three = [this](const MessageHeader& wrong) {
    Batch batch;
    batch.add(eager(0), {});
    batch.add(wrong, {memory_.data() + kMemory / 4, wrong.size() - MessageHeader::kSize});
    batch.add(eager(0), {});
    std::memcpy(memory_.data(), batch.bytes().data(), batch.bytes().size());
    send_bytes(batch.bytes().size());
  };
  MessageHeader header = eager(8);
  header.type = MessageHeader::Type::rendezvous;
  send_three(header);
  EXPECT_EQ(counters().rx_malformed.value(), 1u);
  header = eager(0);
  header.header_length = kMaxHeaderBytes + 1;
  send_three(header);
  EXPECT_EQ(counters().rx_long_header.value(), 1u);
  header = eager(8);
  header.source = kOther;
  send_three(header);
  EXPECT_EQ(counters().rx_unknown_source.value(), 1u);
  EXPECT_EQ(handled_, 0u);
  send_three(eager(8));
  EXPECT_EQ(handled_, 3u);
  expect_alive();
}

/// AM-28: the replies that are owed are bounded, however messages come.
TEST_F(AdapterRefusals, ASendWithMoreMessagesThanAPeerMayHave) {
  Batch batch;
  while (batch.count() < kMaxUnanswered / 2) {
    batch.add(eager(0, true), {});
  }
  std::memcpy(memory_.data(), batch.bytes().data(), batch.bytes().size());
  for (const unsigned refused : {0u, 0u, 1u}) {
    send_bytes(batch.bytes().size(), false);
    EXPECT_EQ(counters().rx_over_limit.value(), refused);
  }
  run();
  EXPECT_EQ(handled_, kMaxUnanswered);
  EXPECT_EQ(replies().size(), kMaxUnanswered);
  expect_alive();
}

TEST_F(AdapterRefusals, AMessageLongerThanABuffer) {
  send(eager(kEagerBytes + 1), kEagerBytes + 1);
  EXPECT_EQ(counters().rx_failed.value(), 1u);
  EXPECT_EQ(handled_, 0u);
}

/// The buffer's content is of an earlier message, and shorter than what the completion says.
TEST_F(AdapterRefusals, AWriteWithImmediateIsNoMessage) {
  const MessageHeader claims = eager(3000);
  for (unsigned i = 0; i < kBuffers; ++i) {
    send(claims, 0);
  }
  EXPECT_EQ(counters().rx_malformed.value(), kBuffers);
  roce::SendWr wr;
  wr.opcode = roce::WrOpcode::rdma_write_with_imm;
  wr.remote_addr = own_region_.iova;
  wr.rkey = own_region_.key;
  post(wr, MessageHeader::kSize + 3000);
  EXPECT_EQ(counters().rx_not_send.value(), 1u);
  EXPECT_EQ(handled_, 0u);
  expect_alive();
}

TEST_F(AdapterRefusals, WhoIsNotWhoItSays) {
  for (const EndpointId id : {EndpointId{1}, kOther, EndpointId{63}, EndpointId{0xffff}}) {
    MessageHeader header = eager(8);
    header.source = id;
    send(header, 8);
  }
  EXPECT_EQ(counters().rx_unknown_source.value(), 4u);
  EXPECT_EQ(handled_, 0u);
  expect_alive();
}

TEST_F(AdapterRefusals, AHandlerThatThereIsNot) {
  for (const std::uint16_t id :
       {std::uint16_t{0}, std::uint16_t{2}, Context::kHandlers, std::uint16_t{0xffff}}) {
    MessageHeader header = eager(8, true);
    header.handler = id;
    send(header, 8);
  }
  EXPECT_EQ(context_->counters().unknown_handlers.value(), 4u);
  const std::vector<Reply> told = replies();
  ASSERT_EQ(told.size(), 4u);
  for (const Reply& reply : told) {
    EXPECT_EQ(reply.tag, 77u);
    EXPECT_EQ(reply.status, Status::unknown_handler);
  }
  expect_alive();
}

TEST_F(AdapterRefusals, RepliesThatNobodyWaitsFor) {
  Status ended = Status::invalid;
  unsigned calls = 0;
  std::pair<Status*, unsigned*> told{&ended, &calls};
  ASSERT_EQ(context_->send(kPeer, kHandler, {}, std::span<const std::byte>{},
                           {.level = Level::handled,
                            .callback = {.function =
                                             [](void* to, std::uint64_t, Status status) {
                                               auto& [of, count] =
                                                   *static_cast<std::pair<Status*, unsigned*>*>(to);
                                               *of = status;
                                               ++*count;
                                             },
                                         .context = &told}}),
            Injected::yes);
  run();
  roce::Completion completion;
  ASSERT_EQ(recv_cq_->poll({&completion, 1}), 1u);
  const auto asked = MessageHeader::parse(
      {memory_.data() + kMemory / 2 + completion.wr_id * kReceive, completion.byte_len});
  ASSERT_TRUE(asked && asked->wants_reply);

  const MessageHeader header{.type = MessageHeader::Type::reply, .source = kPeer, .length = 3};
  const std::array<std::uint32_t, 3> tags{asked->tag + 1, asked->tag + 0x10000, 0xffffffff};
  for (std::size_t i = 0; i < tags.size(); ++i) {
    Reply{.tag = tags[i]}.emit(std::span<std::byte, Reply::kSize>(
        memory_.data() + MessageHeader::kSize + i * Reply::kSize, Reply::kSize));
  }
  send(header, 3 * Reply::kSize);
  EXPECT_EQ(counters().stale_replies.value(), 3u);
  EXPECT_EQ(calls, 0u);
  // The right one, by another peer.
  const MessageHeader one{.type = MessageHeader::Type::reply, .source = kOther, .length = 1};
  Reply{.tag = asked->tag}.emit(
      std::span<std::byte, Reply::kSize>(memory_.data() + MessageHeader::kSize, Reply::kSize));
  std::swap(qp_, other_qp_);
  send(one, Reply::kSize);
  std::swap(qp_, other_qp_);
  EXPECT_EQ(counters().stale_replies.value(), 4u);
  EXPECT_EQ(calls, 0u);
  // And by the right one, twice.
  const MessageHeader two{.type = MessageHeader::Type::reply, .source = kPeer, .length = 2};
  for (std::size_t i = 0; i < 2; ++i) {
    Reply{.tag = asked->tag}.emit(std::span<std::byte, Reply::kSize>(
        memory_.data() + MessageHeader::kSize + i * Reply::kSize, Reply::kSize));
  }
  send(two, 2 * Reply::kSize);
  EXPECT_EQ(counters().rx_replies.value(), 1u);
  EXPECT_EQ(counters().stale_replies.value(), 5u);
  EXPECT_EQ(calls, 1u);
  EXPECT_EQ(ended, Status::ok);
  expect_alive();
}

TEST_F(AdapterRefusals, APayloadThatIsTooLong) {
  send(announced(kMaxMessage + 1), 0);
  EXPECT_EQ(counters().rx_too_long.value(), 1u);
  const std::vector<Reply> told = replies();
  ASSERT_EQ(told.size(), 1u);
  EXPECT_EQ(told[0].status, Status::refused);
  expect_alive();
  send(announced(kMaxMessage), 0);
  EXPECT_EQ(handled_, 2u);
  EXPECT_EQ(payload_.size(), kMaxMessage);
}

/// The READ that is refused ends the connection, which is the peer's own.
TEST_F(AdapterRefusals, APayloadUnderAWrongKey) {
  MessageHeader header = announced(1000);
  header.rkey = roce::MemoryKey{static_cast<std::uint32_t>(region_.key) ^ 1u};
  send(header, 0);
  EXPECT_EQ(counters().rx_unreadable.value(), 1u);
  EXPECT_EQ(handled_, 0u);
  // Its buffer is free again.
  EXPECT_EQ(counters().rx_rendezvous.value(), 1u);
  run();
  EXPECT_TRUE(adapter_->idle());
}

TEST_F(AdapterRefusals, MoreMessagesThanAPeerMayHave) {
  for (std::size_t i = 0; i <= kMaxAnnounced + 1; ++i) {
    send(announced(1000), 0, false);
  }
  // One is being read, so many wait.
  EXPECT_EQ(counters().rx_over_limit.value(), 1u);
  EXPECT_EQ(handled_, 0u);
  run();
  EXPECT_EQ(handled_, kMaxAnnounced + 1);
  expect_alive();
}

}  // namespace
}  // namespace rockhopper::ami::adapter_refusals_test
