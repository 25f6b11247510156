// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "roce/extension_qp.h"

#include <cassert>

namespace rockhopper::roce {

ExtensionQp::ExtensionQp(Engine& engine, wire::Qpn number, const QpInit& init,
                         const MakeTransport& make_transport)
    : QueuePair(engine, number, init, [&make_transport](QueuePair& qp) {
        return make_transport(static_cast<ExtensionQp&>(qp));
      }) {
  assert(is_of_extension(init.qp_type));
}

void ExtensionQp::start(const QpAttributes& attributes) {
  assert(state() == QpState::reset);
  const bool responds = only_responds(init().qp_type);
  apply(attributes, responds ? kQpAccessFlags | kQpPkeyIndex | kQpAv | kQpPathMtu | kQpRqPsn |
                                   kQpMinRnrTimer | kQpMaxDestRdAtomic | kQpDestQpn
                             : kQpPkeyIndex | kQpPathMtu | kQpTimeout | kQpRetryCnt | kQpRnrRetry |
                                   kQpMaxQpRdAtomic);
  enter_state(QpState::rtr);
  if (!responds) enter_state(QpState::rts);
}

void ExtensionQp::redirect(const AddressVector& av, wire::Qpn destination, PathMtu mtu) {
  if (av != attributes().ah_attr) forget_path();
  QpAttributes changed;
  changed.ah_attr = av;
  changed.dest_qp_num = destination;
  changed.path_mtu = mtu;
  apply(changed, kQpAv | kQpDestQpn | kQpPathMtu);
}

void ExtensionQp::set_max_rd_atomic(std::uint8_t count) {
  QpAttributes changed;
  changed.max_rd_atomic = count;
  apply(changed, kQpMaxQpRdAtomic);
}

}  // namespace rockhopper::roce
