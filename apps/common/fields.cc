// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/common/fields.h"

#include <bit>

#include <fmt/format.h>

namespace rockhopper::apps {
namespace {

constexpr std::uint16_t kPathMtuMin = 256;
constexpr std::uint16_t kPathMtuMax = 4096;

}  // namespace

void Fields::constant(const char* name, std::uint64_t value) {
  std::uint64_t other = value;
  number(name, other);
  require(other == value, name, fmt::format("is {} there, and {} here", other, value));
}

void Fields::qpn(const char* name, wire::Qpn& qpn) {
  std::uint32_t value = qpn.value;
  number24(name, value);
  qpn = wire::Qpn::make(value);
}

void Fields::path_mtu(const char* name, std::uint16_t& value) {
  number(name, value, kPathMtuMin, kPathMtuMax);
  require(std::has_single_bit(value), name, "is no path MTU");
}

void Fields::real(const char* name, double& value, double least, double most) {
  if (to_ != nullptr) return put(name, value);
  value = from_->real(name, least, most);
}

void Fields::flag(const char* name, bool& value) {
  if (to_ != nullptr) return put(name, value);
  value = from_->flag(name);
}

void Fields::text(const char* name, std::string& value) {
  if (to_ != nullptr) return put(name, value);
  value = from_->text(name);
}

void Fields::address(const char* name, stack::IpAddress& value) {
  std::string text = value.to_string();
  this->text(name, text);
  const auto parsed = stack::IpAddress::parse(text);
  require(parsed.has_value(), name, "is no IP address");
  value = parsed.value_or(stack::IpAddress{});
}

void Fields::unicast(const char* name, stack::IpAddress& value) {
  address(name, value);
  require(!value.is_unspecified() && !value.is_multicast(), name,
          "is no address of a single interface");
}

tl::unexpected<Error> bad_message(const std::string& why) {
  return fail(ErrorCode::io,
              "the peer's message is not valid: {}; is it the same program of this version?", why);
}

}  // namespace rockhopper::apps
