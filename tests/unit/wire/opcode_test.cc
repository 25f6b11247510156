// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
// The opcode table against one written out by hand, opcode by opcode.
#include "roce/wire/opcode.h"

#include <algorithm>
#include <array>
#include <map>
#include <string>
#include <string_view>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace rockhopper::wire {
namespace {

struct Expected {
  unsigned opcode;
  std::string_view name;
  std::string_view headers;  ///< in wire order
  unsigned header_bytes;
  char direction;  ///< '>' request, '<' response
  char payload;    ///< 'p' may carry one, '-' never does
};

constexpr Expected kExpected[] = {
    {0x00, "RC_SEND_FIRST", "", 0, '>', 'p'},
    {0x01, "RC_SEND_MIDDLE", "", 0, '>', 'p'},
    {0x02, "RC_SEND_LAST", "", 0, '>', 'p'},
    {0x03, "RC_SEND_LAST_WITH_IMMEDIATE", "ImmDt", 4, '>', 'p'},
    {0x04, "RC_SEND_ONLY", "", 0, '>', 'p'},
    {0x05, "RC_SEND_ONLY_WITH_IMMEDIATE", "ImmDt", 4, '>', 'p'},
    {0x06, "RC_RDMA_WRITE_FIRST", "RETH", 16, '>', 'p'},
    {0x07, "RC_RDMA_WRITE_MIDDLE", "", 0, '>', 'p'},
    {0x08, "RC_RDMA_WRITE_LAST", "", 0, '>', 'p'},
    {0x09, "RC_RDMA_WRITE_LAST_WITH_IMMEDIATE", "ImmDt", 4, '>', 'p'},
    {0x0a, "RC_RDMA_WRITE_ONLY", "RETH", 16, '>', 'p'},
    {0x0b, "RC_RDMA_WRITE_ONLY_WITH_IMMEDIATE", "RETH ImmDt", 20, '>', 'p'},
    {0x0c, "RC_RDMA_READ_REQUEST", "RETH", 16, '>', '-'},
    {0x0d, "RC_RDMA_READ_RESPONSE_FIRST", "AETH", 4, '<', 'p'},
    {0x0e, "RC_RDMA_READ_RESPONSE_MIDDLE", "", 0, '<', 'p'},
    {0x0f, "RC_RDMA_READ_RESPONSE_LAST", "AETH", 4, '<', 'p'},
    {0x10, "RC_RDMA_READ_RESPONSE_ONLY", "AETH", 4, '<', 'p'},
    {0x11, "RC_ACKNOWLEDGE", "AETH", 4, '<', '-'},
    {0x12, "RC_ATOMIC_ACKNOWLEDGE", "AETH AtomicAckETH", 12, '<', '-'},
    {0x13, "RC_COMPARE_SWAP", "AtomicETH", 28, '>', '-'},
    {0x14, "RC_FETCH_ADD", "AtomicETH", 28, '>', '-'},
    {0x16, "RC_SEND_LAST_WITH_INVALIDATE", "IETH", 4, '>', 'p'},
    {0x17, "RC_SEND_ONLY_WITH_INVALIDATE", "IETH", 4, '>', 'p'},
    {0x1c, "RC_FLUSH", "FETH RETH", 20, '>', '-'},
    {0x1d, "RC_ATOMIC_WRITE", "RETH", 16, '>', 'p'},

    {0x20, "UC_SEND_FIRST", "", 0, '>', 'p'},
    {0x21, "UC_SEND_MIDDLE", "", 0, '>', 'p'},
    {0x22, "UC_SEND_LAST", "", 0, '>', 'p'},
    {0x23, "UC_SEND_LAST_WITH_IMMEDIATE", "ImmDt", 4, '>', 'p'},
    {0x24, "UC_SEND_ONLY", "", 0, '>', 'p'},
    {0x25, "UC_SEND_ONLY_WITH_IMMEDIATE", "ImmDt", 4, '>', 'p'},
    {0x26, "UC_RDMA_WRITE_FIRST", "RETH", 16, '>', 'p'},
    {0x27, "UC_RDMA_WRITE_MIDDLE", "", 0, '>', 'p'},
    {0x28, "UC_RDMA_WRITE_LAST", "", 0, '>', 'p'},
    {0x29, "UC_RDMA_WRITE_LAST_WITH_IMMEDIATE", "ImmDt", 4, '>', 'p'},
    {0x2a, "UC_RDMA_WRITE_ONLY", "RETH", 16, '>', 'p'},
    {0x2b, "UC_RDMA_WRITE_ONLY_WITH_IMMEDIATE", "RETH ImmDt", 20, '>', 'p'},

    {0x40, "RD_SEND_FIRST", "RDETH DETH", 12, '>', 'p'},
    {0x41, "RD_SEND_MIDDLE", "RDETH DETH", 12, '>', 'p'},
    {0x42, "RD_SEND_LAST", "RDETH DETH", 12, '>', 'p'},
    {0x43, "RD_SEND_LAST_WITH_IMMEDIATE", "RDETH DETH ImmDt", 16, '>', 'p'},
    {0x44, "RD_SEND_ONLY", "RDETH DETH", 12, '>', 'p'},
    {0x45, "RD_SEND_ONLY_WITH_IMMEDIATE", "RDETH DETH ImmDt", 16, '>', 'p'},
    {0x46, "RD_RDMA_WRITE_FIRST", "RDETH DETH RETH", 28, '>', 'p'},
    {0x47, "RD_RDMA_WRITE_MIDDLE", "RDETH DETH", 12, '>', 'p'},
    {0x48, "RD_RDMA_WRITE_LAST", "RDETH DETH", 12, '>', 'p'},
    {0x49, "RD_RDMA_WRITE_LAST_WITH_IMMEDIATE", "RDETH DETH ImmDt", 16, '>', 'p'},
    {0x4a, "RD_RDMA_WRITE_ONLY", "RDETH DETH RETH", 28, '>', 'p'},
    {0x4b, "RD_RDMA_WRITE_ONLY_WITH_IMMEDIATE", "RDETH DETH RETH ImmDt", 32, '>', 'p'},
    {0x4c, "RD_RDMA_READ_REQUEST", "RDETH DETH RETH", 28, '>', '-'},
    {0x4d, "RD_RDMA_READ_RESPONSE_FIRST", "RDETH AETH", 8, '<', 'p'},
    {0x4e, "RD_RDMA_READ_RESPONSE_MIDDLE", "RDETH", 4, '<', 'p'},
    {0x4f, "RD_RDMA_READ_RESPONSE_LAST", "RDETH AETH", 8, '<', 'p'},
    {0x50, "RD_RDMA_READ_RESPONSE_ONLY", "RDETH AETH", 8, '<', 'p'},
    {0x51, "RD_ACKNOWLEDGE", "RDETH AETH", 8, '<', '-'},
    {0x52, "RD_ATOMIC_ACKNOWLEDGE", "RDETH AETH AtomicAckETH", 16, '<', '-'},
    {0x53, "RD_COMPARE_SWAP", "RDETH DETH AtomicETH", 40, '>', '-'},
    {0x54, "RD_FETCH_ADD", "RDETH DETH AtomicETH", 40, '>', '-'},
    {0x55, "RD_RESYNC", "RDETH DETH", 12, '>', '-'},
    {0x5c, "RD_FLUSH", "RDETH DETH FETH RETH", 32, '>', '-'},

    {0x64, "UD_SEND_ONLY", "DETH", 8, '>', 'p'},
    {0x65, "UD_SEND_ONLY_WITH_IMMEDIATE", "DETH ImmDt", 12, '>', 'p'},

    {0x81, "CNP", "reserved", 16, '<', '-'},

    {0xa0, "XRC_SEND_FIRST", "XRCETH", 4, '>', 'p'},
    {0xa1, "XRC_SEND_MIDDLE", "XRCETH", 4, '>', 'p'},
    {0xa2, "XRC_SEND_LAST", "XRCETH", 4, '>', 'p'},
    {0xa3, "XRC_SEND_LAST_WITH_IMMEDIATE", "XRCETH ImmDt", 8, '>', 'p'},
    {0xa4, "XRC_SEND_ONLY", "XRCETH", 4, '>', 'p'},
    {0xa5, "XRC_SEND_ONLY_WITH_IMMEDIATE", "XRCETH ImmDt", 8, '>', 'p'},
    {0xa6, "XRC_RDMA_WRITE_FIRST", "XRCETH RETH", 20, '>', 'p'},
    {0xa7, "XRC_RDMA_WRITE_MIDDLE", "XRCETH", 4, '>', 'p'},
    {0xa8, "XRC_RDMA_WRITE_LAST", "XRCETH", 4, '>', 'p'},
    {0xa9, "XRC_RDMA_WRITE_LAST_WITH_IMMEDIATE", "XRCETH ImmDt", 8, '>', 'p'},
    {0xaa, "XRC_RDMA_WRITE_ONLY", "XRCETH RETH", 20, '>', 'p'},
    {0xab, "XRC_RDMA_WRITE_ONLY_WITH_IMMEDIATE", "XRCETH RETH ImmDt", 24, '>', 'p'},
    {0xac, "XRC_RDMA_READ_REQUEST", "XRCETH RETH", 20, '>', '-'},
    {0xad, "XRC_RDMA_READ_RESPONSE_FIRST", "AETH", 4, '<', 'p'},
    {0xae, "XRC_RDMA_READ_RESPONSE_MIDDLE", "", 0, '<', 'p'},
    {0xaf, "XRC_RDMA_READ_RESPONSE_LAST", "AETH", 4, '<', 'p'},
    {0xb0, "XRC_RDMA_READ_RESPONSE_ONLY", "AETH", 4, '<', 'p'},
    {0xb1, "XRC_ACKNOWLEDGE", "AETH", 4, '<', '-'},
    {0xb2, "XRC_ATOMIC_ACKNOWLEDGE", "AETH AtomicAckETH", 12, '<', '-'},
    {0xb3, "XRC_COMPARE_SWAP", "XRCETH AtomicETH", 32, '>', '-'},
    {0xb4, "XRC_FETCH_ADD", "XRCETH AtomicETH", 32, '>', '-'},
    {0xb6, "XRC_SEND_LAST_WITH_INVALIDATE", "XRCETH IETH", 8, '>', 'p'},
    {0xb7, "XRC_SEND_ONLY_WITH_INVALIDATE", "XRCETH IETH", 8, '>', 'p'},
    {0xbc, "XRC_FLUSH", "XRCETH FETH RETH", 24, '>', '-'},
    {0xbd, "XRC_ATOMIC_WRITE", "XRCETH RETH", 20, '>', 'p'},

    {0xc0, "DC_SEND_FIRST", "DCSH", 12, '>', 'p'},
    {0xc1, "DC_SEND_MIDDLE", "DCSH", 12, '>', 'p'},
    {0xc2, "DC_SEND_LAST", "DCSH", 12, '>', 'p'},
    {0xc3, "DC_SEND_LAST_WITH_IMMEDIATE", "DCSH ImmDt", 16, '>', 'p'},
    {0xc4, "DC_SEND_ONLY", "DCSH", 12, '>', 'p'},
    {0xc5, "DC_SEND_ONLY_WITH_IMMEDIATE", "DCSH ImmDt", 16, '>', 'p'},
    {0xc6, "DC_RDMA_WRITE_FIRST", "DCSH RETH", 28, '>', 'p'},
    {0xc7, "DC_RDMA_WRITE_MIDDLE", "DCSH", 12, '>', 'p'},
    {0xc8, "DC_RDMA_WRITE_LAST", "DCSH", 12, '>', 'p'},
    {0xc9, "DC_RDMA_WRITE_LAST_WITH_IMMEDIATE", "DCSH ImmDt", 16, '>', 'p'},
    {0xca, "DC_RDMA_WRITE_ONLY", "DCSH RETH", 28, '>', 'p'},
    {0xcb, "DC_RDMA_WRITE_ONLY_WITH_IMMEDIATE", "DCSH RETH ImmDt", 32, '>', 'p'},
    {0xcc, "DC_RDMA_READ_REQUEST", "DCSH RETH", 28, '>', '-'},
    {0xcd, "DC_RDMA_READ_RESPONSE_FIRST", "DCSH AETH", 16, '<', 'p'},
    {0xce, "DC_RDMA_READ_RESPONSE_MIDDLE", "DCSH", 12, '<', 'p'},
    {0xcf, "DC_RDMA_READ_RESPONSE_LAST", "DCSH AETH", 16, '<', 'p'},
    {0xd0, "DC_RDMA_READ_RESPONSE_ONLY", "DCSH AETH", 16, '<', 'p'},
    {0xd1, "DC_ACKNOWLEDGE", "DCSH AETH", 16, '<', '-'},
    {0xd2, "DC_ATOMIC_ACKNOWLEDGE", "DCSH AETH AtomicAckETH", 24, '<', '-'},
    {0xd3, "DC_COMPARE_SWAP", "DCSH AtomicETH", 40, '>', '-'},
    {0xd4, "DC_FETCH_ADD", "DCSH AtomicETH", 40, '>', '-'},
    {0xd6, "DC_SEND_LAST_WITH_INVALIDATE", "DCSH IETH", 16, '>', 'p'},
    {0xd7, "DC_SEND_ONLY_WITH_INVALIDATE", "DCSH IETH", 16, '>', 'p'},
    {0xdc, "DC_FLUSH", "DCSH FETH RETH", 32, '>', '-'},
    {0xdd, "DC_ATOMIC_WRITE", "DCSH RETH", 28, '>', 'p'},

    {0xd5, "SELECTIVE_ACKNOWLEDGE", "AETH SAETH", 36, '<', '-'},
    {0xd8, "DC_CONTROL", "", 0, '<', 'p'},
    {0xd9, "LOCK_REQUEST", "LKETH", 40, '>', 'p'},
    {0xda, "LOCK_RESPONSE", "LKAETH", 24, '<', '-'},
    {0xdb, "EXTENDED_ATOMIC", "XAETH", 48, '>', '-'},
    {0xde, "DC_CONNECT_DATA", "DCCH", 48, '>', 'p'},
};

/// What a connect may carry: those opcodes, and what it is then.
constexpr Expected kCarried[] = {
    {0xc4, "DC_SEND_ONLY", "DCCH", 48, '>', 'p'},
    {0xc5, "DC_SEND_ONLY_WITH_IMMEDIATE", "DCCH ImmDt", 52, '>', 'p'},
    {0xca, "DC_RDMA_WRITE_ONLY", "DCCH RETH", 64, '>', 'p'},
    {0xcb, "DC_RDMA_WRITE_ONLY_WITH_IMMEDIATE", "DCCH RETH ImmDt", 68, '>', 'p'},
    {0xd7, "DC_SEND_ONLY_WITH_INVALIDATE", "DCCH IETH", 52, '>', 'p'},
};

/// What differs to an end of a dynamic connection.
constexpr Expected kOfSessions[] = {
    {0xd9, "LOCK_REQUEST", "DCSH LKETH", 52, '>', 'p'},
    {0xda, "LOCK_RESPONSE", "DCSH LKAETH", 36, '<', '-'},
};

/// The enumerators, in the order of kExpected.
constexpr Opcode kEnumerators[] = {
    Opcode::rc_send_first,
    Opcode::rc_send_middle,
    Opcode::rc_send_last,
    Opcode::rc_send_last_with_immediate,
    Opcode::rc_send_only,
    Opcode::rc_send_only_with_immediate,
    Opcode::rc_rdma_write_first,
    Opcode::rc_rdma_write_middle,
    Opcode::rc_rdma_write_last,
    Opcode::rc_rdma_write_last_with_immediate,
    Opcode::rc_rdma_write_only,
    Opcode::rc_rdma_write_only_with_immediate,
    Opcode::rc_rdma_read_request,
    Opcode::rc_rdma_read_response_first,
    Opcode::rc_rdma_read_response_middle,
    Opcode::rc_rdma_read_response_last,
    Opcode::rc_rdma_read_response_only,
    Opcode::rc_acknowledge,
    Opcode::rc_atomic_acknowledge,
    Opcode::rc_compare_swap,
    Opcode::rc_fetch_add,
    Opcode::rc_send_last_with_invalidate,
    Opcode::rc_send_only_with_invalidate,
    Opcode::rc_flush,
    Opcode::rc_atomic_write,
    Opcode::uc_send_first,
    Opcode::uc_send_middle,
    Opcode::uc_send_last,
    Opcode::uc_send_last_with_immediate,
    Opcode::uc_send_only,
    Opcode::uc_send_only_with_immediate,
    Opcode::uc_rdma_write_first,
    Opcode::uc_rdma_write_middle,
    Opcode::uc_rdma_write_last,
    Opcode::uc_rdma_write_last_with_immediate,
    Opcode::uc_rdma_write_only,
    Opcode::uc_rdma_write_only_with_immediate,
    Opcode::rd_send_first,
    Opcode::rd_send_middle,
    Opcode::rd_send_last,
    Opcode::rd_send_last_with_immediate,
    Opcode::rd_send_only,
    Opcode::rd_send_only_with_immediate,
    Opcode::rd_rdma_write_first,
    Opcode::rd_rdma_write_middle,
    Opcode::rd_rdma_write_last,
    Opcode::rd_rdma_write_last_with_immediate,
    Opcode::rd_rdma_write_only,
    Opcode::rd_rdma_write_only_with_immediate,
    Opcode::rd_rdma_read_request,
    Opcode::rd_rdma_read_response_first,
    Opcode::rd_rdma_read_response_middle,
    Opcode::rd_rdma_read_response_last,
    Opcode::rd_rdma_read_response_only,
    Opcode::rd_acknowledge,
    Opcode::rd_atomic_acknowledge,
    Opcode::rd_compare_swap,
    Opcode::rd_fetch_add,
    Opcode::rd_resync,
    Opcode::rd_flush,
    Opcode::ud_send_only,
    Opcode::ud_send_only_with_immediate,
    Opcode::cnp,
    Opcode::xrc_send_first,
    Opcode::xrc_send_middle,
    Opcode::xrc_send_last,
    Opcode::xrc_send_last_with_immediate,
    Opcode::xrc_send_only,
    Opcode::xrc_send_only_with_immediate,
    Opcode::xrc_rdma_write_first,
    Opcode::xrc_rdma_write_middle,
    Opcode::xrc_rdma_write_last,
    Opcode::xrc_rdma_write_last_with_immediate,
    Opcode::xrc_rdma_write_only,
    Opcode::xrc_rdma_write_only_with_immediate,
    Opcode::xrc_rdma_read_request,
    Opcode::xrc_rdma_read_response_first,
    Opcode::xrc_rdma_read_response_middle,
    Opcode::xrc_rdma_read_response_last,
    Opcode::xrc_rdma_read_response_only,
    Opcode::xrc_acknowledge,
    Opcode::xrc_atomic_acknowledge,
    Opcode::xrc_compare_swap,
    Opcode::xrc_fetch_add,
    Opcode::xrc_send_last_with_invalidate,
    Opcode::xrc_send_only_with_invalidate,
    Opcode::xrc_flush,
    Opcode::xrc_atomic_write,
    Opcode::dc_send_first,
    Opcode::dc_send_middle,
    Opcode::dc_send_last,
    Opcode::dc_send_last_with_immediate,
    Opcode::dc_send_only,
    Opcode::dc_send_only_with_immediate,
    Opcode::dc_rdma_write_first,
    Opcode::dc_rdma_write_middle,
    Opcode::dc_rdma_write_last,
    Opcode::dc_rdma_write_last_with_immediate,
    Opcode::dc_rdma_write_only,
    Opcode::dc_rdma_write_only_with_immediate,
    Opcode::dc_rdma_read_request,
    Opcode::dc_rdma_read_response_first,
    Opcode::dc_rdma_read_response_middle,
    Opcode::dc_rdma_read_response_last,
    Opcode::dc_rdma_read_response_only,
    Opcode::dc_acknowledge,
    Opcode::dc_atomic_acknowledge,
    Opcode::dc_compare_swap,
    Opcode::dc_fetch_add,
    Opcode::dc_send_last_with_invalidate,
    Opcode::dc_send_only_with_invalidate,
    Opcode::dc_flush,
    Opcode::dc_atomic_write,
    Opcode::selective_acknowledge,
    Opcode::dc_control,
    Opcode::lock_request,
    Opcode::lock_response,
    Opcode::extended_atomic,
    Opcode::dc_connect_data,
};

std::string header_names(HeaderSet set) {
  static constexpr std::pair<HeaderSet, std::string_view> kNames[] = {
      {Header::dcch, "DCCH"},
      {Header::dcsh, "DCSH"},
      {Header::rdeth, "RDETH"},
      {Header::deth, "DETH"},
      {Header::xrceth, "XRCETH"},
      {Header::feth, "FETH"},
      {Header::reth, "RETH"},
      {Header::atomic_eth, "AtomicETH"},
      {Header::aeth, "AETH"},
      {Header::atomic_ack_eth, "AtomicAckETH"},
      {Header::imm_dt, "ImmDt"},
      {Header::ieth, "IETH"},
      {Header::cnp_reserved, "reserved"},
      {Header::xaeth, "XAETH"},
      {Header::saeth, "SAETH"},
      {Header::lketh, "LKETH"},
      {Header::lkaeth, "LKAETH"}};
  std::string names;
  for (const auto& [bit, name] : kNames) {
    if ((set & bit) != 0) names += (names.empty() ? "" : " ") + std::string(name);
  }
  return names;
}

/// Position, operation and class as their names spell them.
Position position_of(std::string_view name) {
  if (name.find("_FIRST") != name.npos) return Position::first;
  if (name.find("_MIDDLE") != name.npos) return Position::middle;
  if (name.find("_LAST") != name.npos) return Position::last;
  return Position::only;
}

Operation operation_of(std::string_view name) {
  static constexpr std::pair<std::string_view, Operation> kWords[] = {
      {"DC_CONTROL", Operation::dc_control},
      {"DC_CONNECT_DATA", Operation::dc_connect_data},
      {"_SEND_", Operation::send},
      {"_RDMA_WRITE_", Operation::rdma_write},
      {"_READ_REQUEST", Operation::rdma_read_request},
      {"_READ_RESPONSE_", Operation::rdma_read_response},
      {"_ATOMIC_ACKNOWLEDGE", Operation::atomic_acknowledge},
      {"SELECTIVE_ACKNOWLEDGE", Operation::selective_acknowledge},
      {"_ACKNOWLEDGE", Operation::acknowledge},
      {"_COMPARE_SWAP", Operation::compare_swap},
      {"_FETCH_ADD", Operation::fetch_add},
      {"_RESYNC", Operation::resync},
      {"_FLUSH", Operation::flush},
      {"_ATOMIC_WRITE", Operation::atomic_write},
      {"EXTENDED_ATOMIC", Operation::extended_atomic},
      {"LOCK_REQUEST", Operation::lock_request},
      {"LOCK_RESPONSE", Operation::lock_response},
      {"CNP", Operation::cnp}};
  for (const auto& [word, operation] : kWords) {
    if (name.find(word) != name.npos) return operation;
  }
  ADD_FAILURE() << name;
  return Operation::cnp;
}

ServiceClass service_of(std::string_view name) {
  if (name.starts_with("RC_")) return ServiceClass::rc;
  if (name.starts_with("UC_")) return ServiceClass::uc;
  if (name.starts_with("RD_")) return ServiceClass::rd;
  if (name.starts_with("UD_")) return ServiceClass::ud;
  if (name.starts_with("DC_")) return ServiceClass::manufacturer_6;
  if (name == "EXTENDED_ATOMIC" || name == "SELECTIVE_ACKNOWLEDGE" || name.starts_with("LOCK_")) {
    return ServiceClass::manufacturer_6;
  }
  return name.starts_with("XRC_") ? ServiceClass::xrc : ServiceClass::cnp;
}

void expect_info(const OpcodeInfo& info, const Expected& want) {
  EXPECT_EQ(info.service, service_of(want.name));
  EXPECT_EQ(header_names(info.headers), want.headers);
  EXPECT_EQ(info.header_bytes, want.header_bytes);
  EXPECT_EQ(info.position, position_of(want.name));
  EXPECT_EQ(info.operation, operation_of(want.name));
  EXPECT_EQ(info.is_request, want.direction == '>');
  EXPECT_EQ(info.has_payload, want.payload == 'p');
  EXPECT_EQ(info.has_immediate, want.name.ends_with("_WITH_IMMEDIATE"));
  EXPECT_EQ(info.has_invalidate, want.name.ends_with("_WITH_INVALIDATE"));
}

TEST(OpcodeTable_9_2_1, HoldsExactlyTheDefinedOpcodes) {
  std::map<unsigned, Expected> expected;
  for (const Expected& row : kExpected) {
    expected.emplace(row.opcode, row);
  }
  ASSERT_EQ(expected.size(), std::size(kExpected));

  for (unsigned opcode = 0; opcode < 256; ++opcode) {
    const OpcodeInfo& info = wire::info(static_cast<std::uint8_t>(opcode));
    const auto row = expected.find(opcode);
    SCOPED_TRACE(testing::Message() << "opcode " << opcode << " " << info.name);
    EXPECT_EQ(static_cast<unsigned>(info.service), opcode >> 5);
    ASSERT_EQ(info.defined, row != expected.end());
    if (!info.defined) {
      EXPECT_STREQ(info.name, "UNDEFINED");
      continue;
    }
    const Expected& want = row->second;
    EXPECT_EQ(info.name, want.name);
    expect_info(info, want);
  }
}

TEST(OpcodeTable_9_2_1, EnumeratorsAgreeWithTheTable) {
  ASSERT_EQ(std::size(kEnumerators), std::size(kExpected));
  for (std::size_t i = 0; i < std::size(kExpected); ++i) {
    EXPECT_EQ(static_cast<unsigned>(kEnumerators[i]), kExpected[i].opcode) << kExpected[i].name;
    EXPECT_EQ(opcode_name(kEnumerators[i]), kExpected[i].name);
  }
}

TEST(OpcodeTable, AConnectCarriesSendsAndWritesOfOnePacket) {
  for (unsigned opcode = 0; opcode < 256; ++opcode) {
    SCOPED_TRACE(opcode);
    const OpcodeInfo& info = connect_data_info(static_cast<std::uint8_t>(opcode));
    const auto* row = std::find_if(std::begin(kCarried), std::end(kCarried),
                                   [opcode](const Expected& one) { return one.opcode == opcode; });
    ASSERT_EQ(info.defined, row != std::end(kCarried));
    if (info.defined) {
      EXPECT_STREQ(info.name, "DC_CONNECT_DATA");
      EXPECT_TRUE(info.is_dc());
      expect_info(info, *row);
    }
  }
}

/// docs/wire.md: locks have the session header to 0xD00000-0xDFFFFF, nothing else has it by number.
TEST(OpcodeTable, LocksHaveASessionOnlyToTheNumbersOfDynamicConnections) {
  for (unsigned opcode = 0; opcode < 256; ++opcode) {
    SCOPED_TRACE(opcode);
    const auto value = static_cast<std::uint8_t>(opcode);
    for (const std::uint32_t outside : {0u, 1u, 0x11u, 0xcfffffu, 0xe00000u, 0xffffffu}) {
      EXPECT_EQ(&info_to(value, Qpn{outside}), &info(value)) << outside;
    }
    const auto* row = std::find_if(std::begin(kOfSessions), std::end(kOfSessions),
                                   [opcode](const Expected& one) { return one.opcode == opcode; });
    for (const std::uint32_t inside : {0xd00000u, 0xd12345u, 0xdfffffu}) {
      const OpcodeInfo& info = info_to(value, Qpn{inside});
      if (row == std::end(kOfSessions)) {
        EXPECT_EQ(&info, &wire::info(value)) << inside;
        continue;
      }
      EXPECT_TRUE(info.defined);
      EXPECT_EQ(info.name, row->name);
      EXPECT_TRUE(info.is_dc());
      expect_info(info, *row);
    }
  }
}

TEST(OpcodeTable_9_2_1, StartsAndEndsFollowThePosition) {
  EXPECT_TRUE(info(Opcode::rc_send_first).starts());
  EXPECT_FALSE(info(Opcode::rc_send_first).ends());
  EXPECT_FALSE(info(Opcode::rc_send_middle).starts());
  EXPECT_FALSE(info(Opcode::rc_send_middle).ends());
  EXPECT_FALSE(info(Opcode::rc_send_last).starts());
  EXPECT_TRUE(info(Opcode::rc_send_last).ends());
  EXPECT_TRUE(info(Opcode::rc_send_only).starts());
  EXPECT_TRUE(info(Opcode::rc_send_only).ends());
}

static_assert(info(0x0b).header_bytes == 20, "the table serves at compile time");

}  // namespace
}  // namespace rockhopper::wire
