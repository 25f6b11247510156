// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/rh_publish/served_store.h"

#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace rockhopper::apps::publish {
namespace {

/// Never the same again, and with low bits that are not 0.
std::uint64_t new_epoch(roce::Random& random) {
  std::uint64_t epoch = 0;
  while (static_cast<std::uint32_t>(epoch) == 0) {
    epoch = random.next();
  }
  return epoch;
}

}  // namespace

std::uint64_t key_of(std::span<const std::byte> payload, KeyRule rule) {
  std::size_t length = std::min(rule.bytes, payload.size());
  if (rule.bytes == 0) {
    const auto end = std::find_if(payload.begin(), payload.end(), [](std::byte byte) {
      return byte == std::byte{' '} || byte == std::byte{'\t'};
    });
    length = static_cast<std::size_t>(end - payload.begin());
  }
  return XXH3_64bits(payload.data(), length);
}

Expected<std::unique_ptr<ServedStore>> ServedStore::open(const StoreSpec& spec, std::uint16_t id,
                                                         KeyRule key, roce::Random& random) {
  std::unique_ptr<ServedStore> store(new ServedStore(spec, key));
  const std::uint64_t epoch = new_epoch(random);
  auto opened = spec.kind == publisher::StoreKind::log ? store->open_log(id, epoch)
                                                       : store->open_conflated(id, epoch);
  if (!opened) {
    return fail(opened.error().code, "--store {}: {}", spec.name, opened.error().message);
  }
  return store;
}

Expected<void> ServedStore::open_log(std::uint16_t id, std::uint64_t epoch) {
  const std::uint64_t bytes = publisher::store_bytes(spec_.bytes);
  ROCKHOPPER_TRY(memory_, spec_.file.empty() ? PageMemory::allocate(bytes)
                                             : open_store_file(spec_.file, bytes));
  const publisher::StoreConfig config{.id = id, .epoch = epoch};
  // A file that is new, or whose first publisher ended before it had written anything.
  const auto control = memory_.bytes().first(sizeof(publisher::ControlBlock));
  const bool empty = std::all_of(control.begin(), control.end(),
                                 [](std::byte byte) { return byte == std::byte{0}; });
  if (!empty) return recover(config);
  ROCKHOPPER_TRY(log_, publisher::Store::create(memory_.bytes(), config));
  return {};
}

Expected<void> ServedStore::recover(const publisher::StoreConfig& config) {
  auto recovered = publisher::Store::recover(memory_.bytes(), config);
  if (!recovered) {
    return fail(recovered.error().code, "{}: {}", spec_.file, recovered.error().message);
  }
  log_ = std::move(recovered->store);
  fmt::print(stderr, "{}: {} has {} messages{}\n", spec_.name, spec_.file, recovered->messages,
             recovered->cut == 0
                 ? ""
                 : fmt::format(", {} more were torn and are cut off", recovered->cut));
  return {};
}

Expected<void> ServedStore::open_conflated(std::uint16_t id, std::uint64_t epoch) {
  publisher::ConflatedStore::Config config{.id = id, .epoch = epoch, .keys = spec_.keys};
  const std::uint64_t slot = std::min<std::uint64_t>(spec_.bytes / spec_.keys, UINT32_MAX);
  // What a slot has besides the message is the library's to know.
  const auto too_much = [&] {
    return publisher::ConflatedStore::bytes_for(config) >
           spec_.bytes + sizeof(publisher::ControlBlock);
  };
  config.message_max = static_cast<std::uint32_t>(slot);
  while (config.message_max > 0 && too_much()) {
    --config.message_max;
  }
  if (config.message_max == 0) {
    return fail(ErrorCode::invalid_argument, "{} bytes are too few for {} keys", spec_.bytes,
                spec_.keys);
  }
  ROCKHOPPER_TRY(memory_, PageMemory::allocate(publisher::ConflatedStore::bytes_for(config)));
  ROCKHOPPER_TRY(conflated_, publisher::ConflatedStore::create(memory_.bytes(), config));
  return {};
}

void ServedStore::publish(std::span<const std::byte> payload, std::uint64_t time_ns) {
  if (log_) {
    (void)log_->append(payload, 0, time_ns);
    shown_ = false;
    return;
  }
  const auto published = conflated_->publish(key_of(payload, key_), payload, 0, time_ns);
  if (published == publisher::Published::no_slot && !warned_) {
    warned_ = true;
    fmt::print(stderr, "{}: there are more than {} keys; messages of the others are dropped\n",
               spec_.name, spec_.keys);
  }
}

void ServedStore::commit() {
  if (shown_) return;
  log_->commit();
  shown_ = true;
}

const publisher::StoreCounters& ServedStore::counters() const {
  return log_ ? log_->counters() : conflated_->counters();
}

nlohmann::json ServedStore::report() const {
  const publisher::StoreCounters& counters = this->counters();
  nlohmann::json report{{"messages", counters.messages.value()},
                        {"bytes", counters.message_bytes.value()},
                        {"refused_too_long", counters.refused_too_long.value()}};
  if (log_) {
    report["kind"] = "log";
    report["epoch"] = log_->epoch();
    report["oldest"] = log_->oldest_sequence();
    report["next"] = log_->next_sequence();
  } else {
    report["kind"] = "conflated";
    report["epoch"] = conflated_->epoch();
    report["keys"] = conflated_->keys();
    report["refused_no_slot"] = counters.refused_no_slot.value();
  }
  return report;
}

}  // namespace rockhopper::apps::publish
