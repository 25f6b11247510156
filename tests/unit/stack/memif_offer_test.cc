// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "stack/memif_offer.h"

#include <array>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

namespace rockhopper::stack::memif {
namespace {

constexpr std::uint8_t kRingLog2 = 4;
constexpr std::uint32_t kRingBytes = 128 + (16 << kRingLog2);
constexpr std::uint64_t kRegionBytes = 4096;

/// A region that begins with two rings.
Descriptor make_region(int open_flags = O_RDWR) {
  Descriptor region(memfd_create("region", MFD_CLOEXEC));
  EXPECT_EQ(ftruncate(region.fd(), kRegionBytes), 0);
  const std::uint32_t cookie = 0x3E31F20;
  for (const off_t at : {off_t{0}, off_t{kRingBytes}}) {
    EXPECT_EQ(pwrite(region.fd(), &cookie, sizeof(cookie), at), ssize_t{sizeof(cookie)});
  }
  const std::string path = "/proc/self/fd/" + std::to_string(region.fd());
  return open_flags == O_RDWR ? std::move(region) : Descriptor(open(path.c_str(), open_flags));
}

Descriptor make_event() { return Descriptor(eventfd(0, EFD_CLOEXEC)); }

/// All of a good client; a test spoils a part of it.
struct Parts {
  Parts() {
    parts.push_back({make_message(MessageType::init)});
    parts.back().message.body.init.version = kVersion;
    parts.push_back({make_message(MessageType::add_region), make_region()});
    region().size = kRegionBytes;
    for (const std::uint16_t direction : {AddRing::kClientToServer, std::uint16_t{0}}) {
      parts.push_back({make_message(MessageType::add_ring), make_event()});
      AddRing& ring = parts.back().message.body.add_ring;
      ring.flags = direction;
      ring.offset = direction == 0 ? kRingBytes : 0;
      ring.log2_ring_size = kRingLog2;
    }
    parts.push_back({make_message(MessageType::connect)});
  }
  AddRegion& region() { return parts[1].message.body.add_region; }
  AddRing& ring() { return parts[2].message.body.add_ring; }
  Descriptor& descriptor(std::size_t part) { return parts[part].attached; }

