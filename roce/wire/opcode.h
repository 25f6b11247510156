// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "roce/wire/qpn.h"

namespace rockhopper::wire {

/// BTH opcodes: three bits of service, five of operation (IBTA vol. 1 release 1.7, 9.2.1,
/// annexes A14 (XRC), A17 (RoCEv2, CNP) and A19 (FLUSH, ATOMIC WRITE)).
enum class Opcode : std::uint8_t {
  rc_send_first = 0x00,
  rc_send_middle = 0x01,
  rc_send_last = 0x02,
  rc_send_last_with_immediate = 0x03,
  rc_send_only = 0x04,
  rc_send_only_with_immediate = 0x05,
  rc_rdma_write_first = 0x06,
  rc_rdma_write_middle = 0x07,
  rc_rdma_write_last = 0x08,
  rc_rdma_write_last_with_immediate = 0x09,
  rc_rdma_write_only = 0x0a,
  rc_rdma_write_only_with_immediate = 0x0b,
  rc_rdma_read_request = 0x0c,
  rc_rdma_read_response_first = 0x0d,
  rc_rdma_read_response_middle = 0x0e,
  rc_rdma_read_response_last = 0x0f,
  rc_rdma_read_response_only = 0x10,
  rc_acknowledge = 0x11,
  rc_atomic_acknowledge = 0x12,
  rc_compare_swap = 0x13,
  rc_fetch_add = 0x14,
  rc_send_last_with_invalidate = 0x16,
  rc_send_only_with_invalidate = 0x17,
  rc_flush = 0x1c,
  rc_atomic_write = 0x1d,

  uc_send_first = 0x20,
  uc_send_middle = 0x21,
  uc_send_last = 0x22,
  uc_send_last_with_immediate = 0x23,
  uc_send_only = 0x24,
  uc_send_only_with_immediate = 0x25,
  uc_rdma_write_first = 0x26,
  uc_rdma_write_middle = 0x27,
  uc_rdma_write_last = 0x28,
  uc_rdma_write_last_with_immediate = 0x29,
  uc_rdma_write_only = 0x2a,
  uc_rdma_write_only_with_immediate = 0x2b,

  rd_send_first = 0x40,
  rd_send_middle = 0x41,
  rd_send_last = 0x42,
  rd_send_last_with_immediate = 0x43,
  rd_send_only = 0x44,
  rd_send_only_with_immediate = 0x45,
  rd_rdma_write_first = 0x46,
  rd_rdma_write_middle = 0x47,
  rd_rdma_write_last = 0x48,
  rd_rdma_write_last_with_immediate = 0x49,
  rd_rdma_write_only = 0x4a,
  rd_rdma_write_only_with_immediate = 0x4b,
  rd_rdma_read_request = 0x4c,
  rd_rdma_read_response_first = 0x4d,
  rd_rdma_read_response_middle = 0x4e,
  rd_rdma_read_response_last = 0x4f,
  rd_rdma_read_response_only = 0x50,
  rd_acknowledge = 0x51,
  rd_atomic_acknowledge = 0x52,
  rd_compare_swap = 0x53,
  rd_fetch_add = 0x54,
  rd_resync = 0x55,
  rd_flush = 0x5c,

  ud_send_only = 0x64,
  ud_send_only_with_immediate = 0x65,

  cnp = 0x81,

  xrc_send_first = 0xa0,
  xrc_send_middle = 0xa1,
  xrc_send_last = 0xa2,
  xrc_send_last_with_immediate = 0xa3,
  xrc_send_only = 0xa4,
  xrc_send_only_with_immediate = 0xa5,
  xrc_rdma_write_first = 0xa6,
  xrc_rdma_write_middle = 0xa7,
  xrc_rdma_write_last = 0xa8,
  xrc_rdma_write_last_with_immediate = 0xa9,
  xrc_rdma_write_only = 0xaa,
  xrc_rdma_write_only_with_immediate = 0xab,
  xrc_rdma_read_request = 0xac,
  xrc_rdma_read_response_first = 0xad,
  xrc_rdma_read_response_middle = 0xae,
  xrc_rdma_read_response_last = 0xaf,
  xrc_rdma_read_response_only = 0xb0,
  xrc_acknowledge = 0xb1,
  xrc_atomic_acknowledge = 0xb2,
  xrc_compare_swap = 0xb3,
  xrc_fetch_add = 0xb4,
  xrc_send_last_with_invalidate = 0xb6,
  xrc_send_only_with_invalidate = 0xb7,
  xrc_flush = 0xbc,
  xrc_atomic_write = 0xbd,

