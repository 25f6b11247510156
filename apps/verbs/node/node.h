// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include <rte_ether.h>

#include "apps/verbs/node/engine_lock.h"
#include "apps/verbs/node/link.h"
#include "apps/verbs/node/progress.h"
#include "apps/verbs/node/resources.h"
#include "apps/verbs/node/settings.h"
#include "apps/verbs/node/tally_writer.h"
#include "roce/async_event.h"
#include "roce/engine.h"
#include "roce/memory.h"
#include "roce/random.h"
#include "stack/clock.h"
#include "stack/error.h"
#include "stack/host.h"
#include "stack/notifier.h"
#include "stack/plain_pool.h"
#include "stack/uncancelled.h"
#include "stack/worker.h"

namespace rockhopper::verbs {

/// Is told of what happens in the engine, in a Section.
class EventSink {
 public:
  EventSink() = default;
  EventSink(const EventSink&) = delete;
  EventSink& operator=(const EventSink&) = delete;
  virtual ~EventSink() = default;
  virtual void on_async_event(const roce::AsyncEvent& event) = 0;
  /// Queue pairs may have moved: lists them as they are. Returns how many there are.
  virtual std::size_t list_queue_pairs() = 0;
};

/// What is served beside the engine, by whoever takes the node's turns.
class Service {
 public:
  Service() = default;
  Service(const Service&) = delete;
  Service& operator=(const Service&) = delete;
  virtual ~Service() = default;

  // In a Section.
  /// Packets may have come, or its deadline.
  virtual void poll(std::uint64_t now_ns) = 0;
  /// When poll() has work again besides what comes; kNever: not by itself.
  [[nodiscard]] virtual std::uint64_t next_deadline_ns() const = 0;
  /// The process ends: says so to its peers.
  virtual void end() = 0;
};

/// The device as one process has it: engine, host, link and clock, and what moves packets. There is
/// no EAL. Its parts belong to whoever is in a Section; the thread of Progress is one of these.
class Node {
 public:
  [[nodiscard]] static Expected<std::unique_ptr<Node>> open(Settings settings);
  Node(const Node&) = delete;
  Node& operator=(const Node&) = delete;
  /// Not in a Section. Requires that nothing made by the engine is in use.
  ~Node();

  /// Held by a Section.
  [[nodiscard]] EngineLock& lock() { return lock_; }
  [[nodiscard]] Progress& progress() { return progress_; }
  [[nodiscard]] const stack::TscClock& clock() const { return clock_; }
  [[nodiscard]] const Settings& settings() const { return settings_; }
  [[nodiscard]] const rte_ether_addr& mac() const { return mac_; }

  /// The process is a child of the one that has opened this node: nothing of it may be touched.
  [[nodiscard]] bool abandoned() const { return abandoned_.load(std::memory_order_relaxed); }
  /// In the child of fork().
  void abandon() noexcept;

  // In a Section.
  [[nodiscard]] roce::Engine& engine() { return *engine_; }
  [[nodiscard]] stack::Worker& worker() { return *worker_; }
  /// This process's place in the segment.
  [[nodiscard]] stack::segment::Membership& membership() { return link_->membership(); }
  /// Not owned; null: there is none any more.
  void set_service(Service* service) { service_ = service; }
  /// To be called after each turn of the worker.
  void serve() {
    if (service_ != nullptr) [[unlikely]] {
      const stack::Uncancelled uncancelled;
      service_->poll(clock_.now_ns());
    }
  }
  /// What has been made of this device, for whoever looks at the segment.
  [[nodiscard]] Resources& resources() { return *resources_; }
  /// Tells the others what this process has counted and, not too often where they are many, how its
  /// queue pairs are.
  void tell(std::uint64_t now_ns) {
    tallies_->write();
    if (now_ns >= next_listing_ns() || now_ns - listed_ns_ >= list_period_ns_) list(now_ns);
  }
  /// When tell() has queue pairs to list that have gone to other states; kNever: there are none.
  [[nodiscard]] std::uint64_t next_listing_ns() const {
    return engine_->state_changes() == listed_changes_ ? stack::kNever
                                                       : listed_ns_ + list_pause_ns_;
  }
  /// As tell(), unless that was done within TallyWriter::kPeriodNs.
  void tell_when_due(std::uint64_t now_ns) {
    if (now_ns - told_ns_ < TallyWriter::kPeriodNs) return;
    told_ns_ = now_ns;
    tell(now_ns);
  }
  /// When a turn has work again besides what comes.
  [[nodiscard]] std::uint64_t next_deadline_ns() const;
  /// The process ends: what its peers are to know leaves.
  void finish();
  void add_sink(EventSink& sink) { sinks_.push_back(&sink); }
  void remove_sink(EventSink& sink) { std::erase(sinks_, &sink); }
  /// Sends what waits, acknowledgements above all: what a device would have sent by itself before
  /// the program ends a queue pair, or itself. Waits until peers have room for it, unless they
  /// stand still, but not for answers.
  void settle();
  /// Tells the sinks of what has happened. The end of each section does it.
  void tell_events() {
    if (events_.pending) [[unlikely]] {
      distribute_events();
    }
  }

 private:
  /// Notes that the engine has events.
  struct EventFlag final : stack::Notifier {
    void notify() noexcept override { pending = true; }
    bool pending = false;
  };

  /// The memory is this process's.
  struct Pager final : roce::MemoryPager {
    bool page_in(const std::byte* data, std::uint64_t length, bool writes) override;
  };

  explicit Node(Settings settings);
  [[nodiscard]] Expected<void> make_link();
  [[nodiscard]] Expected<void> make_host();
  [[nodiscard]] Expected<void> make_engine();
  void make_tellers();
  void send_what_waits();
  void list(std::uint64_t now_ns);
  [[nodiscard]] ResourceRecord describe_process() const;
  void distribute_events();

  const Settings settings_;
  EngineLock lock_;
  std::atomic<bool> abandoned_{false};
  stack::TscClock clock_;
  roce::SystemRandom random_;
  EventFlag events_;
  Pager pager_;
  std::vector<EventSink*> sinks_;
  Service* service_ = nullptr;
  rte_ether_addr mac_{};
  // In order of construction: each stands on the ones before.
  std::unique_ptr<stack::PlainPool> pool_;
  std::unique_ptr<NodeLink> link_;
  std::unique_ptr<stack::Host> host_;
  std::unique_ptr<roce::Engine> engine_;
  std::unique_ptr<TallyWriter> tallies_;
  std::unique_ptr<Resources> resources_;
  Listing process_;
  std::uint64_t opened_ns_ = 0;  ///< since 1970
  std::uint64_t told_ns_ = 0;
  std::uint64_t listed_ns_ = 0;
  std::uint64_t listed_changes_ = 0;  ///< of queue pairs' states
  std::uint64_t list_pause_ns_ = 0;
  std::uint64_t list_period_ns_ = 0;
  std::unique_ptr<stack::Worker> worker_;
  Progress progress_;
};

/// The scope in which the calling thread may use a node's engine and what was made from it. It is
/// false, and the node not to be touched, in a child of the process that has opened the node.
class Section {
 public:
  explicit Section(Node& node) : node_(node), entered_(!node.abandoned()) {
    if (entered_) node_.lock().lock();
  }
  Section(const Section&) = delete;
  Section& operator=(const Section&) = delete;
  ~Section() {
    if (!entered_) return;
    node_.tell_events();
    node_.lock().unlock();
  }
  explicit operator bool() const { return entered_; }

 private:
  Node& node_;
  const bool entered_;
};

}  // namespace rockhopper::verbs