  std::vector<Offer::Part> parts;
};

/// Why an offer is refused; empty if it is not.
std::string refusal(const std::function<void(Parts&)>& spoil, std::uint16_t queues = 1) {
  Parts parts;
  spoil(parts);
  Offer offer(queues);
  for (Offer::Part& part : parts.parts) {
    const char* reason = offer.take(part.message, std::move(part.attached));
    if (reason != nullptr) {
      EXPECT_FALSE(offer.complete());
      return reason;
    }
  }
  EXPECT_TRUE(offer.complete());
  EXPECT_EQ(offer.parts().size(), 5u);
  return "";
}

TEST(MemifOffer, AGoodOneIsTaken) {
  EXPECT_EQ(refusal([](Parts&) {}), "");
  EXPECT_EQ(refusal([](Parts& p) { p.ring().offset = kRegionBytes - kRingBytes; }), "Wrong ring");
}

TEST(MemifOffer, RegionsLieInTheirFiles) {
  for (const std::uint64_t size : {std::uint64_t{0}, kRegionBytes + 1, UINT64_MAX}) {
    EXPECT_EQ(refusal([&](Parts& p) { p.region().size = size; }), "Invalid region size");
  }
  EXPECT_EQ(refusal([](Parts& p) { p.descriptor(1) = make_event(); }), "Invalid region size");
  EXPECT_EQ(refusal([](Parts& p) { p.descriptor(1).reset(); }), "Missing region fd");
  EXPECT_EQ(refusal([](Parts& p) { p.descriptor(1) = make_region(O_RDONLY); }), "Invalid region");
  EXPECT_EQ(refusal([](Parts& p) { p.region().index = 1; }), "Invalid region index");
}

TEST(MemifOffer, RingsLieInTheirRegions) {
  for (const std::uint32_t offset : {std::uint32_t{kRegionBytes}, 0xFFFFFF00u, 2u,
                                     std::uint32_t{kRegionBytes - kRingBytes + 4}}) {
    EXPECT_EQ(refusal([&](Parts& p) { p.ring().offset = offset; }), "Invalid ring offset")
        << offset;
  }
  EXPECT_EQ(refusal([](Parts& p) { p.ring().log2_ring_size = 14; }), "Invalid ring offset");
  EXPECT_EQ(refusal([](Parts& p) { p.ring().log2_ring_size = 15; }), "Invalid ring size");
  EXPECT_EQ(refusal([](Parts& p) { p.ring().region = 1; }), "Invalid ring region");
  EXPECT_EQ(refusal([](Parts& p) { p.ring().index = 1; }), "Invalid ring index");
}

TEST(MemifOffer, EachQueueHasItsRings) {
  EXPECT_EQ(refusal([](Parts&) {}, 2), "Another number of rings");
  EXPECT_EQ(refusal([](Parts& p) { p.ring().flags = 0; }), "Invalid ring index");
}

TEST(MemifOffer, TheDriverNeverWaitsForAnInterruptDescriptor) {
  EXPECT_EQ(refusal([](Parts& p) { p.descriptor(2) = make_region(); }), "Invalid interrupt fd");
  EXPECT_EQ(refusal([](Parts& p) { p.descriptor(2).reset(); }), "Missing interrupt fd");
  const Descriptor event = make_event();
  EXPECT_EQ(refusal([&](Parts& p) {
              p.descriptor(2) = Descriptor(fcntl(event.fd(), F_DUPFD_CLOEXEC, 0));
            }),
            "");
  EXPECT_NE(fcntl(event.fd(), F_GETFL) & O_NONBLOCK, 0);
}

TEST(MemifOffer, OneInitAndNoAnswers) {
  for (const MessageType type : {MessageType::init, MessageType::ack, MessageType::hello,
                                 MessageType::connected, MessageType::none}) {
    EXPECT_EQ(refusal([&](Parts& p) { p.parts[3].message.type = type; }), "Unexpected message");
  }
}

std::ptrdiff_t open_descriptors() {
  const std::filesystem::directory_iterator all("/proc/self/fd");
  return std::distance(begin(all), end(all));
}

TEST(MemifMessage, SurplusDescriptorsAreClosed) {
  std::array<int, 2> ends{};
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()), 0);
  const Descriptor sender(ends[0]);
  const Descriptor receiver(ends[1]);
  const Descriptor event = make_event();
  const std::ptrdiff_t before = open_descriptors();
  for (const std::size_t count : {1, 2, 253}) {
    Message message = make_disconnect("");
    message.body.bytes.fill('x');
    std::vector<char> control(CMSG_SPACE(count * sizeof(int)));
    iovec part{&message, sizeof(message)};
    msghdr header{};
    header.msg_iov = &part;
    header.msg_iovlen = 1;
    header.msg_control = control.data();
    header.msg_controllen = control.size();
    cmsghdr* rights = CMSG_FIRSTHDR(&header);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(count * sizeof(int));
    for (std::size_t i = 0; i < count; ++i) {
      reinterpret_cast<int*>(CMSG_DATA(rights))[i] = event.fd();
    }
    ASSERT_EQ(sendmsg(sender.fd(), &header, 0), ssize_t{sizeof(message)});
    {
      const Received received = receive(receiver.fd());
      EXPECT_EQ(received.what, count == 1 ? Received::What::message : Received::What::malformed);
      EXPECT_EQ(received.message.body.disconnect.reason.back(), '\0');
      EXPECT_TRUE(received.attached);
      EXPECT_EQ(open_descriptors(), before + 1);
    }
    EXPECT_EQ(open_descriptors(), before);
  }
  EXPECT_EQ(receive(receiver.fd()).what, Received::What::nothing);
}

}  // namespace
}  // namespace rockhopper::stack::memif
