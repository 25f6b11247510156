// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/verbs/objects/send_batch.h"

#include <cerrno>
#include <cstring>

#include "apps/verbs/objects/errors.h"

namespace rockhopper::verbs {

// The vectors keep their memory from one batch to the next.
void SendBatch::begin() {
  lock_.lock();
  requests_.clear();
  elements_.clear();
  bytes_.clear();
  error_ = 0;
}

roce::SendWr& SendBatch::add(roce::WrOpcode opcode, std::uint64_t wr_id, std::uint32_t send_flags) {
  Request& request = requests_.emplace_back();
  request.wr.opcode = opcode;
  request.wr.wr_id = wr_id;
  request.wr.send_flags = send_flags & ~std::uint32_t{roce::kSendInline};
  return request.wr;
}

void SendBatch::set_elements(std::span<const roce::Sge> list) {
  if (list.size() > limits_.elements) return refuse(EINVAL);
  Request& request = requests_.back();
  request.first = elements_.size();
  request.count = list.size();
  request.is_inline = false;
  elements_.insert(elements_.end(), list.begin(), list.end());
}

void SendBatch::begin_inline() {
  Request& request = requests_.back();
  request.first = bytes_.size();
  request.count = 0;
  request.is_inline = true;
}

void SendBatch::append_inline(const void* bytes, std::size_t length) {
  Request& request = requests_.back();
  if (length > limits_.inline_bytes || request.count + length > limits_.inline_bytes) {
    return refuse(ENOMEM);
  }
  const auto* first = static_cast<const std::byte*>(bytes);
  bytes_.insert(bytes_.end(), first, first + length);
  request.count += length;
}

roce::PostResult SendBatch::post_one(roce::QueuePair& qp, Request& request) {
  roce::Sge inline_bytes;
  if (request.is_inline) {
    inline_bytes.addr = reinterpret_cast<std::uintptr_t>(bytes_.data() + request.first);
    inline_bytes.length = static_cast<std::uint32_t>(request.count);
    request.wr.send_flags |= roce::kSendInline;
    request.wr.sg_list = {&inline_bytes, 1};
  } else {
    request.wr.sg_list =
        std::span<const roce::Sge>(elements_).subspan(request.first, request.count);
  }
  return qp.post_send(request.wr);
}

int SendBatch::post(roce::QueuePair& qp) {
  if (error_ != 0) return error_;
  if (requests_.size() > qp.init().max_send_wr - qp.send_queue_depth()) return ENOMEM;
  for (Request& request : requests_) {
    const roce::PostResult result = post_one(qp, request);
    if (result != roce::PostResult::ok) return errno_of(result);
  }
  return 0;
}

}  // namespace rockhopper::verbs
