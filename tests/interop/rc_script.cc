// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "tests/interop/rc_script.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <numeric>

namespace rockhopper::interop {
namespace {

constexpr std::array<std::string_view, kOperationKinds> kNames = {
    "send", "send_imm",     "send_inv",  "write",        "write_imm",
    "read", "compare_swap", "fetch_add", "atomic_write", "flush"};

static_assert(std::endian::native == std::endian::little, "cells are read as the responder's CPU");

/// The finaliser of SplitMix64.
constexpr std::uint64_t mix(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

constexpr std::uint64_t pattern_word(std::uint64_t pattern, std::uint64_t number) {
  return mix(pattern + number);
}

constexpr std::uint32_t align_up(std::uint32_t value, std::uint32_t alignment) {
  return (value + alignment - 1) / alignment * alignment;
}

std::uint64_t direction_key(const ScriptOptions& options, Direction direction) {
  return mix(mix(options.seed) ^ (direction == Direction::client_to_server ? 1 : 2));
}

std::uint64_t load_cell(std::span<const std::byte> region, std::uint32_t offset) {
  std::uint64_t value = 0;
  std::memcpy(&value, region.data() + offset, sizeof value);
  return value;
}

void store_cell(std::span<std::byte> region, std::uint32_t offset, std::uint64_t value) {
  std::memcpy(region.data() + offset, &value, sizeof value);
}

}  // namespace

std::string_view to_string(OperationKind kind) { return kNames[static_cast<std::size_t>(kind)]; }

std::optional<OperationKind> operation_kind(std::string_view name) {
  const auto* found = std::find(kNames.begin(), kNames.end(), name);
  if (found == kNames.end()) return std::nullopt;
  return static_cast<OperationKind>(found - kNames.begin());
}

std::string check(const ScriptOptions& options) {
  if (options.window < 1 || options.window > 4096) return "window must be 1 to 4096";
  if (options.phase_operations < 1 || options.phase_operations > 4096) {
    return "phase operations must be 1 to 4096";
  }
  if (options.region_bytes < 16384 || options.region_bytes > (256u << 20) ||
      options.region_bytes % 4096 != 0) {
    return "region bytes must be a multiple of 4096, 16384 to 256 MiB";
  }
  if (options.max_length > options.region_bytes / 2 || options.max_length > kArenaBytes / 2) {
    return "longest message must be at most half the region, and at most 4 MiB";
  }
  if (!std::has_single_bit(options.path_mtu) || options.path_mtu < 256 || options.path_mtu > 4096) {
    return "path MTU must be 256, 512, 1024, 2048 or 4096";
  }
  if (options.max_sges < 1 || options.max_sges > kMaxSges) {
    return "elements of a list must be 1 to " + std::to_string(kMaxSges);
  }
  if (options.kinds.empty()) return "no kind of operation";
  return {};
}

Script::Script(const ScriptOptions& options, Direction direction)
    : options_(options),
      key_(direction_key(options, direction)),
      uses_keys_(std::count(options.kinds.begin(), options.kinds.end(), OperationKind::send_inv) >
                 0),
      random_(key_),
      remaining_(options.kinds.size(), options.operations),
      remaining_total_(options.kinds.size() * options.operations),
      region_(options.region_bytes) {
  fill_region(options, direction, region_);
}

void Script::fill_region(const ScriptOptions& options, Direction direction,
                         std::span<std::byte> region) {
  pattern_fill(~direction_key(options, direction), region);
}

bool Script::next(Phase& phase) {
  phase = Phase{};
  phase.index = next_phase_;
  reads_.clear();
  keys_invalidated_ = 0;
  unsignalled_ = 0;
  while (phase.operations.size() < options_.phase_operations) {
    if (!pending_) {
      if (remaining_total_ == 0) break;
      pending_ = draw();
    }
    if (!fits(phase, *pending_)) break;
    append(phase, *pending_);
    pending_.reset();
  }
  if (phase.operations.empty()) return false;
  phase.operations.back().signalled = true;
  ++next_phase_;
  return true;
}

std::uint64_t Script::pattern(const Operation& operation) const {
  return mix(key_ ^ mix(operation.index));
}

std::uint64_t Script::random_below(std::uint64_t bound) {
  // The distributions of the standard library differ between implementations.
  return random_() % bound;
}

Script::Drawn Script::draw() {
  std::uint64_t number = random_below(remaining_total_);
  std::size_t kind = 0;
  while (number >= remaining_[kind]) {
    number -= remaining_[kind];
    ++kind;
  }
  --remaining_[kind];
  --remaining_total_;
  const OperationKind drawn = options_.kinds[kind];
  const bool word = is_atomic(drawn) || drawn == OperationKind::atomic_write;
  return {drawn, word ? 8 : draw_length()};
}

std::uint32_t Script::draw_length() {
  const std::uint64_t mtu = options_.path_mtu;
  const std::uint64_t percent = random_below(100);
  std::uint64_t length = 0;
  if (percent < 5) {
    length = 0;
  } else if (percent < 25) {
    length = 1 + random_below(64);
  } else if (percent < 50) {
    length = 1 + random_below(mtu);
  } else if (percent < 65) {  // around the borders between numbers of packets
    length = mtu * (1 + random_below(4)) - 1 + random_below(3);
  } else if (percent < 94) {
    length = 1 + random_below(4 * mtu);
  } else if (percent < 99) {
    length = 1 + random_below(16 * mtu);
  } else {
    length = options_.max_length / 2 + random_below(options_.max_length / 2 + 1);
  }
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(length, options_.max_length));
}

bool Script::fits(const Phase& phase, const Drawn& drawn) const {
  if (drawn.kind == OperationKind::send_inv && keys_invalidated_ == kMaxKeys) return false;
  const std::uint32_t room = drawn.length + 4 * kGuardBytes;
  return phase.local_bytes + room <= kArenaBytes && phase.receive_bytes + room <= kArenaBytes;
}

void Script::append(Phase& phase, const Drawn& drawn) {
  Operation operation{};
  operation.index = next_index_++;
  operation.kind = drawn.kind;
  operation.length = drawn.length;
  operation.key = -1;
  operation.immediate = static_cast<std::uint32_t>(random_());
  operation.solicited = consumes_receive(drawn.kind) && one_in(4);
  const bool word = is_atomic(drawn.kind) || drawn.kind == OperationKind::atomic_write;
  const std::uint32_t sges =
      word ? 1 : 1 + static_cast<std::uint32_t>(random_below(options_.max_sges));
  const bool no_list = drawn.kind == OperationKind::flush;
  operation.sges = static_cast<std::uint8_t>(no_list ? 0 : std::min(sges, drawn.length));

  // Any alignment for messages; the guard keeps neighbours apart.
  const auto shift = word ? 0 : static_cast<std::uint32_t>(random_below(8));
  operation.local_offset = phase.local_bytes + shift;
  phase.local_bytes = align_up(operation.local_offset + drawn.length + kGuardBytes, 64);

  if (consumes_receive(drawn.kind)) {
    const std::uint32_t needed = is_send(drawn.kind) ? drawn.length : 0;
    operation.receive_length =
        needed + (one_in(2) ? 0 : static_cast<std::uint32_t>(random_below(64)));
    operation.receive_offset = phase.receive_bytes + static_cast<std::uint32_t>(random_below(8));
    phase.receive_bytes =
        align_up(operation.receive_offset + operation.receive_length + kGuardBytes, 64);
    ++phase.receives;
  }
  if (drawn.kind == OperationKind::send_inv) {
    operation.key = static_cast<std::int32_t>(keys_invalidated_++);
    phase.keys = std::max(phase.keys, keys_invalidated_);
  } else if (is_atomic(drawn.kind)) {
    place_atomic(operation);
  } else if (is_placement(drawn.kind)) {
    place_placement(operation);
  } else if (!is_send(drawn.kind)) {
    place_rdma(phase, operation);
  }
  decide_fence(operation);
  if (operation.fenced && !phase.operations.empty()) {
    // So that a requester that waits for it instead of fencing knows when it may go on.
    phase.operations.back().signalled = true;
    unsignalled_ = 0;
  }
  operation.signalled = one_in(2) || ++unsignalled_ >= std::max(1u, options_.window / 2);
  if (operation.signalled) unsignalled_ = 0;
  phase.operations.push_back(operation);
}

void Script::place_rdma(Phase& phase, Operation& operation) {
  const std::uint32_t data_bytes = options_.region_bytes - static_cast<std::uint32_t>(kAtomicBytes);
  // READs look at the cells of the atomics too.
  const bool cells =
      operation.kind == OperationKind::read && operation.length <= kAtomicBytes && one_in(8);
  const std::uint32_t begin = cells ? data_bytes : 0;
  const std::uint32_t room = cells ? static_cast<std::uint32_t>(kAtomicBytes) : data_bytes;
  operation.remote_offset =
      begin + static_cast<std::uint32_t>(random_below(room - operation.length + 1));
  // The key that the next SEND with Invalidate takes away (if the phase still has one).
  const bool may_use_key = operation.kind != OperationKind::read || !options_.lasting_read_keys;
  if (uses_keys_ && keys_invalidated_ < kMaxKeys && may_use_key && one_in(8)) {
    operation.key = static_cast<std::int32_t>(keys_invalidated_);
    phase.keys = std::max(phase.keys, keys_invalidated_ + 1);
  }
  const std::span<std::byte> place =
      std::span(region_).subspan(operation.remote_offset, operation.length);
  if (is_write(operation.kind)) {
    pattern_fill(pattern(operation), place);
  } else {
    operation.expected_offset = static_cast<std::uint32_t>(phase.expected.size());
    phase.expected.insert(phase.expected.end(), place.begin(), place.end());
  }
}

void Script::place_atomic(Operation& operation) {
  operation.remote_offset =
      options_.region_bytes - 8 * (1 + static_cast<std::uint32_t>(random_below(kAtomicCells)));
  operation.expected = load_cell(region_, operation.remote_offset);
  operation.swap_or_add = random_();
  if (operation.kind == OperationKind::fetch_add) {
    store_cell(region_, operation.remote_offset, operation.expected + operation.swap_or_add);
    return;
  }
  const bool hit = !one_in(4);
  operation.compare = hit ? operation.expected : operation.expected ^ (1 + random_below(255));
  if (hit) store_cell(region_, operation.remote_offset, operation.swap_or_add);
}

void Script::place_placement(Operation& operation) {
  const std::uint32_t data_bytes = options_.region_bytes - static_cast<std::uint32_t>(kAtomicBytes);
  if (operation.kind == OperationKind::flush) {  // of any bytes: it changes none
    operation.remote_offset =
        static_cast<std::uint32_t>(random_below(data_bytes - operation.length + 1));
    return;
  }
  operation.remote_offset = 8 * static_cast<std::uint32_t>(random_below(data_bytes / 8));
  pattern_fill(pattern(operation), std::span(region_).subspan(operation.remote_offset, 8));
}

void Script::decide_fence(Operation& operation) {
  while (!reads_.empty() && reads_.front().index + options_.window <= operation.index) {
    reads_.pop_front();
  }
  const std::uint32_t begin = operation.remote_offset;
  const std::uint32_t end = begin + operation.length;
  const bool changes = is_write(operation.kind) || is_atomic(operation.kind) ||
                       operation.kind == OperationKind::atomic_write;
  const auto conflicts = [&](const OutstandingRead& read) {
    return (changes && begin < read.end && read.begin < end) ||
           (operation.kind == OperationKind::send_inv && operation.key == read.key);
  };
  operation.fenced = std::any_of(reads_.begin(), reads_.end(), conflicts) || one_in(64);
  if (operation.fenced) reads_.clear();
  if (operation.kind == OperationKind::read) {
    reads_.push_back({operation.index, begin, end, operation.key});
  }
}

void pattern_fill(std::uint64_t pattern, std::span<std::byte> out) {
  const std::size_t words = out.size() / 8;
  for (std::size_t i = 0; i < words; ++i) {
    const std::uint64_t word = pattern_word(pattern, i);
    std::memcpy(out.data() + 8 * i, &word, 8);
  }
  const std::uint64_t last = pattern_word(pattern, words);
  if (const std::size_t rest = out.size() % 8; rest != 0) {
    std::memcpy(out.data() + 8 * words, &last, rest);
  }
}

std::size_t pattern_check(std::uint64_t pattern, std::span<const std::byte> bytes) {
  for (std::size_t begin = 0; begin < bytes.size(); begin += 8) {
    const std::uint64_t expected = pattern_word(pattern, begin / 8);
    const std::size_t count = std::min<std::size_t>(8, bytes.size() - begin);
    if (std::memcmp(bytes.data() + begin, &expected, count) != 0) {
      const auto* want = reinterpret_cast<const std::byte*>(&expected);
      return begin + static_cast<std::size_t>(
                         std::mismatch(want, want + count, bytes.data() + begin).first - want);
    }
  }
  return bytes.size();
}

std::span<const Piece> split(std::uint32_t offset, std::uint32_t length, std::uint32_t count,
                             std::span<Piece, kMaxSges> out) {
  for (std::uint32_t i = 0; i < count; ++i) {
    const std::uint32_t piece =
        i + 1 < count ? length / count : length - (count - 1) * (length / count);
    out[i] = {offset, piece};
    offset += piece;
  }
  return out.first(count);
}

}  // namespace rockhopper::interop
