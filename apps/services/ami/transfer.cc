// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/services/ami/transfer.h"

#include <cassert>

namespace rockhopper::ami {

TransferTable::TransferTable(std::uint32_t count, std::byte* memory, std::size_t stride)
    : transfers_(count) {
  assert(count >= 1 && count <= 1u << 16);
  free_.reserve(count);
  for (std::uint32_t i = count; i-- > 0;) {
    transfers_[i].index = static_cast<std::uint16_t>(i);
    transfers_[i].bytes = memory + i * stride;
    free_.push_back(static_cast<std::uint16_t>(i));
  }
}

Transfer* TransferTable::take() {
  if (free_.empty()) return nullptr;
  Transfer& transfer = transfers_[free_.back()];
  free_.pop_back();
  return &transfer;
}

void TransferTable::give_back(Transfer& transfer) {
  assert(!transfer.hook.is_linked());
  transfer.peer = nullptr;
  transfer.behind = nullptr;
  transfer.parts_posted = transfer.parts_out = 0;
  transfer.reports = transfer.placed = transfer.posted = transfer.awaits_reply = false;
  transfer.status = Status::ok;
  ++transfer.generation;
  free_.push_back(transfer.index);
}

Transfer* TransferTable::find(std::uint32_t tag) {
  const std::uint32_t index = tag & 0xffff;
  if (index >= transfers_.size()) return nullptr;
  Transfer& transfer = transfers_[index];
  return transfer.peer != nullptr && transfer.tag() == tag ? &transfer : nullptr;
}

}  // namespace rockhopper::ami
