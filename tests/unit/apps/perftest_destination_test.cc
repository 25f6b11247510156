// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/rh_perf/perftest_destination.h"

#include <array>
#include <string>

#include <gtest/gtest.h>

namespace rockhopper::apps::perf {
namespace {

using namespace std::string_literals;

constexpr std::array kForms = {PerftestForm::text, PerftestForm::binary};

PerftestDestination example() {
  return {.outstanding_reads = 16,
          .qpn = 0x123456,
          .psn = 0xfedcba,
          .rkey = 0x89abcdef,
          .address = 0x00007f0011223344,
          .gid = *stack::IpAddress::parse("10.42.0.1")};
}

/// struct pingpong_dest of perftest 4.5 as it is sent.
constexpr std::array<std::uint8_t, 56> kBinary = {
    0x00, 0x00, 0x00, 0x00,                          // lid
    0x00, 0x00, 0x00, 0x10,                          // out_reads
    0x00, 0x12, 0x34, 0x56,                          // qpn
    0x00, 0xfe, 0xdc, 0xba,                          // psn
    0x89, 0xab, 0xcd, 0xef,                          // rkey
    0x00, 0x00, 0x00, 0x00,                          // padding
    0x00, 0x00, 0x7f, 0x00, 0x11, 0x22, 0x33, 0x44,  // vaddr
    0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
    0x00, 0x00, 0xff, 0xff, 0x0a, 0x2a, 0x00, 0x01,  // gid
    0x00, 0x00, 0x00, 0x00,                          // srqn
    0x00, 0x00, 0x00, 0x00,                          // gid_index
};

/// What perftest prints of it over TCP, with zeros up to its length.
const std::string kText =
    "0000:0010:123456:fedcba:89abcdef:00007f0011223344:"
    "00:00:00:00:00:00:00:00:00:00:ff:ff:0a:2a:00:01:00000000:\0"s;

void expect_example(const std::optional<PerftestDestination>& parsed) {
  ASSERT_TRUE(parsed);
  EXPECT_EQ(parsed->outstanding_reads, example().outstanding_reads);
  EXPECT_EQ(parsed->qpn, example().qpn);
  EXPECT_EQ(parsed->psn, example().psn);
  EXPECT_EQ(parsed->rkey, example().rkey);
  EXPECT_EQ(parsed->address, example().address);
  EXPECT_EQ(parsed->gid, example().gid);
}

TEST(PerftestDestination, TheBinaryFormIsTheProgramsStruct) {
  const std::string bytes(kBinary.begin(), kBinary.end());
  EXPECT_EQ(to_message(example(), PerftestForm::binary), bytes);
  expect_example(parse_destination(bytes, PerftestForm::binary));
}

TEST(PerftestDestination, TheTextFormIsHexadecimalWithColons) {
  const std::string text = to_message(example(), PerftestForm::text);
  EXPECT_EQ(text.size(), 108u);
  EXPECT_EQ(text.substr(0, kText.size()), kText);
  expect_example(parse_destination(text, PerftestForm::text));
}

TEST(PerftestDestination, AMessageThatIsCutShortIsNone) {
  const std::string bytes(kBinary.begin(), kBinary.end());
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_FALSE(parse_destination(bytes.substr(0, size), PerftestForm::binary)) << size;
  }
  EXPECT_FALSE(parse_destination(bytes + '\0', PerftestForm::binary));
  const std::size_t numbers = kText.size() - "00000000:\0"s.size();
  for (std::size_t size = 0; size < numbers; ++size) {
    EXPECT_FALSE(parse_destination(kText.substr(0, size), PerftestForm::text)) << size;
  }
}

TEST(PerftestDestination, NumbersOutOfRangeAreRefused) {
  for (const PerftestForm form : kForms) {
    auto wrong = example();
    wrong.qpn = 0x1000000;
    EXPECT_FALSE(parse_destination(to_message(wrong, form), form));
    wrong = example();
    wrong.psn = 0x1000000;
    EXPECT_FALSE(parse_destination(to_message(wrong, form), form));
    wrong = example();
    wrong.outstanding_reads = 0x10000;
    EXPECT_FALSE(parse_destination(to_message(wrong, form), form));
  }
}

}  // namespace
}  // namespace rockhopper::apps::perf
