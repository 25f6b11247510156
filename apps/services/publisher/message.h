// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "apps/services/publisher/multicast_group.h"
#include "apps/services/publisher/store_info.h"
#include "apps/services/publisher/store_tail.h"
#include "roce/types.h"

/// The messages between a publisher and its subscribers, each a SEND: numbers big endian, behind a
/// header of magic number, version and type (PB-30). None is needed to publish or to read (PB-8).
namespace rockhopper::publisher {

/// The longest message, bytes; queue pairs can send it inline.
inline constexpr std::size_t kControlMessageMax = 768;
inline constexpr std::size_t kCredentialsMax = 256;
/// Entries of one Directory.
inline constexpr std::size_t kDirectoryEntriesMax = 6;

/// Subscriber: which stores are there, from the `first` one on?
struct DirectoryRequest {
  std::uint16_t first = 0;
  friend bool operator==(const DirectoryRequest&, const DirectoryRequest&) = default;
};

/// Publisher: these, of `total`.
struct Directory {
  std::uint16_t first = 0;
  std::uint16_t total = 0;
  std::vector<StoreInfo> stores;  ///< kDirectoryEntriesMax at most
  friend bool operator==(const Directory&, const Directory&) = default;
};

/// Subscriber: asks for a store that it knows the name of.
struct SubscribeRequest {
  std::uint32_t tag = 0;                   ///< comes back with the answer
  std::uint16_t version = kLayoutVersion;  ///< of the layout that it can read
  std::string store;
  std::vector<std::byte> credentials;  ///< up to kCredentialsMax bytes, for the policy
  friend bool operator==(const SubscribeRequest&, const SubscribeRequest&) = default;
};

/// Publisher: the store may be read, with this key, from address 0 on.
struct GrantMessage {
  std::uint32_t tag = 0;
  roce::MemoryKey rkey{};
  StoreInfo store;
  friend bool operator==(const GrantMessage&, const GrantMessage&) = default;
};

enum class Refusal : std::uint8_t {
  unknown_store = 1,
  not_authorised,
  layout,     ///< the store is of another version than the subscriber can read
  exhausted,  ///< no keys left, or too many grants
};
[[nodiscard]] std::string_view to_string(Refusal refusal);

/// Publisher: it may not.
struct RefusedMessage {
  std::uint32_t tag = 0;
  Refusal why = Refusal::unknown_store;
  friend bool operator==(const RefusedMessage&, const RefusedMessage&) = default;
};

/// Publisher: not any more (PB-25).
struct Revoke {
  std::uint16_t store_id = 0;
  friend bool operator==(const Revoke&, const Revoke&) = default;
};

/// Subscriber: has no more use for it.
struct Leave {
  std::uint16_t store_id = 0;
  friend bool operator==(const Leave&, const Leave&) = default;
};

/// Subscriber: wants to be told when the store's tail is another one than it knows, in place of
/// looking for itself (PB-29). Answered once, so that it is asked anew each time.
struct Watch {
  std::uint16_t store_id = 0;
  StoreTail known;
  friend bool operator==(const Watch&, const Watch&) = default;
};

/// Publisher: the tail of a store that was watched. The one that was known: there is nothing new,
/// but the publisher lives (PB-19).
struct Changed {
  std::uint16_t store_id = 0;
  StoreTail tail;
  friend bool operator==(const Changed&, const Changed&) = default;
};

/// Publisher: nothing. That nobody acknowledges it shows that the subscriber has vanished.
struct Probe {
  friend bool operator==(const Probe&, const Probe&) = default;
};

/// Publisher: copies of the messages of a store that it has granted go to this group (PB-13). Who
/// does not know of this READs all of them.
struct MulticastMessage {
  std::uint16_t store_id = 0;
  MulticastGroup group;
  friend bool operator==(const MulticastMessage&, const MulticastMessage&) = default;
};

using ControlMessage =
    std::variant<DirectoryRequest, Directory, SubscribeRequest, GrantMessage, RefusedMessage,
                 Revoke, Leave, Watch, Changed, Probe, MulticastMessage>;

/// Returns nothing for another magic number, version or type, other lengths than the type's, or a
/// value out of range.
[[nodiscard]] std::optional<ControlMessage> parse_control(std::span<const std::byte> bytes);
/// Returns the bytes written. What is in the message must be within its limits.
[[nodiscard]] std::size_t emit_control(const ControlMessage& message,
                                       std::span<std::byte, kControlMessageMax> out);

}  // namespace rockhopper::publisher
