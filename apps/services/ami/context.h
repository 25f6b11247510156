// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "apps/services/ami/counters.h"
#include "apps/services/ami/lane.h"

namespace rockhopper::ami {

/// Registered local memory.
struct Local {
  std::uint64_t addr = 0;
  std::uint32_t length = 0;
  roce::MemoryKey lkey{};  ///< of a message that is longer than eager_bytes also readable remotely
};

/// A peer's registered memory.
struct Remote {
  EndpointId endpoint = 0;
  std::uint64_t addr = 0;
  roce::MemoryKey rkey{};
};

/// What an active message brings; valid while its handler runs.
struct Message {
  EndpointId source = 0;
  std::uint16_t handler = 0;
  std::span<const std::byte> header;
  std::span<const std::byte> payload;
};

enum class Injected : std::uint8_t {
  yes,
  again,  ///< no room; advance() makes some
};

/// How an instruction's end is told.
struct Completion {
  Level level = Level::remote;
  Callback callback{};
};

/// The active messaging interface of one thread: it injects instructions into its lane's FIFO, and
/// calls callbacks and handlers from advance(). No function waits, and none allocates but
/// set_handler(). Belongs to its thread; the adapter that serves the lane may be on another one.
class Context {
 public:
  using Handler = std::function<void(const Message& message)>;

  /// What works on a context besides its handlers, as collectives do.
  class Service {
   public:
    Service() = default;
    Service(const Service&) = delete;
    Service& operator=(const Service&) = delete;
    virtual ~Service() = default;
    /// In each advance(), when its callbacks and handlers have been called. Returns how many
    /// callbacks of its own it called.
    virtual std::size_t advance() = 0;
    /// As failed() says from now on; once for each peer.
    virtual void on_peer_failed(EndpointId id) = 0;
    /// The adapter has closed the lane.
    virtual void on_closed() = 0;
  };

  /// Applications have handlers below that; the others are collectives'.
  static constexpr std::uint16_t kHandlers = 0xff00;

  /// `queue` instructions wait where the FIFO is full (AM-13); 0: none does.
  explicit Context(Lane& lane, std::uint32_t queue = 1024);
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  [[nodiscard]] EndpointId self() const { return lane_.config.self; }
  [[nodiscard]] const LaneConfig& config() const { return lane_.config; }

  /// Bytes at most immediate_bytes long are copied: their memory is free on return (AM-31).
  [[nodiscard]] Injected put(const Local& from, const Remote& to,
                             const Completion& completion = {});
  [[nodiscard]] Injected put(std::span<const std::byte> bytes, const Remote& to,
                             const Completion& completion = {});
  /// A put, and after its data `value` in the aligned 8 bytes at `notify_addr` (AM-14).
  [[nodiscard]] Injected put_notify(const Local& from, const Remote& to, std::uint64_t notify_addr,
                                    std::uint64_t value, const Completion& completion = {});
  [[nodiscard]] Injected get(const Local& to, const Remote& from,
                             const Completion& completion = {});
  /// Adds to the aligned 8 bytes at `to`; what was there comes to `result`.
  [[nodiscard]] Injected fetch_add(const Local& result, const Remote& to, std::uint64_t addend,
                                   const Completion& completion = {});
  /// An active message: `handler` of the peer with a header of up to kMaxHeaderBytes. The payload
  /// is read by the peer if it is long; it may then be overtaken by shorter ones.
  [[nodiscard]] Injected send(EndpointId to, std::uint16_t handler,
                              std::span<const std::byte> header, const Local& payload,
                              const Completion& completion = {});
  /// With a payload that is copied: with the header at most immediate_bytes.
  [[nodiscard]] Injected send(EndpointId to, std::uint16_t handler,
                              std::span<const std::byte> header,
                              std::span<const std::byte> payload = {},
                              const Completion& completion = {});

  /// For messages to `id`, before any comes. An empty one: there is none, which the sender is told.
  void set_handler(std::uint16_t id, Handler handler);

  /// Not from within callbacks and handlers.
  void attach(Service& service);
  void detach(Service& service);
  /// While a peer is watched it is asked for a sign of life when it is silent, though it owes no
  /// reply; watch() and unwatch() count. `id` is below max_endpoints.
  void watch(EndpointId id) { lane_.watches.add(id); }
  void unwatch(EndpointId id) { lane_.watches.remove(id); }
  /// It does not answer, and never will: as advance() has heard by now.
  [[nodiscard]] bool failed(EndpointId id) const { return failed_[id]; }

  /// Calls the callbacks of complete instructions and the handlers of messages that are there;
  /// injects what waits. Returns how many it called. From within one of them nothing happens.
  std::size_t advance();

  /// Instructions that wait for room in the FIFO.
  [[nodiscard]] std::size_t queued() const { return queued_; }
  /// Callbacks that are still to be called.
  [[nodiscard]] std::uint64_t pending() const { return lane_.fifo.pending() + queued_callbacks_; }

  [[nodiscard]] const ContextCounters& counters() const { return counters_; }
  /// Any thread.
  void visit_counters(void (*visit)(void* context, const char* name, std::uint64_t value),
                      void* context) const;
  /// Calls `visit` with the name of each counter and what it counts, in one line. Any thread.
  static void describe_counters(void (*visit)(void* context, const char* name, const char* text),
                                void* context);

 private:
  /// Handled in one advance(), and what came with the last of them, so that callbacks get their
  /// turn.
  static constexpr unsigned kBurst = 64;

  struct Waiting {
    Descriptor descriptor;
    Callback callback;
    std::uint32_t immediate_length;
  };

  /// `fill` makes a transfer of an empty descriptor, where it is to stand.
  template <typename Fill>
  [[nodiscard]] Injected inject(const Fill& fill, std::span<const std::byte> immediate,
                                const Completion& completion);
  template <typename Fill>
  [[nodiscard]] Injected inject_put(const Fill& fill, const Local& from,
                                    const Completion& completion);
  [[nodiscard]] std::byte* queue_bytes(std::size_t index) {
    return queue_immediates_.data() + index * lane_.config.fifo.immediate_bytes;
  }
  void replenish();
  std::size_t handle_arrivals();
  /// Returns false if there is no such handler.
  [[nodiscard]] bool handle(const Message& message);
  void hear(const Arrival& news);

  Lane& lane_;
  std::vector<Handler> handlers_;
  std::vector<Handler> reserved_handlers_;
  std::vector<std::byte> immediate_;  ///< of the instruction that is being made
  std::vector<Waiting> queue_;        ///< a ring
  std::vector<std::byte> queue_immediates_;
  std::size_t first_queued_ = 0;
  std::size_t queued_ = 0;
  std::size_t queued_callbacks_ = 0;
  bool advancing_ = false;
  std::vector<Service*> services_;
  std::vector<bool> failed_;  ///< by id
  ContextCounters counters_;
};

}  // namespace rockhopper::ami
