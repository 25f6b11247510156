// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/node/personality/personality.h"

#include <algorithm>
#include <array>
#include <bit>
#include <limits>
#include <vector>

#include "apps/node/node_config.h"
#include "roce/wire/aeth.h"
#include "stack/quantity.h"
#include "stack/split_list.h"

namespace rockhopper {
namespace {

using ReadRetry = Personality::ReadRetry;
using WriteRetry = Personality::WriteRetry;
using SourcePort = Personality::SourcePort;

// Each reads a value and returns false for what it cannot be.

template <auto member>
bool yes_or_no(Personality& p, std::string_view value) {
  p.*member = value == "yes";
  return value == "yes" || value == "no";
}

template <auto member>
bool time(Personality& p, std::string_view value) {
  if (value == "0") value = "0ns";
  return stack::parse_time(value, p.*member);
}

template <typename Number>
bool whole(std::string_view value, std::uint64_t least, std::uint64_t most, Number& to) {
  std::uint64_t number = 0;
  if (!stack::parse_unsigned(value, number) || number < least || number > most) return false;
  to = static_cast<Number>(number);
  return true;
}

template <auto member, std::uint64_t least, std::uint64_t most>
bool number(Personality& p, std::string_view value) {
  return whole(value, least, most, p.*member);
}

/// A number, or "own" for that of this endpoint.
template <auto member, std::uint64_t most>
bool number_or_own(Personality& p, std::string_view value) {
  auto& to = p.*member;
  to.reset();
  return value == "own" || whole(value, 0, most, to.emplace());
}

template <auto member, typename Enum>
bool one_of(Personality& p, std::string_view value, std::string_view first, Enum first_value,
            std::string_view second, Enum second_value) {
  p.*member = value == first ? first_value : second_value;
  return value == first || value == second;
}

bool credits(Personality& p, std::string_view value) {
  constexpr std::string_view kStatic = "static:";
  p.static_credits.reset();
  p.counts_credits = value == "count";
  if (value == "count" || value == "unlimited") return true;
  std::uint32_t count = 0;
  if (!value.starts_with(kStatic) || !whole(value.substr(kStatic.size()), 0, 32768, count)) {
    return false;
  }
  p.static_credits = wire::credit_code(count);
  return wire::credit_count(*p.static_credits) == count;
}

bool timeouts(Personality& p, std::string_view value) {
  std::vector<std::uint64_t> waits_ns;
  if (value.empty() || value.ends_with('/')) return false;
  while (value != "qp" && !value.empty()) {
    const std::size_t end = std::min(value.find('/'), value.size());
    if (!stack::parse_time(value.substr(0, end), waits_ns.emplace_back()) || waits_ns.back() == 0) {
      return false;
    }
    value.remove_prefix(std::min(end + 1, value.size()));
  }
  p.retransmissions.set(waits_ns);
  return waits_ns.size() <= roce::RetransmissionSchedule::kRetriesMax;
}

bool alignment(Personality& p, std::string_view value) {
  return whole(value, 1, 4096, p.alignment) && std::has_single_bit(p.alignment);
}

bool cnp_scope(Personality& p, std::string_view value) {
  const auto scope = parse_cnp_scope(value);
  p.cnp.scope = scope.value_or(p.cnp.scope);
  return scope.has_value();
}

struct Knob : PersonalityKnob {
  bool (*set)(Personality&, std::string_view);
};

constexpr char kYesNo[] = "yes or no";
constexpr char kTime[] = "a time as 100us, or 0";

constexpr auto kKnobs = std::to_array<Knob>({
    {{"mig_req", kYesNo, "MigReq of every BTH"}, yes_or_no<&Personality::mig_req>},
    {{"vlan", "none or vid0", "datagrams have no tag, or one of VLAN id 0"},
     [](Personality& p, std::string_view v) {
       return one_of<&Personality::vlan_zero>(p, v, "none", false, "vid0", true);
     }},
    {{"source_mac", "real or zero", "the source MAC of datagrams"},
     [](Personality& p, std::string_view v) {
       return one_of<&Personality::zero_source_mac>(p, v, "real", false, "zero", true);
     }},
    {{"udp_checksum", "zero or right", "of IPv4; with IPv6 too"},
     [](Personality& p, std::string_view v) {
       return one_of<&Personality::udp_checksum>(p, v, "zero", false, "right", true);
     }},
    {{"ip_id", "zero or counter", "identification of IPv4"},
     [](Personality& p, std::string_view v) {
       return one_of<&Personality::ip_id_counts>(p, v, "zero", false, "counter", true);
     }},
    {{"traffic_class", "0 to 255, or own", "of all but CNPs, whatever the queue pair's is"},
     number_or_own<&Personality::traffic_class, 255>},
    {{"ttl", "0 to 255, or own", "time to live or hop limit of all but CNPs"},
     number_or_own<&Personality::ttl, 255>},
    {{"source_port", "flow or qpn", "UDP's: of the flow, or the low bits of the peer's QPN"},
     [](Personality& p, std::string_view v) {
       return one_of<&Personality::source_port>(p, v, "flow", SourcePort::flow, "qpn",
                                                SourcePort::qpn);
     }},
    {{"bth_reserved", "0 to 127", "the reserved bits beside AckReq"},
     number<&Personality::bth_reserved, 0, 127>},
    {{"credits", "count, unlimited or static:N", "end-to-end credits that are told"}, credits},
    {{"obey_credits", kYesNo, "requests wait for the peer's credits"},
     yes_or_no<&Personality::obeys_credits>},
    {{"unsolicited_credit_ack", "obey or ignore", "ACKs that only bring credits"},
     [](Personality& p, std::string_view v) {
       return one_of<&Personality::obeys_unsolicited_credits>(p, v, "ignore", false, "obey", true);
     }},
    {{"ack_req_every", "1 to 32768", "packets of which one asks for an ACK"},
     number<&Personality::ack_req_every, 1, 32768>},
    {{"window", "0 to 65536", "unacknowledged packets at most; 0: twice ack_req_every"},
     number<&Personality::window, 0, 65536>},
    {{"ack_delay", kTime, "an ACK waits so long for a newer one"},
     time<&Personality::ack_delay_ns>},
    {{"nak_delay", kTime, "a NAK of sequence leaves so late"}, time<&Personality::nak_delay_ns>},
    {{"nak_repeat", kYesNo, "each packet behind a gap draws the NAK again"},
     yes_or_no<&Personality::nak_repeat>},
    {{"nak_draws_cnp", kYesNo, "a CNP goes with each NAK of sequence"},
     yes_or_no<&Personality::nak_draws_cnp>},
    {{"timeouts", "qp, or times as 5.6ms/4.1ms", "waits before each retry; qp: the attributes'"},
     timeouts},
    {{"read_retry", "tail or part",
      "a READ is asked again from what is missing on, or for just that"},
     [](Personality& p, std::string_view v) {
       return one_of<&Personality::read_retry>(p, v, "tail", ReadRetry::tail, "part",
                                               ReadRetry::part);
     }},
    {{"read_retry_delay", kTime, "before a READ is asked for again"},
     time<&Personality::read_retry_delay_ns>},
    {{"write_retry", "gbn or named_plus_one",
      "behind a NAK everything goes again, or the packet that it names and the last"},
     [](Personality& p, std::string_view v) {
       return one_of<&Personality::write_retry>(p, v, "gbn", WriteRetry::go_back_n,
                                                "named_plus_one", WriteRetry::named_plus_one);
     }},
    {{"cnp_dscp", "0 to 63", "of CNPs"},
     [](Personality& p, std::string_view v) { return whole(v, 0, 63, p.cnp.dscp); }},
    {{"cnp_priority", "0 to 7", "their service level"},
     [](Personality& p, std::string_view v) { return whole(v, 0, 7, p.cnp.priority); }},
    {{"cnp_ecn", "0 to 3", "their ECN bits"}, number<&Personality::cnp_ecn, 0, 3>},
    {{"cnp_source_port", "0 to 65535, or own", "their UDP source port"},
     number_or_own<&Personality::cnp_source_port, 65535>},
    {{"cnp_ttl", "0 to 255, or own", "their time to live"},
     number_or_own<&Personality::cnp_ttl, 255>},
    {{"cnp_interval", kTime, "least time between two CNPs of a scope"},
     [](Personality& p, std::string_view v) {
       return stack::parse_time(v == "0" ? "0ns" : v, p.cnp.min_time_between_ns);
     }},
    {{"cnp_scope", "qp, destination or port", "for what that time counts"}, cnp_scope},
    {{"nak_cnp_period", kTime, "so long after a NAK a CNP counts for nothing"},
     time<&Personality::nak_cnp_period_ns>},
    {{"reserved_opcodes", "nak or drop", "what an opcode that IBTA reserves gets"},
     [](Personality& p, std::string_view v) {
       return one_of<&Personality::nak_reserved_opcodes>(p, v, "drop", false, "nak", true);
     }},
    {{"probe_every", kTime, "packets of an unknown opcode to the peer, while there is traffic"},
     time<&Personality::probe_every_ns>},
    {{"probe_opcode", "0 to 255", "of these"}, number<&Personality::probe_opcode, 0, 255>},
    {{"atomics", kYesNo, "compare-and-swap and fetch-and-add are served"},
     yes_or_no<&Personality::serves_atomics>},
    {{"empty_sends", kYesNo, "SENDs of no bytes are taken"},
     yes_or_no<&Personality::takes_empty_sends>},
    {{"alignment", "a power of two up to 4096", "of addresses and lengths of READ and WRITE"},
     alignment},
    {{"max_message", "bytes as 8MiB", "of a READ or WRITE"},
     [](Personality& p, std::string_view v) { return stack::parse_bytes(v, p.max_message); }},
});

constexpr auto kDescriptions = [] {
  std::array<PersonalityKnob, kKnobs.size()> all{};
  std::copy(kKnobs.begin(), kKnobs.end(), all.begin());
  return all;
}();

}  // namespace

std::optional<roce::CnpScope> parse_cnp_scope(std::string_view text) {
  if (text == "qp") return roce::CnpScope::queue_pair;
  if (text == "destination") return roce::CnpScope::destination;
  if (text == "port") return roce::CnpScope::port;
  return std::nullopt;
}

std::span<const PersonalityKnob> personality_knobs() { return kDescriptions; }

Expected<void> set_knob(Personality& personality, std::string_view name, std::string_view value) {
  const auto* knob = std::find_if(kKnobs.begin(), kKnobs.end(),
                                  [&](const Knob& known) { return name == known.name; });
  if (knob == kKnobs.end()) {
    return fail(ErrorCode::invalid_argument, "there is no knob \"{}\"", name);
  }
  if (knob->set(personality, value)) return {};
  return fail(ErrorCode::invalid_argument, "{} is {}, not \"{}\"", name, knob->values, value);
}

std::string_view Personality::knob_of_headers() const {
  if (vlan_zero) return "vlan";
  if (zero_source_mac) return "source_mac";
  if (udp_checksum) return "udp_checksum";
  if (ip_id_counts) return "ip_id";
  if (source_port != SourcePort::flow) return "source_port";
  return cnp_source_port ? "cnp_source_port" : "";
}

void Personality::apply(NodeConfig& config) const {
  if (vlan_zero) config.host.priority_tags = true;
  roce::EngineConfig& engine = config.engine;
  engine.credits = {.obey = obeys_credits, .count = counts_credits || static_credits};
  engine.retransmissions = retransmissions;
  engine.read_retry_delay_ns = read_retry_delay_ns;
  engine.max_unacked_packets = window != 0 ? window : 2 * ack_req_every;
  engine.cnp = cnp;
  engine.nak_cnp_period_ns = nak_cnp_period_ns;
  engine.nak_reserved_opcodes = nak_reserved_opcodes;
}

}  // namespace rockhopper
