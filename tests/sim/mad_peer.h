// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "roce/engine.h"
#include "roce/gsi.h"
#include "roce/wire/cm.h"

namespace rockhopper::sim {

/// The other end of a connection manager as a test plays it: sends any management datagram over
/// queue pair 1 and keeps what arrives.
class MadPeer {
 public:
  using Mad = std::array<std::uint8_t, wire::kMadBytes>;
  struct Received {
    wire::MadHeader header;
    Mad bytes;
    [[nodiscard]] wire::cm::Attribute attribute() const {
      return static_cast<wire::cm::Attribute>(header.attribute_id);
    }
    template <typename Message>
    [[nodiscard]] Message as() const {
      const roce::MadBytes mad(bytes);
      return Message::parse(mad.last<wire::cm::kBodyBytes>());
    }
  };

  explicit MadPeer(roce::Engine& engine);

  void poll(std::uint64_t now_ns);
  [[nodiscard]] std::uint64_t next_deadline_ns() const { return gsi_->next_deadline_ns(); }
  [[nodiscard]] const roce::GsiCounters& counters() const { return gsi_->counters(); }

  template <typename Message>
  [[nodiscard]] static Mad make(const Message& message, std::uint64_t transaction_id = 1) {
    Mad mad{};
    const wire::MadHeader header{.management_class = wire::cm::kManagementClass,
                                 .class_version = wire::cm::kClassVersion,
                                 .method = wire::cm::kMethodSend,
                                 .transaction_id = transaction_id,
                                 .attribute_id = static_cast<std::uint16_t>(Message::kAttribute)};
    const std::span<std::uint8_t, wire::kMadBytes> bytes(mad);
    header.emit(bytes.first<wire::MadHeader::kSize>());
    message.emit(bytes.last<wire::cm::kBodyBytes>());
    return mad;
  }
  void send(const roce::AddressVector& to, const Mad& mad);

  /// What has arrived since the last call, oldest first.
  [[nodiscard]] std::vector<Received> take();

 private:
  std::unique_ptr<roce::Gsi> gsi_;
  std::uint64_t now_ns_ = 0;
  std::vector<Received> received_;
};

}  // namespace rockhopper::sim
