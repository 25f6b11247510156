// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "apps/services/ami/collective_message.h"
#include "apps/services/ami/collective_plan.h"
#include "apps/services/ami/context.h"
#include "apps/services/ami/counters.h"
#include "apps/services/ami/peer.h"
#include "stack/error.h"

namespace rockhopper::ami {

/// A collective that has been started, or that was. The application's; it stays where it is from
/// the start to the end, as does the memory that the collective is about. It can be started again
/// then.
class Request {
 public:
  Request() = default;
  /// `callback` is called from Context::advance() once for each start, and may start collectives.
  explicit Request(const Callback& callback) : callback_(callback) {}
  Request(const Request&) = delete;
  Request& operator=(const Request&) = delete;

  /// Returns true, too, if it has never been started.
  [[nodiscard]] bool done() const { return done_; }
  /// Returns the status of the last start. With another status than ok nothing is said of the
  /// memory's content.
  [[nodiscard]] Status status() const { return status_; }

 private:
  friend class Communicator;
  Callback callback_{};
  bool done_ = true;
  Status status_ = Status::ok;
};

struct CommunicatorConfig {
  /// 0 to 255: tells the communicators of a context from each other. The same at all ranks, and not
  /// used again while messages of a former one may be under way.
  std::uint8_t id = 0;
  /// All ranks in the same order, this one at its place with whatever id; below max_endpoints.
  std::vector<EndpointId> members;
  Rank rank = 0;  ///< our own
  /// Collectives that may be in flight, a power of two from 2 to 1024; the same at all ranks. A
  /// rank can be so far ahead of the slowest one, at most.
  std::uint16_t window = 16;
  /// The longest vector of an all-reduce, and the longest broadcast that is sent without asking; a
  /// multiple of 8, at most the lanes' immediate_bytes less 16. The same at all ranks.
  std::uint16_t vector_bytes = 128;
};

/// A group of endpoints that take part in collectives: all of them start the same ones in the same
/// order. No function waits; Context::advance() drives what has been started. When a rank is gone,
/// when ranks do not agree on a collective or one cancels, the communicator is broken at all ranks:
/// what is in flight ends with an error, and what is started later. No allocation after its making,
/// and memory for `window` collectives, whatever the other ranks do.
class Communicator final : private Context::Service {
 public:
  /// All ranks make theirs before any of them starts a collective: before their lanes are open, or
  /// with a barrier of another communicator in between. The context must outlive it.
  [[nodiscard]] static Expected<std::unique_ptr<Communicator>> create(
      Context& context, const CommunicatorConfig& config);
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;
  /// When it is idle().
  ~Communicator() override;

  [[nodiscard]] Rank rank() const { return config_.rank; }
  [[nodiscard]] Rank size() const { return static_cast<Rank>(config_.members.size()); }

  /// Done when all ranks have started it.
  [[nodiscard]] Injected barrier(Request& request);
  /// Done when the root's bytes are here; at the root, when its memory is free. Up to
  /// max_message_bytes. Beyond vector_bytes `memory` is registered, for remote READ too.
  [[nodiscard]] Injected broadcast(const Local& memory, Rank root, Request& request);
  /// `vector` has this rank's elements, and in the end the result: for each element the reduction
  /// over all ranks, by a tree that depends on their number only (docs/ami.md); the same bits at
  /// all ranks. Up to vector_bytes.
  [[nodiscard]] Injected all_reduce(std::span<std::int64_t> vector, Reduction reduction,
                                    Request& request);
  [[nodiscard]] Injected all_reduce(std::span<std::uint64_t> vector, Reduction reduction,
                                    Request& request);
  [[nodiscard]] Injected all_reduce(std::span<double> vector, Reduction reduction,
                                    Request& request);

  /// Why it is broken; ok: it is not.
  [[nodiscard]] Status status() const { return status_; }
  /// Breaks it, at all ranks. The application goes on with advance() until it is idle().
  void cancel();
  /// Returns true if nothing of it is under way here: all requests are done, and what was sent has
  /// arrived, or never will.
  [[nodiscard]] bool idle() const;

  [[nodiscard]] const CollectiveCounters& counters() const { return counters_; }
  /// Any thread.
  void visit_counters(void (*visit)(void* context, const char* name, std::uint64_t value),
                      void* context) const;
  /// Calls `visit` with the name of each counter and what it counts, in one line. Any thread.
  static void describe_counters(void (*visit)(void* context, const char* name, const char* text),
                                void* context);

