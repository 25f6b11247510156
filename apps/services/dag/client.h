// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "apps/services/dag/counters.h"
#include "apps/services/dag/directory.h"
#include "apps/services/dag/grant.h"
#include "apps/services/dag/lease.h"
#include "apps/services/dag/message.h"
#include "apps/services/dag/placement.h"
#include "apps/services/dag/result.h"
#include "dc/endpoint.h"
#include "dc/target_address.h"
#include "roce/owned.h"

namespace rockhopper::dag {

struct ClientParts;

struct ClientConfig {
  std::uint32_t entries = 65536;       ///< of its own map, 1 to 2^26
  std::uint16_t operations = 64;       ///< at a time, 1 to 4096
  std::uint32_t buffer_bytes = 65536;  ///< of each operation: the largest record, 4 KiB to 1 GiB
  std::uint64_t request_timeout_ns = 500'000'000;  ///< for which a server may take no notice
  std::uint64_t update_timeout_ns = 500'000'000;   ///< for which an update waits for a lock
  std::uint16_t dcis = 8;  ///< servers that can be reached at a time, 1 to 1024
  roce::PathMtu path_mtu = roce::PathMtu::mtu_1024;
  std::uint8_t timeout = 14;   ///< local ACK timeout code
  std::uint8_t retry_cnt = 7;  ///< 0 to 7
};

/// What a client tells. Called from progress(); on_result() may begin operations.
class ClientListener {
 public:
  ClientListener() = default;
  ClientListener(const ClientListener&) = delete;
  ClientListener& operator=(const ClientListener&) = delete;
  virtual ~ClientListener() = default;
  /// Once for each operation that has begun.
  virtual void on_result(const Result& result) = 0;
  /// It cannot be reached, or has fenced us, or may have: no renewal of the lease was complete in
  /// time. Operations that it had end in the next turns, with an error unless they were complete
  /// but for the answer; others can begin after connect().
  virtual void on_server_lost(std::uint16_t /*server*/) {}
};

/// Whether an operation has begun.
enum class Started : std::uint8_t {
  yes,          ///< on_result() will tell
  no_room,      ///< as many are under way as there may be
  invalid,      ///< a key, length or server out of range
  unreachable,  ///< there is no connection to the server
};

/// Reads, updates, creates and deletes records of one or several servers, each by its key: finds
/// entries that may match in its own map, READs the records and lets them decide (DG-6 to DG-9).
/// Only without a good entry is a server asked, by one request, whose answer is the entry (DG-16,
/// DG-31). Operations are independent: two of the same key may take effect in any order.
///
/// This class begins them and joins the parts: an Operation goes its way by itself, and a
/// ServerLink has what they have in common at one server.
///
/// Servers have the numbers from 0 to servers() - 1. target(), connected() and lease() require one
/// of these; the calls that begin something refuse others.
///
/// Belongs to the engine's thread. Operations allocate nothing.
class Client {
 public:
  /// All must outlive it. `placement` says which of its servers() has a key.
  [[nodiscard]] static Expected<std::unique_ptr<Client>> create(roce::Engine& engine,
                                                                dc::Endpoint& endpoint,
                                                                Placement placement,
                                                                ClientListener& listener,
                                                                const ClientConfig& config);
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;
  /// What is under way is not told any more.
  ~Client();

  /// By which that server reaches it: for Server::add_client().
  [[nodiscard]] const dc::Dct& target(std::uint16_t server) const;
  /// Connects to a server, (again) after on_server_lost(), with what it has granted. From now on
  /// the lease is renewed, by progress(). Fails with `busy` while operations of the last connection
  /// are under way.
  [[nodiscard]] Expected<void> connect(std::uint16_t server, const roce::AddressVector& av,
                                       const Grant& grant, std::uint64_t now_ns);
  [[nodiscard]] bool connected(std::uint16_t server) const;
  [[nodiscard]] std::uint16_t server_of(std::span<const std::byte> key) const {
    return placement_.server_of(key);
  }

  [[nodiscard]] std::uint16_t servers() const { return placement_.servers(); }

  using Key = std::span<const std::byte>;  ///< 1 to kKeyMax bytes; copied
  /// A record, by its key, or where a pointer leads: `not_found` when it is not there any more.
  class Record {
   public:
    // NOLINTBEGIN(google-explicit-constructor): either says which record.
    template <std::convertible_to<Key> Bytes>
    Record(const Bytes& key) : key_(key) {}
    Record(const Pointer& pointer) : pointer_(&pointer) {}
    // NOLINTEND(google-explicit-constructor)

   private:
    friend class Client;
    Key key_;
    const Pointer* pointer_ = nullptr;
  };

  /// The record's data, version and control words, without any software of the server (DG-18).
  [[nodiscard]] Started read(const Record& record, std::uint64_t context);
  /// Replaces the data, by WRITEs and CAS alone (DG-19). Readers find the old data or the new one.
  /// With `expected`, only of that version. The data is copied.
  [[nodiscard]] Started update(const Record& record, std::span<const std::byte> data,
                               std::uint64_t context, std::optional<RecordVersion> expected = {});
  /// Adds to a control word of the record. With `outcome_unknown` it may have been done.
  [[nodiscard]] Started fetch_add(const Record& record, unsigned word, std::uint64_t add,
                                  std::uint64_t context);
  [[nodiscard]] Started compare_swap(const Record& record, unsigned word, std::uint64_t compare,
                                     std::uint64_t swap, std::uint64_t context);