  // Dynamic connections: ours (docs/wire.md).
  dc_send_first = 0xc0,
  dc_send_middle = 0xc1,
  dc_send_last = 0xc2,
  dc_send_last_with_immediate = 0xc3,
  dc_send_only = 0xc4,
  dc_send_only_with_immediate = 0xc5,
  dc_rdma_write_first = 0xc6,
  dc_rdma_write_middle = 0xc7,
  dc_rdma_write_last = 0xc8,
  dc_rdma_write_last_with_immediate = 0xc9,
  dc_rdma_write_only = 0xca,
  dc_rdma_write_only_with_immediate = 0xcb,
  dc_rdma_read_request = 0xcc,
  dc_rdma_read_response_first = 0xcd,
  dc_rdma_read_response_middle = 0xce,
  dc_rdma_read_response_last = 0xcf,
  dc_rdma_read_response_only = 0xd0,
  dc_acknowledge = 0xd1,
  dc_atomic_acknowledge = 0xd2,
  dc_compare_swap = 0xd3,
  dc_fetch_add = 0xd4,
  dc_send_last_with_invalidate = 0xd6,
  dc_send_only_with_invalidate = 0xd7,
  dc_flush = 0xdc,
  dc_atomic_write = 0xdd,

  selective_acknowledge = 0xd5,  ///< ours (docs/wire.md)
  dc_control = 0xd8,             ///< ours (docs/wire.md)
  lock_request = 0xd9,           ///< ours (docs/wire.md); see info_to()
  lock_response = 0xda,          ///< likewise
  extended_atomic = 0xdb,        ///< ours (docs/wire.md)
  dc_connect_data = 0xde,        ///< ours (docs/wire.md); see connect_data_info()
};

/// Bits 7 to 5 of the opcode.
enum class ServiceClass : std::uint8_t {
  rc = 0,
  uc = 1,
  rd = 2,
  ud = 3,
  cnp = 4,
  xrc = 5,
  manufacturer_6 = 6,  ///< 0xc0 to 0xdf, open to manufacturers: ours, dynamic connections mostly
  manufacturer_7 = 7,  ///< 0xe0 to 0xff, open to manufacturers
};

/// Where a packet stands in its message.
enum class Position : std::uint8_t { first, middle, last, only };

enum class Operation : std::uint8_t {
  send,
  rdma_write,
  rdma_read_request,
  rdma_read_response,
  acknowledge,
  atomic_acknowledge,
  compare_swap,
  fetch_add,
  resync,
  flush,
  atomic_write,
  cnp,
  extended_atomic,
  reserved,  ///< see reserved_request()
  selective_acknowledge,
  dc_control,
  dc_connect_data,  ///< of the opcode alone; its packet has the operation that it carries
  lock_request,
  lock_response,
};

[[nodiscard]] constexpr bool is_lock(Operation operation) {
  return operation == Operation::lock_request || operation == Operation::lock_response;
}

using HeaderSet = std::uint32_t;

/// Bits of OpcodeInfo::headers, in the order in which the headers follow the BTH.
struct Header {
  static constexpr HeaderSet dcch = 1 << 0;
  static constexpr HeaderSet dcsh = 1 << 1;
  static constexpr HeaderSet rdeth = 1 << 2;
  static constexpr HeaderSet deth = 1 << 3;
  static constexpr HeaderSet xrceth = 1 << 4;
  static constexpr HeaderSet feth = 1 << 5;
  static constexpr HeaderSet reth = 1 << 6;
  static constexpr HeaderSet atomic_eth = 1 << 7;
  static constexpr HeaderSet aeth = 1 << 8;
  static constexpr HeaderSet atomic_ack_eth = 1 << 9;
  static constexpr HeaderSet imm_dt = 1 << 10;
  static constexpr HeaderSet ieth = 1 << 11;
  static constexpr HeaderSet cnp_reserved = 1 << 12;
  static constexpr HeaderSet xaeth = 1 << 13;
  static constexpr HeaderSet saeth = 1 << 14;
  static constexpr HeaderSet lketh = 1 << 15;
  static constexpr HeaderSet lkaeth = 1 << 16;
};

/// What an opcode says about its packet. For an undefined opcode only `service` has a meaning.
struct OpcodeInfo {
  const char* name = "UNDEFINED";  ///< "RC_SEND_FIRST"; static storage
  bool defined = false;
  ServiceClass service = ServiceClass::rc;
  HeaderSet headers = 0;          ///< set of Header bits: the extension headers, BTH not counted
  std::uint8_t header_bytes = 0;  ///< bytes of all these extension headers together
  Position position = Position::only;
  Operation operation = Operation::send;
  bool is_request = false;  ///< travels from requester to responder
  bool has_payload = false;
  bool has_immediate = false;
  bool has_invalidate = false;

