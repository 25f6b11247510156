// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/services/publisher/message.h"

#include <bit>
#include <cassert>
#include <cstring>
#include <type_traits>

#include "roce/wire/bytes.h"

namespace rockhopper::publisher {
namespace {

constexpr std::uint16_t kMagic = 0x5053;
constexpr std::uint8_t kVersion = 1;
constexpr std::size_t kHeaderSize = 4;

/// Takes numbers and texts off the front of a message. What is not there makes it bad, and reads as
/// zeros.
class Input {
 public:
  explicit Input(std::span<const std::byte> bytes) : bytes_(bytes) {}

  std::uint8_t u8() { return take(1) ? at_[0] : std::uint8_t{0}; }
  std::uint16_t u16() { return take(2) ? wire::load_be16(at_) : std::uint16_t{0}; }
  std::uint32_t u32() { return take(4) ? wire::load_be32(at_) : 0; }
  std::uint64_t u64() { return take(8) ? wire::load_be64(at_) : 0; }
  std::span<const std::byte> bytes(std::size_t length) {
    if (!take(length)) return {};
    return {reinterpret_cast<const std::byte*>(at_), length};
  }
  void require(bool condition) { good_ = good_ && condition; }
  /// All was there, and nothing is left.
  [[nodiscard]] bool is_done() const { return good_ && bytes_.empty(); }

 private:
  bool take(std::size_t length) {
    good_ = good_ && length <= bytes_.size();
    if (!good_) return false;
    at_ = reinterpret_cast<const std::uint8_t*>(bytes_.data());
    bytes_ = bytes_.subspan(length);
    return true;
  }

  std::span<const std::byte> bytes_;
  const std::uint8_t* at_ = nullptr;
  bool good_ = true;
};

/// Puts them behind each other.
class Output {
 public:
  explicit Output(std::span<std::byte> bytes) : bytes_(bytes) {}

  void u8(std::uint8_t value) { *place(1) = value; }
  void u16(std::uint16_t value) { wire::store_be16(place(2), value); }
  void u32(std::uint32_t value) { wire::store_be32(place(4), value); }
  void u64(std::uint64_t value) { wire::store_be64(place(8), value); }
  void bytes(std::span<const std::byte> value) {
    if (!value.empty()) std::memcpy(place(value.size()), value.data(), value.size());
  }
  [[nodiscard]] std::size_t size() const { return used_; }

 private:
  std::uint8_t* place(std::size_t length) {
    assert(length <= bytes_.size() - used_);
    auto* to = reinterpret_cast<std::uint8_t*>(bytes_.data() + used_);
    used_ += length;
    return to;
  }

