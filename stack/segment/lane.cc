// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "stack/segment/lane.h"

#include <atomic>
#include <cassert>
#include <cstring>

namespace rockhopper::stack::segment {
namespace {

constexpr std::uint32_t kAlignment = 8;
constexpr std::uint32_t kLengthBytes = kAlignment;
/// Stands in place of a length where a sender has gone on at the lane's begin.
constexpr std::uint32_t kSkip = UINT32_MAX;

constexpr std::uint32_t offset_of(std::uint32_t position) { return position % Lane::kBytes; }

/// What a frame of that length takes in a lane.
constexpr std::uint32_t record_bytes(std::uint32_t length) {
  return kLengthBytes + (length + kAlignment - 1) / kAlignment * kAlignment;
}

void store_length(Lane& lane, std::uint32_t offset, std::uint32_t length) {
  std::memcpy(&lane.bytes[offset], &length, sizeof length);
}

}  // namespace

LaneWriter::LaneWriter(Lane& lane)
    // Whatever stands there: a multiple of 8 is what the rest relies on.
    : lane_(&lane),
      put_(lane.put.load(std::memory_order_relaxed) / kAlignment * kAlignment),
      published_(put_),
      taken_(lane.taken.load(std::memory_order_acquire)) {}

bool LaneWriter::has_room(std::uint32_t bytes) {
  // A difference that cannot be is no room: what it says is free may not be.
  const auto fits = [&] { return put_ - taken_ <= Lane::kBytes - bytes; };
  if (fits()) return true;
  taken_ = lane_->taken.load(std::memory_order_acquire);
  return fits();
}

bool LaneWriter::put(const rte_mbuf& frame) {
  assert(frame.pkt_len <= kFrameMax);
  const std::uint32_t bytes = record_bytes(frame.pkt_len);
  const std::uint32_t to_end = Lane::kBytes - offset_of(put_);
  const std::uint32_t skipped = bytes <= to_end ? 0 : to_end;
  if (!has_room(skipped + bytes)) return false;
  if (skipped > 0) {
    store_length(*lane_, offset_of(put_), kSkip);
    put_ += skipped;
  }
  std::uint32_t offset = offset_of(put_);
  store_length(*lane_, offset, frame.pkt_len);
  offset += kLengthBytes;
  for (const rte_mbuf* segment = &frame; segment != nullptr; segment = segment->next) {
    std::memcpy(&lane_->bytes[offset], rte_pktmbuf_mtod(segment, const void*), segment->data_len);
    offset += segment->data_len;
  }
  put_ += bytes;
  return true;
}

bool LaneWriter::publish() {
  if (published_ == put_) return false;
  published_ = put_;
  lane_->put.store(put_, std::memory_order_release);
  return true;
}

std::optional<std::span<const std::byte>> LaneReader::front() {
  if (put_ == taken_) put_ = lane_->put.load(std::memory_order_acquire);
  while (put_ != taken_) {
    const std::uint32_t waiting = put_ - taken_;
    if (waiting > Lane::kBytes || waiting % kAlignment != 0) return empty_it();
    const std::uint32_t offset = offset_of(taken_);
    const std::uint32_t to_end = Lane::kBytes - offset;
    std::uint32_t length = 0;
    std::memcpy(&length, &lane_->bytes[offset], sizeof length);
    if (length == kSkip) {
      if (to_end > waiting) return empty_it();
      taken_ += to_end;
      continue;
    }
    if (length < sizeof(rte_ether_hdr) || length > kFrameMax) return empty_it();
    front_bytes_ = record_bytes(length);
    if (front_bytes_ > waiting || front_bytes_ > to_end) return empty_it();
    return std::span(lane_->bytes).subspan(offset + kLengthBytes, length);
  }
  return std::nullopt;
}

void LaneReader::pop() {
  assert(front_bytes_ > 0);
  taken_ += front_bytes_;
  front_bytes_ = 0;
}

void LaneReader::release() {
  if (released_ == taken_) return;
  released_ = taken_;
  lane_->taken.store(taken_, std::memory_order_release);
}

std::span<const std::byte> LaneReader::empty_it() {
  taken_ = put_ / kAlignment * kAlignment;
  put_ = taken_;
  front_bytes_ = 0;
  release();
  return {};
}

}  // namespace rockhopper::stack::segment
