// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/common/initiator_options.h"

#include <string>

#include "dc/dci.h"
#include "roce/wire/dcsh.h"

namespace rockhopper::apps {

void InitiatorOptions::apply(dc::DciInit& init) const {
  init.streams = streams;
  init.handshake = handshake == "auto"   ? dc::Handshake::automatic
                   : handshake == "full" ? dc::Handshake::full
                                         : dc::Handshake::half;
  init.connect_with_data = handshake != "half";
}

void add_initiator_options(const OptionSet& app, InitiatorOptions& options) {
  app.add_option("--streams", options.streams,
                 "DC: connections that this end's initiator has at a time; target N is served by "
                 "stream N modulo this")
      .range(1, wire::Dcsh::kStreamMax + 1)
      // A number of one byte would be shown as a character.
      .default_text(std::to_string(options.streams));
  app.add_option("--handshake KIND", options.handshake,
                 "DC: full, data waits until the target has accepted; half, it does not; data, a "
                 "small first message goes in the connect; auto (default), as data unless the path "
                 "reorders")
      .one_of({"auto", "data", "half", "full"});
}

}  // namespace rockhopper::apps
