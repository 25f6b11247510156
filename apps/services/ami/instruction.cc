// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/services/ami/instruction.h"

#include <span>

#include "apps/services/ami/completion_id.h"

namespace rockhopper::ami {

MessageHeader Instruction::header(std::uint32_t tag) const {
  const bool rendezvous = is_rendezvous();
  return {.type = rendezvous ? MessageHeader::Type::rendezvous : MessageHeader::Type::eager,
          .wants_reply = wants_reply(),
          .source = lane_.self,
          .handler = descriptor_.handler,
          .header_length = descriptor_.header_length,
          .tag = tag,
          .length = descriptor_.length,
          .rkey = rendezvous ? descriptor_.lkey : roce::MemoryKey{},
          .addr = rendezvous ? descriptor_.local_addr : 0};
}

PartRequest::PartRequest(const Instruction& instruction, unsigned part, const std::byte* immediate,
                         Transfer* transfer, std::uint32_t peer, roce::MemoryKey transfer_key) {
  const Descriptor& descriptor = instruction.descriptor();
  if (transfer != nullptr) {
    wr_.wr_id = CompletionId::of(CompletionId::transfer, transfer->tag());
    wr_.send_flags = roce::kSendSignaled;
  } else {
    wr_.wr_id = CompletionId::of(CompletionId::untracked, peer);
  }
  wr_.remote_addr = descriptor.remote_addr;
  wr_.rkey = descriptor.rkey;
  sges_[0] = {descriptor.local_addr, descriptor.length, descriptor.lkey};
  std::size_t count = 1;
  switch (descriptor.operation) {
    case Operation::put:
    case Operation::put_notify:
      put(instruction, part, immediate);
      break;
    case Operation::get:
      wr_.opcode = roce::WrOpcode::rdma_read;
      break;
    case Operation::fetch_add:
      wr_.opcode = roce::WrOpcode::atomic_fetch_and_add;
      wr_.compare_add = descriptor.value;
      break;
    case Operation::message:
      count = message(instruction, immediate, transfer, transfer_key);
      break;
  }
  if (count == 1 && sges_[0].length == 0) count = 0;
  wr_.sg_list = {sges_.data(), count};
}

/// The data, or behind them the value that tells of them.
void PartRequest::put(const Instruction& instruction, unsigned part, const std::byte* immediate) {
  const Descriptor& descriptor = instruction.descriptor();
  wr_.opcode = roce::WrOpcode::rdma_write;
  if (part == 1) {
    wr_.opcode = roce::WrOpcode::atomic_write;
    wr_.remote_addr = descriptor.notify_addr;
    wr_.send_flags |= roce::kSendInline;
    sges_[0] = inline_sge(&descriptor.value, sizeof descriptor.value);
  } else if (instruction.is_immediate()) {
    wr_.send_flags |= roce::kSendInline;
    sges_[0] = inline_sge(immediate, descriptor.length);
  }
}

/// Returns how many pieces it has.
std::size_t PartRequest::message(const Instruction& instruction, const std::byte* immediate,
                                 Transfer* transfer, roce::MemoryKey transfer_key) {
  wr_.opcode = roce::WrOpcode::send;
  const MessageHeader header = instruction.header(transfer != nullptr ? transfer->tag() : 0);
  if (instruction.needs_bytes()) {
    header.emit(std::span<std::byte, MessageHeader::kSize>(transfer->bytes, MessageHeader::kSize));
    sges_[1] = sges_[0];
    sges_[0] =
        inline_sge(transfer->bytes, MessageHeader::kSize + instruction.descriptor().header_length);
    sges_[0].lkey = transfer_key;
  } else {
    header.emit(header_);
    sges_[0] = inline_sge(header_.data(), header_.size());
    sges_[1] = inline_sge(immediate, instruction.immediate_bytes());
    wr_.send_flags |= roce::kSendInline;
  }
  return sges_[1].length > 0 ? 2 : 1;
}

}  // namespace rockhopper::ami
