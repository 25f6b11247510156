// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "roce/wire/mad.h"
#include "roce/wire/psn.h"
#include "roce/wire/qpn.h"

/// Messages of the connection manager, named and laid out as in IBTA vol. 1, 12.6. Fields that
/// RoCE has no use for (LIDs, EE contexts, alternate paths) are sent as zeros or as RNICs fill
/// them, and not looked at.
namespace rockhopper::wire::cm {

inline constexpr std::uint8_t kManagementClass = 0x07;
inline constexpr std::uint8_t kClassVersion = 2;
inline constexpr std::uint8_t kMethodSend = 0x03;
inline constexpr std::size_t kBodyBytes = kMadBytes - MadHeader::kSize;

using Body = std::span<const std::uint8_t, kBodyBytes>;
using MutableBody = std::span<std::uint8_t, kBodyBytes>;
/// A GID in network order; an IPv4 address as an IPv4-mapped one (RFC 4291, section 2.5.5.2).
using Gid = std::array<std::uint8_t, 16>;

enum class Attribute : std::uint16_t {
  req = 0x0010,
  mra = 0x0011,
  rej = 0x0012,
  rep = 0x0013,
  rtu = 0x0014,
  dreq = 0x0015,
  drep = 0x0016,
  sidr_req = 0x0017,
  sidr_rep = 0x0018,
  lap = 0x0019,
  apr = 0x001a,
};
/// "REQ" and so on; "?" for what is none.
[[nodiscard]] std::string_view to_string(Attribute attribute);

/// Why a REJ was sent (IBTA vol. 1, 12.6.7.2).
enum class RejectReason : std::uint16_t {
  no_qp = 1,
  no_eec = 2,
  no_resources = 3,
  timeout = 4,
  unsupported_request = 5,
  invalid_communication_id = 6,
  invalid_communication_instance = 7,
  invalid_service_id = 8,
  invalid_transport_service_type = 9,
  stale_connection = 10,
  rdc_does_not_exist = 11,
  primary_remote_port_gid = 12,
  primary_remote_port_lid = 13,
  invalid_primary_sl = 14,
  invalid_primary_traffic_class = 15,
  invalid_primary_hop_limit = 16,
  invalid_primary_packet_rate = 17,
  alternate_remote_port_gid = 18,
  port_and_cm_redirection = 24,
  port_redirection = 25,
  invalid_path_mtu = 26,
  insufficient_responder_resources = 27,
  consumer = 28,
  rnr_retry_count = 29,
  duplicate_local_communication_id = 30,
  invalid_class_version = 31,
  invalid_primary_flow_label = 32,
};
/// One line for people; "reason without a name" for a value that has none.
[[nodiscard]] std::string_view to_string(RejectReason reason);

/// Status of a SIDR_REP (IBTA vol. 1, 12.11.2.4).
enum class SidrStatus : std::uint8_t {
  valid = 0,
  unsupported_service = 1,
  rejected = 2,
  no_qp = 3,
  redirect = 4,
  unsupported_version = 5,
};
[[nodiscard]] std::string_view to_string(SidrStatus status);

/// Transport service type of a REQ.
enum class TransportService : std::uint8_t { rc = 0, uc = 1, rd = 2, extended = 3 };
/// Extended transport type of a REQ of TransportService::extended: XRC (annex A14).
inline constexpr std::uint8_t kExtendedXrc = 1;

/// A path MTU as REQ codes it: 256 bytes = 1 to 4096 = 5; 0 for what is no path MTU.
[[nodiscard]] std::uint8_t mtu_code(std::uint32_t bytes);
/// The bytes of a code; 0 for what is none.
[[nodiscard]] std::uint32_t mtu_bytes(std::uint8_t code);

/// Request for communication (12.6.5).
struct Req {
  static constexpr Attribute kAttribute = Attribute::req;
  static constexpr std::size_t kPrivateBytes = 92;

