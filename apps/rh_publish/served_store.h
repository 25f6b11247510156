// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include <nlohmann/json_fwd.hpp>

#include "apps/rh_publish/store_file.h"
#include "apps/rh_publish/store_spec.h"
#include "apps/services/publisher/conflated_store.h"
#include "apps/services/publisher/store.h"
#include "roce/random.h"

namespace rockhopper::apps::publish {

/// A store of the program: its memory or file, and its writer, of either kind.
class ServedStore {
 public:
  /// Says on standard error what a file had. `key` is for conflated stores.
  [[nodiscard]] static Expected<std::unique_ptr<ServedStore>> open(const StoreSpec& spec,
                                                                   std::uint16_t id, KeyRule key,
                                                                   roce::Random& random);

  [[nodiscard]] const StoreSpec& spec() const { return spec_; }
  [[nodiscard]] publisher::AnyStore& any() { return log_ ? any_of(log_) : any_of(conflated_); }
  /// Subscribers see it after commit().
  void publish(std::span<const std::byte> payload, std::uint64_t time_ns);
  void commit();

  [[nodiscard]] const publisher::StoreCounters& counters() const;
  [[nodiscard]] nlohmann::json report() const;

 private:
  ServedStore(const StoreSpec& spec, KeyRule key) : spec_(spec), key_(key) {}
  [[nodiscard]] Expected<void> open_log(std::uint16_t id, std::uint64_t epoch);
  [[nodiscard]] Expected<void> open_conflated(std::uint16_t id, std::uint64_t epoch);
  [[nodiscard]] Expected<void> recover(const publisher::StoreConfig& config);
  template <typename T>
  [[nodiscard]] static publisher::AnyStore& any_of(const std::unique_ptr<T>& store) {
    return *store;
  }

  StoreSpec spec_;
  KeyRule key_;
  PageMemory memory_;
  std::unique_ptr<publisher::Store> log_;  ///< or
  std::unique_ptr<publisher::ConflatedStore> conflated_;
  bool shown_ = true;  ///< all that has been published
  bool warned_ = false;
};

/// The key that the rule finds in a message: messages with equal parts have the same.
[[nodiscard]] std::uint64_t key_of(std::span<const std::byte> payload, KeyRule rule);

}  // namespace rockhopper::apps::publish
