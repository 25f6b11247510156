// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <concepts>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "apps/common/json.h"
#include "apps/common/names.h"
#include "roce/wire/psn.h"
#include "roce/wire/qpn.h"
#include "stack/error.h"
#include "stack/ip_address.h"

namespace rockhopper::apps {

/// The members of an object that two programs exchange, named once for both ways: a struct's
/// describe(Fields&) gives each of its fields a name and a range, and fields_to_json() and
/// fields_from_json() follow from that. Nothing of what a peer sends is taken on trust: a member
/// that is missing, of another type or out of its range is an error.
class Fields {
 public:
  /// Writes members of `object`, which must outlive it.
  explicit Fields(nlohmann::json& object) : to_(&object) { object = nlohmann::json::object(); }
  /// Reads members of an object.
  explicit Fields(JsonObject from) : from_(std::move(from)) {}

  /// A whole number, also of an enumeration that is one.
  template <typename T>
  void number(const char* name, T& value, std::uint64_t least = 0,
              std::uint64_t most = largest<T>()) {
    if (to_ != nullptr) {
      put(name, static_cast<std::uint64_t>(value));
    } else {
      value = static_cast<T>(from_->number(name, least, most));
    }
  }
  /// A number that both ends must have alike, as a version.
  void constant(const char* name, std::uint64_t value);
  /// A number of 24 bits.
  void number24(const char* name, std::uint32_t& value) { number(name, value, 0, wire::kMask24); }
  void qpn(const char* name, wire::Qpn& qpn);
  /// Bytes of a packet's payload.
  void path_mtu(const char* name, std::uint16_t& value);
  void real(const char* name, double& value, double least = 0,
            double most = std::numeric_limits<double>::max());
  void flag(const char* name, bool& value);
  void text(const char* name, std::string& value);
  /// IPv4 or IPv6, as text.
  void address(const char* name, stack::IpAddress& value);
  /// An address that one interface can have.
  void unicast(const char* name, stack::IpAddress& value);
  template <Named Enum>
  void choice(const char* name, Enum& value) {
    std::string word(name_of(value));
    text(name, word);
    const auto parsed = parse_name<Enum>(word);
    require(parsed.has_value(), name, "expected is one of: " + all_names<Enum>());
    value = parsed.value_or(Enum{});
  }
  /// An object within this one.
  template <typename T>
  void object(const char* name, T& value) {
    object(name, [&value](Fields& fields) { value.describe(fields); });
  }
  /// The same, with its fields described by `describe(Fields&)`.
  template <std::invocable<Fields&> Describe>
  void object(const char* name, const Describe& describe) {
    if (to_ != nullptr) {
      Fields inner((*to_)[name]);
      return describe(inner);
    }
    require(from_->has(name), name, "is missing");
    if (auto from = from_->object(name)) {
      Fields inner(std::move(*from));
      describe(inner);
    }
  }
  /// A list of objects.
  template <typename T>
  void list(const char* name, std::vector<T>& values);

  /// Whether the object has a member, or shall have it: for members that may be missing.
  [[nodiscard]] bool has(const char* name) const { return to_ != nullptr || from_->has(name); }
  /// Makes it an error of that member that what is read is not `good`.
  void require(bool good, const char* name, const std::string& what) {
    if (!good && from_) from_->fail(name, what);
  }

 private:
  template <typename T>
  [[nodiscard]] static constexpr std::uint64_t largest() {
    if constexpr (std::is_enum_v<T>) {
      return std::numeric_limits<std::underlying_type_t<T>>::max();
    } else {
      return std::numeric_limits<T>::max();
    }
  }
  void put(const char* name, nlohmann::json value) { (*to_)[name] = std::move(value); }

  nlohmann::json* to_ = nullptr;
  std::optional<JsonObject> from_;
};

template <typename T>
[[nodiscard]] nlohmann::json fields_to_json(T value) {
  nlohmann::json object;
  Fields fields(object);
  value.describe(fields);
  return object;
}

/// The error of a peer's message that is not as it must be.
[[nodiscard]] tl::unexpected<Error> bad_message(const std::string& why);

/// An error begins with the path of the member that is not as it must be.
template <typename T>
[[nodiscard]] Expected<T> read_fields(const nlohmann::json& object) {
  T value{};
  JsonErrors errors;
  Fields fields{JsonObject(object, "", errors)};
  value.describe(fields);
  if (errors.any()) return tl::make_unexpected(errors.first());
  return value;
}

/// The same of a peer's message.
template <typename T>
[[nodiscard]] Expected<T> fields_from_json(const nlohmann::json& object) {
  auto value = read_fields<T>(object);
  if (!value) return bad_message(value.error().message);
  return value;
}

template <typename T>
void Fields::list(const char* name, std::vector<T>& values) {
  if (to_ != nullptr) {
    put(name, nlohmann::json::array());
    for (const T& value : values) {
      (*to_)[name].push_back(fields_to_json(value));
    }
    return;
  }
  values.clear();
  require(from_->has(name), name, "is missing");
  for (JsonObject& object : from_->objects(name)) {
    Fields fields(std::move(object));
    values.emplace_back().describe(fields);
  }
}

}  // namespace rockhopper::apps