  std::uint32_t local_communication_id = 0;
  std::uint64_t service_id = 0;
  std::uint64_t local_ca_guid = 0;
  std::uint32_t local_qkey = 0;
  Qpn local_qpn{};
  std::uint8_t responder_resources = 0;         ///< READs and atomics that the sender serves
  std::uint8_t initiator_depth = 0;             ///< READs and atomics that it wants outstanding
  std::uint8_t remote_cm_response_timeout = 0;  ///< 5 bits: the receiver answers within it
  TransportService transport_service = TransportService::rc;
  bool end_to_end_flow_control = false;
  Psn starting_psn{};                          ///< the receiver's first: the sender expects it
  std::uint8_t local_cm_response_timeout = 0;  ///< 5 bits: the sender answers within it
  std::uint8_t retry_count = 0;                ///< 3 bits
  std::uint16_t pkey = 0;
  std::uint8_t path_mtu_code = 0;  ///< see mtu_bytes()
  bool rdc_exists = false;
  std::uint8_t rnr_retry_count = 0;  ///< 3 bits
  std::uint8_t max_cm_retries = 0;   ///< 4 bits
  bool srq = false;
  std::uint8_t extended_transport = 0;  ///< 3 bits, with TransportService::extended
  Gid primary_local_gid{};              ///< the sender's
  Gid primary_remote_gid{};             ///< the receiver's
  std::uint32_t primary_flow_label = 0;
  std::uint8_t primary_packet_rate = 0;  ///< 6 bits
  std::uint8_t primary_traffic_class = 0;
  std::uint8_t primary_hop_limit = 0;
  std::uint8_t primary_sl = 0;  ///< 4 bits
  bool primary_subnet_local = false;
  std::uint8_t primary_local_ack_timeout = 0;  ///< 5 bits
  std::array<std::uint8_t, kPrivateBytes> private_data{};

  [[nodiscard]] static Req parse(Body body);
  void emit(MutableBody body) const;
  friend bool operator==(const Req&, const Req&) = default;
};

/// Which message a MRA or REJ is about.
enum class AboutMessage : std::uint8_t { req = 0, rep = 1, other = 2 };

/// Message receipt acknowledgement (12.6.6): the answer takes longer.
struct Mra {
  static constexpr Attribute kAttribute = Attribute::mra;
  static constexpr std::size_t kPrivateBytes = 222;

  std::uint32_t local_communication_id = 0;
  std::uint32_t remote_communication_id = 0;
  AboutMessage about = AboutMessage::req;  ///< other: a LAP
  std::uint8_t service_timeout = 0;        ///< 5 bits
  std::array<std::uint8_t, kPrivateBytes> private_data{};

  [[nodiscard]] static Mra parse(Body body);
  void emit(MutableBody body) const;
  friend bool operator==(const Mra&, const Mra&) = default;
};

/// Reject (12.6.7).
struct Rej {
  static constexpr Attribute kAttribute = Attribute::rej;
  static constexpr std::size_t kInfoBytes = 72;
  static constexpr std::size_t kPrivateBytes = 148;

  std::uint32_t local_communication_id = 0;
  std::uint32_t remote_communication_id = 0;
  AboutMessage about = AboutMessage::req;  ///< other: no message, a timeout
  std::uint8_t info_length = 0;            ///< 7 bits: of `info`
  RejectReason reason{};
  std::array<std::uint8_t, kInfoBytes> info{};  ///< additional reject information
  std::array<std::uint8_t, kPrivateBytes> private_data{};

  [[nodiscard]] static Rej parse(Body body);
  void emit(MutableBody body) const;
  friend bool operator==(const Rej&, const Rej&) = default;
};

/// Reply to a request for communication (12.6.8).
struct Rep {
  static constexpr Attribute kAttribute = Attribute::rep;
  static constexpr std::size_t kPrivateBytes = 196;

