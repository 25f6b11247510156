// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "stack/fault_config.h"

#include <algorithm>
#include <array>

#include "stack/quantity.h"

namespace rockhopper::stack {
namespace {

constexpr std::uint64_t kBlackHoleIntervalMinNs = 1'000'000;
constexpr std::uint32_t kQueueMax = 1 << 20;

/// As those of stack/quantity.h.
bool parse_byte(std::string_view text, std::uint8_t& value) {
  std::uint64_t wide = 0;
  if (!parse_unsigned(text, wide) || wide > UINT8_MAX) return false;
  value = static_cast<std::uint8_t>(wide);
  return true;
}

/// Splits at the first `separator`; `second` is empty and the result false when there is none.
bool split(std::string_view text, char separator, std::string_view& first,
           std::string_view& second) {
  const std::size_t at = text.find(separator);
  first = text.substr(0, at);
  second = at == std::string_view::npos ? std::string_view{} : text.substr(at + 1);
  return at != std::string_view::npos;
}

/// P[:TIME]
bool parse_timed_probability(std::string_view text, double& probability, std::uint64_t& ns) {
  std::string_view first;
  std::string_view time;
  if (split(text, ':', first, time) && !parse_time(time, ns)) return false;
  return parse_probability(first, probability);
}

/// OP[-OP][@OFFSET=VALUE][*COUNT]
bool parse_opcode_drop(std::string_view text, OpcodeDrop& drop) {
  std::string_view rest;
  std::string_view part;
  if (split(text, '*', rest, part) && !parse_unsigned(part, drop.limit)) return false;
  std::string_view which;
  if (split(rest, '+', which, part) && !parse_unsigned(part, drop.skip)) return false;
  std::string_view opcodes;
  if (split(which, '@', opcodes, part)) {
    std::string_view offset;
    std::string_view value;
    std::uint64_t wide = 0;
    if (!split(part, '=', offset, value) || !parse_unsigned(offset, wide) || wide > UINT16_MAX ||
        !parse_byte(value, drop.match_value)) {
      return false;
    }
    drop.match_offset = static_cast<std::uint16_t>(wide);
  }
  std::string_view first;
  std::string_view last;
  const bool range = split(opcodes, '-', first, last);
  if (!parse_byte(first, drop.first)) return false;
  drop.last = drop.first;
  return !range || (parse_byte(last, drop.last) && drop.last >= drop.first);
}

/// TIME[-TIME]/INTERVAL
bool parse_black_hole(std::string_view text, BlackHole& hole) {
  std::string_view lengths;
  std::string_view interval;
  std::string_view shortest;
  std::string_view longest;
  if (!split(text, '/', lengths, interval) || !parse_time(interval, hole.interval_ns)) return false;
  const bool range = split(lengths, '-', shortest, longest);
  if (!parse_time(shortest, hole.length_min_ns)) return false;
  hole.length_max_ns = hole.length_min_ns;
  if (range && !parse_time(longest, hole.length_max_ns)) return false;
  return hole.length_max_ns >= hole.length_min_ns && hole.interval_ns >= kBlackHoleIntervalMinNs;
}

/// START+LENGTH
bool parse_fixed_hole(std::string_view text, BlackHole& hole) {
  std::string_view start;
  std::string_view length;
  return split(text, '+', start, length) && parse_time(start, hole.fixed_start_ns) &&
         parse_time(length, hole.fixed_length_ns);
}

bool parse_profile(std::string_view name, FaultRates& rates) {
  if (name == "P1") {
    rates.loss = 0.01;
  } else if (name == "P2") {
    rates.loss = 0.01;
    rates.duplicate = 0.01;
    rates.reorder = 0.05;
    rates.reorder_max_ns = 2'000'000;
    rates.corrupt = 0.0001;
  } else if (name == "P3") {
    rates.delay_ns = 10'000'000;
  } else if (name == "P4") {
    rates.black_hole = {.length_min_ns = 100'000'000,
                        .length_max_ns = 5'000'000'000,
                        .interval_ns = 10'000'000'000};
  } else if (name == "P6") {
    rates.duplicate = 0.01;
    rates.duplicate_max_ns = 5'000'000'000;
    rates.reorder = 0.01;
    rates.reorder_max_ns = 5'000'000'000;
  } else {
    return name == "P0" || name == "P5";
  }
  return true;
}

struct Key {
  std::string_view name;
  bool (*parse)(std::string_view value, FaultRates& rates);
  const char* expected;
};

constexpr const char* kProbability = "a probability as 1% or 0.01";
constexpr const char* kTimedProbability = "a probability and perhaps a time, as 1%:2ms";
constexpr const char* kTime = "a time as 250ns, 10us, 2ms or 1.5s";

constexpr std::array kKeys = {
    Key{"loss", [](auto v, auto& r) { return parse_probability(v, r.loss); }, kProbability},
    Key{"corrupt", [](auto v, auto& r) { return parse_probability(v, r.corrupt); }, kProbability},
    Key{"dup",
        [](auto v, auto& r) { return parse_timed_probability(v, r.duplicate, r.duplicate_max_ns); },
        kTimedProbability},
    Key{"late", [](auto v, auto& r) { return parse_timed_probability(v, r.late, r.late_max_ns); },
        kTimedProbability},
    Key{"reorder",
        [](auto v, auto& r) { return parse_timed_probability(v, r.reorder, r.reorder_max_ns); },
        kTimedProbability},
    Key{"delay", [](auto v, auto& r) { return parse_time(v, r.delay_ns); }, kTime},
    Key{"jitter", [](auto v, auto& r) { return parse_time(v, r.jitter_ns); }, kTime},
    Key{"rate", [](auto v, auto& r) { return parse_rate(v, r.rate_bits_per_s); },
        "a rate as 100Mbit or 1Gbit"},
    Key{"queue",
        [](auto v, auto& r) {
          std::uint64_t packets = 0;
          if (!parse_unsigned(v, packets) || packets == 0 || packets > kQueueMax) return false;
          r.queue_packets = static_cast<std::uint32_t>(packets);
          return true;
        },
        "a number of packets, 1 to 1048576"},
    Key{"drop_every", [](auto v, auto& r) { return parse_unsigned(v, r.drop_every); },
        "a number of packets"},
    Key{"drop_opcode",
        [](auto v, auto& r) { return parse_opcode_drop(v, r.drop_opcodes.emplace_back()); },
        "opcodes as 0x11, 0x06-0x0a, 0xd8@16=3, 0x11*1 or 0x06-0x0a+9*1"},
    Key{"blackhole", [](auto v, auto& r) { return parse_black_hole(v, r.black_hole); },
        "lengths and a mean interval of 1ms or more, as 100ms-5s/10s"},
    Key{"blackhole_at", [](auto v, auto& r) { return parse_fixed_hole(v, r.black_hole); },
        "a start and a length, as 1s+500ms"},
    Key{"profile", parse_profile, "a profile of P0 to P6"},
};

Expected<void> apply(std::string_view entry, FaultConfig& config, bool& needs_opcodes) {
  std::string_view name;
  std::string_view value;
  split(entry, '=', name, value);
  if (name == "seed") {
    if (parse_unsigned(value, config.seed)) return {};
    return fail(ErrorCode::invalid_argument, "fault \"{}\": a number is expected", entry);
  }
  const bool rx_only = name.starts_with("rx.");
  const bool tx_only = name.starts_with("tx.");
  if (rx_only || tx_only) name.remove_prefix(3);
  const auto key =
      std::find_if(kKeys.begin(), kKeys.end(), [&](const Key& k) { return k.name == name; });
  if (key == kKeys.end()) {
    std::string names = "seed";
    for (const Key& known : kKeys) {
      names.append(" ").append(known.name);
    }
    return fail(ErrorCode::invalid_argument, "fault \"{}\" is none of: {}", entry, names);
  }
  if ((!tx_only && !key->parse(value, config.rx)) || (!rx_only && !key->parse(value, config.tx))) {
    return fail(ErrorCode::invalid_argument, "fault \"{}\": expected is {}", entry, key->expected);
  }
  if (name == "profile" && value == "P5") needs_opcodes = true;
  return {};
}

}  // namespace

Expected<FaultConfig> parse_faults(std::string_view specification) {
  FaultConfig config;
  bool needs_opcodes = false;
  std::string_view rest = specification;
  while (!rest.empty()) {
    std::string_view entry;
    split(std::string_view(rest), ',', entry, rest);
    ROCKHOPPER_TRY(apply(entry, config, needs_opcodes));
  }
  if (needs_opcodes && config.rx.drop_opcodes.empty() && config.tx.drop_opcodes.empty()) {
    return fail(ErrorCode::invalid_argument,
                "profile P5 drops by opcode: add drop_opcode=OPCODE for what it is to drop");
  }
  return config;
}

}  // namespace rockhopper::stack
