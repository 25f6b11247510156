// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "dc/message.h"
#include "roce/extension_qp.h"
#include "roce/rc/requester.h"
#include "roce/requester.h"
#include "roce/work_queue.h"
#include "stack/timing_wheel.h"

namespace rockhopper::dc {

class Dci;
struct EndpointContext;
class SessionPrefix;

/// The requester of a stream: that of a reliable connection, which it connects to one target after
/// another. docs/dc.md has its states as a picture.
class Requester final : public roce::Requester {
 public:
  /// The target of a request. Two of them are the same connection if they are equal.
  struct Target {
    std::uint64_t ah_id = 0;
    std::uint64_t access_key = 0;
    wire::Qpn number{};
    friend bool operator==(const Target&, const Target&) = default;
  };

  /// `qp` is not complete yet, and all of them outlive this one; `prefix` is the queue pair's.
  Requester(roce::ExtensionQp& qp, SessionPrefix& prefix, Dci& dci, EndpointContext& endpoint,
            std::uint8_t stream);

  void reset(wire::Psn first_psn) override;
  void stop() override;
  [[nodiscard]] roce::TransmitResult transmit(rte_mbuf** packets, std::uint16_t count,
                                              std::uint64_t now_ns) override;
  void on_unreachable(std::uint64_t now_ns) override { inner_.on_unreachable(now_ns); }
  void on_response(const roce::RxPacket& packet, std::uint64_t now_ns) override;
  void prefetch_requests() const override { inner_.prefetch_requests(); }
  [[nodiscard]] wire::Psn next_psn() const override { return inner_.next_psn(); }
  [[nodiscard]] bool drained() const override { return inner_.drained(); }

  /// A request to `target` has been put into the send queue.
  void on_posted(const Target& target);
  void on_accept(const Accept& message, std::uint64_t now_ns);
  void on_cnak(const Cnak& message, std::uint64_t now_ns);

  /// It is connected, or on its way to be.
  [[nodiscard]] bool has_target() const { return state_ != State::idle; }
  /// A response with that session id is this connection's.
  [[nodiscard]] bool has_session(std::uint64_t id) const {
    return state_ == State::active && session_ == id;
  }
  /// A message with that nonce, or that session id where it is not 0, is about this connection.
  [[nodiscard]] bool is_about(std::uint32_t nonce, std::uint64_t session) const;

 private:
  enum class State : std::uint8_t {
    idle,
    connecting,  ///< no ACCEPT yet; with a half handshake, data is on its way
    active,
    closing,  ///< everything is acknowledged, the DISCONNECT has to leave
    backoff,  ///< after a CNAK
  };
  enum class Owed : std::uint8_t { nothing, connect, disconnect, keepalive };
  /// How this connection opens.
  struct Handshake {
    bool full = false;      ///< no data before the ACCEPT
    bool repeated = false;  ///< the connect has been sent
    std::uint32_t connects_left = 0;
    std::uint64_t began_ns = 0;  ///< when the first connect left
  };

  /// A message that leaves before any data.
  void owe(Owed message);
  void begin(std::optional<wire::Psn> executed);
  void extend_limit();
  void close();
  void on_progress();
  [[nodiscard]] Connect connect() const;
  [[nodiscard]] bool can_carry() const;
  void transmit_connect_data(rte_mbuf** packets, std::uint64_t now_ns,
                             roce::TransmitResult& result);
  [[nodiscard]] rte_mbuf* build_owed();
  /// How long a connect waits for its answer; how often it is repeated: both together for as long
  /// as a request is repeated. A timeout of 0 is none.
  [[nodiscard]] std::uint64_t connect_period_ns() const;
  [[nodiscard]] std::uint32_t connects() const;
  void on_owed_sent(std::uint64_t now_ns);
  void back_off(std::uint32_t hint_us, std::uint64_t now_ns);
  void connect_anew();
  void connect_afresh();
  void lose_session(const Cnak& message, std::uint64_t now_ns);
  void fail(roce::WcStatus status);
  void on_timer(std::uint64_t now_ns);
  void arm_lease(std::uint64_t now_ns);
  [[nodiscard]] bool may_send_data() const;
  void transmit_data(rte_mbuf** packets, std::uint16_t count, std::uint64_t now_ns,
                     roce::TransmitResult& result);
  [[nodiscard]] roce::SendQueue& queue() const;
  [[nodiscard]] Target& target_of(std::uint64_t sequence);

  roce::ExtensionQp& qp_;
  SessionPrefix& prefix_;
  roce::rc::Requester inner_;
  Dci& dci_;
  EndpointContext& endpoint_;
  stack::Timer timer_;  ///< connecting: repeat; active: lease; backoff: its end
  State state_ = State::idle;
  Owed owed_ = Owed::nothing;
  std::uint8_t stream_;
  Handshake handshake_;
  std::uint16_t cnaks_ = 0;  ///< in a row
  std::uint32_t nonce_ = 0;
  std::uint32_t lease_us_ = 0;  ///< granted
  std::uint64_t session_ = 0;
  std::uint64_t limit_ = 0;  ///< requests from here on are for another target
  wire::Psn first_psn_{};
  Target target_{};
  std::vector<Target> targets_;  ///< of the requests in the send queue, by their sequence numbers
};

}  // namespace rockhopper::dc
