// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "roce/wire/packet.h"

#include <algorithm>

namespace rockhopper::wire {
namespace {

constexpr std::size_t most_header_bytes() {
  std::size_t most = 0;
  for (unsigned opcode = 0; opcode < 256; ++opcode) {
    const auto value = static_cast<std::uint8_t>(opcode);
    most = std::max<std::size_t>({most, info_to(value, kExtensionQpnFirst).header_bytes,
                                  connect_data_info(value).header_bytes});
  }
  return most;
}
static_assert(kHeadersMax == Bth::kSize + most_header_bytes());

/// Headers that stand before and behind those of plain RC.
constexpr HeaderSet kRareBefore =
    Header::dcch | Header::dcsh | Header::rdeth | Header::deth | Header::xrceth | Header::feth;
constexpr HeaderSet kRareBehind = Header::imm_dt | Header::ieth | Header::cnp_reserved |
                                  Header::xaeth | Header::saeth | Header::lketh | Header::lkaeth;

/// Calls `visit(header)` for each extension header of the set, in wire order. Most packets have one
/// of four headers: the others are asked for together before they are asked for one by one.
template <typename HeadersType, typename Visit>
void for_each_header(HeaderSet set, HeadersType& headers, Visit visit) {
  if ((set & kRareBefore) != 0) {
    if ((set & Header::dcch) != 0) visit(headers.dcch);
    if ((set & Header::dcsh) != 0) visit(headers.dcsh);
    if ((set & Header::rdeth) != 0) visit(headers.rdeth);
    if ((set & Header::deth) != 0) visit(headers.deth);
    if ((set & Header::xrceth) != 0) visit(headers.xrceth);
    if ((set & Header::feth) != 0) visit(headers.feth);
  }
  if ((set & Header::reth) != 0) visit(headers.reth);
  if ((set & Header::atomic_eth) != 0) visit(headers.atomic_eth);
  if ((set & Header::aeth) != 0) visit(headers.aeth);
  if ((set & Header::atomic_ack_eth) != 0) visit(headers.atomic_ack_eth);
  if ((set & kRareBehind) != 0) {
    if ((set & Header::imm_dt) != 0) visit(headers.imm_dt);
    if ((set & Header::ieth) != 0) visit(headers.ieth);
    if ((set & Header::cnp_reserved) != 0) visit(headers.cnp_reserved);
    if ((set & Header::xaeth) != 0) visit(headers.xaeth);
    if ((set & Header::saeth) != 0) visit(headers.saeth);
    if ((set & Header::lketh) != 0) visit(headers.lketh);
    if ((set & Header::lkaeth) != 0) visit(headers.lkaeth);
  }
}

ParseResult parse_bth(std::span<const std::uint8_t> first_bytes, std::size_t transport_length,
                      Headers& out) {
  if (transport_length < Bth::kSize + Icrc::kSize) return ParseResult::too_short;
  if (first_bytes.size() < Bth::kSize) return ParseResult::not_contiguous;
  out.bth = Bth::parse(first_bytes.first<Bth::kSize>());
  return out.bth.version == 0 ? ParseResult::ok : ParseResult::bad_version;
}

/// What follows the BTH of an opcode that is known.
ParseResult parse_rest(std::span<const std::uint8_t> first_bytes, std::size_t transport_length,
                       const OpcodeInfo& opcode, Headers& out) {
  out.opcode = &opcode;
  if (transport_length > UINT16_MAX || transport_length % 4 != 0) return ParseResult::bad_length;
  const std::size_t header_bytes = Bth::kSize + opcode.header_bytes;
  if (transport_length < header_bytes + Icrc::kSize) return ParseResult::too_short;
  if (first_bytes.size() < header_bytes) return ParseResult::not_contiguous;

  const std::size_t padded_length = transport_length - header_bytes - Icrc::kSize;
  if (!opcode.has_payload && padded_length != 0) return ParseResult::bad_length;
  if (out.bth.pad_count > padded_length) return ParseResult::bad_pad;

  const std::uint8_t* next = first_bytes.data() + Bth::kSize;
  for_each_header(opcode.headers, out, [&next]<typename T>(T& header) {
    header = T::parse(std::span<const std::uint8_t, T::kSize>(next, T::kSize));
    next += T::kSize;
  });
  out.payload_offset = static_cast<std::uint16_t>(header_bytes);
  out.payload_length = static_cast<std::uint16_t>(padded_length - out.bth.pad_count);
  return ParseResult::ok;
}

/// Which headers there are is said by one of them.
ParseResult parse_connect_data(std::span<const std::uint8_t> first_bytes,
                               std::size_t transport_length, Headers& out) {
  const OpcodeInfo& opcode = info(Opcode::dc_connect_data);
  if (const auto result = parse_rest(first_bytes, transport_length, opcode, out);
      result != ParseResult::ok) {
    return result;
  }
  const OpcodeInfo& carried = connect_data_info(out.dcch.operation());
  if (!carried.defined) return ParseResult::unknown_opcode;
  return parse_rest(first_bytes, transport_length, carried, out);
}

}  // namespace

const char* to_string(ParseResult result) {
  switch (result) {
    case ParseResult::ok:
      return "ok";
    case ParseResult::too_short:
      return "too_short";
    case ParseResult::not_contiguous:
      return "not_contiguous";
    case ParseResult::bad_version:
      return "bad_version";
    case ParseResult::unknown_opcode:
      return "unknown_opcode";
    case ParseResult::bad_pad:
      return "bad_pad";
    case ParseResult::bad_length:
      return "bad_length";
  }
  return "invalid";
}

ParseResult parse_headers(std::span<const std::uint8_t> first_bytes, std::size_t transport_length,
                          Headers& out) {
  if (const auto result = parse_bth(first_bytes, transport_length, out);
      result != ParseResult::ok) {
    return result;
  }
  const OpcodeInfo& opcode = info_to(out.bth.opcode, out.bth.destination);
  if (!opcode.defined) return ParseResult::unknown_opcode;
  if (opcode.operation == Operation::dc_connect_data) [[unlikely]] {
    return parse_connect_data(first_bytes, transport_length, out);
  }
  return parse_rest(first_bytes, transport_length, opcode, out);
}

ParseResult parse_reserved_request(std::span<const std::uint8_t> first_bytes,
                                   std::size_t transport_length, Headers& out) {
  if (const auto result = parse_bth(first_bytes, transport_length, out);
      result != ParseResult::ok) {
    return result;
  }
  const OpcodeInfo* opcode = reserved_request(out.bth.opcode);
  if (opcode == nullptr) return ParseResult::unknown_opcode;
  return parse_rest(first_bytes, transport_length, *opcode, out);
}

std::size_t emit_headers(const Headers& headers, const OpcodeInfo& opcode,
                         std::span<std::uint8_t> out) {
  const std::size_t header_bytes = Bth::kSize + opcode.header_bytes;
  if (!opcode.defined || out.size() < header_bytes) return 0;

  headers.bth.emit(out.first<Bth::kSize>());
  std::uint8_t* next = out.data() + Bth::kSize;
  for_each_header(opcode.headers, headers, [&next]<typename T>(const T& header) {
    header.emit(std::span<std::uint8_t, T::kSize>(next, T::kSize));
    next += T::kSize;
  });
  return header_bytes;
}

}  // namespace rockhopper::wire
