// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>
#include <vector>

#include "roce/completion_queue.h"
#include "roce/congestion/congestion_control.h"
#include "roce/extension_qp.h"
#include "roce/types.h"
#include "roce/work_request.h"

namespace rockhopper::dc {

struct EndpointContext;
class Requester;

/// When data leaves (DC-8, DC-11).
enum class Handshake : std::uint8_t {
  automatic,  ///< half; full for a while on a path that has overtaken connects (DC-36)
  half,       ///< right behind the connect
  full,       ///< once the target has accepted
};

/// READs, atomics and lock requests that targets that serve locks can have outstanding at least: a
/// scope need not wait for the ACCEPT.
inline constexpr std::uint8_t kLockResources = 8;

/// What a DC initiator is made with.
struct DciInit {
  roce::ProtectionDomain pd;
  roce::CompletionQueue* send_cq = nullptr;  ///< must outlive it
  std::uint32_t max_send_wr = 64;            ///< of each stream, 1 to roce::kMaxQpWr
  std::uint32_t max_send_sge = 1;
  std::uint32_t max_inline_data = 64;
  bool sq_sig_all = false;
  /// Lock requests (docs/locks.md), to targets that serve them. A lock that is held by itself ends
  /// with the connection, thus when the stream goes to another target.
  bool lock_execution = false;
  std::uint8_t streams = 1;  ///< connections at a time, 1 to wire::Dcsh::kStreamMax + 1
  /// With so many streams in error at a time all of them are; 0: however many.
  std::uint8_t max_errored = 0;
  Handshake handshake = Handshake::automatic;
  /// Not with the full handshake: a first request that fits goes in one packet with its connect.
  bool connect_with_data = true;
  roce::PathMtu path_mtu = roce::PathMtu::mtu_1024;
  std::uint16_t pkey_index = 0;     ///< of the partition that its targets are in
  std::uint8_t max_rd_atomic = 16;  ///< READs and atomics outstanding in a stream
  /// Local ACK timeout code. Connects are repeated after it too, or after 125 ms if that is less.
  std::uint8_t timeout = 14;
  std::uint8_t retry_cnt = 7;  ///< 0 to 7
  std::uint8_t rnr_retry = 7;  ///< 0 to 7; 7 = without limit
  /// For which an idle session is kept, the target's lease at most; a quarter less in fact.
  std::uint32_t lease_us = 1'000'000;
  std::uint32_t backoff_us = 100;       ///< the first wait after a CNAK, doubled with each
  std::uint16_t connect_tries = 64;     ///< CNAKs in a row with which a request fails
  roce::CongestionConfig congestion{};  ///< of each stream
};

/// A DC initiator: one context, with one send queue a stream, that serves requests to any number
/// of targets, one connection at a time (DC-1). Made and owned by an Endpoint; belongs to its
/// engine's thread.
///
/// Requests of a stream are executed in order, to whatever targets they go. An error puts the
/// stream in error and flushes what is behind it, and reset() makes it usable again (DC-25). A
/// request that was on its way when a session got lost, and that must not be executed twice,
/// completes with outcome_unknown if the target cannot say whether it was executed (DC-27); the
/// stream goes on then.
class Dci {
 public:
  Dci(const Dci&) = delete;
  Dci& operator=(const Dci&) = delete;

  [[nodiscard]] wire::Qpn number() const { return number_; }
  [[nodiscard]] const DciInit& init() const { return init_; }

  /// As QueuePair::post_send, to the target that wr.ah, wr.remote_qpn and wr.dc_access_key name
  /// (DC-23).
  [[nodiscard]] roce::PostResult post_send(const roce::SendWr& wr, std::uint8_t stream = 0);
  /// Requests that are not complete.
  [[nodiscard]] std::size_t send_queue_depth(std::uint8_t stream = 0) const;
  [[nodiscard]] bool send_queue_full(std::uint8_t stream = 0) const;
  /// RTS or ERR.
  [[nodiscard]] roce::QpState state(std::uint8_t stream = 0) const;
  /// See QueuePair::congestion_rate.
  [[nodiscard]] std::uint64_t congestion_rate(std::uint64_t now_ns, std::uint8_t stream = 0) const;
  /// Takes a stream out of ERR; what it had is flushed. Not when so many have failed that all have
  /// (DciInit::max_errored).
  [[nodiscard]] Expected<void> reset(std::uint8_t stream = 0);
  /// Takes all streams out of ERR.
  void reset_all();
  [[nodiscard]] bool failed() const { return failed_; }

  // For its endpoint and the requesters of its streams.
  struct Stream {
    roce::ExtensionQp* qp;
    Requester* requester;  ///< the queue pair's
  };
  /// `endpoint` outlives it.
  Dci(EndpointContext& endpoint, wire::Qpn number, const DciInit& init);
  [[nodiscard]] Expected<void> add_stream(std::uint8_t index);
  [[nodiscard]] const std::vector<Stream>& streams() const { return streams_; }
  /// Returns a nonce that is not the same twice in 2^32 connects (DC-26).
  [[nodiscard]] std::uint32_t draw_nonce() { return ++nonce_; }
  [[nodiscard]] bool prefers_full(std::uint64_t now_ns) const;
  /// A stream is in ERR now (DC-25).
  void note_error();
  /// A connect was overtaken or lost.
  void note_restart(std::uint64_t now_ns);

 private:
  [[nodiscard]] bool is_addressed(const roce::SendWr& wr) const;
  void start(roce::ExtensionQp& qp) const;
  void restart(roce::ExtensionQp& qp) const;

  EndpointContext& endpoint_;
  wire::Qpn number_;
  DciInit init_;
  std::vector<Stream> streams_;
  bool failed_ = false;  ///< as a whole
  std::uint32_t nonce_;
  std::uint64_t last_restart_ns_ = 0;
  std::uint64_t full_until_ns_ = 0;  ///< automatic: full handshakes until then
};

}  // namespace rockhopper::dc
