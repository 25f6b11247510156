// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "roce/receive_buffers.h"

namespace rockhopper::roce {

Expected<std::unique_ptr<ReceiveBuffers>> ReceiveBuffers::create(Engine& engine,
                                                                 ProtectionDomain pd,
                                                                 std::uint32_t count,
                                                                 std::uint32_t bytes) {
  auto made = std::unique_ptr<ReceiveBuffers>(new ReceiveBuffers(engine, bytes));
  ROCKHOPPER_TRY(made->cq_, CompletionQueue::create(count));
  made->bytes_.resize(std::size_t{count} * bytes);
  ROCKHOPPER_TRY(auto region, engine.register_memory(pd, made->bytes_.data(), made->bytes_.size(),
                                                     kAccessLocalWrite));
  made->key_ = region.key;
  ROCKHOPPER_TRY(made->srq_, engine.create_srq({.pd = pd, .attributes = {.max_wr = count}}));
  for (std::uint32_t i = 0; i < count; ++i) {
    made->post(i);
  }
  return made;
}

ReceiveBuffers::~ReceiveBuffers() {
  if (srq_ != nullptr) (void)engine_.destroy_srq(srq_);
  if (key_ != MemoryKey{}) (void)engine_.deregister_memory(key_);
}

void ReceiveBuffers::post(std::uint32_t buffer) {
  const Sge to{reinterpret_cast<std::uintptr_t>(bytes_of(buffer)), buffer_bytes_, key_};
  // It has room for all of them.
  (void)srq_->post_recv({.wr_id = buffer, .sg_list = {&to, 1}});
}

}  // namespace rockhopper::roce
