// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "roce/device_habits.h"
#include "stack/error.h"

namespace rockhopper {

struct NodeConfig;

/// How a node looks and behaves to its peers, so that one can be tried against what devices are
/// known to do (docs/hardware.md). Each member is one knob, whose default is this endpoint's own
/// way. What the engine does itself is set by apply(); the rest is done to packets by
/// PersonalityLink.
struct Personality {
  enum class ReadRetry : std::uint8_t { tail, part };
  enum class WriteRetry : std::uint8_t { go_back_n, named_plus_one };
  enum class SourcePort : std::uint8_t { flow, qpn };

  // What headers look like.
  bool mig_req = true;
  bool vlan_zero = false;  ///< datagrams have a tag of VLAN id 0
  bool zero_source_mac = false;
  bool udp_checksum = false;  ///< the right one and not 0
  bool ip_id_counts = false;  ///< IPv4 identification
  std::optional<std::uint8_t> traffic_class{};
  std::optional<std::uint8_t> ttl{};
  SourcePort source_port = SourcePort::flow;
  std::uint8_t bth_reserved = 0;  ///< the 7 bits beside AckReq

  // Responder.
  bool counts_credits = true;                    ///< else "unlimited"
  std::optional<std::uint8_t> static_credits{};  ///< the code of each AETH that tells credits
  bool nak_repeat = false;                       ///< each packet behind a gap draws the NAK again
  bool nak_draws_cnp = false;                    ///< a CNP goes with each NAK
  bool nak_reserved_opcodes = true;
  bool serves_atomics = true;
  bool takes_empty_sends = true;
  std::uint32_t alignment = 1;  ///< of addresses and lengths of READ and WRITE; a power of two
  std::uint64_t max_message = std::uint64_t{1} << 31;  ///< bytes of a READ or WRITE
  std::uint64_t ack_delay_ns = 0;  ///< an ACK waits so long for a newer one, which replaces it
  std::uint64_t nak_delay_ns = 0;

  // Requester.
  std::uint32_t ack_req_every = 64;  ///< packets
  std::uint32_t window = 0;          ///< unacknowledged packets at most; 0: twice ack_req_every
  bool obeys_credits = true;
  bool obeys_unsolicited_credits = true;  ///< else an ACK that only brings credits is not seen
  ReadRetry read_retry = ReadRetry::tail;
  WriteRetry write_retry = WriteRetry::go_back_n;
  std::uint64_t read_retry_delay_ns = 0;  ///< before a READ is asked for again
  roce::RetransmissionSchedule retransmissions{};

  // Congestion.
  std::uint64_t nak_cnp_period_ns = 0;  ///< so long after a NAK a CNP counts for nothing
  roce::CnpConfig cnp{};
  std::optional<std::uint16_t> cnp_source_port{};  ///< nothing: the flow's
  std::uint8_t cnp_ecn = 0;                        ///< the two bits of ECN
  std::optional<std::uint8_t> cnp_ttl{};

  // Packets of no use to the peer.
  std::uint8_t probe_opcode = 0x9f;
  std::uint64_t probe_every_ns = 0;  ///< while there is traffic; 0: none

  /// The name of a knob that is not as usual and that nobody can set whose headers the kernel
  /// writes; empty: there is none.
  [[nodiscard]] std::string_view knob_of_headers() const;
  /// Sets the parts of a node that do this themselves.
  void apply(NodeConfig& config) const;
};

/// Reads "qp", "destination" or "port"; nothing for anything else.
[[nodiscard]] std::optional<roce::CnpScope> parse_cnp_scope(std::string_view text);

/// A knob by its name.
struct PersonalityKnob {
  const char* name;
  const char* values;  ///< what it may be
  const char* text;    ///< what it is, in a line
};

/// All knobs, in the order of the documentation.
[[nodiscard]] std::span<const PersonalityKnob> personality_knobs();

/// Sets the knob `name` from text, as "static:2" or "100us". Fails for one that there is not, and
/// for a value that it cannot have.
[[nodiscard]] Expected<void> set_knob(Personality& personality, std::string_view name,
                                      std::string_view value);

}  // namespace rockhopper
