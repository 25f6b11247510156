// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include <nlohmann/json.hpp>

#include "stack/error.h"

namespace rockhopper::apps {

/// Reads members of a peer's object; remembers the first that is not as it must be.
class JsonReader {
 public:
  explicit JsonReader(const nlohmann::json& object) : object_(object) {}

  template <typename T>
  [[nodiscard]] T number(const char* name, std::uint64_t min, std::uint64_t max) {
    const auto* value = find(name);
    if (value == nullptr || !value->is_number_unsigned() || value->get<std::uint64_t>() < min ||
        value->get<std::uint64_t>() > max) {
      refuse(name);
      return static_cast<T>(min);
    }
    return static_cast<T>(value->get<std::uint64_t>());
  }

  [[nodiscard]] std::string text(const char* name) {
    const auto* value = find(name);
    if (value == nullptr || !value->is_string()) {
      refuse(name);
      return {};
    }
    return value->get<std::string>();
  }

  [[nodiscard]] bool flag(const char* name) {
    const auto* value = find(name);
    if (value == nullptr || !value->is_boolean()) {
      refuse(name);
      return false;
    }
    return value->get<bool>();
  }

  [[nodiscard]] double real(const char* name) {
    const auto* value = find(name);
    if (value == nullptr || !value->is_number()) {
      refuse(name);
      return 0;
    }
    return value->get<double>();
  }

  [[nodiscard]] const nlohmann::json* array(const char* name, std::size_t size) {
    const auto* value = find(name);
    if (value == nullptr || !value->is_array() || value->size() != size) {
      refuse(name);
      return nullptr;
    }
    return value;
  }

  [[nodiscard]] const nlohmann::json* object(const char* name) {
    const auto* value = find(name);
    if (value == nullptr || !value->is_object()) {
      refuse(name);
      return nullptr;
    }
    return value;
  }

  void refuse(const char* name) {
    if (bad_.empty()) bad_ = name;
  }
  [[nodiscard]] Expected<void> result() const {
    if (bad_.empty()) return {};
    return fail(ErrorCode::io,
                "the peer's message has no valid \"{}\"; is it the same program of this version?",
                bad_);
  }

 private:
  [[nodiscard]] const nlohmann::json* find(const char* name) const {
    if (!object_.is_object()) return nullptr;
    const auto found = object_.find(name);
    return found == object_.end() ? nullptr : &*found;
  }

  const nlohmann::json& object_;
  std::string bad_;
};

}  // namespace rockhopper::apps
