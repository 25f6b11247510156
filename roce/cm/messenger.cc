// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "roce/cm/messenger.h"

#include "roce/wire/bytes.h"

namespace rockhopper::roce::cm {

void Messenger::poll(std::uint64_t now_ns,
                     const std::function<void(const ReceivedMad&, const wire::MadHeader&,
                                              wire::cm::Body)>& on_message) {
  now_ns_ = now_ns;
  gsi_->poll(now_ns, [&](const ReceivedMad& mad) {
    const auto header = wire::MadHeader::parse(mad.bytes.first<wire::MadHeader::kSize>());
    if (header.base_version != wire::MadHeader::kBaseVersion ||
        header.management_class != wire::cm::kManagementClass ||
        header.class_version != wire::cm::kClassVersion || header.method != wire::cm::kMethodSend) {
      counters_.unsupported_mads.add();
      return;
    }
    counters_.rcvd_messages.add();
    on_message(mad, header, mad.bytes.last<wire::cm::kBodyBytes>());
  });
}

void Messenger::repeat(const MadPath& to, const Mad& mad) {
  counters_.sent_messages.add();
  counters_.repeated_messages.add();
  gsi_->send(to, mad, now_ns_);
}

Mad Messenger::reject(const MadPath& to, std::uint64_t transaction_id, wire::cm::Rej rej) {
  if (rej.reason == wire::cm::RejectReason::timeout) {
    // The peer may not know our communication ID as a connection's yet.
    rej.info_length = sizeof ca_guid_;
    wire::store_be64(rej.info.data(), ca_guid_);
  }
  counters_.sent_rejects.add();
  return send(to, transaction_id, rej);
}

}  // namespace rockhopper::roce::cm
