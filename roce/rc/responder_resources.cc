// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "roce/rc/responder_resources.h"

#include <algorithm>
#include <bit>
#include <cassert>

namespace rockhopper::roce::rc {

void ResponderResources::set_limit(std::uint8_t limit) {
  assert(empty());
  limit_ = limit;
  const std::uint32_t places = std::bit_ceil(std::uint32_t{limit});
  places_ = std::make_unique<Resource[]>(places);
  mask_ = places - 1;
  assert(is_consistent());
}

const ResponderResource& ResponderResources::on_sent() {
  Resource& owing = this->owing();
  // One packet answers a lock request, whatever PSNs its scope takes.
  owing.next = owing.kind == Resource::Kind::lock ? owing.end : owing.next + 1;
  owing.sent = std::max(owing.sent, owing.next);
  skip_answered();
  return owing;
}

void ResponderResources::skip() {
  Resource& owing = this->owing();
  owing.next = owing.end;
  owing.set_later({});
  skip_answered();
}

/// The ring is walked: repetitions are rare, and the ring is short.
ResponderResource* ResponderResources::find(wire::Psn psn) {
  for (std::uint64_t sequence = head_; sequence < tail_; ++sequence) {
    if (at(sequence).contains(psn)) return &at(sequence);
  }
  return nullptr;
}

void ResponderResources::repeat(Resource& resource, std::uint32_t index, std::uint32_t count) {
  assert(count > 0 && index + count <= resource.psn_count);
  const std::uint32_t end = index + count;
  if (resource.owes() && index >= resource.end) {
    const Resource::Part later = resource.later();
    resource.set_later({.start = later.end != 0 ? std::min(later.start, index) : index,
                        .end = std::max(later.end, end)});
    return;
  }
  const bool owed = resource.owes();
  resource.end = owed ? std::max(resource.end, end) : end;
  if (!owed || index < resource.next) resource.next = resource.start = index;
  const Resource::Part later = resource.later();
  resource.set_later(later.end <= resource.end
                         ? Resource::Part{}
                         : Resource::Part{std::max(later.start, resource.end), later.end});
  assert(resource.owes());
  for (std::uint64_t sequence = head_; sequence < pending_; ++sequence) {
    if (&at(sequence) == &resource) {
      if (owes()) {
        Resource& interrupted = at(pending_);
        interrupted.next = interrupted.start;
      }
      pending_ = sequence;
    }
  }
  assert(is_consistent());
}

void ResponderResources::forgive() {
  for (std::uint64_t sequence = pending_; sequence < tail_; ++sequence) {
    at(sequence).next = at(sequence).end;
    at(sequence).set_later({});
  }
  pending_ = tail_;
  assert(is_consistent());
}

wire::Psn ResponderResources::before_responses(wire::Psn psn) const {
  for (std::uint64_t sequence = tail_; sequence > head_; --sequence) {
    const Resource& resource = at(sequence - 1);
    if (!(resource.first_psn + (resource.psn_count - 1) == psn)) break;
    psn = resource.first_psn - 1;
  }
  return psn;
}

}  // namespace rockhopper::roce::rc
