// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/services/ami/collectives.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <cstring>
#include <utility>

namespace rockhopper::ami {
namespace {

constexpr Rank kNobody = Step::kNobody;
constexpr std::size_t kSyncSlots = 2;

/// What the callback of a message is told.
struct Sent {
  static constexpr std::uint64_t kAbort = UINT64_MAX;

  std::uint16_t slot;
  std::uint8_t step;
  bool borrowed;

  [[nodiscard]] std::uint64_t cookie() const {
    return std::uint64_t{borrowed} << 24 | std::uint64_t{step} << 16 | slot;
  }
  [[nodiscard]] static Sent from(std::uint64_t cookie) {
    return {.slot = static_cast<std::uint16_t>(cookie),
            .step = static_cast<std::uint8_t>(cookie >> 16),
            .borrowed = cookie >> 24 != 0};
  }
};

/// Returns where a collective of that number has its slot: syncs are numbered by themselves.
std::size_t slot_of(std::uint32_t sequence, std::uint32_t window, bool is_sync) {
  return is_sync ? window + sequence % kSyncSlots : sequence & (window - 1);
}

bool carries_vector(CollectiveType type) {
  return type == CollectiveType::broadcast || type == CollectiveType::all_reduce;
}

Expected<void> check(const LaneConfig& lane, const CommunicatorConfig& config) {
  const std::size_t ranks = config.members.size();
  if (ranks == 0 || ranks >= kNobody || config.rank >= ranks) {
    return fail(ErrorCode::invalid_argument, "rank {} of {}", config.rank, ranks);
  }
  if (!std::has_single_bit(config.window) || config.window < 2 || config.window > 1024) {
    return fail(ErrorCode::invalid_argument, "a window is a power of two from 2 to 1024");
  }
  const std::size_t most =
      std::min<std::size_t>(lane.fifo.immediate_bytes, lane.eager_bytes) - CollectiveMessage::kSize;
  if (config.vector_bytes == 0 || config.vector_bytes % kElementBytes != 0 ||
      config.vector_bytes > most) {
    return fail(ErrorCode::invalid_argument, "vectors of {} bytes: a multiple of {}, at most {}",
                config.vector_bytes, kElementBytes, most);
  }
  for (std::size_t i = 0; i < ranks; ++i) {
    if (i == config.rank) continue;
    const auto end = config.members.begin() + static_cast<std::ptrdiff_t>(i);
    if (config.members[i] >= lane.max_endpoints ||
        std::any_of(config.members.begin(), end, [&](const EndpointId& other) {
          return other == config.members[i] && &other != &config.members[config.rank];
        })) {
      return fail(ErrorCode::invalid_argument,
                  "rank {}: endpoint {} is beyond the lane's, or twice", i, config.members[i]);
    }
  }
  return {};
}

}  // namespace

Expected<std::unique_ptr<Communicator>> Communicator::create(Context& context,
                                                             const CommunicatorConfig& config) {
  ROCKHOPPER_TRY(check(context.config(), config));
  return std::unique_ptr<Communicator>(new Communicator(context, config));
}

Communicator::Communicator(Context& context, const CommunicatorConfig& config)
    : context_(context),
      config_(config),
      handler_(static_cast<std::uint16_t>(Context::kHandlers + config.id)),
      rank_of_(context.config().max_endpoints, kNobody),
      neighbours_(neighbours_of(config.rank, static_cast<Rank>(config.members.size()))),
      buffers_per_slot_(1u + rounds_of(static_cast<Rank>(config.members.size()))),
      bytes_(std::size_t{config.window} * buffers_per_slot_ * config.vector_bytes),
      slots_(config.window + kSyncSlots),
      epochs_(config.window),
      ended_(config.window) {
  for (Rank rank = 0; rank < size(); ++rank) {
    if (rank == config_.rank) continue;
    const EndpointId member = config_.members[rank];
    rank_of_[member] = rank;
    if (context_.failed(member)) break_up(Status::unreachable);
  }
  context_.attach(*this);
  context_.set_handler(handler_, [this](const Message& message) { on_message(message); });
}

Communicator::~Communicator() {
  assert(outstanding_ == 0 && "messages of a communicator are on their way");
  if (status_ == Status::ok) {
    for (Slot& slot : slots_) {
      unwatch(slot);
    }
  }
  context_.set_handler(handler_, {});
  context_.detach(*this);
}

bool Communicator::idle() const {
  return in_flight_ == 0 && outstanding_ == 0 && (!tells_ || told_ == neighbours_.size());
}

std::byte* Communicator::buffer(const Slot& slot, std::size_t which) {
  const auto index = static_cast<std::size_t>(&slot - slots_.data());
  return bytes_.data() + (index * buffers_per_slot_ + which) * config_.vector_bytes;
}

// ---- What the application starts.

Injected Communicator::barrier(Request& request) {
  return start({.type = CollectiveType::barrier}, {}, true, request);
}

Injected Communicator::broadcast(const Local& memory, Rank root, Request& request) {
  const bool at_once = memory.length <= config_.vector_bytes;
  return start({.type = at_once ? CollectiveType::broadcast : CollectiveType::long_broadcast,
                .root = root,
                .length = memory.length},
               memory, root < size() && memory.length <= context_.config().max_message_bytes,
               request);
}

namespace {

/// An all-reduce as it is started.
struct AllReduce {
  CollectiveCall call;
  Local memory;
  bool is_valid = false;
};

template <typename Element>
AllReduce all_reduce_of(std::span<Element> vector, ElementType element, Reduction reduction,
                        std::size_t vector_bytes) {
  const auto bytes = static_cast<std::uint32_t>(vector.size_bytes());
  return {.call = {.type = CollectiveType::all_reduce,
                   .reduction = reduction,
                   .element = element,
                   .length = bytes},
          .memory = {.addr = reinterpret_cast<std::uintptr_t>(vector.data()), .length = bytes},
          .is_valid = is_defined(reduction, element) && vector.size_bytes() <= vector_bytes};
}

}  // namespace

Injected Communicator::all_reduce(std::span<std::int64_t> vector, Reduction reduction,
                                  Request& request) {
  const auto [call, memory, is_valid] =
      all_reduce_of(vector, ElementType::int64, reduction, config_.vector_bytes);
  return start(call, memory, is_valid, request);
}

Injected Communicator::all_reduce(std::span<std::uint64_t> vector, Reduction reduction,
                                  Request& request) {
  const auto [call, memory, is_valid] =
      all_reduce_of(vector, ElementType::uint64, reduction, config_.vector_bytes);
  return start(call, memory, is_valid, request);
}

Injected Communicator::all_reduce(std::span<double> vector, Reduction reduction, Request& request) {
  const auto [call, memory, is_valid] =
      all_reduce_of(vector, ElementType::float64, reduction, config_.vector_bytes);
  return start(call, memory, is_valid, request);
}

Injected Communicator::start(const CollectiveCall& call, const Local& memory, bool valid,
                             Request& request) {
  assert(request.done_);
  if (in_flight_ == config_.window) return Injected::again;
  if (status_ == Status::ok && epochs_.is_full()) {
    // Now somebody waits for the slowest rank, so it matters whether that one is still there.
    Slot& sync = slots_[slot_of(epochs_.synced(), config_.window, true)];
    if (sync.phase == Slot::Phase::running) watch(sync);
    return Injected::again;
  }
  ++in_flight_;
  counters_.started.add();
  request.done_ = false;
  // The other ranks will wait in vain for what is not started here.
  if (!valid) break_up(Status::invalid);
  Slot& slot = slots_[slot_of(epochs_.next(), config_.window, false)];
  if (status_ == Status::ok && slot.phase != Slot::Phase::unknown && slot.call != call) disagree();
  if (status_ != Status::ok) {
    Slot none;
    none.request = &request;
    end(none, status_);
    return Injected::yes;
  }
  if (slot.phase == Slot::Phase::unknown) slot.announce(call, epochs_.next(), config_.rank, size());
  epochs_.begin_next();
  slot.request = &request;
  slot.memory = memory;
  const bool gives = call.type == CollectiveType::all_reduce || call.root == config_.rank;
  if (carries_vector(call.type) && gives && memory.length > 0) {
    std::memcpy(buffer(slot, 0), reinterpret_cast<const void*>(memory.addr), memory.length);
  }
  watch(slot);
  slot.phase = Slot::Phase::running;
  progress(slot);
  return Injected::yes;
}

void Communicator::cancel() {
  tells_ = true;
  break_up(Status::canceled);
}

// ---- A collective's way through its plan.

void Communicator::watch(Slot& slot) {
  if (slot.watched) return;
  slot.watched = true;
  slot.for_each_awaited([this](Rank rank) { context_.watch(config_.members[rank]); });
}

void Communicator::unwatch(Slot& slot) {
  if (!slot.watched) return;
  slot.watched = false;
  slot.for_each_awaited([this](Rank rank) { context_.unwatch(config_.members[rank]); });
}

void Communicator::progress(Slot& slot) {
  if (status_ != Status::ok || !do_resends(slot)) return;
  if (slot.phase == Slot::Phase::running) {
    if (!do_exchanges(slot) || !do_services(slot)) return;
    slot.phase = Slot::Phase::complete;
    if (carries_vector(slot.call.type) && slot.call.length > 0) {
      std::memcpy(reinterpret_cast<void*>(slot.memory.addr), buffer(slot, slot.value),
                  slot.call.length);
    }
  }
  if (slot.phase == Slot::Phase::complete) settle(slot);
}

bool Communicator::do_exchanges(Slot& slot) {
  for (; slot.next < slot.plan.exchanges(); ++slot.next) {
    const Step& step = slot.plan.steps()[slot.next];
    if (step.to != kNobody && !slot.next_sent) {
      slot.sent[slot.next] = slot.value;
      if (!send(slot, slot.next)) return false;
      slot.next_sent = true;
    }
    if (step.from != kNobody) {
      if (!slot.has_arrived(step)) return false;
      take(slot, step);
    }
    slot.next_sent = false;
  }
  return true;
}

bool Communicator::do_services(Slot& slot) {
  bool all = true;
  for (std::size_t i = slot.plan.exchanges(); i < slot.plan.steps().size(); ++i) {
    const Step& step = slot.plan.steps()[i];
    if ((slot.served >> i & 1) != 0) continue;
    if (step.from != kNobody && !slot.has_arrived(step)) {
      all = false;
      continue;
    }
    slot.sent[i] = slot.value;
    if (!send(slot, i)) return false;
    slot.served |= 1u << i;
  }
  return all;
}

bool Communicator::do_resends(Slot& slot) {
  for (; slot.resend != 0; slot.resend &= slot.resend - 1) {
    if (!send(slot, static_cast<std::size_t>(std::countr_zero(slot.resend)), true)) return false;
    counters_.tx_again.add();
  }
  return true;
}

void Communicator::take(Slot& slot, const Step& step) {
  if (!carries_vector(slot.call.type)) return;
  const auto which = static_cast<std::uint8_t>(1 + step.round);
  const std::byte* own = buffer(slot, slot.value);
  std::byte* theirs = buffer(slot, which);
  // What has been sent stays as it was, in case that it has to be sent again.
  if (step.take != Take::replace) {
    const bool lower = step.take == Take::lower;
    reduce(slot.call.reduction, slot.call.element, lower ? theirs : own, lower ? own : theirs,
           theirs, slot.call.length / kElementBytes);
  }
  slot.value = which;
}

bool Communicator::send(Slot& slot, std::size_t index, bool again) {
  const Step& step = slot.plan.steps()[index];
  const bool borrowed =
      slot.call.type == CollectiveType::long_broadcast && index >= slot.plan.exchanges();
  std::array<std::byte, CollectiveMessage::kSize> header;
  CollectiveMessage{
      .call = slot.call, .round = step.round, .sequence = slot.sequence, .again = again}
      .emit(header);
  const Sent sent{.slot = static_cast<std::uint16_t>(&slot - slots_.data()),
                  .step = static_cast<std::uint8_t>(index),
                  .borrowed = borrowed};
  const Completion completion{
      .callback = {.function = on_sent, .context = this, .cookie = sent.cookie()}};
  const EndpointId to = config_.members[step.to];
  Injected injected = Injected::again;
  if (borrowed) {
    injected = context_.send(to, handler_, header, slot.memory, completion);
  } else {
    std::span<const std::byte> vector;
    if (carries_vector(slot.call.type)) vector = {buffer(slot, slot.sent[index]), slot.call.length};
    injected = context_.send(to, handler_, header, vector, completion);
  }
  if (injected == Injected::again) {
    stalled_ = true;
    return false;
  }
  counters_.tx_messages.add();
  ++outstanding_;
  ++slot.outstanding;
  if (borrowed) ++slot.borrowed;
  return true;
}

void Communicator::on_sent(void* communicator, std::uint64_t cookie, Status status) {
  auto& self = *static_cast<Communicator*>(communicator);
  --self.outstanding_;
  if (cookie == Sent::kAbort) return;
  const Sent sent = Sent::from(cookie);
  Slot& slot = self.slots_[sent.slot];
  --slot.outstanding;
  if (sent.borrowed) --slot.borrowed;
  if (self.status_ == Status::ok && status != Status::ok) {
    // The peer drops what it has had already, so a message may be sent twice.
    if ((status == Status::outcome_unknown || status == Status::flushed) &&
        slot.resends < kMaxResends) {
      ++slot.resends;
      slot.resend |= 1u << sent.step;
      self.stalled_ = true;
      return;
    }
    self.break_up(status);
  }
  self.settle(slot);
}

void Communicator::settle(Slot& slot) {
  const bool broken = status_ != Status::ok;
  const bool complete = slot.phase == Slot::Phase::complete && slot.resend == 0;
  if (slot.request != nullptr && slot.borrowed == 0 && (broken || complete)) end(slot, status_);
  if (!broken && complete && slot.request == nullptr && slot.outstanding == 0) retire(slot);
}

void Communicator::end(Slot& slot, Status status) {
  if (status != Status::ok) tells_ = true;
  (status == Status::ok ? counters_.completed : counters_.failed).add();
  slot.request->status_ = status;
  ended_.push(slot.request);
  slot.request = nullptr;
}

void Communicator::retire(Slot& slot) {
  slot.phase = Slot::Phase::retired;
  if (slot.call.type == CollectiveType::sync) {
    slot = {};
    epochs_.on_synced();
    counters_.syncs.add();
    return begin_sync();
  }
  epochs_.retire(slot.sequence, [this](std::uint32_t sequence) {
    slots_[slot_of(sequence, config_.window, false)] = {};
  });
  begin_sync();
}

void Communicator::begin_sync() {
  if (!epochs_.is_to_sync()) return;
  Slot& sync = slots_[slot_of(epochs_.synced(), config_.window, true)];
  if (sync.phase == Slot::Phase::unknown) {
    sync.announce({.type = CollectiveType::sync}, epochs_.synced(), config_.rank, size());
  }
  if (sync.phase != Slot::Phase::announced) return;
  sync.phase = Slot::Phase::running;
  progress(sync);
}

// ---- What comes from other ranks.

void Communicator::on_message(const Message& from) {
  const auto message = CollectiveMessage::parse(from.header, from.payload.size());
  if (!message || message->call.root >= size()) return counters_.rx_malformed.add();
  const Rank source = from.source < rank_of_.size() ? rank_of_[from.source] : kNobody;
  if (source == kNobody) return counters_.rx_not_member.add();
  if (message->call.type == CollectiveType::abort) {
    counters_.rx_aborts.add();
    return break_up(message->status);
  }
  if (carries_vector(message->call.type) && message->call.length > config_.vector_bytes) {
    return counters_.rx_too_long.add();
  }
  if (status_ != Status::ok) return;
  Slot* slot = find(*message);
  if (slot == nullptr) return;
  if (slot->phase == Slot::Phase::unknown) {
    slot->announce(message->call, message->sequence, config_.rank, size());
    if (slot->plan.awaiting(message->round, source) == nullptr) {
      *slot = {};
      return counters_.rx_unexpected.add();
    }
  }
  if (slot->call != message->call) return disagree();
  store(*slot, *message, from, source);
}

Communicator::Slot* Communicator::find(const CollectiveMessage& message) {
  const bool sync = message.call.type == CollectiveType::sync;
  const std::uint32_t ahead = message.sequence - (sync ? epochs_.synced() : epochs_.first());
  if (ahead > UINT32_MAX / 2) {
    // What we awaited of that collective has come.
    message.again ? counters_.rx_repeated.add() : disagree();
    return nullptr;
  }
  if (ahead >= (sync ? kSyncSlots : config_.window)) {
    counters_.rx_unexpected.add();
    return nullptr;
  }
  return &slots_[slot_of(message.sequence, config_.window, sync)];
}

void Communicator::disagree() {
  counters_.rx_mismatch.add();
  // Who waits for us may do so in a collective that has ended here.
  tells_ = true;
  break_up(Status::invalid);
}

void Communicator::store(Slot& slot, const CollectiveMessage& message, const Message& from,
                         Rank source) {
  const Step* step = slot.plan.awaiting(message.round, source);
  if (step == nullptr) return counters_.rx_unexpected.add();
  if (slot.has_arrived(*step)) return counters_.rx_repeated.add();
  if (slot.call.type == CollectiveType::long_broadcast) {
    const bool wanted = step->take == Take::replace;
    // Bytes come only to who has said that it has room for them.
    if (wanted && (slot.phase != Slot::Phase::running || !slot.next_sent)) {
      return counters_.rx_unexpected.add();
    }
    if (from.payload.size() != (wanted ? slot.call.length : 0)) {
      return counters_.rx_unexpected.add();
    }
    if (wanted) {
      std::memcpy(reinterpret_cast<void*>(slot.memory.addr), from.payload.data(),
                  from.payload.size());
    }
  } else if (!from.payload.empty()) {
    std::memcpy(buffer(slot, 1u + step->round), from.payload.data(), from.payload.size());
  }
  counters_.rx_messages.add();
  slot.arrived |= 1u << step->round;
  if (slot.watched) context_.unwatch(config_.members[source]);
  if (slot.phase == Slot::Phase::announced) return counters_.rx_early.add();
  progress(slot);
}

// ---- The end of a communicator.

void Communicator::break_up(Status status) {
  if (status_ != Status::ok) return;
  status_ = status;
  for (Slot& slot : slots_) {
    unwatch(slot);
    settle(slot);
  }
}

void Communicator::tell_neighbours() {
  std::array<std::byte, CollectiveMessage::kSize> header;
  CollectiveMessage{.call = {.type = CollectiveType::abort}, .status = status_}.emit(header);
  const Completion completion{
      .callback = {.function = on_sent, .context = this, .cookie = Sent::kAbort}};
  for (; told_ < neighbours_.size(); ++told_) {
    const EndpointId member = config_.members[neighbours_[told_]];
    if (context_.failed(member)) continue;
    if (context_.send(member, handler_, header, std::span<const std::byte>{}, completion) ==
        Injected::again) {
      return;
    }
    ++outstanding_;
    counters_.tx_aborts.add();
  }
}

void Communicator::on_peer_failed(EndpointId id) {
  if (rank_of_[id] != kNobody) break_up(Status::unreachable);
}

std::size_t Communicator::advance() {
  if (std::exchange(stalled_, false)) {
    for (Slot& slot : slots_) {
      progress(slot);
    }
  }
  if (tells_) tell_neighbours();
  // A callback may start what ends at once: that is for the next turn.
  const std::size_t ended = ended_.size();
  std::size_t called = 0;
  for (std::size_t i = 0; i < ended; ++i) {
    Request& request = *ended_.front();
    ended_.pop();
    --in_flight_;
    request.done_ = true;
    if (request.callback_.function == nullptr) continue;
    ++called;
    request.callback_.function(request.callback_.context, request.callback_.cookie,
                               request.status_);
  }
  return called;
}

}  // namespace rockhopper::ami
