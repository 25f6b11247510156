// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include <boost/intrusive/list.hpp>

#include "apps/services/dag/message.h"
#include "apps/services/dag/record_search.h"
#include "apps/services/dag/result.h"
#include "apps/services/dag/work_list.h"

namespace rockhopper::dag {

struct ClientParts;
class ServerLink;

/// An operation of a client, from its begin to its result. One after the other use the same object
/// and its registered memory.
///
/// It is in one stage at a time, and waits for the transport, for the server's answer, or for time.
/// Each stretch of the way has a class of its own: Reading, Updating, ControlWord, Writing and
/// Requesting. All come back here: to have posted what they have added to the work, and when the
/// operation has come to something.
class Operation {
 public:
  class Reading;
  class Updating;
  class ControlWord;
  class Writing;
  class Requesting;

  enum class Stage : std::uint8_t {
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
  /// Atomics of one stage; where they return what they have found.
  static constexpr std::size_t kAtomicResults = 2;
  /// Registered memory.
  struct Memory {
    std::byte* request = nullptr;      ///< kRequestMax
    std::uint64_t* results = nullptr;  ///< kAtomicResults
    std::byte* buffer = nullptr;       ///< ClientConfig::buffer_bytes
  };
  /// A timer that begins with the next turn, as that of a request does.
  static constexpr std::uint64_t kNextTurn = UINT64_MAX - 1;

  Operation(ClientParts& client, std::uint32_t index, const Memory& memory)
      : client_(client), index_(index), memory_(memory) {}

  [[nodiscard]] std::uint32_t index() const { return index_; }
  [[nodiscard]] bool is_active() const { return link_ != nullptr; }
  [[nodiscard]] bool is_of(const ServerLink& link) const { return link_ == &link; }
  [[nodiscard]] std::span<const std::byte> key() const { return {key_.data(), key_length_}; }
  /// Something changes that a renewal of the lease has to wait for, since renewal `renewal`.
  [[nodiscard]] bool is_pinned_before(std::uint64_t renewal) const {
    return is_active() && is_pinned_ && pin_ < renewal;
  }
  [[nodiscard]] WorkList& work() { return work_; }
  [[nodiscard]] bool is_waiting_for_word() const { return stage_ == Stage::waiting; }
  [[nodiscard]] std::uint64_t timer_ns() const { return timer_ns_; }

  /// Nothing has begun yet; something has to. The link is connected. The key is copied.
  void begin(Kind kind, ServerLink& link, std::span<const std::byte> key, std::uint64_t context);
  /// A request to the transport is complete.
  void on_completion(std::size_t work, roce::WcStatus status);
  /// The server has answered its request.
  void on_answer(const Response& response);
  /// The connection is lost; it ends in the next turn, or when what is outstanding is complete.
  void on_link_lost();
  /// Its request has got a word, and can be sent.
  void on_word(std::uint64_t request_id);
  /// For OperationTable::arm() alone.
  void set_timer(std::uint64_t when_ns) { timer_ns_ = when_ns; }
  /// The time has come.
  void on_timer();

  boost::intrusive::list_member_hook<> hook;  ///< of its link's lists

 private:
  static constexpr std::uint64_t kPauseNs = 1000;  ///< before another try, at least

  /// An update of a record.
  struct Update {
    std::optional<RecordVersion> expected;
    RecordHeader header{};  ///< as it was READ last
    RecordWord next{};      ///< what the word is to be
    std::uint64_t lock = 0;
    std::uint64_t give_up_ns = 0;   ///< trying to lock; 0: it was not locked so far
    std::uint32_t data_length = 0;  ///< behind room for a slot header at the begin of the buffer
    std::uint32_t backoff = 0;
  };
  /// An atomic on a control word.
  struct Atomic {
    unsigned word = 0;
    std::uint64_t value = 0;
    std::uint64_t swap = 0;
  };
  /// A request to the server's software.
  struct Asked {
    Request request{};
    std::optional<Response> response;
    std::uint64_t id = 0;  ///< of the last one that was sent
    std::uint32_t length = 0;
    bool is_taken = false;  ///< the server has been seen to execute it
  };

  // Requests to the transport.
  /// Nothing is to be posted so far in the stage.
  void enter(Stage stage);
  void pin(bool changes);
  void add_read(const Entry& entry, std::uint32_t length, std::byte* to);
  void add_write(std::byte* from, std::size_t length, std::uint64_t remote, roce::MemoryKey rkey);
  void add_atomic(roce::WrOpcode opcode, unsigned result, std::uint64_t address,
                  roce::MemoryKey rkey, std::uint64_t compare_add, std::uint64_t swap);
  /// Where heads are READ to: behind the data of an update.
  [[nodiscard]] std::byte* head_room() const;
  [[nodiscard]] std::optional<std::span<const std::byte>> wanted_key() const {
    return key_length_ == 0 ? std::nullopt : std::optional(key());
  }
  void submit();
  [[nodiscard]] bool is_quiet() const { return !work_.is_outstanding() && !hook.is_linked(); }
  void advance();
  void retry_at(std::uint64_t when_ns);

  // The result.
  void tell(Result result);
  void finish(Status status) { finish(Result{.status = status}); }
  void finish(const Result& result);

  ClientParts& client_;
  const std::uint32_t index_;
  const Memory memory_;
  ServerLink* link_ = nullptr;  ///< null: it is free
  std::uint64_t context_ = 0;
  Kind kind_ = Kind::read;
  Stage stage_ = Stage::reading;
  std::array<std::byte, kKeyMax> key_{};
  std::uint16_t key_length_ = 0;  ///< 0: it goes by a pointer, or has none
  bool is_failed_ = false;        ///< the connection is lost
  bool is_told_ = false;          ///< its result
  bool is_pinned_ = false;        ///< the lease is not renewed twice before it has ended
  std::uint64_t pin_ = 0;         ///< renewals before it
  std::uint64_t timer_ns_ = UINT64_MAX;
  WorkList work_;
  RecordSearch search_;
  Update update_;
  Atomic atomic_;
  Asked asked_;
};

}  // namespace rockhopper::dag
