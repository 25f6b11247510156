// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include <boost/intrusive/list.hpp>

#include "apps/services/dag/client.h"
#include "apps/services/dag/client_area.h"
#include "roce/completion_queue.h"
#include "roce/receive_buffers.h"
#include "roce/work_request.h"

namespace rockhopper::dag {

/// Records that are READ together for one key.
inline constexpr std::size_t kCandidatesMax = 8;
/// Where atomics return what they have found.
inline constexpr std::size_t kAtomicResults = 2;
/// How often a lease is renewed before it ends.
inline constexpr std::uint64_t kRenewals = 8;
/// The time of an operation's timer that begins with the next turn, as that of a request.
inline constexpr std::uint64_t kNextTurn = UINT64_MAX - 1;

enum class Client::Stage : std::uint8_t {
  reading,     ///< candidates, or the record again
  atomic,      ///< of the application's own
  locking,     ///< CAS of the lock
  swinging,    ///< WRITE of a slot, CAS of the word
  unlocking,   ///< the result has been told
  writing,     ///< a whole record, or bytes of an arena
  waiting,     ///< for a request word
  requesting,  ///< an answer is awaited
  canceling,   ///< CAS of the request word
  sleeping,    ///< before another try
};

/// A request to the transport.
struct Client::Work {
  roce::WrOpcode opcode = roce::WrOpcode::rdma_read;
  std::byte* local = nullptr;
  std::uint32_t length = 0;
  std::uint64_t remote = 0;
  roce::MemoryKey rkey{};
  std::uint64_t compare_add = 0;
  std::uint64_t swap = 0;
  roce::WcStatus status = roce::WcStatus::success;
};

struct Client::Operation {
  boost::intrusive::list_member_hook<> hook;  ///< of its link's lists
  std::uint64_t context = 0;
  std::uint64_t hash = 0;  ///< as the server's map goes by
  std::array<std::byte, kKeyMax> key_bytes{};
  std::uint16_t key_length = 0;  ///< 0: goes by a pointer
  std::uint16_t server = 0;
  std::uint32_t index = 0;
  bool active = false;
  Kind kind = Kind::read;
  Stage stage = Stage::reading;

  // At the transport.
  std::uint8_t work_count = 0;
  std::uint8_t posted = 0;
  std::uint8_t outstanding = 0;
  bool failed = false;  ///< the connection is lost
  bool told = false;    ///< its result
  std::array<Work, kCandidatesMax> works{};

  // The way to the record.
  std::array<Entry, kCandidatesMax> candidates{};
  Entry entry{};           ///< the one that has been found
  RecordHeader header{};   ///< as it was READ last
  std::uint64_t pin = 0;   ///< renewals before it
  bool pinned = false;     ///< the lease is not renewed twice before it has ended
  bool looked_up = false;  ///< the server has been asked
  std::uint8_t candidate_count = 0;
  std::uint8_t first = 0;  ///< of those that are being READ
  std::uint8_t lookups = 0;
  std::uint16_t tries = 0;  ///< READs of a torn record

  // Update and atomics.
  std::optional<RecordVersion> expected;
  RecordWord next{};
  std::uint64_t lock = 0;
  std::uint64_t value = 0;
  std::uint64_t swap = 0;
  std::uint64_t give_up_ns = 0;   ///< trying to lock; 0: it was not locked so far
  std::uint32_t data_length = 0;  ///< behind room for a slot header at the begin of the buffer
  std::uint32_t backoff = 0;
  unsigned word = 0;

  // Requests.
  bool taken = false;  ///< the server has been seen to execute it
  Request request{};
  std::optional<Response> response;
  std::uint64_t request_id = 0;  ///< 0: none is under way
  std::uint64_t timer_ns = UINT64_MAX;

  // Registered memory.
  std::byte* request_bytes = nullptr;  ///< kRequestMax
  std::uint32_t request_length = 0;
  std::uint64_t* results = nullptr;  ///< kAtomicResults
  std::byte* buffer = nullptr;       ///< buffer_bytes

  [[nodiscard]] std::span<const std::byte> key() const { return {key_bytes.data(), key_length}; }
  [[nodiscard]] std::optional<std::span<const std::byte>> wanted_key() const {
    if (key_length == 0) return std::nullopt;
    return key();
  }
  [[nodiscard]] bool reads_heads() const { return kind != Kind::read; }
  /// Its result is a record or an arena.
  [[nodiscard]] bool has_place() const {
    return kind != Kind::release_arena && kind != Kind::release_group && kind != Kind::ask;
  }
  /// Where data is for an update, a new record or a request, and behind it room for heads.
  [[nodiscard]] std::byte* data() const { return buffer + sizeof(SlotHeader); }
};

/// A server, and the way there.
struct Client::Link {
  using List = boost::intrusive::list<
      Operation, boost::intrusive::member_hook<Operation, boost::intrusive::list_member_hook<>,
                                               &Operation::hook>>;
  struct Slot {
    bool busy = false;        ///< until the server has answered, even if nobody waits any more
    std::uint64_t id = 0;     ///< of the request
    std::uint64_t known = 0;  ///< the request word, while it is free or nobody has changed it
    std::uint32_t operation = 0;
    bool awaited = false;  ///< by that operation
  };

  std::uint16_t server = 0;
  bool connected = false;
  std::uint32_t connection = 0;  ///< how many there have been
  bool lost = false;             ///< to be told of
  Grant grant;
  std::unique_ptr<roce::ReceiveBuffers> receives;
  dc::Dct* dct = nullptr;
  roce::AddressHandle* ah = nullptr;
  std::optional<dc::PoolTarget> peer;

  List to_post;
  List waiting;  ///< for a request word
  std::array<Slot, kRequestWords> slots{};
  std::uint64_t next_id = 1;  ///< times kRequestWords
  std::size_t operations = 0;

  std::uint64_t renewals = 0;           ///< posted
  std::uint64_t renewals_complete = 0;  ///< of these
  std::uint64_t earlier_renewals = 0;   ///< before this connection
  /// hold()s, of odd and of even counts: of the last renewal and the one before.
  std::array<std::uint32_t, 2> holds{};
  /// When the last renewals were posted, by number.
  std::array<std::uint64_t, kRenewals> renewed_ns{};
  std::uint64_t lease_ends_ns = 0;  ///< the server does not fence us before
  std::uint64_t next_renewal_ns = 0;
  bool held_up = false;

  [[nodiscard]] std::uint64_t posted_renewals() const { return earlier_renewals + renewals; }
};

inline Client::Link& Client::link_of(const Operation& operation) {
  return *links_[operation.server];
}

}  // namespace rockhopper::dag
