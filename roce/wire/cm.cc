// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "roce/wire/cm.h"

#include <algorithm>

#include "roce/wire/bytes.h"

namespace rockhopper::wire::cm {
namespace {

/// What InfiniBand calls the permissive LID: on Ethernet there are none.
constexpr std::uint16_t kNoLid = 0xffff;

/// `width` bits of `byte`, of which `shift` are below them.
constexpr std::uint8_t field(std::uint8_t byte, unsigned shift, unsigned width) {
  return static_cast<std::uint8_t>((byte >> shift) & ((1u << width) - 1));
}
constexpr std::uint8_t place(unsigned value, unsigned shift, unsigned width) {
  return static_cast<std::uint8_t>((value & ((1u << width) - 1)) << shift);
}

template <std::size_t N>
void load(std::array<std::uint8_t, N>& to, Body body, std::size_t offset) {
  std::copy_n(body.begin() + static_cast<std::ptrdiff_t>(offset), N, to.begin());
}
template <std::size_t N>
void store(MutableBody body, std::size_t offset, const std::array<std::uint8_t, N>& from) {
  std::copy_n(from.begin(), N, body.begin() + static_cast<std::ptrdiff_t>(offset));
}
void clear(MutableBody body) { std::fill(body.begin(), body.end(), std::uint8_t{0}); }

/// RTU and DREP are but two numbers.
template <typename Message>
Message parse_ids(Body body) {
  Message message;
  message.local_communication_id = load_be32(&body[0]);
  message.remote_communication_id = load_be32(&body[4]);
  load(message.private_data, body, 8);
  return message;
}
template <typename Message>
void emit_ids(const Message& message, MutableBody body) {
  store_be32(&body[0], message.local_communication_id);
  store_be32(&body[4], message.remote_communication_id);
  store(body, 8, message.private_data);
}

}  // namespace

std::uint8_t mtu_code(std::uint32_t bytes) {
  for (std::uint8_t code = 1; code <= 5; ++code) {
    if (mtu_bytes(code) == bytes) return code;
  }
  return 0;
}

std::uint32_t mtu_bytes(std::uint8_t code) { return code >= 1 && code <= 5 ? 128u << code : 0; }

Req Req::parse(Body body) {
  Req req;
  req.local_communication_id = load_be32(&body[0]);
  req.service_id = load_be64(&body[8]);
  req.local_ca_guid = load_be64(&body[16]);
  req.local_qkey = load_be32(&body[28]);
  req.local_qpn = Qpn{load_be24(&body[32])};
  req.responder_resources = body[35];
  req.initiator_depth = body[39];
  req.remote_cm_response_timeout = field(body[43], 3, 5);
  req.transport_service = static_cast<TransportService>(field(body[43], 1, 2));
  req.end_to_end_flow_control = field(body[43], 0, 1) != 0;
  req.starting_psn = Psn::make(load_be24(&body[44]));
  req.local_cm_response_timeout = field(body[47], 3, 5);
  req.retry_count = field(body[47], 0, 3);
  req.pkey = load_be16(&body[48]);
  req.path_mtu_code = field(body[50], 4, 4);
  req.rdc_exists = field(body[50], 3, 1) != 0;
  req.rnr_retry_count = field(body[50], 0, 3);
  req.max_cm_retries = field(body[51], 4, 4);
  req.srq = field(body[51], 3, 1) != 0;
  req.extended_transport = field(body[51], 0, 3);
  load(req.primary_local_gid, body, 56);
  load(req.primary_remote_gid, body, 72);
  req.primary_flow_label = load_be32(&body[88]) >> 12;
  req.primary_packet_rate = field(body[91], 0, 6);
  req.primary_traffic_class = body[92];
  req.primary_hop_limit = body[93];
  req.primary_sl = field(body[94], 4, 4);
  req.primary_subnet_local = field(body[94], 3, 1) != 0;
  req.primary_local_ack_timeout = field(body[95], 3, 5);
  load(req.private_data, body, 140);
  return req;
}

void Req::emit(MutableBody body) const {
  clear(body);
  store_be32(&body[0], local_communication_id);
  store_be64(&body[8], service_id);
  store_be64(&body[16], local_ca_guid);
  store_be32(&body[28], local_qkey);
  store_be24(&body[32], local_qpn.value);
  body[35] = responder_resources;
  body[39] = initiator_depth;
  body[43] = static_cast<std::uint8_t>(place(remote_cm_response_timeout, 3, 5) |
                                       place(static_cast<unsigned>(transport_service), 1, 2) |
                                       place(end_to_end_flow_control ? 1 : 0, 0, 1));
  store_be24(&body[44], starting_psn.value);
  body[47] =
      static_cast<std::uint8_t>(place(local_cm_response_timeout, 3, 5) | place(retry_count, 0, 3));
  store_be16(&body[48], pkey);
  body[50] = static_cast<std::uint8_t>(
      place(path_mtu_code, 4, 4) | place(rdc_exists ? 1 : 0, 3, 1) | place(rnr_retry_count, 0, 3));
  body[51] = static_cast<std::uint8_t>(place(max_cm_retries, 4, 4) | place(srq ? 1 : 0, 3, 1) |
                                       place(extended_transport, 0, 3));
  store_be16(&body[52], kNoLid);
  store_be16(&body[54], kNoLid);
  store(body, 56, primary_local_gid);
  store(body, 72, primary_remote_gid);
  store_be32(&body[88], primary_flow_label << 12 | place(primary_packet_rate, 0, 6));
  body[92] = primary_traffic_class;
  body[93] = primary_hop_limit;
  body[94] = static_cast<std::uint8_t>(place(primary_sl, 4, 4) |
                                       place(primary_subnet_local ? 1 : 0, 3, 1));
  body[95] = place(primary_local_ack_timeout, 3, 5);
  store(body, 140, private_data);
}

Mra Mra::parse(Body body) {
  Mra mra;
  mra.local_communication_id = load_be32(&body[0]);
  mra.remote_communication_id = load_be32(&body[4]);
  mra.about = static_cast<AboutMessage>(field(body[8], 6, 2));
  mra.service_timeout = field(body[9], 3, 5);
  load(mra.private_data, body, 10);
  return mra;
}

void Mra::emit(MutableBody body) const {
  clear(body);
  store_be32(&body[0], local_communication_id);
  store_be32(&body[4], remote_communication_id);
  body[8] = place(static_cast<unsigned>(about), 6, 2);
  body[9] = place(service_timeout, 3, 5);
  store(body, 10, private_data);
}

Rej Rej::parse(Body body) {
  Rej rej;
  rej.local_communication_id = load_be32(&body[0]);
  rej.remote_communication_id = load_be32(&body[4]);
  rej.about = static_cast<AboutMessage>(field(body[8], 6, 2));
  rej.info_length = field(body[9], 1, 7);
  rej.reason = static_cast<RejectReason>(load_be16(&body[10]));
  load(rej.info, body, 12);
  load(rej.private_data, body, 84);
  return rej;
}

void Rej::emit(MutableBody body) const {
  clear(body);
  store_be32(&body[0], local_communication_id);
  store_be32(&body[4], remote_communication_id);
  body[8] = place(static_cast<unsigned>(about), 6, 2);
  body[9] = place(info_length, 1, 7);
  store_be16(&body[10], static_cast<std::uint16_t>(reason));
  store(body, 12, info);
  store(body, 84, private_data);
}

Rep Rep::parse(Body body) {
  Rep rep;
  rep.local_communication_id = load_be32(&body[0]);
  rep.remote_communication_id = load_be32(&body[4]);
  rep.local_qkey = load_be32(&body[8]);
  rep.local_qpn = Qpn{load_be24(&body[12])};
  rep.local_eecn = Qpn{load_be24(&body[16])};
  rep.starting_psn = Psn::make(load_be24(&body[20]));
  rep.responder_resources = body[24];
  rep.initiator_depth = body[25];
  rep.target_ack_delay = field(body[26], 3, 5);
  rep.failover_accepted = field(body[26], 1, 2);
  rep.end_to_end_flow_control = field(body[26], 0, 1) != 0;
  rep.rnr_retry_count = field(body[27], 5, 3);
  rep.srq = field(body[27], 4, 1) != 0;
  rep.local_ca_guid = load_be64(&body[28]);
  load(rep.private_data, body, 36);
  return rep;
}

void Rep::emit(MutableBody body) const {
  clear(body);
  store_be32(&body[0], local_communication_id);
  store_be32(&body[4], remote_communication_id);
  store_be32(&body[8], local_qkey);
  store_be24(&body[12], local_qpn.value);
  store_be24(&body[16], local_eecn.value);
  store_be24(&body[20], starting_psn.value);
  body[24] = responder_resources;
  body[25] = initiator_depth;
  body[26] =
      static_cast<std::uint8_t>(place(target_ack_delay, 3, 5) | place(failover_accepted, 1, 2) |
                                place(end_to_end_flow_control ? 1 : 0, 0, 1));
  body[27] = static_cast<std::uint8_t>(place(rnr_retry_count, 5, 3) | place(srq ? 1 : 0, 4, 1));
  store_be64(&body[28], local_ca_guid);
  store(body, 36, private_data);
}

Rtu Rtu::parse(Body body) { return parse_ids<Rtu>(body); }
void Rtu::emit(MutableBody body) const { emit_ids(*this, body); }

Dreq Dreq::parse(Body body) {
  Dreq dreq;
  dreq.local_communication_id = load_be32(&body[0]);
  dreq.remote_communication_id = load_be32(&body[4]);
  dreq.remote_qpn = Qpn{load_be24(&body[8])};
  load(dreq.private_data, body, 12);
  return dreq;
}

void Dreq::emit(MutableBody body) const {
  clear(body);
  store_be32(&body[0], local_communication_id);
  store_be32(&body[4], remote_communication_id);
  store_be24(&body[8], remote_qpn.value);
  store(body, 12, private_data);
}

Drep Drep::parse(Body body) { return parse_ids<Drep>(body); }
void Drep::emit(MutableBody body) const { emit_ids(*this, body); }

SidrReq SidrReq::parse(Body body) {
  SidrReq req;
  req.request_id = load_be32(&body[0]);
  req.pkey = load_be16(&body[4]);
  req.service_id = load_be64(&body[8]);
  load(req.private_data, body, 16);
  return req;
}

void SidrReq::emit(MutableBody body) const {
  clear(body);
  store_be32(&body[0], request_id);
  store_be16(&body[4], pkey);
  store_be64(&body[8], service_id);
  store(body, 16, private_data);
}

SidrRep SidrRep::parse(Body body) {
  SidrRep rep;
  rep.request_id = load_be32(&body[0]);
  rep.status = static_cast<SidrStatus>(body[4]);
  rep.info_length = body[5];
  rep.qpn = Qpn{load_be24(&body[8])};
  rep.service_id = load_be64(&body[12]);
  rep.qkey = load_be32(&body[20]);
  load(rep.info, body, 24);
  load(rep.private_data, body, 96);
  return rep;
}

void SidrRep::emit(MutableBody body) const {
  clear(body);
  store_be32(&body[0], request_id);
  body[4] = static_cast<std::uint8_t>(status);
  body[5] = info_length;
  store_be24(&body[8], qpn.value);
  store_be64(&body[12], service_id);
  store_be32(&body[20], qkey);
  store(body, 24, info);
  store(body, 96, private_data);
}

std::string_view to_string(Attribute attribute) {
  switch (attribute) {
    case Attribute::req:
      return "REQ";
    case Attribute::mra:
      return "MRA";
    case Attribute::rej:
      return "REJ";
    case Attribute::rep:
      return "REP";
    case Attribute::rtu:
      return "RTU";
    case Attribute::dreq:
      return "DREQ";
    case Attribute::drep:
      return "DREP";
    case Attribute::sidr_req:
      return "SIDR_REQ";
    case Attribute::sidr_rep:
      return "SIDR_REP";
    case Attribute::lap:
      return "LAP";
    case Attribute::apr:
      return "APR";
  }
  return "?";
}

std::string_view to_string(RejectReason reason) {
  switch (reason) {
    case RejectReason::no_qp:
      return "no queue pair is available";
    case RejectReason::no_eec:
      return "no EE context is available";
    case RejectReason::no_resources:
      return "no resources are available";
    case RejectReason::timeout:
      return "timeout";
    case RejectReason::unsupported_request:
      return "unsupported request";
    case RejectReason::invalid_communication_id:
      return "invalid communication ID";
    case RejectReason::invalid_communication_instance:
      return "invalid communication instance";
    case RejectReason::invalid_service_id:
      return "nobody listens on that service ID";
    case RejectReason::invalid_transport_service_type:
      return "invalid transport service type";
    case RejectReason::stale_connection:
      return "stale connection";
    case RejectReason::rdc_does_not_exist:
      return "the RD channel does not exist";
    case RejectReason::primary_remote_port_gid:
      return "primary remote port GID rejected";
    case RejectReason::primary_remote_port_lid:
      return "primary remote port LID rejected";
    case RejectReason::invalid_primary_sl:
      return "invalid service level";
    case RejectReason::invalid_primary_traffic_class:
      return "invalid traffic class";
    case RejectReason::invalid_primary_hop_limit:
      return "invalid hop limit";
    case RejectReason::invalid_primary_packet_rate:
      return "invalid packet rate";
    case RejectReason::alternate_remote_port_gid:
      return "alternate remote port GID rejected";
    case RejectReason::port_and_cm_redirection:
      return "port and CM redirection";
    case RejectReason::port_redirection:
      return "port redirection";
    case RejectReason::invalid_path_mtu:
      return "invalid path MTU";
    case RejectReason::insufficient_responder_resources:
      return "insufficient responder resources";
    case RejectReason::consumer:
      return "the application rejected it";
    case RejectReason::rnr_retry_count:
      return "RNR retry count rejected";
    case RejectReason::duplicate_local_communication_id:
      return "duplicate local communication ID";
    case RejectReason::invalid_class_version:
      return "invalid class version";
    case RejectReason::invalid_primary_flow_label:
      return "invalid flow label";
  }
  return "reason without a name";
}

std::string_view to_string(SidrStatus status) {
  switch (status) {
    case SidrStatus::valid:
      return "valid";
    case SidrStatus::unsupported_service:
      return "nobody listens on that service ID";
    case SidrStatus::rejected:
      return "the application rejected it";
    case SidrStatus::no_qp:
      return "no queue pair is available";
    case SidrStatus::redirect:
      return "redirection";
    case SidrStatus::unsupported_version:
      return "unsupported version";
  }
  return "status without a name";
}

}  // namespace rockhopper::wire::cm
