// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/verbs/node/resources.h"

#include <algorithm>
#include <cstring>

#include <fcntl.h>
#include <isa-l/crc.h>
#include <unistd.h>

#include "stack/uncancelled.h"

namespace rockhopper::verbs {

void ResourceRecord::set_text(std::string_view text) {
  constexpr std::size_t kRoom = (std::tuple_size_v<decltype(values)> - 2) * sizeof values[0];
  std::memcpy(values.data(), text.data(), std::min(text.size(), kRoom));
}

Resources::Resources(const std::string& path)
    : file_(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600)) {}

bool Resources::write(std::uint32_t place, ResourceRecord& record) const {
  const stack::Uncancelled uncancelled;
  constexpr std::size_t kBehind = offsetof(ResourceRecord, kind);
  const auto* bytes = reinterpret_cast<const unsigned char*>(&record);
  record.checksum = crc32_gzip_refl(0, bytes + kBehind, sizeof record - kBehind);
  return pwrite(file_.fd(), &record, sizeof record, static_cast<off_t>(place * sizeof record)) ==
         sizeof record;
}

std::uint32_t Resources::add(ResourceRecord record) {
  if (!file_ || (free_.empty() && end_ == kMost)) return kNone;
  const std::uint32_t place = free_.empty() ? end_ : free_.back();
  if (!write(place, record)) return kNone;
  if (free_.empty()) {
    ++end_;
  } else {
    free_.pop_back();
  }
  return place;
}

void Resources::change(std::uint32_t place, ResourceRecord record) {
  if (place != kNone) (void)write(place, record);
}

void Resources::remove(std::uint32_t place) {
  if (place == kNone) return;
  ResourceRecord nothing;
  (void)write(place, nothing);
  free_.push_back(place);
}

void Listing::show(Resources& resources, const ResourceRecord& record) {
  if (resources_ == nullptr) {
    resources_ = &resources;
    place_ = resources.add(record);
  } else if (record != shown_) {
    resources.change(place_, record);
  }
  shown_ = record;
}

void Listing::leave() {
  if (resources_ != nullptr) resources_->remove(place_);
  resources_ = nullptr;
}

}  // namespace rockhopper::verbs
