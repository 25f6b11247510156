// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>
#include <memory>

#include <boost/intrusive/list.hpp>
#include <infiniband/verbs.h>

#include "apps/verbs/node/engine_lock.h"
#include "apps/verbs/objects/acknowledged.h"
#include "apps/verbs/objects/object.h"
#include "roce/completion_queue.h"

namespace rockhopper::verbs {

class Channel;

/// Stands in a channel's list of queues that have events.
struct ChannelTag;
using ChannelHook =
    boost::intrusive::list_base_hook<boost::intrusive::tag<ChannelTag>,
                                     boost::intrusive::link_mode<boost::intrusive::auto_unlink>>;

/// A completion queue, of either form of the interface. What waits in it is taken without the
/// engine.
class Cq final : public ibv_cq_ex,
                 public Object,
                 public ChannelHook,
                 private roce::CompletionHandler {
 public:
  static constexpr Kind kKind = Kind::completion_queue;

  struct Init {
    std::unique_ptr<roce::CompletionQueue> queue{};
    void* cq_context = nullptr;
    Channel* channel = nullptr;
    bool one_thread = false;  ///< the program polls it with one thread at a time
  };
  /// In a Section.
  Cq(Context& owner, Init init);
  ~Cq() override;
  [[nodiscard]] static Cq* from(ibv_cq* verbs) {
    return static_cast<Cq*>(reinterpret_cast<ibv_cq_ex*>(verbs));
  }
  [[nodiscard]] static Cq* from(ibv_cq_ex* verbs) { return static_cast<Cq*>(verbs); }
  [[nodiscard]] ibv_cq* verbs() { return ibv_cq_ex_to_cq(this); }
  using Object::node;  // and not a type of the list's hook

  [[nodiscard]] roce::CompletionQueue& queue() { return *queue_; }

  /// Whether a completion may be there to be taken. Any thread.
  [[nodiscard]] bool has_completions() const { return queue_->size() != 0; }
  /// Takes up to so many completions that are there. Not in a Section; any thread.
  [[nodiscard]] std::size_t take(std::size_t most, ibv_wc* out);
  /// Between begin_polling() and end_polling(), which one thread at a time is: the next completion
  /// is then the current one. Returns false if there is none, after a turn of the engine if
  /// `patient`.
  void begin_polling();
  [[nodiscard]] bool next(bool patient);
  void end_polling();
  [[nodiscard]] const roce::Completion& current() const { return current_; }
  /// When the current one was taken, by the node's clock.
  [[nodiscard]] std::uint64_t taken_ns() const { return taken_ns_; }
  void want_times() { wants_times_ = true; }

  // In a Section.
  [[nodiscard]] Expected<void> resize(std::uint32_t capacity);
  /// Takes out what nobody has polled of a queue pair's completions.
  void discard(wire::Qpn qp);
  void arm(bool solicited_only);
  void count_waiting(int change) { waiting_ += static_cast<std::uint32_t>(change); }
  [[nodiscard]] std::uint32_t waiting() const { return waiting_; }
  /// Its events are for nobody from now on.
  void end_events();

  [[nodiscard]] Acknowledged& completion_events() { return completion_events_; }
  [[nodiscard]] Acknowledged& async_events() { return async_events_; }

 private:
  void release() override;
  void list();
  void on_completion_event(roce::CompletionQueue& cq) override;

  std::unique_ptr<roce::CompletionQueue> queue_;
  Channel* const raised_in_;
  const bool one_thread_;
  bool wants_times_ = false;
  roce::Notify armed_ = roce::Notify::none;
  std::uint64_t told_ = 0;     ///< completions that had been put in at the last event
  std::uint32_t waiting_ = 0;  ///< events in the channel that nobody has taken
  EngineLock poll_lock_;       ///< never waits for a Section while it is held
  roce::Completion current_{};
  std::uint64_t taken_ns_ = 0;
  Acknowledged completion_events_;
  Acknowledged async_events_;
};

// Verbs.
[[nodiscard]] ibv_cq* create_cq(ibv_context* verbs, int cqe, void* cq_context,
                                ibv_comp_channel* channel, int comp_vector);
[[nodiscard]] ibv_cq_ex* create_cq_ex(ibv_context* verbs, ibv_cq_init_attr_ex* init);
[[nodiscard]] int resize_cq(ibv_cq* verbs, int cqe);
[[nodiscard]] int modify_cq(ibv_cq* verbs, ibv_modify_cq_attr* attributes);
[[nodiscard]] int destroy_cq(ibv_cq* verbs);
[[nodiscard]] int poll_cq(ibv_cq* verbs, int count, ibv_wc* completions) noexcept;
[[nodiscard]] int req_notify_cq(ibv_cq* verbs, int solicited_only) noexcept;

}  // namespace rockhopper::verbs
