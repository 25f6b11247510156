// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "stack/memif_session.h"

#include <algorithm>
#include <cassert>
#include <cerrno>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/sockios.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "stack/interrupt_gate.h"

namespace rockhopper::stack::memif {
namespace {

/// The limit for one peer in one turn keeps it from holding up the others.
constexpr int kMessagesPerStep = 64;
constexpr std::uint64_t kRetryNs = 1'000'000;
constexpr std::uint64_t kLetGoNs = 1'000'000'000;

Message make_hello() {
  Message message = make_message(MessageType::hello);
  Hello& hello = message.body.hello;
  constexpr std::string_view kName = "Rockhopper";
  std::copy(kName.begin(), kName.end(), hello.name.begin());
  hello.min_version = kVersion;
  hello.max_version = kVersion;
  hello.max_region = kRegionsMax - 1;
  hello.max_s2c_ring = kRingsMax;
  hello.max_c2s_ring = kRingsMax;
  hello.max_log2_ring_size = kRingSizeLog2Max;
  return message;
}

}  // namespace

void Session::send_inner(const Message& message, int attached) {
  (void)send(inner_.fd(), message, attached);
  InterruptGate::ask_for_turn();
}

void Session::send_disconnect_outer(std::string_view reason) {
  if (outer_) (void)send(outer_.fd(), make_disconnect(reason));
}

void Session::let_go(std::uint64_t now_ns) {
  if (let_go_ns_ != UINT64_MAX && now_ns >= let_go_ns_) {
    int unread = 0;
    if (ioctl(inner_.fd(), SIOCOUTQ, &unread) == 0 && unread == 0) return inner_.reset();
    let_go_ns_ = UINT64_MAX;
  }
  if (let_go_ns_ == UINT64_MAX) let_go_ns_ = now_ns + kLetGoNs;
}

std::unique_ptr<ServerSession> ServerSession::create(std::shared_ptr<Served> served,
                                                     Descriptor outer, std::uint64_t now_ns) {
  SessionCounters& counters = served->counters;
  std::unique_ptr<ServerSession> session(new ServerSession(std::move(served)));
  session->new_inner_ =
      Descriptor(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  session->keep_spare();
  if (!session->new_inner_ || !session->spare_) {
    counters.no_descriptors.add();
    return nullptr;
  }
  if (!send(outer.fd(), make_hello())) {
    counters.left_early.add();
    return nullptr;
  }
  session->outer_ = std::move(outer);
  session->deadline_ns_ = now_ns + kHandshakeNs;
  return session;
}

ServerSession::~ServerSession() {
  const auto device = served_->devices.find(id_);
  if (device != served_->devices.end() && device->second.seated == this) {
    device->second.seated = nullptr;
  }
}

void ServerSession::keep_spare() {
  spare_ = Descriptor(fcntl(served_->driver.fd(), F_DUPFD_CLOEXEC, 0));
}

std::uint64_t ServerSession::next_deadline_ns() const {
  if (stage_ == Stage::waiting) return retry_ns_;
  return stage_ == Stage::offering ? deadline_ns_ : let_go_ns_;
}

void ServerSession::step(std::uint64_t now_ns) {
  read_outer();
  if (stage_ == Stage::waiting) {
    enter();
    retry_ns_ = now_ns + kRetryNs;
  }
  if (inner_) read_inner();
  if (stage_ == Stage::leaving) {
    let_go(now_ns);
    if (!inner_) end();
  }
  if (is_unfinished() && now_ns >= deadline_ns_) {
    refuse("The handshake took too long", served_->counters.timed_out);
  }
}

void ServerSession::push_out() { refuse("Too many connections", served_->counters.pushed_out); }

void ServerSession::read_outer() {
  for (int i = 0; i < kMessagesPerStep && outer_; ++i) {
    Received received = receive(outer_.fd());
    if (received.what == Received::What::nothing) return;
    on_outer(received);
  }
}

void ServerSession::on_outer(Received& received) {
  if (received.what == Received::What::ended) {
    on_outer_ended();
  } else if (received.what == Received::What::malformed) {
    refuse("Invalid message", served_->counters.refused);
  } else if (received.message.type == MessageType::disconnect) {
    on_outer_ended();
  } else if (stage_ == Stage::offering) {
    on_offer(received.message, std::move(received.attached));
  } else {
    refuse("Unexpected message", served_->counters.refused);
  }
}

void ServerSession::on_offer(const Message& message, Descriptor attached) {
  if ((message.type == MessageType::init) != (offer_.parts().empty())) {
    return refuse("Unexpected message", served_->counters.refused);
  }
  if (message.type == MessageType::init) {
    const Init& init = message.body.init;
    if (init.version != kVersion) {
      return refuse("Incompatible memif version", served_->counters.refused);
    }
    id_ = init.id;
    const Served::Device* device = seat();
    if (stage_ == Stage::over) return;
    offer_ = Offer(device->queues);
  }
  if (const char* reason = offer_.take(message, std::move(attached)); reason != nullptr) {
    return refuse(reason, served_->counters.refused);
  }
  if (offer_.complete()) {
    stage_ = Stage::waiting;
  } else if (!send(outer_.fd(), make_message(MessageType::ack))) {
    on_outer_ended();
  }
}

void ServerSession::on_outer_ended() {
  outer_.reset();
  if (is_unfinished()) {
    served_->counters.left_early.add();
    stage_ = Stage::over;
  } else if (stage_ == Stage::up) {
    leave("Peer closed");
  }
  // Amid entering(), the driver would lose descriptors: it is told all, then that the peer left.
}

void ServerSession::refuse(const char* reason, Counter& counter) {
  counter.add();
  send_disconnect_outer(reason);
  outer_.reset();
  if (is_unfinished()) {
    stage_ = Stage::over;
  } else if (stage_ == Stage::up) {
    leave(reason);
  }
}

Served::Device* ServerSession::seat() {
  const auto found = served_->devices.find(id_);
  if (found == served_->devices.end() || !found->second.open) {
    refuse("ID not found", served_->counters.refused);
    return nullptr;
  }
  Served::Device& device = found->second;
  // One whose peer has left goes as soon as the driver has seen it.
  if (device.seated != nullptr && device.seated->outer_) {
    refuse("Already connected", served_->counters.already_joined);
    return nullptr;
  }
  return &device;
}

void ServerSession::enter() {
  Served::Device* device = seat();
  if (device == nullptr || device->seated != nullptr) return;
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string path = fmt::format("/proc/self/fd/{}", served_->driver.fd());
  std::copy(path.begin(), path.end(), address.sun_path);
  const auto* generic = reinterpret_cast<const sockaddr*>(&address);
  spare_.reset();
  if (::connect(new_inner_.fd(), generic, sizeof(address)) != 0) {
    // The driver's queue of connections is short.
    if (errno == EAGAIN || errno == EINTR) return keep_spare();
    return refuse("Device error", served_->counters.refused);
  }
  inner_ = std::move(new_inner_);
  device->seated = this;
  stage_ = Stage::entering;
  InterruptGate::ask_for_turn();
}

void ServerSession::read_inner() {
  while (inner_) {
    const Received received = receive(inner_.fd());
    if (received.what == Received::What::nothing) return;
    if (received.what == Received::What::ended) {
      inner_.reset();
      send_disconnect_outer("Device closed");
      outer_.reset();
      end();
    } else {
      on_inner(received.message);
    }
  }
}

void ServerSession::end() {
  stage_ = Stage::over;
  served_->devices.at(id_).seated = nullptr;
}

void ServerSession::on_inner(const Message& message) {
  if (message.type == MessageType::disconnect) {
    if (outer_) (void)send(outer_.fd(), message);
    outer_.reset();
    stage_ = Stage::leaving;
    return;
  }
  if (stage_ != Stage::entering) return;
  if (message.type == MessageType::connected) {
    stage_ = Stage::up;
    if (!outer_ || !send(outer_.fd(), message)) {
      outer_.reset();
      leave("Peer closed");
    }
  } else if (message.type == (greeted_ ? MessageType::ack : MessageType::hello)) {
    greeted_ = true;
    enter_next();
  }
}

void ServerSession::enter_next() {
  if (told_ == offer_.parts().size()) return;
  Offer::Part& part = offer_.parts()[told_++];
  send_inner(part.message, part.attached.fd());
  // Its copy is on its way: the driver's descriptor takes the place of this one.
  part.attached.reset();
}

void ServerSession::leave(const char* reason) {
  assert(stage_ == Stage::up);
  send_inner(make_disconnect(reason));
  stage_ = Stage::leaving;
}

ClientSession::ClientSession(Descriptor outer, Descriptor inner, std::uint16_t queues,
                             std::shared_ptr<SessionCounters> counters,
                             std::shared_ptr<std::atomic<bool>> joined)
    : queues_(queues), counters_(std::move(counters)), joined_(std::move(joined)) {
  outer_ = std::move(outer);
  inner_ = std::move(inner);
}

void ClientSession::step(std::uint64_t now_ns) {
  read_inner();
  if (inner_) read_outer();
  if (inner_ && stage_ == Stage::leaving) let_go(now_ns);
}

void ClientSession::read_outer() {
  for (int i = 0; i < kMessagesPerStep && outer_; ++i) {
    const Received received = receive(outer_.fd());
    if (received.what == Received::What::nothing) return;
    if (received.what == Received::What::ended) {
      if (stage_ != Stage::up) counters_->left_early.add();
      leave("Peer closed");
    } else if (received.what == Received::What::malformed) {
      refuse("Invalid message");
    } else {
      on_outer(received.message);
    }
  }
}

void ClientSession::on_outer(const Message& message) {
  if (message.type == MessageType::disconnect) {
    if (stage_ != Stage::up) counters_->left_early.add();
    send_inner(message);
    outer_.reset();
    stage_ = Stage::leaving;
    set_over();
  } else if (stage_ == Stage::expecting_hello && message.type == MessageType::hello) {
    const Hello& hello = message.body.hello;
    if (hello.min_version > kVersion || hello.max_version < kVersion) {
      return refuse("Incompatible memif version");
    }
    if (hello.max_s2c_ring + 1 < queues_ || hello.max_c2s_ring + 1 < queues_) {
      return refuse("Another number of rings");
    }
    if (hello.max_log2_ring_size == 0) return refuse("Invalid ring size");
    stage_ = Stage::offering;
    send_inner(message);
  } else if (stage_ == Stage::offering && message.type == MessageType::ack && unacknowledged_ > 0) {
    --unacknowledged_;
    send_inner(message);
  } else if (stage_ == Stage::offering && message.type == MessageType::connected && connect_sent_) {
    stage_ = Stage::up;
    send_inner(message);
  } else {
    refuse("Unexpected message");
  }
}

void ClientSession::leave(const char* reason) {
  outer_.reset();
  if (stage_ != Stage::leaving && inner_) send_inner(make_disconnect(reason));
  stage_ = Stage::leaving;
  set_over();
}

void ClientSession::refuse(const char* reason) {
  counters_->refused.add();
  send_disconnect_outer(reason);
  leave(reason);
}

void ClientSession::read_inner() {
  while (inner_) {
    const Received received = receive(inner_.fd());
    if (received.what == Received::What::nothing) return;
    if (received.what == Received::What::ended) {
      inner_.reset();
      outer_.reset();
    } else {
      on_inner(received.message, received.attached.fd());
    }
  }
}

void ClientSession::on_inner(const Message& message, int attached) {
  if (!outer_) return;
  if (message.type == MessageType::init || message.type == MessageType::add_region ||
      message.type == MessageType::add_ring) {
    ++unacknowledged_;
  }
  connect_sent_ |= message.type == MessageType::connect;
  if (!send(outer_.fd(), message, attached)) leave("Peer closed");
}

}  // namespace rockhopper::stack::memif
