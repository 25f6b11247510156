// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
//
// The device rdma_cm of the verbs engine: commands with any contents, to identifiers that exist and
// to others, whose connections lead back to this process. Input: for each command its number, a
// byte of circumstances, and what its fields are filled with; where a command has a pointer, an
// identifier, an address or a descriptor, some bytes choose one.
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <cstring>

#include <arpa/inet.h>
#include <fcntl.h>
#include <rdma/rdma_user_cm.h>
#include <sys/socket.h>
#include <unistd.h>

#include "apps/verbs/abi/device_object.h"
#include "apps/verbs/abi/table.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/fuzz/input.h"
#include "tests/support/child_process.h"

extern "C" rockhopper::verbs::GetVerbsTable rockhopper_verbs;

namespace rockhopper::fuzz {
namespace {

constexpr std::size_t kNone = SIZE_MAX;
constexpr std::uint8_t kIdentifiers = 8;

/// Where a command has what cannot be any bytes: offsets into it, or kNone.
struct Shape {
  std::size_t size = 0;
  std::size_t response = kNone;
  std::size_t identifier = kNone;
  std::size_t address = kNone;
  std::size_t second_address = kNone;
};

#define FIELD(type, field) offsetof(type, field)
/// By number of the command.
constexpr std::array<Shape, RDMA_USER_CM_CMD_JOIN_MCAST + 1> kShapes = {{
    {sizeof(rdma_ucm_create_id), FIELD(rdma_ucm_create_id, response)},
    {sizeof(rdma_ucm_destroy_id), FIELD(rdma_ucm_destroy_id, response),
     FIELD(rdma_ucm_destroy_id, id)},
    {sizeof(rdma_ucm_bind_ip), kNone, FIELD(rdma_ucm_bind_ip, id), FIELD(rdma_ucm_bind_ip, addr)},
    {sizeof(rdma_ucm_resolve_ip), kNone, FIELD(rdma_ucm_resolve_ip, id),
     FIELD(rdma_ucm_resolve_ip, dst_addr), FIELD(rdma_ucm_resolve_ip, src_addr)},
    {sizeof(rdma_ucm_resolve_route), kNone, FIELD(rdma_ucm_resolve_route, id)},
    {sizeof(rdma_ucm_query), FIELD(rdma_ucm_query, response), FIELD(rdma_ucm_query, id)},
    {sizeof(rdma_ucm_connect), kNone, FIELD(rdma_ucm_connect, id)},
    {sizeof(rdma_ucm_listen), kNone, FIELD(rdma_ucm_listen, id)},
    {sizeof(rdma_ucm_accept), kNone, FIELD(rdma_ucm_accept, id)},
    {sizeof(rdma_ucm_reject), kNone, FIELD(rdma_ucm_reject, id)},
    {sizeof(rdma_ucm_disconnect), kNone, FIELD(rdma_ucm_disconnect, id)},
    {sizeof(rdma_ucm_init_qp_attr), FIELD(rdma_ucm_init_qp_attr, response),
     FIELD(rdma_ucm_init_qp_attr, id)},
    {sizeof(rdma_ucm_get_event), FIELD(rdma_ucm_get_event, response)},
    {},
    {sizeof(rdma_ucm_set_option), FIELD(rdma_ucm_set_option, optval),
     FIELD(rdma_ucm_set_option, id)},
    {sizeof(rdma_ucm_notify), kNone, FIELD(rdma_ucm_notify, id)},
    {sizeof(rdma_ucm_join_ip_mcast), FIELD(rdma_ucm_join_ip_mcast, response),
     FIELD(rdma_ucm_join_ip_mcast, id), FIELD(rdma_ucm_join_ip_mcast, addr)},
    {sizeof(rdma_ucm_destroy_id), FIELD(rdma_ucm_destroy_id, response),
     FIELD(rdma_ucm_destroy_id, id)},
    {sizeof(rdma_ucm_migrate_id), FIELD(rdma_ucm_migrate_id, response),
     FIELD(rdma_ucm_migrate_id, id)},
    {sizeof(rdma_ucm_query), FIELD(rdma_ucm_query, response), FIELD(rdma_ucm_query, id)},
    {sizeof(rdma_ucm_bind), kNone, FIELD(rdma_ucm_bind, id), FIELD(rdma_ucm_bind, addr)},
    {sizeof(rdma_ucm_resolve_addr), kNone, FIELD(rdma_ucm_resolve_addr, id),
     FIELD(rdma_ucm_resolve_addr, dst_addr), FIELD(rdma_ucm_resolve_addr, src_addr)},
    {sizeof(rdma_ucm_join_mcast), FIELD(rdma_ucm_join_mcast, response),
     FIELD(rdma_ucm_join_mcast, id), FIELD(rdma_ucm_join_mcast, addr)},
}};
#undef FIELD

/// Bits of the byte of circumstances.
enum : std::uint8_t {
  kSecondChannel = 1,
  kBadPointer = 2,
  kLittleRoom = 4,
  kCutShort = 8,
  kAnyBytes = 16,  ///< else a field that is not chosen is 0, but for the first ones
};

/// The engine, without a thread of its own, and a channel that keeps it.
class Device {
 public:
  Device() {
    setenv("ROCKHOPPER_SEGMENT", segment_.path().c_str(), 1);
    setenv("ROCKHOPPER_ADDRESSES", "192.0.2.1/24,fd00::1/64", 1);
    setenv("ROCKHOPPER_PROGRESS", "inline", 1);
    std::strcpy(object_.device.name, "rh0");
    object_.guid = 0x0200'00ff'fe00'0001;
    check(open() >= 0);
  }
  [[nodiscard]] int open() { return table_.open_channel(&object_.device, O_RDWR | O_NONBLOCK); }
  [[nodiscard]] const verbs::VerbsTable& table() const { return table_; }

