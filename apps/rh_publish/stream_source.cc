// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/rh_publish/stream_source.h"

#include <utility>

namespace rockhopper::apps::publish {

Expected<std::unique_ptr<StreamSource>> StreamSource::open(const std::string& path, Framing framing,
                                                           bool follow, std::size_t payload_max) {
  ROCKHOPPER_TRY(auto input, ByteInput::open(path, follow));
  return std::unique_ptr<StreamSource>(new StreamSource(std::move(input), framing, payload_max));
}

std::string_view StreamSource::unit() const {
  return framing_ == Framing::lines ? "line" : "record";
}

Expected<Next> StreamSource::next(std::uint64_t now_ns, std::span<const std::byte>& payload) {
  input_.take(std::exchange(given_, 0));
  for (;;) {
    const Frame frame = first_frame(framing_, input_.bytes(), known_, payload_max_);
    if (frame.kind == Frame::Kind::too_long) {
      return fail(ErrorCode::invalid_argument, "{}: {} {} has {}{} bytes; the store takes up to {}",
                  input_.name(), unit(), messages_ + 1,
                  framing_ == Framing::lines ? "at least " : "", frame.length, payload_max_);
    }
    if (frame.kind == Frame::Kind::whole) {
      payload = frame.payload;
      given_ = frame.taken;
      known_ = 0;
      ++messages_;
      return Next::message;
    }
    known_ = input_.bytes().size();
    ROCKHOPPER_TRY(auto read, input_.read(now_ns));
    if (read == ByteInput::Read::nothing) return Next::nothing;
    if (read == ByteInput::Read::bytes) continue;
    if (known_ > 0) return finish(payload);
    if (read == ByteInput::Read::end) return Next::end;
  }
}

Expected<Next> StreamSource::finish(std::span<const std::byte>& payload) {
  if (framing_ == Framing::records) {
    const Frame frame = first_frame(framing_, input_.bytes(), 0, payload_max_);
    if (known_ < kRecordLengthBytes) {
      return fail(ErrorCode::io, "{} ends inside record {}: {} of the 4 bytes of its length",
                  input_.name(), messages_ + 1, known_);
    }
    return fail(ErrorCode::io, "{} ends inside record {}: {} of its {} bytes", input_.name(),
                messages_ + 1, known_ - kRecordLengthBytes, frame.length);
  }
  payload = input_.bytes();
  given_ = std::exchange(known_, 0);
  ++messages_;
  return Next::message;
}

void StreamSource::visit_counters(const CounterVisit& visit) const {
  visit("truncations", input_.truncations());
  visit("replacements", input_.replacements());
}

}  // namespace rockhopper::apps::publish
