// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/services/dag/schedule/home_request.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <cstring>

#include "apps/services/dag/graph/little_endian.h"
#include "apps/services/dag/schedule/board.h"

namespace rockhopper::dag {
namespace {

constexpr std::size_t kNameBytes = 32;
constexpr std::size_t kNameOffset = JoinRequest::kSize - kNameBytes;
static_assert(sizeof(WorkerSlot::name) == kNameBytes);

bool is_printable(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return c >= ' ' && c <= '~'; });
}

}  // namespace

std::array<std::byte, SubmitRequest::kSize> emit(const SubmitRequest& request) {
  std::array<std::byte, SubmitRequest::kSize> bytes;
  LittleEndianWriter writer(bytes);
  writer.put(request.image_bytes);
  writer.put(request.incarnation);
  writer.put(request.priority);
  writer.put(request.attempts.failed);
  writer.put(request.attempts.lost);
  return bytes;
}

std::optional<SubmitRequest> parse_submit(std::span<const std::byte> bytes) {
  if (bytes.size() != SubmitRequest::kSize) return std::nullopt;
  LittleEndianReader reader(bytes);
  SubmitRequest request;
  request.image_bytes = reader.take<std::uint64_t>();
  request.incarnation = reader.take<std::uint64_t>();
  request.priority = reader.take<std::uint32_t>();
  request.attempts.failed = reader.take<std::uint32_t>();
  request.attempts.lost = reader.take<std::uint32_t>();
  if (request.priority >= kPriorityClasses || !request.attempts.is_valid()) return std::nullopt;
  return request;
}

std::array<std::byte, JoinRequest::kSize> emit(const JoinRequest& request) {
  assert(request.name.size() < kNameBytes);
  std::array<std::byte, JoinRequest::kSize> bytes{};
  LittleEndianWriter writer(bytes);
  writer.put(request.gid);
  writer.put(request.access_key);
  writer.put(request.target);
  writer.put(request.deque_key);
  writer.put(request.deque_capacity);
  writer.put(request.path_mtu);
  writer.put(std::as_bytes(std::span(request.name)));
  return bytes;
}

std::optional<JoinRequest> parse_join(std::span<const std::byte> bytes) {
  if (bytes.size() != JoinRequest::kSize) return std::nullopt;
  JoinRequest request;
  std::copy_n(bytes.begin(), request.gid.size(), request.gid.begin());
  LittleEndianReader reader(bytes.subspan(request.gid.size()));
  request.access_key = reader.take<std::uint64_t>();
  request.target = reader.take<std::uint32_t>();
  request.deque_key = reader.take<std::uint32_t>();
  request.deque_capacity = reader.take<std::uint32_t>();
  request.path_mtu = reader.take<std::uint32_t>();
  const std::string_view name(reinterpret_cast<const char*>(bytes.data()) + kNameOffset,
                              kNameBytes);
  request.name = text_of(name);
  const auto behind = name.substr(request.name.size());
  const bool zeros = std::all_of(behind.begin(), behind.end(), [](char c) { return c == 0; });
  if (!zeros || request.name.empty() || request.name.size() == kNameBytes ||
      !is_printable(request.name) || request.target == 0 ||
      !std::has_single_bit(request.deque_capacity) || request.deque_capacity < kDequeEntriesMin ||
      request.deque_capacity > kDequeEntriesMax || request.path_mtu < 256 ||
      request.path_mtu > 4096 || !std::has_single_bit(request.path_mtu)) {
    return std::nullopt;
  }
  return request;
}

}  // namespace rockhopper::dag
