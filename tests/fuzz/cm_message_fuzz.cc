// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
//
// The messages of the connection manager. Input: the bytes of a management datagram, cut or filled
// up with zeros to 256. Whatever they are, each message type reads and writes its part of them.
#include <algorithm>
#include <array>

#include "roce/wire/cm.h"
#include "tests/fuzz/fuzz_target.h"

namespace rockhopper::fuzz {
namespace {

using namespace wire::cm;

/// A message stands for the bytes that it is sent as, and it is sent as a part of what it was read
/// from.
template <typename Message>
void check_message(Body body) {
  const Message message = Message::parse(body);
  std::array<std::uint8_t, kBodyBytes> emitted;
  emitted.fill(0xa5);
  message.emit(emitted);
  check(Message::parse(emitted) == message);
  constexpr std::size_t kLids = 52;  // of a REQ: sent as what stands for none
  for (std::size_t i = 0; i < kBodyBytes; ++i) {
    const bool lid = Message::kAttribute == Attribute::req && i >= kLids && i < kLids + 4;
    check(lid || (emitted[i] & ~body[i]) == 0);
  }
}

void run(std::span<const std::uint8_t> input) {
  std::array<std::uint8_t, wire::kMadBytes> mad{};
  std::copy_n(input.begin(), std::min(input.size(), mad.size()), mad.begin());
  const std::span<const std::uint8_t, wire::kMadBytes> bytes(mad);
  const auto header = wire::MadHeader::parse(bytes.first<wire::MadHeader::kSize>());
  std::array<std::uint8_t, wire::MadHeader::kSize> emitted;
  header.emit(emitted);
  check(std::equal(emitted.begin(), emitted.end(), bytes.begin()));

  const Body body = bytes.last<kBodyBytes>();
  check_message<Req>(body);
  check_message<Mra>(body);
  check_message<Rej>(body);
  check_message<Rep>(body);
  check_message<Rtu>(body);
  check_message<Dreq>(body);
  check_message<Drep>(body);
  check_message<SidrReq>(body);
  check_message<SidrRep>(body);
  check(!to_string(static_cast<Attribute>(header.attribute_id)).empty());
  check(!to_string(Rej::parse(body).reason).empty());
  check(!to_string(SidrRep::parse(body).status).empty());
}

/// What follows BTH and DETH.
test::Bytes make_input(const test::RocePacket& packet) {
  const auto transport = packet.transport();
  const std::size_t offset = std::min<std::size_t>(transport.size(), 20);
  return {transport.begin() + static_cast<std::ptrdiff_t>(offset), transport.end()};
}

const FuzzTarget kTarget("cm_message", run, make_input);

}  // namespace
}  // namespace rockhopper::fuzz
