// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "roce/wire/aeth.h"
#include "roce/wire/atomic_ack_eth.h"
#include "roce/wire/atomic_eth.h"
#include "roce/wire/bth.h"
#include "roce/wire/cnp.h"
#include "roce/wire/dcch.h"
#include "roce/wire/dcsh.h"
#include "roce/wire/deth.h"
#include "roce/wire/feth.h"
#include "roce/wire/icrc.h"
#include "roce/wire/ieth.h"
#include "roce/wire/imm_dt.h"
#include "roce/wire/lkaeth.h"
#include "roce/wire/lketh.h"
#include "roce/wire/opcode.h"
#include "roce/wire/rdeth.h"
#include "roce/wire/reth.h"
#include "roce/wire/saeth.h"
#include "roce/wire/xaeth.h"
#include "roce/wire/xrceth.h"

namespace rockhopper::wire {

/// Most bytes that the BTH and the extension headers of any one opcode take.
inline constexpr std::size_t kHeadersMax = 80;

/// All transport headers of a packet as values. Of the extension headers only those named in
/// `opcode->headers` mean anything; the others keep whatever they held, and begin uninitialised:
/// one of these is made for each packet.
struct Headers {
  Bth bth{};
  const OpcodeInfo* opcode = nullptr;  ///< set by parse_headers(); emit_headers() does not use it
  Dcch dcch;
  Dcsh dcsh;
  Rdeth rdeth;
  Deth deth;
  Xrceth xrceth;
  Feth feth;
  Reth reth;
  AtomicEth atomic_eth;
  Aeth aeth;
  AtomicAckEth atomic_ack_eth;
  ImmDt imm_dt;
  Ieth ieth;
  CnpReserved cnp_reserved;
  Xaeth xaeth;
  Saeth saeth;
  Lketh lketh;
  Lkaeth lkaeth;
  std::uint16_t payload_offset = 0;  ///< bytes from the start of the BTH to the payload
  std::uint16_t payload_length = 0;  ///< bytes, without padding and ICRC
};

/// Why a packet's framing was refused; each reason deserves a counter of its own.
enum class ParseResult : std::uint8_t {
  ok,
  too_short,       ///< the packet ends before its headers and the ICRC are complete
  not_contiguous,  ///< the packet is long enough, but `first_bytes` does not hold all its headers
  bad_version,     ///< BTH transport header version other than 0
  unknown_opcode,  ///< not defined by IBTA, nor by us; or a connect carries another than it may
  bad_pad,         ///< pad count exceeds the bytes after the headers, or there is no payload to pad
  bad_length,      ///< not a multiple of 4, over 65535, or payload where the opcode has none
};

/// The enumerator's name; static storage.
[[nodiscard]] const char* to_string(ParseResult result);

/// Parses the BTH and the extension headers of a packet and checks its framing: nothing that
/// depends on a queue pair (path MTU, sequence, keys), and not the ICRC.
///
/// `first_bytes`: contiguous bytes from the BTH on. kHeadersMax bytes always suffice; fewer do when
/// the packet's headers are shorter. Bytes beyond `transport_length` are not looked at.
/// `transport_length`: bytes from the BTH through the ICRC (the UDP payload length).
/// On any result but `ok` the contents of `out` are unspecified.
[[nodiscard]] ParseResult parse_headers(std::span<const std::uint8_t> first_bytes,
                                        std::size_t transport_length, Headers& out);

/// The same for a packet of which parse_headers() says unknown_opcode, when its opcode is one that
/// reserved_request() knows: behind the BTH all is payload. Else unknown_opcode again.
[[nodiscard]] ParseResult parse_reserved_request(std::span<const std::uint8_t> first_bytes,
                                                 std::size_t transport_length, Headers& out);

/// What the opcode in `headers.bth` says; of a connect with data, what its `dcch` says.
[[nodiscard]] constexpr const OpcodeInfo& info(const Headers& headers) {
  return headers.bth.opcode == static_cast<std::uint8_t>(Opcode::dc_connect_data)
             ? connect_data_info(headers.dcch.operation())
             : info_to(headers.bth.opcode, headers.bth.destination);
}

/// Writes the BTH and exactly the extension headers that `opcode`, which is info(headers), calls
/// for.
/// Returns the bytes written; 0, with nothing written, when the opcode is undefined or `out` is too
/// small. The caller sets bth.pad_count; see pad_count().
[[nodiscard]] std::size_t emit_headers(const Headers& headers, const OpcodeInfo& opcode,
                                       std::span<std::uint8_t> out);
/// The same where info(headers) is not known yet.
[[nodiscard]] inline std::size_t emit_headers(const Headers& headers, std::span<std::uint8_t> out) {
  return emit_headers(headers, info(headers), out);
}

/// Bytes that pad a payload to a multiple of four, 0 to 3.
[[nodiscard]] constexpr std::uint8_t pad_count(std::size_t payload_length) {
  return static_cast<std::uint8_t>(-payload_length & 0x3);
}

}  // namespace rockhopper::wire
