// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/rh_subscribe/sink.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "apps/rh_publish/names.h"

namespace rockhopper::apps::subscribe {

Expected<void> Sink::add_store(const std::string& name) {
  ROCKHOPPER_TRY(publish::check_name(name));
  if (folder_.empty()) {
    if (streams_.empty()) streams_.emplace("", OutputStream::standard_output());
    return {};
  }
  ROCKHOPPER_TRY(auto file,
                 OutputStream::create(fmt::format("{}/{}{}", folder_, name, extension(format_))));
  streams_.emplace(name, std::move(file));
  return {};
}

OutputStream& Sink::stream(std::string_view store) {
  return streams_.find(folder_.empty() ? std::string_view() : store)->second;
}

void Sink::write(const Delivery& delivery) {
  append(format_, delivery, stream(delivery.store).buffer());
}

void Sink::report(const Loss& loss) {
  fmt::print(stderr, "{}: lost {}-{}\n", loss.store, loss.first, loss.last);
  append(format_, loss, stream(loss.store).buffer());
}

bool Sink::is_full() const {
  return std::any_of(streams_.begin(), streams_.end(),
                     [](const auto& item) { return item.second.is_full(); });
}

bool Sink::is_empty() const {
  return std::all_of(streams_.begin(), streams_.end(),
                     [](const auto& item) { return item.second.waiting() == 0; });
}

Expected<void> Sink::flush() {
  for (auto& [name, stream] : streams_) {
    ROCKHOPPER_TRY(stream.flush());
  }
  return {};
}

}  // namespace rockhopper::apps::subscribe
