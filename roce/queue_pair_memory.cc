// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
// Memory and a queue pair: its own requests that change keys, and what its peer may touch.
#include "roce/engine.h"
#include "roce/queue_pair.h"

namespace rockhopper::roce {

PostResult QueuePair::bind_mw(MemoryKey& rkey, const SendWr& wr) {
  if (engine_.memory_.kind_of(rkey) != MemoryKind::window_type_1) {
    return PostResult::invalid_request;
  }
  SendWr request = wr;
  request.opcode = WrOpcode::bind_mw;
  request.rkey = next_generation(rkey);
  const PostResult result = enqueue(request);
  if (result == PostResult::ok) rkey = request.rkey;
  return result;
}

/// Binds a window of type 2; the rkey of any other memory is refused.
PostResult QueuePair::bind_mw_2(const SendWr& wr) {
  return engine_.memory_.kind_of(wr.rkey) == MemoryKind::window_type_2
             ? enqueue(wr)
             : PostResult::invalid_request;
}

bool QueuePair::execute_local(const SendWqe& wqe) {
  MemoryTable& memory = engine_.memory_;
  EngineCounters& counters = engine_.counters_;
  const MemoryUser user{init_.pd, number_};
  bool done = false;
  switch (wqe.opcode) {
    case WrOpcode::bind_mw:
      done = memory.bind(wqe.bind_mw().rkey, wqe.bind_mw().info(), user);
      counters.mw_binds.add(done ? 1 : 0);
      break;
    case WrOpcode::reg_mr:
      done = memory.register_fast(wqe.reg_mr().region(), user);
      counters.fast_registrations.add(done ? 1 : 0);
      break;
    case WrOpcode::local_inv:
      done = memory.invalidate(wqe.local_inv().key, user);
      counters.local_invalidations.add(done ? 1 : 0);
      break;
    default:
      break;
  }
  counters.memory_request_errors.add(done ? 0 : 1);
  return done;
}

bool QueuePair::invalidate_for_peer(MemoryKey key) {
  const bool done = engine_.memory_.remote_invalidate(key, {remote_pd(), number_});
  engine_.counters_.remote_invalidations.add(done ? 1 : 0);
  return done;
}

MemoryAccess QueuePair::remote_region(MemoryKey key, std::uint32_t right, std::uint64_t& length) {
  const auto extent = engine_.memory_.extent_of(key);
  length = extent.length;
  return remote_access(key, extent.first, extent.length, right);
}

}  // namespace rockhopper::roce