  struct CreateOptions {
    std::uint32_t capacity = 0;  ///< of data, for later updates; at least the data's length
    bool fixed = false;          ///< never updated: takes half of the memory
    ControlWords control{};
  };
  /// Asks the server for a record (DG-20). `data` has up to kCreateDataMax bytes. After `timed_out`
  /// there is none, and will be none by this.
  [[nodiscard]] Started create(Key key, std::span<const std::byte> data,
                               const CreateOptions& options, std::uint64_t context);
  [[nodiscard]] Started erase(Key key, std::uint64_t context);
  /// Asks for the entry only.
  [[nodiscard]] Started lookup(Key key, std::uint64_t context);
  /// Moves the record into room for `capacity` bytes of data.
  [[nodiscard]] Started resize(Key key, std::uint32_t capacity, std::uint64_t context);

  /// Memory at a server for records that this client makes by itself. It is released with the
  /// client, or, if it has a group, a name of up to kKeyMax bytes, by release_group() alone.
  [[nodiscard]] Started allocate_arena(std::uint16_t server, std::uint64_t bytes,
                                       std::uint64_t context,
                                       std::span<const std::byte> group = {});
  /// Makes the record in an arena, `offset` bytes (a multiple of 64) from its begin, by one WRITE.
  /// The result's pointer leads there, for any client that gets it; no map does before adopt(). Two
  /// records of an arena must not overlap or have the same `number`, which is at most its bytes /
  /// 128.
  struct ArenaPlace {
    Pointer arena;
    std::uint64_t offset = 0;
    std::uint64_t number = 0;
  };
  [[nodiscard]] Started write_record(const ArenaPlace& place, Key key,
                                     std::span<const std::byte> data, const CreateOptions& options,
                                     std::uint64_t context);
  /// Writes raw bytes into an own arena, `offset` bytes from its begin: up to buffer_bytes, at
  /// least one. They are copied. The result's pointer is the arena's.
  [[nodiscard]] Started write_arena(const Pointer& arena, std::uint64_t offset,
                                    std::span<const std::byte> data, std::uint64_t context);
  /// Has the server put a record of an arena into its map. The placement must give the key to the
  /// arena's server.
  [[nodiscard]] Started adopt(const Pointer& record, Key key, std::uint64_t context);
  /// Gives it back. Records in it that were adopted stay until they are deleted.
  [[nodiscard]] Started release_arena(const Pointer& arena, std::uint64_t context);
  /// Releases all arenas of a group at that server, whichever clients have them; `ok` if there are
  /// none too. Who still writes into one must know that the group is there: a write that begins
  /// later than two renewals of the lease after this may harm other records.
  [[nodiscard]] Started release_group(std::uint16_t server, std::span<const std::byte> group,
                                      std::uint64_t context);

  /// A request to the server's application (ServerApplication), executed once if at all. Name and
  /// data have up to kKeyMax and kCreateDataMax bytes, none perhaps; they are copied. Times out as
  /// create() does. The result's status and value are the application's; `invalid` also if there is
  /// none.
  [[nodiscard]] Started ask(std::uint16_t server, std::uint8_t code,
                            std::span<const std::byte> name, std::span<const std::byte> data,
                            std::uint64_t value, std::uint64_t context);

  /// Another client's pointer with our rkey, by which alone we reach the record.
  [[nodiscard]] Pointer own(const Pointer& pointer) const;
  /// Puts a pointer into its own map that came by another way, from a record or a message, say.
  /// Whatever leads to a record, the record decides. None if it is out of range.
  void remember(const Pointer& pointer);

  /// The lease at that server, over all connections to it, for those who change memory otherwise
  /// than by this client's operations (Lease::hold()).
  [[nodiscard]] Lease& lease(std::uint16_t server);

  /// One turn. True if there was something to do.
  bool progress(std::uint64_t now_ns);
  /// When progress() has something to do if nothing else happens.
  [[nodiscard]] std::uint64_t next_deadline_ns() const;

  [[nodiscard]] std::size_t in_use() const;  ///< operations under way
  [[nodiscard]] const ClientConfig& config() const { return config_; }
  [[nodiscard]] const Directory& directory() const;
  [[nodiscard]] const ClientCounters& counters() const;
  /// Any thread.
  void visit_counters(stack::CounterVisitor visit, void* context) const;
  /// Calls `visit` with the name of each counter and what it counts, in one line. Any thread.
  static void describe_counters(stack::CounterTextVisitor visit, void* context) {
    ClientCounters::describe(visit, context);
  }

 private:
  Client(roce::Engine& engine, dc::Endpoint& endpoint, Placement placement,
         ClientListener& listener, const ClientConfig& config);
  [[nodiscard]] Expected<void> set_up();
  /// Begins an operation, which `go(operation)` has to carry on.
  template <typename Go>
  [[nodiscard]] Started start(Kind kind, std::uint16_t server, Key key, std::uint64_t context,
                              const Go& go);
  template <typename Go>
  [[nodiscard]] Started start(Kind kind, const Record& record, std::uint64_t context, const Go& go);
  [[nodiscard]] Started start_atomic(Kind kind, const Record& record, unsigned word,
                                     std::uint64_t value, std::uint64_t swap,
                                     std::uint64_t context);
  [[nodiscard]] Started request(Kind kind, std::uint16_t server, Key key, const Request& request,
                                std::span<const std::byte> data, std::uint64_t context);
  [[nodiscard]] bool poll_sends();

  roce::Engine& engine_;
  dc::Endpoint& endpoint_;
  Placement placement_;
  ClientConfig config_;
  roce::OwnedPd pd_;
  std::unique_ptr<roce::CompletionQueue> send_cq_;
  std::unique_ptr<ClientParts> parts_;
};

}  // namespace rockhopper::dag
