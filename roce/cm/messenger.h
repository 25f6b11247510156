// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <utility>

#include "roce/cm/connection.h"
#include "roce/cm/counters.h"
#include "roce/gsi.h"
#include "roce/wire/cm.h"
#include "roce/wire/mad.h"

namespace rockhopper::roce::cm {

/// Sends and repeats connection manager messages over queue pair 1, and takes those that arrive.
class Messenger {
 public:
  /// `ca_guid` is unlike any other's: peers tell connections apart by it. `counters` must outlive
  /// it.
  Messenger(std::unique_ptr<Gsi> gsi, std::uint64_t ca_guid, Counters& counters)
      : gsi_(std::move(gsi)), ca_guid_(ca_guid), counters_(counters) {}

  [[nodiscard]] std::uint64_t ca_guid() const { return ca_guid_; }
  [[nodiscard]] const GsiCounters& gsi_counters() const { return gsi_->counters(); }
  /// As Gsi's.
  [[nodiscard]] std::uint64_t next_deadline_ns() const { return gsi_->next_deadline_ns(); }
  [[nodiscard]] bool resolves(const stack::IpAddress& destination) const {
    return gsi_->resolves(destination);
  }

  /// Calls `on_message(mad, header, body)` for each message that has arrived.
  void poll(std::uint64_t now_ns,
            const std::function<void(const ReceivedMad&, const wire::MadHeader&, wire::cm::Body)>&
                on_message);
  /// Returns what has been sent, to be repeated perhaps.
  template <typename Message>
  Mad send(const MadPath& to, std::uint64_t transaction_id, const Message& message);
  void repeat(const MadPath& to, const Mad& mad);
  Mad reject(const MadPath& to, std::uint64_t transaction_id, wire::cm::Rej rej);

 private:
  std::unique_ptr<Gsi> gsi_;
  std::uint64_t ca_guid_;
  Counters& counters_;
  std::uint64_t now_ns_ = 0;
};

template <typename Message>
Mad Messenger::send(const MadPath& to, std::uint64_t transaction_id, const Message& message) {
  Mad mad{};
  const std::span<std::uint8_t, wire::kMadBytes> bytes(mad);
  const wire::MadHeader header{.management_class = wire::cm::kManagementClass,
                               .class_version = wire::cm::kClassVersion,
                               .method = wire::cm::kMethodSend,
                               .transaction_id = transaction_id,
                               .attribute_id = static_cast<std::uint16_t>(Message::kAttribute)};
  header.emit(bytes.first<wire::MadHeader::kSize>());
  message.emit(bytes.last<wire::cm::kBodyBytes>());
  counters_.sent_messages.add();
  gsi_->send(to, mad, now_ns_);
  return mad;
}

}  // namespace rockhopper::roce::cm
