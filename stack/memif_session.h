// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "stack/counter.h"
#include "stack/memif_message.h"
#include "stack/memif_offer.h"

namespace rockhopper::stack::memif {

/// Why connections of peers ended before they carried packets. Written by the guard's thread alone.
struct SessionCounters {
  Counter left_early;      ///< the peer went away amid the handshake
  Counter refused;         ///< it sent what memif does not allow, or offered what cannot be used
  Counter already_joined;  ///< the link has another peer
  Counter timed_out;       ///< it did not end the handshake within kHandshakeNs
  Counter pushed_out;      ///< the oldest of too many unfinished ones
  Counter no_descriptors;  ///< this process had no descriptors left for it
};

class ServerSession;

/// The devices of one memif socket at which this process is the server.
struct Served {
  struct Device {
    std::uint16_t queues = 1;
    bool open = false;                ///< it takes peers
    ServerSession* seated = nullptr;  ///< the one that has its link
  };
  Descriptor listener;                      ///< where peers connect
  Descriptor driver;                        ///< O_PATH of the socket at which DPDK's driver listens
  std::map<std::uint32_t, Device> devices;  ///< by id of the link; entries stay
  std::uint64_t paused_until_ns = 0;
  SessionCounters counters;
};

/// A peer's connection (outer) and the one to DPDK's driver that belongs to it (inner), between
/// which messages are checked and handed on. As towards the driver it never breaks off: it answers
/// what the driver sends and says goodbye, and its end of `inner` stays open until the driver has
/// closed the other.
class Session {
 public:
  Session() = default;
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;
  virtual ~Session() = default;

  /// Handles what has come. Never waits.
  virtual void step(std::uint64_t now_ns) = 0;
  /// To be called again at this time at the latest; UINT64_MAX: when something comes.
  [[nodiscard]] virtual std::uint64_t next_deadline_ns() const = 0;
  [[nodiscard]] virtual bool over() const = 0;

  /// To poll for input; negative: none.
  [[nodiscard]] int outer() const { return outer_.fd(); }
  [[nodiscard]] int inner() const { return inner_.fd(); }

 protected:
  /// Also wakes the driver. It cannot fail but by a driver that has closed its end.
  void send_inner(const Message& message, int attached = -1);
  void send_disconnect_outer(std::string_view reason);
  /// Once a goodbye has been said: closes `inner` if the driver has read all and yet its end stays
  /// open, which a child process may have inherited. A driver that has read it asks no more.
  void let_go(std::uint64_t now_ns);

  std::uint64_t let_go_ns_ = UINT64_MAX;
  Descriptor outer_;
  Descriptor inner_;
};

/// One of a peer that connected here. The driver hears of it when the whole offer is there and
/// good.
class ServerSession final : public Session {
 public:
  static constexpr std::uint64_t kHandshakeNs = 30'000'000'000;

  /// Returns null when there are no descriptors for it, or its peer has gone already.
  [[nodiscard]] static std::unique_ptr<ServerSession> create(std::shared_ptr<Served> served,
                                                             Descriptor outer,
                                                             std::uint64_t now_ns);
  ~ServerSession() override;

  void step(std::uint64_t now_ns) override;
  [[nodiscard]] std::uint64_t next_deadline_ns() const override;
  [[nodiscard]] bool over() const override { return stage_ == Stage::over; }

  [[nodiscard]] const Served& served() const { return *served_; }
  /// The driver does not know of it yet.
  [[nodiscard]] bool is_unfinished() const { return stage_ <= Stage::waiting; }
  [[nodiscard]] bool is_entering() const { return stage_ == Stage::entering; }
  void push_out();

 private:
  enum class Stage {
    offering,  ///< the peer tells what it offers
    waiting,   ///< until the driver has let go of the peer before
    entering,  ///< the driver is told
    up,
    leaving,  ///< until the driver has closed its end
    over
  };

  explicit ServerSession(std::shared_ptr<Served> served) : served_(std::move(served)) {}
  void read_outer();
  void on_outer(Received& received);
  void on_offer(const Message& message, Descriptor attached);
  void on_outer_ended();
  void refuse(const char* reason, Counter& counter);
  /// Whether the device may have this peer now; refuses it when it never may.
  [[nodiscard]] Served::Device* seat();
  void enter();
  void keep_spare();
  void read_inner();
  void on_inner(const Message& message);
  void enter_next();
  void leave(const char* reason);
  void end();

  std::shared_ptr<Served> served_;
  Stage stage_ = Stage::offering;
  Offer offer_{0};
  std::uint32_t id_ = 0;
  std::size_t told_ = 0;  ///< parts of the offer
  bool greeted_ = false;  ///< by the driver
  std::uint64_t deadline_ns_ = 0;
  std::uint64_t retry_ns_ = 0;  ///< while waiting
  Descriptor new_inner_;        ///< not connected yet, so that descriptors do not run out later
  Descriptor spare_;            ///< what the driver's end will take
};

/// One of this process, whose driver is the client, with a server elsewhere.
class ClientSession final : public Session {
 public:
  /// `queues`: as Offer has it. `joined` becomes false when the server has gone.
  ClientSession(Descriptor outer, Descriptor inner, std::uint16_t queues,
                std::shared_ptr<SessionCounters> counters,
                std::shared_ptr<std::atomic<bool>> joined);
  ~ClientSession() override { set_over(); }

  void step(std::uint64_t now_ns) override;
  [[nodiscard]] std::uint64_t next_deadline_ns() const override { return let_go_ns_; }
  [[nodiscard]] bool over() const override { return !inner_; }

 private:
  enum class Stage { expecting_hello, offering, up, leaving };
  void read_outer();
  void on_outer(const Message& message);
  void leave(const char* reason);
  void set_over() { joined_->store(false, std::memory_order_relaxed); }
  void refuse(const char* reason);
  void read_inner();
  void on_inner(const Message& message, int attached);

  Stage stage_ = Stage::expecting_hello;
  std::uint16_t queues_;
  std::uint32_t unacknowledged_ = 0;
  bool connect_sent_ = false;
  std::shared_ptr<SessionCounters> counters_;
  std::shared_ptr<std::atomic<bool>> joined_;
};

}  // namespace rockhopper::stack::memif
