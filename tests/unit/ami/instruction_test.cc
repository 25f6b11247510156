// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
// What an instruction asks of the transport.
#include "apps/services/ami/instruction.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <gtest/gtest.h>

#include "apps/services/ami/completion_id.h"

namespace rockhopper::ami {
namespace {

constexpr std::uint32_t kPeer = 5;
constexpr roce::MemoryKey kTransferKey{99};

class InstructionTest : public ::testing::Test {
 protected:
  InstructionTest() {
    lane_.self = 3;
    lane_.eager_bytes = 1000;
    descriptor_ = {.header_length = 8,
                   .length = 100,
                   .local_addr = 0x1000,
                   .remote_addr = 0x2000,
                   .lkey = roce::MemoryKey{11},
                   .rkey = roce::MemoryKey{22},
                   .notify_addr = 0x3000,
                   .value = 77};
    transfer_.bytes = transfer_bytes_.data();
    transfer_.index = 4;
  }
  Instruction instruction(Operation operation, std::uint8_t flags = 0) {
    descriptor_.operation = operation;
    descriptor_.flags = flags;
    return {descriptor_, lane_};
  }
  /// The request for a part, with what its pieces of memory are.
  struct Made {
    roce::SendWr wr;
    std::vector<roce::Sge> sges;
  };
  Made make(const Instruction& instruction, bool tracked = false, unsigned part = 0) {
    const PartRequest request(instruction, part, immediate_.data(), tracked ? &transfer_ : nullptr,
                              kPeer, kTransferKey);
    return {request.wr(), {request.wr().sg_list.begin(), request.wr().sg_list.end()}};
  }
  [[nodiscard]] static std::uint64_t address(const void* bytes) {
    return reinterpret_cast<std::uintptr_t>(bytes);
  }