  std::uint32_t local_communication_id = 0;
  std::uint32_t remote_communication_id = 0;
  std::uint32_t local_qkey = 0;
  Qpn local_qpn{};
  Qpn local_eecn{};    ///< in its place: of the target of an extended reliable connection
  Psn starting_psn{};  ///< the receiver's first: the sender expects it
  std::uint8_t responder_resources = 0;
  std::uint8_t initiator_depth = 0;
  std::uint8_t target_ack_delay = 0;   ///< 5 bits: 4.096 us * 2^n
  std::uint8_t failover_accepted = 0;  ///< 2 bits; 1: not supported
  bool end_to_end_flow_control = false;
  std::uint8_t rnr_retry_count = 0;  ///< 3 bits
  bool srq = false;
  std::uint64_t local_ca_guid = 0;
  std::array<std::uint8_t, kPrivateBytes> private_data{};

  [[nodiscard]] static Rep parse(Body body);
  void emit(MutableBody body) const;
  friend bool operator==(const Rep&, const Rep&) = default;
};

/// Ready to use (12.6.9).
struct Rtu {
  static constexpr Attribute kAttribute = Attribute::rtu;
  static constexpr std::size_t kPrivateBytes = 224;

  std::uint32_t local_communication_id = 0;
  std::uint32_t remote_communication_id = 0;
  std::array<std::uint8_t, kPrivateBytes> private_data{};

  [[nodiscard]] static Rtu parse(Body body);
  void emit(MutableBody body) const;
  friend bool operator==(const Rtu&, const Rtu&) = default;
};

/// Request for communication release (12.6.10).
struct Dreq {
  static constexpr Attribute kAttribute = Attribute::dreq;
  static constexpr std::size_t kPrivateBytes = 220;

  std::uint32_t local_communication_id = 0;
  std::uint32_t remote_communication_id = 0;
  Qpn remote_qpn{};  ///< the receiver's
  std::array<std::uint8_t, kPrivateBytes> private_data{};

  [[nodiscard]] static Dreq parse(Body body);
  void emit(MutableBody body) const;
  friend bool operator==(const Dreq&, const Dreq&) = default;
};

/// Reply to a request for communication release (12.6.11).
struct Drep {
  static constexpr Attribute kAttribute = Attribute::drep;
  static constexpr std::size_t kPrivateBytes = 224;

  std::uint32_t local_communication_id = 0;
  std::uint32_t remote_communication_id = 0;
  std::array<std::uint8_t, kPrivateBytes> private_data{};

  [[nodiscard]] static Drep parse(Body body);
  void emit(MutableBody body) const;
  friend bool operator==(const Drep&, const Drep&) = default;
};

/// Service ID resolution request (12.11.2.3): which queue pair serves datagrams?
struct SidrReq {
  static constexpr Attribute kAttribute = Attribute::sidr_req;
  static constexpr std::size_t kPrivateBytes = 216;

  std::uint32_t request_id = 0;
  std::uint16_t pkey = 0;
  std::uint64_t service_id = 0;
  std::array<std::uint8_t, kPrivateBytes> private_data{};

  [[nodiscard]] static SidrReq parse(Body body);
  void emit(MutableBody body) const;
  friend bool operator==(const SidrReq&, const SidrReq&) = default;
};

/// Service ID resolution response (12.11.2.4).
struct SidrRep {
  static constexpr Attribute kAttribute = Attribute::sidr_rep;
  static constexpr std::size_t kInfoBytes = 72;
  static constexpr std::size_t kPrivateBytes = 136;

  std::uint32_t request_id = 0;
  SidrStatus status = SidrStatus::valid;
  std::uint8_t info_length = 0;
  Qpn qpn{};
  std::uint64_t service_id = 0;
  std::uint32_t qkey = 0;
  std::array<std::uint8_t, kInfoBytes> info{};
  std::array<std::uint8_t, kPrivateBytes> private_data{};

  [[nodiscard]] static SidrRep parse(Body body);
  void emit(MutableBody body) const;
  friend bool operator==(const SidrRep&, const SidrRep&) = default;
};

}  // namespace rockhopper::wire::cm
