// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <unordered_map>

#include <boost/intrusive/list.hpp>
#include <infiniband/verbs.h>

#include "apps/verbs/node/node.h"
#include "apps/verbs/objects/event_units.h"
#include "apps/verbs/objects/object.h"
#include "stack/error.h"

namespace rockhopper::verbs {

class Cq;
class Qp;
class Srq;

/// An opened device. Its asynchronous events wait here until the program takes them.
class Context final : public verbs_context, private EventSink {
 public:
  /// `device` is the thin library's. Not in a Section.
  [[nodiscard]] static Expected<Context*> open(ibv_device* device);
  /// Ends what is left of the context's objects. Not in a Section.
  ~Context() override;

  /// The context behind a pointer that a program has given; null if there is none.
  [[nodiscard]] static Context* from(ibv_context* verbs);
  [[nodiscard]] ibv_context* verbs() { return &context; }
  [[nodiscard]] Node& node() const { return node_; }
  [[nodiscard]] roce::Engine& engine() const { return node_.engine(); }

  /// Which of the process's contexts it is, from 1 on.
  [[nodiscard]] std::uint32_t number() const { return number_; }

  // In a Section.
  /// A handle that no object has had; not 0.
  [[nodiscard]] std::uint32_t next_id() {
    return next_id_ = next_id_ == INT32_MAX ? 1 : next_id_ + 1;
  }
  void add(Object& object) { objects_.push_back(object); }
  template <typename Visit>
  void for_each_object(Visit visit) {
    for (Object& object : objects_) {
      visit(object);
    }
  }

  // The objects that events are of. Several queue pairs may have one number: handles of a shared
  // one.
  void add(Qp& qp);
  void remove(Qp& qp);
  void add(Cq& cq);
  void remove(Cq& cq);
  void add(Srq& srq);
  void remove(Srq& srq);

  /// As ibv_get_async_event, returning an errno. Not in a Section.
  [[nodiscard]] int take_event(ibv_async_event& event);

 private:
  Context(ibv_device* device, Node& node, std::unique_ptr<EventUnits> units);

  void on_async_event(const roce::AsyncEvent& event) override;
  std::size_t list_queue_pairs() override;
  void on_queue_pair_event(const roce::AsyncEvent& event, ibv_event_type type);
  void push(const ibv_async_event& event);
  template <typename Match>
  void withdraw(Match match);
  void abandon_objects();

  Node& node_;
  std::uint32_t magic_;
  const std::uint32_t number_;
  Listing listing_;
  std::uint32_t next_id_ = 0;
  std::unique_ptr<EventUnits> units_;
  std::deque<ibv_async_event> events_;
  std::unordered_multimap<std::uint32_t, Qp*> qps_;
  std::unordered_map<const roce::CompletionQueue*, Cq*> cqs_;
  std::unordered_map<const roce::SharedReceiveQueue*, Srq*> srqs_;
  boost::intrusive::list<Object, boost::intrusive::constant_time_size<false>> objects_;
};

// Verbs.
[[nodiscard]] ibv_context* open_device(ibv_device* device);
[[nodiscard]] int close_device(ibv_context* verbs);
[[nodiscard]] int get_async_event(ibv_context* verbs, ibv_async_event* event);
void ack_async_event(ibv_async_event* event);

}  // namespace rockhopper::verbs
