// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "stack/segment/lane.h"

#include <atomic>
#include <cassert>
#include <cstring>

#include "stack/without_icrc.h"

namespace rockhopper::stack::segment {
namespace {

constexpr std::uint32_t kAlignment = 8;
/// Stands in place of a length where a sender has gone on at the lane's begin.
constexpr std::uint32_t kSkip = UINT32_MAX;

/// What stands in front of a frame.
struct Head {
  std::uint32_t length;
  std::uint32_t without_icrc;  ///< 0 or 1
};
constexpr auto kHeadBytes = static_cast<std::uint32_t>(sizeof(Head));
static_assert(kHeadBytes == kAlignment);

constexpr std::uint32_t offset_of(std::uint32_t position) { return position % Lane::kBytes; }

/// What a frame of that length takes in a lane.
constexpr std::uint32_t record_bytes(std::uint32_t length) {
  return kHeadBytes + (length + kAlignment - 1) / kAlignment * kAlignment;
}

void store_head(Lane& lane, std::uint32_t offset, const Head& head) {
  std::memcpy(&lane.bytes[offset], &head, sizeof head);
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
    store_head(*lane_, offset_of(put_), {.length = kSkip, .without_icrc = 0});
    put_ += skipped;
  }
  std::uint32_t offset = offset_of(put_);
  store_head(*lane_, offset,
             {.length = frame.pkt_len, .without_icrc = is_without_icrc(&frame) ? 1u : 0u});
  offset += kHeadBytes;
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

std::optional<LaneReader::Frame> LaneReader::front() {
  if (put_ == taken_) put_ = lane_->put.load(std::memory_order_acquire);
  while (put_ != taken_) {
    const std::uint32_t waiting = put_ - taken_;
    if (waiting > Lane::kBytes || waiting % kAlignment != 0) return empty_it();
    const std::uint32_t offset = offset_of(taken_);
    const std::uint32_t to_end = Lane::kBytes - offset;
    Head head;
    std::memcpy(&head, &lane_->bytes[offset], sizeof head);
    if (head.length == kSkip) {
      if (to_end > waiting) return empty_it();
      taken_ += to_end;
      continue;
    }
    if (head.length < sizeof(rte_ether_hdr) || head.length > kFrameMax || head.without_icrc > 1) {
      return empty_it();
    }
    front_bytes_ = record_bytes(head.length);
    if (front_bytes_ > waiting || front_bytes_ > to_end) return empty_it();
    return Frame{.bytes = std::span(lane_->bytes).subspan(offset + kHeadBytes, head.length),
                 .without_icrc = head.without_icrc == 1};
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

LaneReader::Frame LaneReader::empty_it() {
  taken_ = put_ / kAlignment * kAlignment;
  put_ = taken_;
  front_bytes_ = 0;
  release();
  return {.bytes = {}, .without_icrc = false};
}

}  // namespace rockhopper::stack::segment
