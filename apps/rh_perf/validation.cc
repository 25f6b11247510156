// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include <vector>

#include "apps/common/pattern.h"
#include "apps/rh_perf/atomic_words.h"
#include "apps/rh_perf/workload.h"

namespace rockhopper::apps::perf {
namespace {

/// Posts one request when there is room.
Expected<void> post_when_possible(Traffic& traffic, std::uint16_t qp, const SendRequest& request) {
  while (traffic.room(qp) == 0) {
    ROCKHOPPER_TRY(traffic.poll());
  }
  return traffic.post(qp, {&request, 1});
}

SendRequest make_request(Traffic& traffic, const RunSpec& spec, std::uint16_t qp,
                         std::uint32_t slot) {
  SendRequest request;
  request.id = WorkId{false, qp, 1}.encode();
  request.operation = spec.operation;
  request.length = spec.size;
  request.local_offset = traffic.layout().local(qp, slot);
  request.remote_address = traffic.remote_target(qp, slot);
  return request;
}

Expected<void> post_atomic(Traffic& traffic, const RunSpec& spec, std::uint16_t qp,
                           std::uint32_t slot) {
  const AtomicWords words = atomic_words(spec.seed, traffic.message_number(qp, slot));
  SendRequest request = make_request(traffic, spec, qp, slot);
  request.swap = words.operand;
  request.compare_add = spec.operation == Operation::lock ? 1 : words.operand;
  if (spec.operation == Operation::cas) {
    // Before it one that must not swap; its result goes behind the other's.
    request.compare_add = words.before;
    SendRequest miss = request;
    miss.compare_add = ~words.before;
    miss.swap = ~words.operand;
    miss.local_offset += kWordBytes;
    ROCKHOPPER_TRY(post_when_possible(traffic, qp, miss));
  }
  return post_when_possible(traffic, qp, request);
}

Expected<void> post_slot(Traffic& traffic, const RunSpec& spec, std::uint16_t qp,
                         std::uint32_t slot) {
  const bool outgoing = spec.operation == Operation::send || spec.operation == Operation::write;
  // What is to come is overwritten with something else first.
  fill_pattern(traffic.local(qp, slot, is_atomic(spec.operation) ? 2 * kWordBytes : spec.size),
               outgoing ? spec.seed : ~spec.seed, traffic.message_number(qp, slot));
  if (is_atomic(spec.operation)) return post_atomic(traffic, spec, qp, slot);
  return post_when_possible(traffic, qp, make_request(traffic, spec, qp, slot));
}

Expected<void> check_read(Traffic& traffic, const RunSpec& spec, std::uint16_t qp,
                          std::uint32_t slot) {
  const auto wrong = find_pattern_mismatch(traffic.local(qp, slot, spec.size), spec.seed,
                                           traffic.message_number(qp, slot));
  if (!wrong) return {};
  return fail(ErrorCode::io, "invalid data: READ {} of queue pair {} differs at offset {}", slot,
              qp, *wrong);
}

/// Both results of a CAS, and the one of a FAA, are the word before.
Expected<void> check_atomic(Traffic& traffic, const RunSpec& spec, std::uint16_t qp,
                            std::uint32_t slot) {
  const std::uint64_t expected = atomic_words(spec.seed, traffic.message_number(qp, slot)).before;
  const auto results = traffic.local(qp, slot, 2 * kWordBytes);
  for (std::size_t i = 0; i < (spec.operation == Operation::cas ? 2u : 1u); ++i) {
    const std::uint64_t result = load_word(results.subspan(i * kWordBytes));
    if (result == expected) continue;
    return fail(ErrorCode::io, "invalid data: {} {} of queue pair {} returned {:#x}, not {:#x}",
                name_of(spec.operation), slot, qp, result, expected);
  }
  return {};
}

/// Each scope has found the counter at another of its values.
Expected<void> check_scopes(Traffic& traffic) {
  const std::uint16_t qps = traffic.agreement().qps;
  const std::uint32_t slots = traffic.layout().slots();
  std::vector<bool> found(std::size_t{qps} * slots);
  for (std::uint16_t qp = 0; qp < qps; ++qp) {
    for (std::uint32_t slot = 0; slot < slots; ++slot) {
      const std::uint64_t count = load_word(traffic.local(qp, slot, kWordBytes));
      if (count >= found.size() || found[count]) {
        return fail(ErrorCode::io, "invalid data: scope {} of queue pair {} found the counter {}",
                    slot, qp, count);
      }
      found[count] = true;
    }
  }
  return {};
}

}  // namespace

Expected<void> run_validation(Traffic& traffic, const RunSpec& spec) {
  traffic.watch().set_impatient(true);
  for (std::uint32_t slot = 0; slot < traffic.layout().slots(); ++slot) {
    for (std::uint16_t qp = 0; qp < traffic.agreement().qps; ++qp) {
      ROCKHOPPER_TRY(post_slot(traffic, spec, qp, slot));
    }
  }
  ROCKHOPPER_TRY(traffic.drain());
  traffic.watch().set_impatient(false);
  if (spec.operation == Operation::lock) return check_scopes(traffic);
  for (std::uint16_t qp = 0; qp < traffic.agreement().qps; ++qp) {
    for (std::uint32_t slot = 0; slot < traffic.layout().slots(); ++slot) {
      Expected<void> checked;
      if (spec.operation == Operation::read) checked = check_read(traffic, spec, qp, slot);
      if (is_atomic(spec.operation)) checked = check_atomic(traffic, spec, qp, slot);
      if (!checked) return checked;
    }
  }
  return {};
}

}  // namespace rockhopper::apps::perf
