// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "stack/descriptor.h"

namespace rockhopper::stack::memif {

inline constexpr std::uint16_t kVersion = 0x200;
inline constexpr std::uint32_t kCookie = 0x3E31F20;  ///< the first word of each ring
inline constexpr std::uint32_t kRegionsMax = 256;
inline constexpr std::uint32_t kRingsMax = 255;  ///< in one direction
inline constexpr std::uint8_t kRingSizeLog2Max = 14;
inline constexpr std::uint32_t kRingHeaderBytes = 128;
inline constexpr std::uint32_t kDescriptorBytes = 16;

// Messages of memif's control channel: datagrams of 128 bytes between two processes of one host, in
// its byte order. A client answers the server's greeting with all that it offers, message by
// message: init, regions and rings, each with a file descriptor, connect. The server acknowledges
// each but the last, whose answer is "connected".

enum class MessageType : std::uint16_t {
  none,
  ack,
  hello,
  init,
  add_region,
  add_ring,
  connect,
  connected,
  disconnect
};

using Name = std::array<char, 32>;

struct [[gnu::packed]] Hello {
  Name name;
  std::uint16_t min_version;
  std::uint16_t max_version;
  std::uint16_t max_region;
  std::uint16_t max_s2c_ring;  ///< the highest index, as the next
  std::uint16_t max_c2s_ring;
  std::uint8_t max_log2_ring_size;
};

struct [[gnu::packed]] Init {
  std::uint16_t version;
  std::uint32_t id;
  std::uint8_t mode;  ///< 0: Ethernet
  std::array<char, 24> secret;
  Name name;
};

struct [[gnu::packed]] AddRegion {
  std::uint16_t index;
  std::uint64_t size;
};

struct [[gnu::packed]] AddRing {
  static constexpr std::uint16_t kClientToServer = 1;
  std::uint16_t flags;
  std::uint16_t index;
  std::uint16_t region;
  std::uint32_t offset;
  std::uint8_t log2_ring_size;
  std::uint16_t private_header_size;
};

struct [[gnu::packed]] Connect {
  Name interface_name;
};

struct [[gnu::packed]] Disconnect {
  std::uint32_t code;
  std::array<char, 96> reason;
};

struct [[gnu::packed]] Message {
  MessageType type;
  union [[gnu::packed]] {
    Hello hello;
    Init init;
    AddRegion add_region;
    AddRing add_ring;
    Connect connect;
    Disconnect disconnect;
    std::array<char, 126> bytes;
  } body;
};
static_assert(sizeof(Message) == 128);
static_assert(sizeof(Hello) == 43 && sizeof(Init) == 63 && sizeof(AddRegion) == 10 &&
              sizeof(AddRing) == 13 && sizeof(Disconnect) == 100);

[[nodiscard]] Message make_message(MessageType type);
[[nodiscard]] Message make_disconnect(std::string_view reason);

struct Received {
  enum class What { message, nothing, ended, malformed };
  What what = What::nothing;
  Message message{};
  Descriptor attached{};  ///< the one that came with the message
};
/// Never waits. Texts in the message end with a zero, whatever the peer sent; descriptors beyond
/// the first are closed, and make the message malformed, as do those that this process has no room
/// for.
[[nodiscard]] Received receive(int socket);

/// Never waits. False: the peer has gone, or does not read what it is sent.
[[nodiscard]] bool send(int socket, const Message& message, int attached = -1);

}  // namespace rockhopper::stack::memif
