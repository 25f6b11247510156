// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include "stack/error.h"
#include "stack/ip_address.h"

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

  /// A name that `parse` makes an optional value of; T{} where it does not.
  template <typename T>
  [[nodiscard]] T choice(const char* name, std::optional<T> (*parse)(std::string_view)) {
    const auto value = parse(text(name));
    if (!value) refuse(name);
    return value.value_or(T{});
  }

  /// IPv4 or IPv6, as text.
  [[nodiscard]] stack::IpAddress address(const char* name) {
    const auto value = stack::IpAddress::parse(text(name));
    if (!value) refuse(name);
    return value.value_or(stack::IpAddress{});
  }

  /// Bytes of a packet's payload.
  [[nodiscard]] std::uint16_t path_mtu(const char* name, std::uint16_t max = 4096) {
    const auto value = number<std::uint16_t>(name, 256, max);
    if (!std::has_single_bit(value)) refuse(name);
    return value;
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