 private:
  const test::TemporaryDirectory segment_;
  const verbs::VerbsTable& table_ = *rockhopper_verbs(verbs::kTableVersion);
  verbs::DeviceObject object_{};
};

struct Session {
  Device& device;
  std::array<int, 2> channels;
  /// Answers go there, and options come from there.
  alignas(8) std::array<std::byte, 1024> room{};
};

template <typename Value>
void put(std::span<std::byte> command, std::size_t offset, const Value& value) {
  check(offset + sizeof value <= command.size());
  std::memcpy(&command[offset], &value, sizeof value);
}

/// One of the device's, of the loopback device, any, a group's, and one that leads nowhere.
void put_address(std::span<std::byte> command, std::size_t offset, std::uint8_t choice) {
  constexpr std::array kAddresses = {"127.0.0.1", "192.0.2.1",   "0.0.0.0",
                                     "239.1.1.1", "203.0.113.9", "::1",
                                     "fd00::1",   "::",          "ff12::1"};
  const char* text = kAddresses.at((choice >> 2) % kAddresses.size());
  const in_port_t port =
      htons(static_cast<std::uint16_t>((choice & 3) == 0 ? 0 : 1000 + (choice & 3)));
  sockaddr_in ipv4{.sin_family = AF_INET, .sin_port = port};
  if (inet_pton(AF_INET, text, &ipv4.sin_addr) == 1) return put(command, offset, ipv4);
  sockaddr_in6 ipv6{.sin6_family = AF_INET6, .sin6_port = port};
  check(inet_pton(AF_INET6, text, &ipv6.sin6_addr) == 1);
  put(command, offset, ipv6);
}

/// Members that say how long another one is: half of the time they are right.
void put_sizes(std::span<std::byte> command, std::uint8_t number, std::uint8_t choice) {
  const auto size = static_cast<std::uint16_t>((choice & 1) != 0 ? sizeof(sockaddr_in6) : choice);
  if (number == RDMA_USER_CM_CMD_BIND) put(command, offsetof(rdma_ucm_bind, addr_size), size);
  if (number == RDMA_USER_CM_CMD_JOIN_MCAST) {
    put(command, offsetof(rdma_ucm_join_mcast, addr_size), size);
  }
  if (number == RDMA_USER_CM_CMD_RESOLVE_ADDR) {
    put(command, offsetof(rdma_ucm_resolve_addr, dst_size), size);
    put(command, offsetof(rdma_ucm_resolve_addr, src_size),
        static_cast<std::uint16_t>((choice & 2) != 0 ? size : 0));
  }
  if (number == RDMA_USER_CM_CMD_SET_OPTION) {
    put(command, offsetof(rdma_ucm_set_option, optlen), std::uint32_t{choice});
  }
}

void carry_out(Session& session, Input& input) {
  const std::uint8_t number = input.u8() % (kShapes.size() + 1);
  const std::uint8_t circumstances = input.u8();
  const Shape shape = number < kShapes.size() ? kShapes.at(number) : Shape{};
  std::array<std::byte, sizeof(rdma_ucm_cmd_hdr) + 1024> bytes{};
  static_assert(sizeof(rdma_ucm_accept) <= 1024 && sizeof(rdma_ucm_resolve_addr) <= 1024);
  const std::span command = std::span(bytes).subspan(sizeof(rdma_ucm_cmd_hdr), shape.size);
  for (std::byte& byte : command.first((circumstances & kAnyBytes) != 0
                                           ? command.size()
                                           : std::min<std::size_t>(command.size(), 24))) {
    byte = std::byte{input.u8()};
  }
  const std::uint8_t choice = input.u8();
  const int channel = session.channels.at((circumstances & kSecondChannel) != 0 ? 1 : 0);
  if (shape.address != kNone) put_address(command, shape.address, input.u8());
  if (shape.second_address != kNone && (choice & 2) != 0) {
    put_address(command, shape.second_address, input.u8());
  }
  if (shape.response != kNone) {
    // No address of a process is so low.
    put(command, shape.response,
        (circumstances & kBadPointer) != 0
            ? std::uint64_t{choice}
            : static_cast<std::uint64_t>(reinterpret_cast<std::uintptr_t>(session.room.data())));
  }
  if (shape.identifier != kNone) {
    put(command, shape.identifier, std::uint32_t{static_cast<std::uint8_t>(choice % kIdentifiers)});
  }
  if (shape.size > 0) put_sizes(command, number, choice);
  if (number == RDMA_USER_CM_CMD_CREATE_ID && (choice & 1) != 0) {
    put(command, offsetof(rdma_ucm_create_id, ps),
        std::uint16_t{(choice & 2) != 0 ? std::uint16_t{0x0111} : std::uint16_t{0x0106}});
  }
  if (number == RDMA_USER_CM_CMD_MIGRATE_ID) {
    put(command, offsetof(rdma_ucm_migrate_id, fd),
        static_cast<std::uint32_t>((choice & 1) != 0 ? session.channels[0] : input.u8()));
  }
  const rdma_ucm_cmd_hdr header{
      .cmd = number,
      .in = static_cast<std::uint16_t>(shape.size -
                                       ((circumstances & kCutShort) != 0 ? choice % 16 : 0)),
      .out = static_cast<std::uint16_t>((circumstances & kLittleRoom) != 0 ? choice : 512)};
  put(bytes, 0, header);

  ssize_t result = 0;
  const std::size_t size = sizeof header + shape.size;
  errno = 0;
  check(session.device.table().write_channel(channel, bytes.data(), size, &result));
  check(result == static_cast<ssize_t>(size) || (result == -1 && errno > 0));
}

void run(std::span<const std::uint8_t> bytes) {
  static Device device;
  Session session{.device = device, .channels = {device.open(), device.open()}};
  check(session.channels[0] >= 0 && session.channels[1] >= 0);
  Input input(bytes);
  while (!input.empty()) {
    carry_out(session, input);
  }
  for (const int channel : session.channels) {
    check(close(channel) == 0);
  }
  device.table().closed_channel();
}

void append(test::Bytes& to, std::uint8_t number, std::uint8_t choice,
            std::initializer_list<std::uint8_t> rest = {}, std::size_t fields = 24) {
  to.insert(to.end(), {number, 0});
  to.insert(to.end(), std::min(fields, kShapes.at(number).size), 0);
  to.push_back(choice);
  to.insert(to.end(), rest);
}

/// One identifier listens, another one connects to it, and events are taken; then, from a captured
/// packet, commands by chance.
test::Bytes make_input(const test::RocePacket& packet) {
  constexpr std::uint8_t kLoopbackPort = 1;
  test::Bytes input;
  append(input, RDMA_USER_CM_CMD_CREATE_ID, 1);
  append(input, RDMA_USER_CM_CMD_BIND_IP, 0, {kLoopbackPort});
  append(input, RDMA_USER_CM_CMD_LISTEN, 0);
  append(input, RDMA_USER_CM_CMD_CREATE_ID, 1);
  append(input, RDMA_USER_CM_CMD_RESOLVE_IP, 1, {kLoopbackPort});
  append(input, RDMA_USER_CM_CMD_RESOLVE_ROUTE, 1);
  append(input, RDMA_USER_CM_CMD_CONNECT, 1);
  for (std::uint8_t i = 0; i < 4; ++i) {
    append(input, RDMA_USER_CM_CMD_GET_EVENT, i);
  }
  append(input, RDMA_USER_CM_CMD_ACCEPT, 2);
  append(input, RDMA_USER_CM_CMD_DISCONNECT, 1);
  input.insert(input.end(), packet.bytes.begin(), packet.bytes.end());
  return input;
}

const FuzzTarget kTarget("rdma_cm", run, make_input);

}  // namespace
}  // namespace rockhopper::fuzz
