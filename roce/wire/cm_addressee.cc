// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "roce/wire/cm_addressee.h"

#include "roce/wire/bytes.h"
#include "roce/wire/cm.h"

namespace rockhopper::wire::cm {

std::optional<Addressee> addressee_of(std::span<const std::uint8_t, kAddresseeBytes> mad) {
  const auto header = MadHeader::parse(mad.first<MadHeader::kSize>());
  if (header.management_class != kManagementClass) return std::nullopt;
  const auto body = mad.subspan<MadHeader::kSize>();
  switch (static_cast<Attribute>(header.attribute_id)) {
    case Attribute::req:
    case Attribute::sidr_req:
      return Addressee{.service_id = load_be64(&body[8]), .is_request = true};
    case Attribute::sidr_rep:
      return Addressee{.receiver_id = load_be32(&body[0])};
    case Attribute::mra:
    case Attribute::rej:
    case Attribute::rep:
    case Attribute::rtu:
    case Attribute::dreq:
    case Attribute::drep:
    case Attribute::lap:
    case Attribute::apr:
      return Addressee{.receiver_id = load_be32(&body[4])};
  }
  return std::nullopt;
}

}  // namespace rockhopper::wire::cm