  std::span<std::byte> bytes_;
  std::size_t used_ = 0;
};

void put_name(Output& out, const std::string& name) {
  assert(!name.empty() && name.size() <= StoreInfo::kNameMax);
  out.u8(static_cast<std::uint8_t>(name.size()));
  out.bytes(std::as_bytes(std::span(name)));
}

std::string take_name(Input& in) {
  const std::size_t length = in.u8();
  in.require(length > 0 && length <= StoreInfo::kNameMax);
  const auto bytes = in.bytes(length);
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

void put(Output& out, const StoreInfo& store) {
  out.u16(store.id);
  out.u16(store.layout);
  out.u32(store.message_max);
  out.u64(store.epoch);
  out.u64(store.ring_bytes);
  out.u64(store.heartbeat_ns);
  put_name(out, store.name);
}

StoreInfo take_store(Input& in) {
  StoreInfo store;
  store.id = in.u16();
  store.layout = in.u16();
  store.message_max = in.u32();
  store.epoch = in.u64();
  store.ring_bytes = in.u64();
  store.heartbeat_ns = in.u64();
  store.name = take_name(in);
  return store;
}
constexpr std::size_t kStoreMax = 32 + 1 + StoreInfo::kNameMax;
static_assert(kHeaderSize + 6 + kDirectoryEntriesMax * kStoreMax <= kControlMessageMax);
static_assert(kHeaderSize + 6 + 1 + StoreInfo::kNameMax + 2 + kCredentialsMax <=
              kControlMessageMax);

// Each type's body.

void put(Output& out, const DirectoryRequest& message) { out.u16(message.first); }
void take(Input& in, DirectoryRequest& message) { message.first = in.u16(); }

void put(Output& out, const Directory& message) {
  assert(message.stores.size() <= kDirectoryEntriesMax);
  out.u16(message.first);
  out.u16(message.total);
  out.u16(static_cast<std::uint16_t>(message.stores.size()));
  for (const StoreInfo& store : message.stores) {
    put(out, store);
  }
}
void take(Input& in, Directory& message) {
  message.first = in.u16();
  message.total = in.u16();
  const std::size_t count = in.u16();
  in.require(count <= kDirectoryEntriesMax && message.first + count <= std::size_t{message.total});
  for (std::size_t i = 0; i < count && i < kDirectoryEntriesMax; ++i) {
    message.stores.push_back(take_store(in));
  }
}

void put(Output& out, const SubscribeRequest& message) {
  assert(message.credentials.size() <= kCredentialsMax);
  out.u32(message.tag);
  out.u16(message.version);
  put_name(out, message.store);
  out.u16(static_cast<std::uint16_t>(message.credentials.size()));
  out.bytes(message.credentials);
}
void take(Input& in, SubscribeRequest& message) {
  message.tag = in.u32();
  message.version = in.u16();
  message.store = take_name(in);
  const std::size_t length = in.u16();
  in.require(length <= kCredentialsMax);
  const auto credentials = in.bytes(length);
  message.credentials.assign(credentials.begin(), credentials.end());
}

void put(Output& out, const GrantMessage& message) {
  out.u32(message.tag);
  out.u32(static_cast<std::uint32_t>(message.rkey));
  put(out, message.store);
}
void take(Input& in, GrantMessage& message) {
  message.tag = in.u32();
  message.rkey = roce::MemoryKey{in.u32()};
  message.store = take_store(in);
}

void put(Output& out, const RefusedMessage& message) {
  out.u32(message.tag);
  out.u8(static_cast<std::uint8_t>(message.why));
}
void take(Input& in, RefusedMessage& message) {
  message.tag = in.u32();
  const std::uint8_t why = in.u8();
  in.require(why >= static_cast<std::uint8_t>(Refusal::unknown_store) &&
             why <= static_cast<std::uint8_t>(Refusal::exhausted));
  message.why = static_cast<Refusal>(why);
}

void put(Output& out, const Revoke& message) { out.u16(message.store_id); }
void take(Input& in, Revoke& message) { message.store_id = in.u16(); }

void put(Output& out, const Leave& message) { out.u16(message.store_id); }
void take(Input& in, Leave& message) { message.store_id = in.u16(); }

void put(Output& out, const StoreTail& tail) {
  out.u64(tail.epoch);
  out.u64(tail.position);
}
StoreTail take_tail(Input& in) {
  StoreTail tail;
  tail.epoch = in.u64();
  tail.position = in.u64();
  return tail;
}

void put(Output& out, const Watch& message) {
  out.u16(message.store_id);
  put(out, message.known);
}
void take(Input& in, Watch& message) {
  message.store_id = in.u16();
  message.known = take_tail(in);
}

void put(Output& out, const Changed& message) {
  out.u16(message.store_id);
  put(out, message.tail);
}
void take(Input& in, Changed& message) {
  message.store_id = in.u16();
  message.tail = take_tail(in);
}

void put(Output&, const Probe&) {}
void take(Input&, Probe&) {}

void put(Output& out, const stack::IpAddress& address) {
  out.bytes(std::as_bytes(std::span(address.bytes)));
}
stack::IpAddress take_address(Input& in) {
  const auto bytes = in.bytes(sizeof(stack::IpAddress::bytes));
  return bytes.empty() ? stack::IpAddress{} : stack::IpAddress::from_bytes(bytes.data());
}

void put(Output& out, const MulticastMessage& message) {
  out.u16(message.store_id);
  put(out, message.group.group);
  put(out, message.group.source);
  out.u32(message.group.source_qpn.value);
  out.u32(message.group.qkey);
  out.u16(static_cast<std::uint16_t>(bytes(message.group.path_mtu)));
}
void take(Input& in, MulticastMessage& message) {
  message.store_id = in.u16();
  MulticastGroup& group = message.group;
  group.group = take_address(in);
  group.source = take_address(in);
  const std::uint32_t qpn = in.u32();
  group.qkey = in.u32();
  const std::uint16_t path_mtu = in.u16();
  in.require(group.group.is_multicast() && !group.source.is_multicast() &&
             !group.source.is_unspecified() && group.group.is_ipv4() == group.source.is_ipv4());
  in.require(qpn <= wire::kMask24);
  in.require(std::has_single_bit(path_mtu) && path_mtu >= bytes(roce::PathMtu::mtu_256) &&
             path_mtu <= bytes(roce::PathMtu::mtu_4096));
  group.source_qpn = wire::Qpn::make(qpn);
  group.path_mtu = static_cast<roce::PathMtu>(path_mtu);
}

template <std::size_t kIndex = 0>
std::optional<ControlMessage> parse_type(std::size_t index, Input in) {
  if constexpr (kIndex == std::variant_size_v<ControlMessage>) {
    return std::nullopt;
  } else {
    if (index != kIndex) return parse_type<kIndex + 1>(index, in);
    std::variant_alternative_t<kIndex, ControlMessage> message;
    take(in, message);
    if (!in.is_done()) return std::nullopt;
    return message;
  }
}

}  // namespace

std::string_view to_string(Refusal refusal) {
  switch (refusal) {
    case Refusal::unknown_store:
      return "there is no such store";
    case Refusal::not_authorised:
      return "not authorised";
    case Refusal::layout:
      return "the publisher's stores have another layout version";
    case Refusal::exhausted:
      return "the publisher has no key left, or this subscriber too many";
  }
  return "?";
}

std::optional<ControlMessage> parse_control(std::span<const std::byte> bytes) {
  Input in(bytes);
  in.require(bytes.size() <= kControlMessageMax);
  in.require(in.u16() == kMagic);
  in.require(in.u8() == kVersion);
  // Types count from 1, in the order of the variant.
  const std::size_t type = in.u8();
  return parse_type(type - 1, in);
}

std::size_t emit_control(const ControlMessage& message,
                         std::span<std::byte, kControlMessageMax> out) {
  Output to(out);
  to.u16(kMagic);
  to.u8(kVersion);
  to.u8(static_cast<std::uint8_t>(message.index() + 1));
  std::visit([&](const auto& body) { put(to, body); }, message);
  return to.size();
}

}  // namespace rockhopper::publisher
