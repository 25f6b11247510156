// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/verbs/node/tally_writer.h"

#include "roce/counters.h"

namespace rockhopper::verbs {

TallyWriter::TallyWriter(stack::segment::Tallies& tallies, const NodeLink& link,
                         const roce::Engine& engine)
    : tallies_(tallies), link_(link), engine_(engine) {}

void TallyWriter::write() {
  const auto& counters = engine_.counters();
#define X(name) put(Tally::name, counters.name.value());
  ROCKHOPPER_ENGINE_TALLIES(X)
#undef X
  const auto dropped = [&counters](roce::DropReason reason) {
    return counters.drops[static_cast<std::size_t>(reason)].value();
  };
  put(Tally::bad_icrc, dropped(roce::DropReason::bad_icrc));
  put(Tally::no_receive, dropped(roce::DropReason::no_receive));
  const PortMeter& meter = link_.meter();
  put(Tally::xmit_unicast, meter.sent().unicast.value());
  put(Tally::xmit_multicast, meter.sent().multicast.value());
  put(Tally::xmit_bytes, meter.sent().bytes.value());
  put(Tally::xmit_discards, link_.discards());
  put(Tally::rcv_unicast, meter.received().unicast.value());
  put(Tally::rcv_multicast, meter.received().multicast.value());
  put(Tally::rcv_bytes, meter.received().bytes.value());
  put(Tally::rcv_errors,
      link_.damaged() + dropped(roce::DropReason::malformed) + dropped(roce::DropReason::bad_icrc));
}

}  // namespace rockhopper::verbs
