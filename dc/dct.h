// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>
#include <optional>

#include "roce/completion_queue.h"
#include "roce/shared_receive_queue.h"
#include "roce/types.h"

namespace rockhopper::dc {

/// What a DC target is made with. The queues must outlive it.
struct DctInit {
  roce::ProtectionDomain pd;  ///< whose keys its initiators' requests name
  roce::SharedReceiveQueue* srq = nullptr;
  roce::CompletionQueue* recv_cq = nullptr;
  std::uint32_t access_flags = 0;                    ///< roce::Access
  roce::PathMtu path_mtu = roce::PathMtu::mtu_1024;  ///< the largest that an initiator may use
  std::uint16_t pkey_index = 0;                      ///< of the partition that it serves
  std::uint8_t min_rnr_timer = 12;                   ///< RNR NAK timer code
  std::uint8_t traffic_class = 0;                    ///< of responses
  std::uint8_t hop_limit = 64;
  std::optional<std::uint64_t> access_key{};  ///< nothing: an unpredictable one
};

/// A DC target: what initiators address by its number and access key (DC-20). It has no state of
/// any initiator; those that are connected have a session each (Targets). Made and owned by an
/// Endpoint; belongs to its engine's thread.
class Dct {
 public:
  /// Endpoint makes them.
  Dct(wire::Qpn number, const DctInit& init, std::uint64_t access_key)
      : number_(number), init_(init), access_key_(access_key) {}
  Dct(const Dct&) = delete;
  Dct& operator=(const Dct&) = delete;

  [[nodiscard]] wire::Qpn number() const { return number_; }
  [[nodiscard]] std::uint64_t access_key() const { return access_key_; }
  [[nodiscard]] const DctInit& init() const { return init_; }
  /// Connects without the access key so far; it stops at its highest value.
  [[nodiscard]] std::uint32_t violations() const { return violations_; }
  /// Sessions that are open.
  [[nodiscard]] std::uint32_t sessions() const { return sessions_; }

  /// From now on no initiator can connect; one that is connected stays until it leaves, or until
  /// its lease ends (DC-34).
  void drain() { draining_ = true; }
  [[nodiscard]] bool draining() const { return draining_; }

  // For its endpoint.
  /// A connect came without the access key.
  void note_violation() { violations_ += violations_ == UINT32_MAX ? 0 : 1; }
  /// Sessions that are open are `change` more.
  void count_sessions(int change) { sessions_ += static_cast<std::uint32_t>(change); }

 private:
  wire::Qpn number_;
  DctInit init_;
  std::uint64_t access_key_;
  std::uint32_t violations_ = 0;
  std::uint32_t sessions_ = 0;
  bool draining_ = false;
};

}  // namespace rockhopper::dc
