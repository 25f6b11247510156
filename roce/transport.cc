// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "roce/transport.h"

#include "roce/rc/requester.h"
#include "roce/rc/responder.h"
#include "roce/uc/requester.h"
#include "roce/uc/responder.h"
#include "roce/ud/requester.h"
#include "roce/ud/responder.h"

namespace rockhopper::roce {
namespace {

static_assert(sizeof(rc::Requester) <= Transport::kRequesterBytes &&
              sizeof(rc::Responder) <= Transport::kResponderBytes);

template <typename RequesterType, typename ResponderType>
Transport make(QueuePair& qp) {
  return {.requester = std::make_unique<RequesterType>(qp),
          .responder = std::make_unique<ResponderType>(qp)};
}

}  // namespace

Transport make_transport(QpType type, QueuePair& qp) {
  switch (type) {
    case QpType::rc:
    case QpType::xrc_send:
    case QpType::xrc_recv:
      return make<rc::Requester, rc::Responder>(qp);
    case QpType::uc:
      return make<uc::Requester, uc::Responder>(qp);
    case QpType::ud:
      return make<ud::Requester, ud::Responder>(qp);
    case QpType::extension_initiator:
    case QpType::extension_responder:
      break;  // an Extension makes them
  }
  return {};
}

std::optional<wire::ServiceClass> service_of(QpType type) {
  switch (type) {
    case QpType::rc:
      return wire::ServiceClass::rc;
    case QpType::uc:
      return wire::ServiceClass::uc;
    case QpType::ud:
      return wire::ServiceClass::ud;
    case QpType::xrc_send:
    case QpType::xrc_recv:
      return wire::ServiceClass::xrc;
    case QpType::extension_initiator:
    case QpType::extension_responder:
      return wire::ServiceClass::manufacturer_6;
  }
  return std::nullopt;
}

}  // namespace rockhopper::roce
