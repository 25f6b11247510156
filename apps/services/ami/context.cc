// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/services/ami/context.h"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <utility>

#include "apps/services/ami/message.h"

namespace rockhopper::ami {
namespace {

std::span<const std::byte> bytes_of(const Local& local) {
  return {reinterpret_cast<const std::byte*>(local.addr), local.length};
}

/// Names the memory at both ends.
void to_memory(Descriptor& descriptor, Operation operation, const Local& local,
               const Remote& remote) {
  descriptor.operation = operation;
  descriptor.endpoint = remote.endpoint;
  descriptor.length = local.length;
  descriptor.local_addr = local.addr;
  descriptor.lkey = local.lkey;
  descriptor.remote_addr = remote.addr;
  descriptor.rkey = remote.rkey;
}

}  // namespace

Context::Context(Lane& lane, std::uint32_t queue)
    : lane_(lane),
      immediate_(lane.config.fifo.immediate_bytes),
      queue_(queue),
      queue_immediates_(std::size_t{queue} * lane.config.fifo.immediate_bytes),
      failed_(lane.config.max_endpoints) {}

template <typename Fill>
Injected Context::inject(const Fill& fill, std::span<const std::byte> immediate,
                         const Completion& completion) {
  const auto fill_all = [&](Descriptor& descriptor) {
    fill(descriptor);
    descriptor.level = completion.level;
  };
  // In order: nothing passes what waits.
  if (queued_ == 0 && lane_.fifo.inject(fill_all, immediate, completion.callback)) {
    counters_.injected.add();
    return Injected::yes;
  }
  if (queued_ == queue_.size()) {
    counters_.again.add();
    return Injected::again;
  }
  counters_.injected.add();
  counters_.queued.add();
  const std::size_t index = (first_queued_ + queued_) % queue_.size();
  queue_[index] = {.callback = completion.callback,
                   .immediate_length = static_cast<std::uint32_t>(immediate.size())};
  fill_all(queue_[index].descriptor);
  if (!immediate.empty()) std::memcpy(queue_bytes(index), immediate.data(), immediate.size());
  ++queued_;
  if (completion.callback.function != nullptr) ++queued_callbacks_;
  return Injected::yes;
}

template <typename Fill>
Injected Context::inject_put(const Fill& fill, const Local& from, const Completion& completion) {
  const bool copied = from.length <= lane_.config.fifo.immediate_bytes;
  return inject(
      [&](Descriptor& descriptor) {
        fill(descriptor);
        if (copied) descriptor.flags = Descriptor::kImmediate;
      },
      copied ? bytes_of(from) : std::span<const std::byte>(), completion);
}

Injected Context::put(const Local& from, const Remote& to, const Completion& completion) {
  return inject_put(
      [&](Descriptor& descriptor) { to_memory(descriptor, Operation::put, from, to); }, from,
      completion);
}

Injected Context::put(std::span<const std::byte> bytes, const Remote& to,
                      const Completion& completion) {
  assert(bytes.size() <= lane_.config.fifo.immediate_bytes);
  return put(Local{.addr = reinterpret_cast<std::uintptr_t>(bytes.data()),
                   .length = static_cast<std::uint32_t>(bytes.size())},
             to, completion);
}

Injected Context::put_notify(const Local& from, const Remote& to, std::uint64_t notify_addr,
                             std::uint64_t value, const Completion& completion) {
  return inject_put(
      [&](Descriptor& descriptor) {
        to_memory(descriptor, Operation::put_notify, from, to);
        descriptor.notify_addr = notify_addr;
        descriptor.value = value;
      },
      from, completion);
}

Injected Context::get(const Local& to, const Remote& from, const Completion& completion) {
  return inject([&](Descriptor& descriptor) { to_memory(descriptor, Operation::get, to, from); },
                {}, completion);
}

Injected Context::fetch_add(const Local& result, const Remote& to, std::uint64_t addend,
                            const Completion& completion) {
  return inject(
      [&](Descriptor& descriptor) {
        to_memory(descriptor, Operation::fetch_add, result, to);
        descriptor.value = addend;
      },
      {}, completion);
}

Injected Context::send(EndpointId to, std::uint16_t handler, std::span<const std::byte> header,
                       const Local& payload, const Completion& completion) {
  assert(header.size() <= kMaxHeaderBytes);
  if (header.size() + payload.length <= lane_.config.fifo.immediate_bytes) {
    return send(to, handler, header, bytes_of(payload), completion);
  }
  return inject(
      [&](Descriptor& descriptor) {
        to_memory(descriptor, Operation::message, payload, {.endpoint = to});
        descriptor.handler = handler;
        descriptor.header_length = static_cast<std::uint16_t>(header.size());
      },
      header, completion);
}

Injected Context::send(EndpointId to, std::uint16_t handler, std::span<const std::byte> header,
                       std::span<const std::byte> payload, const Completion& completion) {
  assert(header.size() <= kMaxHeaderBytes);
  assert(header.size() + payload.size() <= immediate_.size());
  if (!header.empty()) std::memcpy(immediate_.data(), header.data(), header.size());
  if (!payload.empty()) {
    std::memcpy(immediate_.data() + header.size(), payload.data(), payload.size());
  }
  return inject(
      [&](Descriptor& descriptor) {
        descriptor.operation = Operation::message;
        descriptor.endpoint = to;
        descriptor.handler = handler;
        descriptor.header_length = static_cast<std::uint16_t>(header.size());
        descriptor.length = static_cast<std::uint32_t>(payload.size());
        descriptor.flags = Descriptor::kImmediate;
      },
      {immediate_.data(), header.size() + payload.size()}, completion);
}

void Context::replenish() {
  while (queued_ > 0) {
    const Waiting& next = queue_[first_queued_];
    if (!lane_.fifo.inject(next.descriptor, {queue_bytes(first_queued_), next.immediate_length},
                           next.callback)) {
      return;
    }
    if (next.callback.function != nullptr) --queued_callbacks_;
    first_queued_ = (first_queued_ + 1) % queue_.size();
    --queued_;
  }
}

void Context::set_handler(std::uint16_t id, Handler handler) {
  std::vector<Handler>& handlers = id < kHandlers ? handlers_ : reserved_handlers_;
  const std::size_t index = id < kHandlers ? id : id - kHandlers;
  if (handlers.size() <= index) handlers.resize(index + 1);
  handlers[index] = std::move(handler);
}

std::size_t Context::advance() {
  if (advancing_) return 0;
  advancing_ = true;
  replenish();
  const std::size_t callbacks = lane_.fifo.advance();
  if (callbacks > 0) counters_.callbacks.add(callbacks);
  std::size_t called = callbacks + handle_arrivals();
  for (Service* service : services_) {
    called += service->advance();
  }
  replenish();
  advancing_ = false;
  return called;
}

void Context::attach(Service& service) { services_.push_back(&service); }

void Context::detach(Service& service) {
  services_.erase(std::find(services_.begin(), services_.end(), &service));
}

void Context::hear(const Arrival& news) {
  const bool closed = news.kind == Arrival::Kind::closed;
  if (!closed) {
    failed_[news.source] = true;
    counters_.peers_failed.add();
  }
  for (Service* service : services_) {
    closed ? service->on_closed() : service->on_peer_failed(news.source);
  }
}

std::size_t Context::handle_arrivals() {
  std::size_t count = 0;
  Arrival arrival;
  while (count < kBurst && lane_.arrivals.pop(arrival)) {
    Handled handled{.buffer = arrival.buffer};
    switch (arrival.kind) {
      case Arrival::Kind::send: {
        Messages messages({arrival.bytes, arrival.length});
        for (std::uint64_t bit = 1; const auto message = messages.next(); bit <<= 1, ++count) {
          const bool known =
              handle({.source = arrival.source,
                      .handler = message->handler,
                      .header = {messages.behind(), message->header_length},
                      .payload = {messages.behind() + message->header_length, message->length}});
          if (!known) handled.unknown |= bit;
        }
        break;
      }
      case Arrival::Kind::rendezvous:
        handled.rendezvous = true;
        handled.unknown = handle({.source = arrival.source,
                                  .handler = arrival.handler,
                                  .header = {arrival.header, arrival.header_length},
                                  .payload = {arrival.bytes, arrival.length}})
                              ? 0
                              : 1;
        ++count;
        break;
      case Arrival::Kind::peer_failed:
      case Arrival::Kind::closed:
        hear(arrival);
        ++count;
        continue;
    }
    const bool pushed = lane_.handled.push(handled);
    assert(pushed);
    (void)pushed;
  }
  return count;
}

bool Context::handle(const Message& message) {
  const std::vector<Handler>& handlers =
      message.handler < kHandlers ? handlers_ : reserved_handlers_;
  const std::size_t index =
      message.handler < kHandlers ? message.handler : message.handler - kHandlers;
  if (index >= handlers.size() || !handlers[index]) {
    counters_.unknown_handlers.add();
    return false;
  }
  counters_.messages.add();
  handlers[index](message);
  return true;
}

}  // namespace rockhopper::ami