  [[nodiscard]] constexpr bool has(HeaderSet header) const { return (headers & header) != 0; }
  /// Returns whether it is an opcode of a dynamic connection.
  [[nodiscard]] constexpr bool is_dc() const { return has(Header::dcsh | Header::dcch); }
  /// The packet opens a message.
  [[nodiscard]] constexpr bool starts() const {
    return position == Position::first || position == Position::only;
  }
  /// The packet closes a message.
  [[nodiscard]] constexpr bool ends() const {
    return position == Position::last || position == Position::only;
  }
};

namespace detail {

/// One operation, as RC has it; the other services add headers of their own.
struct OperationRow {
  std::uint8_t code;  ///< the low five bits of the opcode
  const char* name;
  Position position;
  Operation operation;
  HeaderSet headers;
  bool is_request;
  bool has_payload;
};

inline constexpr std::array kOperations = {
    OperationRow{0x00, "SEND_FIRST", Position::first, Operation::send, 0, true, true},
    OperationRow{0x01, "SEND_MIDDLE", Position::middle, Operation::send, 0, true, true},
    OperationRow{0x02, "SEND_LAST", Position::last, Operation::send, 0, true, true},
    OperationRow{0x03, "SEND_LAST_WITH_IMMEDIATE", Position::last, Operation::send, Header::imm_dt,
                 true, true},
    OperationRow{0x04, "SEND_ONLY", Position::only, Operation::send, 0, true, true},
    OperationRow{0x05, "SEND_ONLY_WITH_IMMEDIATE", Position::only, Operation::send, Header::imm_dt,
                 true, true},
    OperationRow{0x06, "RDMA_WRITE_FIRST", Position::first, Operation::rdma_write, Header::reth,
                 true, true},
    OperationRow{0x07, "RDMA_WRITE_MIDDLE", Position::middle, Operation::rdma_write, 0, true, true},
    OperationRow{0x08, "RDMA_WRITE_LAST", Position::last, Operation::rdma_write, 0, true, true},
    OperationRow{0x09, "RDMA_WRITE_LAST_WITH_IMMEDIATE", Position::last, Operation::rdma_write,
                 Header::imm_dt, true, true},
    OperationRow{0x0a, "RDMA_WRITE_ONLY", Position::only, Operation::rdma_write, Header::reth, true,
                 true},
    OperationRow{0x0b, "RDMA_WRITE_ONLY_WITH_IMMEDIATE", Position::only, Operation::rdma_write,
                 Header::reth | Header::imm_dt, true, true},
    OperationRow{0x0c, "RDMA_READ_REQUEST", Position::only, Operation::rdma_read_request,
                 Header::reth, true, false},
    OperationRow{0x0d, "RDMA_READ_RESPONSE_FIRST", Position::first, Operation::rdma_read_response,
                 Header::aeth, false, true},
    OperationRow{0x0e, "RDMA_READ_RESPONSE_MIDDLE", Position::middle, Operation::rdma_read_response,
                 0, false, true},
    OperationRow{0x0f, "RDMA_READ_RESPONSE_LAST", Position::last, Operation::rdma_read_response,
                 Header::aeth, false, true},
    OperationRow{0x10, "RDMA_READ_RESPONSE_ONLY", Position::only, Operation::rdma_read_response,
                 Header::aeth, false, true},
    OperationRow{0x11, "ACKNOWLEDGE", Position::only, Operation::acknowledge, Header::aeth, false,
                 false},
    OperationRow{0x12, "ATOMIC_ACKNOWLEDGE", Position::only, Operation::atomic_acknowledge,
                 Header::aeth | Header::atomic_ack_eth, false, false},
    OperationRow{0x13, "COMPARE_SWAP", Position::only, Operation::compare_swap, Header::atomic_eth,
                 true, false},
    OperationRow{0x14, "FETCH_ADD", Position::only, Operation::fetch_add, Header::atomic_eth, true,
                 false},
    OperationRow{0x15, "RESYNC", Position::only, Operation::resync, 0, true, false},
    OperationRow{0x16, "SEND_LAST_WITH_INVALIDATE", Position::last, Operation::send, Header::ieth,
                 true, true},
    OperationRow{0x17, "SEND_ONLY_WITH_INVALIDATE", Position::only, Operation::send, Header::ieth,
                 true, true},
    OperationRow{0x1c, "FLUSH", Position::only, Operation::flush, Header::feth | Header::reth, true,
                 false},
    OperationRow{0x1d, "ATOMIC_WRITE", Position::only, Operation::atomic_write, Header::reth, true,
                 true},
};

/// One service: which of the operations it has, and what it adds to their headers.
struct ServiceRow {
  ServiceClass service;
  const char* prefix;
  std::uint32_t operations;  ///< bit n: the operation with code n is defined
  HeaderSet request_headers;
  HeaderSet response_headers;
};

inline constexpr std::array kServices = {
    // All but 0x15.
    ServiceRow{ServiceClass::rc, "RC_", 0x30dfffff, 0, 0},
    // Sends and writes.
    ServiceRow{ServiceClass::uc, "UC_", 0x00000fff, 0, 0},
    // No invalidate, no atomic write; RESYNC in addition.
    ServiceRow{ServiceClass::rd, "RD_", 0x103fffff, Header::rdeth | Header::deth, Header::rdeth},
    // Single-packet sends.
    ServiceRow{ServiceClass::ud, "UD_", 0x00000030, Header::deth, 0},
    // As RC.
    ServiceRow{ServiceClass::xrc, "XRC_", 0x30dfffff, Header::xrceth, 0},
    // As RC: dynamic connections.
    ServiceRow{ServiceClass::manufacturer_6, "DC_", 0x30dfffff, Header::dcsh, Header::dcsh},
};

[[nodiscard]] constexpr std::uint8_t header_bytes(HeaderSet headers) {
  constexpr std::array<std::uint8_t, 17> kBytes = {48, 12, 4, 8,  4,  4,  16, 28, 4,
                                                   8,  4,  4, 16, 48, 32, 40, 24};
  std::uint8_t sum = 0;
  for (std::size_t bit = 0; bit < kBytes.size(); ++bit) {
    sum = static_cast<std::uint8_t>(sum + ((headers >> bit & 1) != 0 ? kBytes[bit] : 0));
  }
  return sum;
}

using OpcodeNames = std::array<std::array<char, 40>, 256>;

[[nodiscard]] constexpr OpcodeNames make_opcode_names() {
  OpcodeNames names{};
  for (const ServiceRow& service : kServices) {
    for (const OperationRow& operation : kOperations) {
      auto& name = names[static_cast<std::size_t>(service.service) << 5 | operation.code];
      std::size_t length = 0;
      for (const char* p = service.prefix; *p != 0; ++p) {
        name[length++] = *p;
      }
      for (const char* p = operation.name; *p != 0; ++p) {
        name[length++] = *p;
      }
    }
  }
  return names;
}

inline constexpr OpcodeNames kOpcodeNames = make_opcode_names();

[[nodiscard]] constexpr OpcodeInfo make_info(const ServiceRow& service, const OperationRow& op) {
  const HeaderSet headers =
      op.headers | (op.is_request ? service.request_headers : service.response_headers);
  return OpcodeInfo{
      .name = kOpcodeNames[static_cast<std::size_t>(service.service) << 5 | op.code].data(),
      .defined = true,
      .service = service.service,
      .headers = headers,
      .header_bytes = header_bytes(headers),
      .position = op.position,
      .operation = op.operation,
      .is_request = op.is_request,
      .has_payload = op.has_payload,
      .has_immediate = (headers & Header::imm_dt) != 0,
      .has_invalidate = (headers & Header::ieth) != 0};
}

[[nodiscard]] constexpr std::array<OpcodeInfo, 256> make_opcode_table() {
  std::array<OpcodeInfo, 256> table{};
  for (std::size_t opcode = 0; opcode < table.size(); ++opcode) {
    table[opcode].service = static_cast<ServiceClass>(opcode >> 5);
  }
  for (const ServiceRow& service : kServices) {
    for (const OperationRow& operation : kOperations) {
      if ((service.operations >> operation.code & 1) != 0) {
        table[static_cast<std::size_t>(service.service) << 5 | operation.code] =
            make_info(service, operation);
      }
    }
  }
  table[static_cast<std::size_t>(Opcode::cnp)] =
      OpcodeInfo{.name = "CNP",
                 .defined = true,
                 .service = ServiceClass::cnp,
                 .headers = Header::cnp_reserved,
                 .header_bytes = header_bytes(Header::cnp_reserved),
                 .operation = Operation::cnp};
  table[static_cast<std::size_t>(Opcode::extended_atomic)] =
      OpcodeInfo{.name = "EXTENDED_ATOMIC",
                 .defined = true,
                 .service = ServiceClass::manufacturer_6,
                 .headers = Header::xaeth,
                 .header_bytes = header_bytes(Header::xaeth),
                 .operation = Operation::extended_atomic,
                 .is_request = true};
  table[static_cast<std::size_t>(Opcode::lock_request)] =
      OpcodeInfo{.name = "LOCK_REQUEST",
                 .defined = true,
                 .service = ServiceClass::manufacturer_6,
                 .headers = Header::lketh,
                 .header_bytes = header_bytes(Header::lketh),
                 .operation = Operation::lock_request,
                 .is_request = true,
                 .has_payload = true};
  table[static_cast<std::size_t>(Opcode::lock_response)] =
      OpcodeInfo{.name = "LOCK_RESPONSE",
                 .defined = true,
                 .service = ServiceClass::manufacturer_6,
                 .headers = Header::lkaeth,
                 .header_bytes = header_bytes(Header::lkaeth),
                 .operation = Operation::lock_response};
  table[static_cast<std::size_t>(Opcode::selective_acknowledge)] =
      OpcodeInfo{.name = "SELECTIVE_ACKNOWLEDGE",
                 .defined = true,
                 .service = ServiceClass::manufacturer_6,
                 .headers = Header::aeth | Header::saeth,
                 .header_bytes = header_bytes(Header::aeth | Header::saeth),
                 .operation = Operation::selective_acknowledge};
  table[static_cast<std::size_t>(Opcode::dc_control)] =
      OpcodeInfo{.name = "DC_CONTROL",
                 .defined = true,
                 .service = ServiceClass::manufacturer_6,
                 .operation = Operation::dc_control,
                 .has_payload = true};
  table[static_cast<std::size_t>(Opcode::dc_connect_data)] =
      OpcodeInfo{.name = "DC_CONNECT_DATA",
                 .defined = true,
                 .service = ServiceClass::manufacturer_6,
                 .headers = Header::dcch,
                 .header_bytes = header_bytes(Header::dcch),
                 .operation = Operation::dc_connect_data,
                 .is_request = true,
                 .has_payload = true};
  return table;
}

inline constexpr std::array<OpcodeInfo, 256> kOpcodeTable = make_opcode_table();

}  // namespace detail

/// What is known of `opcode`; the reference is valid for ever.
[[nodiscard]] constexpr const OpcodeInfo& info(std::uint8_t opcode) {
  return detail::kOpcodeTable[opcode];
}
[[nodiscard]] constexpr const OpcodeInfo& info(Opcode opcode) {
  return info(static_cast<std::uint8_t>(opcode));
}

namespace detail {

inline constexpr OpcodeInfo kNotCarried{.service = ServiceClass::manufacturer_6};

/// The operation with a CONNECT in place of its session header.
[[nodiscard]] constexpr OpcodeInfo carried(Opcode operation) {
  OpcodeInfo carried = info(operation);
  carried.name = info(Opcode::dc_connect_data).name;
  carried.headers = (carried.headers & ~Header::dcsh) | Header::dcch;
  carried.header_bytes = header_bytes(carried.headers);
  return carried;
}

inline constexpr OpcodeInfo kConnectSend = carried(Opcode::dc_send_only);
inline constexpr OpcodeInfo kConnectSendImm = carried(Opcode::dc_send_only_with_immediate);
inline constexpr OpcodeInfo kConnectSendInv = carried(Opcode::dc_send_only_with_invalidate);
inline constexpr OpcodeInfo kConnectWrite = carried(Opcode::dc_rdma_write_only);
inline constexpr OpcodeInfo kConnectWriteImm = carried(Opcode::dc_rdma_write_only_with_immediate);

}  // namespace detail

/// What a packet of dc_connect_data is that carries `operation`, a SEND or WRITE of one packet of
/// dynamic connections. Not `defined` for any other opcode.
[[nodiscard]] constexpr const OpcodeInfo& connect_data_info(std::uint8_t operation) {
  switch (static_cast<Opcode>(operation)) {
    case Opcode::dc_send_only:
      return detail::kConnectSend;
    case Opcode::dc_send_only_with_immediate:
      return detail::kConnectSendImm;
    case Opcode::dc_send_only_with_invalidate:
      return detail::kConnectSendInv;
    case Opcode::dc_rdma_write_only:
      return detail::kConnectWrite;
    case Opcode::dc_rdma_write_only_with_immediate:
      return detail::kConnectWriteImm;
    default:
      return detail::kNotCarried;
  }
}

namespace detail {

/// The same on a dynamic connection.
[[nodiscard]] constexpr OpcodeInfo with_session(Opcode opcode) {
  OpcodeInfo with = info(opcode);
  with.headers |= Header::dcsh;
  with.header_bytes = header_bytes(with.headers);
  return with;
}

inline constexpr OpcodeInfo kSessionLockRequest = with_session(Opcode::lock_request);
inline constexpr OpcodeInfo kSessionLockResponse = with_session(Opcode::lock_response);

}  // namespace detail

/// What `opcode` is in a packet to `destination`. Lock requests and responses have one opcode for
/// all services; to an end of a dynamic connection they come with the header of its session.
[[nodiscard]] constexpr const OpcodeInfo& info_to(std::uint8_t opcode, Qpn destination) {
  const OpcodeInfo& known = info(opcode);
  if (is_extension_qpn(destination)) {
    if (known.operation == Operation::lock_request) return detail::kSessionLockRequest;
    if (known.operation == Operation::lock_response) return detail::kSessionLockResponse;
  }
  return known;
}

namespace detail {

inline constexpr OpcodeInfo kReservedOfRc{.name = "RESERVED",
                                          .service = ServiceClass::rc,
                                          .operation = Operation::reserved,
                                          .is_request = true,
                                          .has_payload = true};
inline constexpr OpcodeInfo kReservedOfXrc{.name = "RESERVED",
                                           .service = ServiceClass::xrc,
                                           .operation = Operation::reserved,
                                           .is_request = true,
                                           .has_payload = true};

}  // namespace detail

/// What a code that a reliable service reserves stands for: a request that is not served, which a
/// responder refuses where it would answer others (IBTA vol. 1, 9.7.4.1). Returns null for services
/// whose responders are silent, and for opcodes that are defined.
[[nodiscard]] constexpr const OpcodeInfo* reserved_request(std::uint8_t opcode) {
  const OpcodeInfo& known = info(opcode);
  if (known.defined) return nullptr;
  switch (known.service) {
    case ServiceClass::rc:
      return &detail::kReservedOfRc;
    case ServiceClass::xrc:
      return &detail::kReservedOfXrc;
    default:
      return nullptr;
  }
}

/// "RC_SEND_FIRST", or "UNDEFINED"; static storage.
[[nodiscard]] constexpr const char* opcode_name(std::uint8_t opcode) { return info(opcode).name; }
[[nodiscard]] constexpr const char* opcode_name(Opcode opcode) { return info(opcode).name; }

}  // namespace rockhopper::wire
