// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/services/publisher/subscription.h"

#include <cassert>
#include <utility>

#include "apps/services/publisher/conflated_reader.h"

namespace rockhopper::publisher {

void Subscription::set_paused(bool paused) {
  if (std::exchange(is_paused_, paused) != paused && reader_ != nullptr) reader_->pause(paused);
}

void Subscription::set_watch(bool watch) {
  options_.reader.watch = watch;
  if (reader_ != nullptr) reader_->set_watch(watch);
}

void Subscription::leave(bool connected) {
  const bool held = connected && (is(State::granted) || is(State::asked));
  listener_ = nullptr;
  state_ = held ? State::leaving : State::ended;
}

void Subscription::end() {
  // Nobody listens to the reader of a store that has been left.
  if (reader_ != nullptr && has_listener()) reader_->close();
  has_key_ = false;
  state_ = State::ended;
}

void Subscription::forget_key() {
  has_key_ = false;
  state_ = State::wanted;
  if (reader_ != nullptr) reader_->close();
}

void Subscription::take_grant(const GrantMessage& grant) {
  assert(awaits_answer());
  rkey_ = grant.rkey;
  info_ = grant.store;
  has_key_ = true;
  // Where copies come from, if they do, is told next.
  multicast_ = nullptr;
  if (log_ != nullptr) log_->expect_copies(0, 0);
}

Expected<void> Subscription::open(roce::Engine& engine, roce::ProtectionDomain pd,
                                  std::uint64_t max_buffer_bytes, std::uint64_t now_ns) {
  auto ready = prepare(engine, pd, max_buffer_bytes);
  if (ready) ready = reader_->open(info_, now_ns);
  if (ready) {
    state_ = State::granted;
  } else {
    listener_ = nullptr;
    state_ = State::leaving;
  }
  return ready;
}

/// A reader for the store, and a registered buffer that is long enough.
Expected<void> Subscription::prepare(roce::Engine& engine, roce::ProtectionDomain pd,
                                     std::uint64_t max_buffer_bytes) {
  const ReaderConfig& config = options_.reader;
  const bool is_log = info_.kind() == StoreKind::log;
  const std::uint64_t bytes =
      is_log ? Reader::buffer_bytes(info_, config) : ConflatedReader::buffer_bytes(info_, config);
  if (bytes > max_buffer_bytes) {
    return fail(ErrorCode::exhausted, "store {} needs a buffer of {} bytes; {} are allowed",
                info_.name, bytes, max_buffer_bytes);
  }
  if (reader_ == nullptr) {
    make_reader();
  } else if ((log_ != nullptr) != is_log) {
    return fail(ErrorCode::unsupported, "store {} has become one of another kind", info_.name);
  }
  if (buffer_.size() < bytes) {
    region_ = {};
    buffer_.resize(bytes);
    ROCKHOPPER_TRY(region_, roce::own(engine, engine.register_memory(pd, buffer_.data(), bytes,
                                                                     roce::kAccessLocalWrite)));
    reader_->set_buffer(buffer_);
  }
  return {};
}

void Subscription::make_reader() {
  if (info_.kind() == StoreKind::log) {
    auto reader = std::make_unique<Reader>(options_.reader, *listener_);
    log_ = reader.get();
    reader_ = std::move(reader);
  } else {
    reader_ = std::make_unique<ConflatedReader>(options_.reader, *listener_);
  }
  reader_->pause(is_paused_);
}

void Subscription::expect_copies(const MulticastReceiver& receiver, std::uint32_t count,
                                 std::uint32_t bytes) {
  multicast_ = &receiver;
  log_->expect_copies(count, bytes);
}

void Subscription::on_disconnected() {
  // Nothing is written into the buffers any more: the queue pair is in error.
  is_reading_ = false;
  if (is(State::leaving)) {
    has_key_ = false;
    state_ = State::ended;
  } else if (!is(State::ended)) {
    forget_key();
  }
}

void Subscription::on_flushed() {
  is_reading_ = false;
  if (reader_ != nullptr) reader_->cancel();
  if (is(State::asked)) state_ = State::wanted;
  // A key that may have been granted is taken back when the store is asked for again.
  if (is(State::leaving) && !has_key_) state_ = State::ended;
}

void Subscription::on_key_refused() {
  if (is(State::granted)) forget_key();
}

}  // namespace rockhopper::publisher