 private:
  /// Sent once more, if it is not known what became of a message, or another one's fate flushed it.
  static constexpr std::uint8_t kMaxResends = 16;

  /// A collective, from the first that is known of it to the last.
  struct Slot {
    enum class Phase : std::uint8_t {
      unknown,
      announced,  ///< by messages: not started here
      running,
      complete,  ///< all steps are done
      retired,   ///< and all that was sent has arrived
    };
    Phase phase = Phase::unknown;
    CollectiveCall call{};
    Plan plan{};
    std::uint32_t sequence = 0;
    std::uint32_t arrived = 0;  ///< bits by round
    std::uint32_t served = 0;   ///< bits by step
    std::uint32_t resend = 0;   ///< likewise
    std::uint8_t next = 0;      ///< exchange
    bool next_sent = false;
    std::uint8_t resends = 0;
    std::uint8_t value = 0;                            ///< which of its buffers has the vector
    std::array<std::uint8_t, Plan::kMaxSteps> sent{};  ///< which one each step sent
    std::uint32_t outstanding = 0;                     ///< messages
    std::uint32_t borrowed = 0;                        ///< of these, from the application's memory
    bool watched = false;                              ///< those from which it awaits messages
    Local memory{};
    Request* request = nullptr;  ///< null: told, or the communicator's own
  };

  Communicator(Context& context, const CommunicatorConfig& config);

  [[nodiscard]] std::uint32_t epoch_length() const { return config_.window / 2u; }
  [[nodiscard]] std::byte* buffer(const Slot& slot, std::size_t which);
  [[nodiscard]] Injected all_reduce(void* vector, std::size_t length, ElementType element,
                                    Reduction reduction, Request& request);
  [[nodiscard]] Injected start(const CollectiveCall& call, const Local& memory, bool valid,
                               Request& request);
  void prepare(Slot& slot, const CollectiveCall& call, std::uint32_t sequence);
  void run(Slot& slot);
  void watch(Slot& slot);
  void unwatch(Slot& slot);
  void progress(Slot& slot);
  [[nodiscard]] bool do_exchanges(Slot& slot);
  [[nodiscard]] bool do_services(Slot& slot);
  [[nodiscard]] bool do_resends(Slot& slot);
  void take(Slot& slot, const Step& step);
  [[nodiscard]] bool send(Slot& slot, std::size_t step, bool again = false);
  void settle(Slot& slot);
  void end(Slot& slot, Status status);
  void retire(Slot& slot);
  void begin_sync();

  void on_message(const Message& message);
  [[nodiscard]] Slot* find(const CollectiveMessage& message);
  void disagree();
  void store(Slot& slot, const CollectiveMessage& message, const Message& from, Rank source);
  void on_sent(std::uint64_t cookie, Status status);

  void break_up(Status status);
  void tell_neighbours();

  std::size_t advance() override;
  void on_peer_failed(EndpointId id) override;
  void on_closed() override { break_up(Status::canceled); }

  Context& context_;
  CommunicatorConfig config_;
  std::vector<Rank> rank_of_;  ///< by endpoint; kNobody
  std::vector<Rank> neighbours_;
  std::size_t buffers_per_slot_;
  std::vector<std::byte> bytes_;
  std::vector<Slot> slots_;                ///< `window`, and two for syncs
  std::uint32_t next_ = 0;                 ///< sequence number
  std::uint32_t retired_epochs_ = 0;       ///< whose collectives are all retired here
  std::uint32_t synced_epochs_ = 0;        ///< at all ranks
  std::vector<std::uint32_t> retired_in_;  ///< of an epoch, by its lowest bit
  std::uint32_t in_flight_ = 0;            ///< requests that have not ended
  BoundedQueue<Request*> ended_;
  std::uint64_t outstanding_ = 0;  ///< messages
  bool stalled_ = false;           ///< something wants to be sent for which there was no room
  Status status_ = Status::ok;
  bool tells_ = false;    ///< the application knows that it is broken, so the neighbours shall
  std::size_t told_ = 0;  ///< neighbours
  CollectiveCounters counters_;
};

}  // namespace rockhopper::ami