  LaneConfig lane_;
  Descriptor descriptor_;
  std::array<std::byte, 256> immediate_{};
  std::array<std::byte, 256> transfer_bytes_{};
  Transfer transfer_;
};

TEST_F(InstructionTest, AMessageIsReadByThePeerIfItIsLong) {
  EXPECT_FALSE(instruction(Operation::message).is_rendezvous());
  descriptor_.length = 1000;
  EXPECT_TRUE(instruction(Operation::message).is_rendezvous()) << "the header counts";
  EXPECT_FALSE(instruction(Operation::put).is_rendezvous());
}

TEST_F(InstructionTest, AReplyTellsOfHandlersAndOfPayloadsThatWereRead) {
  EXPECT_FALSE(instruction(Operation::message).wants_reply());
  descriptor_.level = Level::handled;
  EXPECT_TRUE(instruction(Operation::message).wants_reply());
  EXPECT_FALSE(instruction(Operation::get).wants_reply());
  descriptor_.level = Level::local;
  descriptor_.length = 1000;
  EXPECT_TRUE(instruction(Operation::message).wants_reply());
}

TEST_F(InstructionTest, ShortMessagesShareASend) {
  EXPECT_TRUE(instruction(Operation::message, Descriptor::kImmediate).goes_in_batch());
  EXPECT_FALSE(instruction(Operation::message).goes_in_batch()) << "its payload is elsewhere";
  EXPECT_TRUE(instruction(Operation::message).needs_bytes());
  descriptor_.length = 0;
  EXPECT_TRUE(instruction(Operation::message).goes_in_batch());
  EXPECT_FALSE(instruction(Operation::message).needs_bytes());
}

TEST_F(InstructionTest, CountsWhatIsWithTheSlot) {
  EXPECT_EQ(instruction(Operation::message).immediate_bytes(), 8u);
  EXPECT_EQ(instruction(Operation::message, Descriptor::kImmediate).immediate_bytes(), 108u);
  EXPECT_EQ(instruction(Operation::message).message_bytes(), MessageHeader::kSize + 108);
}

TEST_F(InstructionTest, HeaderOfAMessage) {
  descriptor_.handler = 6;
  const MessageHeader eager = instruction(Operation::message).header(42);
  EXPECT_EQ(eager, (MessageHeader{.type = MessageHeader::Type::eager,
                                  .source = 3,
                                  .handler = 6,
                                  .header_length = 8,
                                  .tag = 42,
                                  .length = 100}));
  descriptor_.length = 1000;
  EXPECT_EQ(instruction(Operation::message).header(42),
            (MessageHeader{.type = MessageHeader::Type::rendezvous,
                           .wants_reply = true,
                           .source = 3,
                           .handler = 6,
                           .header_length = 8,
                           .tag = 42,
                           .length = 1000,
                           .rkey = roce::MemoryKey{11},
                           .addr = 0x1000}));
}

TEST_F(InstructionTest, APutIsAWrite) {
  const Made put = make(instruction(Operation::put));
  EXPECT_EQ(put.wr.opcode, roce::WrOpcode::rdma_write);
  EXPECT_EQ(put.wr.remote_addr, 0x2000u);
  EXPECT_EQ(put.wr.rkey, roce::MemoryKey{22});
  ASSERT_EQ(put.sges.size(), 1u);
  EXPECT_EQ(put.sges[0].addr, 0x1000u);
  EXPECT_EQ(put.sges[0].length, 100u);
  EXPECT_EQ(put.sges[0].lkey, roce::MemoryKey{11});
  EXPECT_EQ(put.wr.send_flags, 0u);

  const Made immediate = make(instruction(Operation::put, Descriptor::kImmediate));
  EXPECT_EQ(immediate.sges[0].addr, address(immediate_.data()));
  EXPECT_EQ(immediate.wr.send_flags, roce::kSendInline);

  descriptor_.length = 0;
  EXPECT_TRUE(make(instruction(Operation::put)).sges.empty());
}

// AM-14: the value behind the data, at its own address.
TEST_F(InstructionTest, APutThatNotifiesHasTwoParts) {
  const Instruction both = instruction(Operation::put_notify);
  ASSERT_EQ(both.parts(), 2u);
  EXPECT_EQ(make(both, true, 0).wr.opcode, roce::WrOpcode::rdma_write);
  const Made second = make(both, true, 1);
  EXPECT_EQ(second.wr.opcode, roce::WrOpcode::atomic_write);
  EXPECT_EQ(second.wr.remote_addr, 0x3000u);
  ASSERT_EQ(second.sges.size(), 1u);
  EXPECT_EQ(second.sges[0].addr, address(&descriptor_.value));
  EXPECT_EQ(second.sges[0].length, sizeof descriptor_.value);
}

TEST_F(InstructionTest, AGetIsARead) {
  const Made get = make(instruction(Operation::get));
  EXPECT_EQ(get.wr.opcode, roce::WrOpcode::rdma_read);
  EXPECT_EQ(get.sges[0].length, 100u);
}

TEST_F(InstructionTest, AFetchAddHasItsValue) {
  const Made add = make(instruction(Operation::fetch_add));
  EXPECT_EQ(add.wr.opcode, roce::WrOpcode::atomic_fetch_and_add);
  EXPECT_EQ(add.wr.compare_add, 77u);
}

TEST_F(InstructionTest, ACompletionIsToldToTheTransferOrNobody) {
  EXPECT_EQ(make(instruction(Operation::put)).wr.wr_id,
            CompletionId::of(CompletionId::untracked, kPeer));
  const Made tracked = make(instruction(Operation::put), true);
  EXPECT_EQ(tracked.wr.wr_id, CompletionId::of(CompletionId::transfer, transfer_.tag()));
  EXPECT_EQ(tracked.wr.send_flags, roce::kSendSignaled);
}

TEST_F(InstructionTest, AnEagerMessageHasItsHeaderInTheTransfer) {
  const Instruction eager = instruction(Operation::message);
  const Made made = make(eager, true);
  EXPECT_EQ(made.wr.opcode, roce::WrOpcode::send);
  ASSERT_EQ(made.sges.size(), 2u);
  EXPECT_EQ(made.sges[0].addr, address(transfer_bytes_.data()));
  EXPECT_EQ(made.sges[0].length, MessageHeader::kSize + 8);
  EXPECT_EQ(made.sges[0].lkey, kTransferKey);
  EXPECT_EQ(made.sges[1].addr, 0x1000u);
  EXPECT_EQ(made.sges[1].length, 100u);
  const auto header = MessageHeader::parse(transfer_bytes_);
  ASSERT_TRUE(header);
  EXPECT_EQ(*header, eager.header(transfer_.tag()));
}

TEST_F(InstructionTest, ARendezvousIsAnnouncedInline) {
  descriptor_.length = 1000;
  const Made made = make(instruction(Operation::message), true);
  EXPECT_EQ(made.wr.send_flags, roce::kSendInline | roce::kSendSignaled);
  ASSERT_EQ(made.sges.size(), 2u);
  EXPECT_EQ(made.sges[0].length, MessageHeader::kSize);
  EXPECT_EQ(made.sges[1].addr, address(immediate_.data()));
  EXPECT_EQ(made.sges[1].length, 8u) << "the handler's header alone";
}

}  // namespace
}  // namespace rockhopper::ami
