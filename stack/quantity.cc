// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "stack/quantity.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <system_error>

namespace rockhopper::stack {
namespace {

struct Unit {
  std::string_view name;
  double factor;
};

constexpr std::array kTimeUnits = {Unit{"ns", 1}, Unit{"us", 1e3}, Unit{"ms", 1e6}, Unit{"s", 1e9}};
constexpr std::array kRateUnits = {Unit{"bit", 1}, Unit{"kbit", 1e3}, Unit{"Mbit", 1e6},
                                   Unit{"Gbit", 1e9}};
// A letter alone is a power of two, as in perftest.
constexpr std::array kByteUnits = {Unit{"", 1},         Unit{"B", 1},        Unit{"kB", 1e3},
                                   Unit{"MB", 1e6},     Unit{"GB", 1e9},     Unit{"KiB", 0x1p10},
                                   Unit{"MiB", 0x1p20}, Unit{"GiB", 0x1p30}, Unit{"k", 0x1p10},
                                   Unit{"K", 0x1p10},   Unit{"m", 0x1p20},   Unit{"M", 0x1p20},
                                   Unit{"g", 0x1p30},   Unit{"G", 0x1p30}};

constexpr double kTimeMaxNs = 1e15;
constexpr double kRateMax = 1e13;
constexpr double kBytesMax = 0x1p40;

bool parse_number(std::string_view text, double& value, std::string_view& rest) {
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), value, std::chars_format::fixed);
  rest = text.substr(static_cast<std::size_t>(end - text.data()));
  return error == std::errc{} && value >= 0;
}

template <std::size_t N>
bool parse_quantity(std::string_view text, const std::array<Unit, N>& units, double most,
                    std::uint64_t& value) {
  double number = 0;
  std::string_view rest;
  if (!parse_number(text, number, rest)) return false;
  const auto unit =
      std::find_if(units.begin(), units.end(), [&](const Unit& u) { return u.name == rest; });
  if (unit == units.end() || number * unit->factor > most) return false;
  value = static_cast<std::uint64_t>(std::llround(number * unit->factor));
  return true;
}

}  // namespace

bool parse_unsigned(std::string_view text, std::uint64_t& value) {
  int base = 10;
  if (text.starts_with("0x") || text.starts_with("0X")) {
    text.remove_prefix(2);
    base = 16;
  }
  const char* last = text.data() + text.size();
  const auto [end, error] = std::from_chars(text.data(), last, value, base);
  if (error != std::errc{}) return false;
  if (end == last || base == 16) return end == last;
  unsigned exponent = 0;
  if (*end != 'e' && *end != 'E') return false;
  const auto [behind, wrong] = std::from_chars(end + 1, last, exponent);
  if (wrong != std::errc{} || behind != last) return false;
  for (; exponent > 0 && value > 0; --exponent) {
    if (value > UINT64_MAX / 10) return false;
    value *= 10;
  }
  return true;
}

bool parse_probability(std::string_view text, double& value) {
  std::string_view rest;
  if (!parse_number(text, value, rest)) return false;
  if (rest == "%") {
    value /= 100;
  } else if (!rest.empty()) {
    return false;
  }
  return value <= 1;
}

bool parse_time(std::string_view text, std::uint64_t& ns) {
  return parse_quantity(text, kTimeUnits, kTimeMaxNs, ns);
}

bool parse_rate(std::string_view text, std::uint64_t& bits_per_s) {
  return parse_quantity(text, kRateUnits, kRateMax, bits_per_s) && bits_per_s > 0;
}

bool parse_bytes(std::string_view text, std::uint64_t& bytes) {
  if (parse_unsigned(text, bytes)) return static_cast<double>(bytes) <= kBytesMax;
  return parse_quantity(text, kByteUnits, kBytesMax, bytes);
}

}  // namespace rockhopper::stack
