// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>

#include "roce/packet_prefix.h"
#include "roce/wire/dcch.h"
#include "roce/wire/dcsh.h"
#include "roce/wire/opcode.h"

namespace rockhopper::dc {

/// Says in each packet of a queue pair to which connection it belongs: by the header of its
/// session, or by the connect that it opens the session with.
class SessionPrefix final : public roce::PacketPrefix {
 public:
  void set_session(const wire::Dcsh& header) { session_ = header; }
  /// Until it is set to null, packets carry `connect`, which is not owned, in place of the session
  /// header, and are of dc_connect_data.
  void set_connect(const wire::Dcch* connect) { connect_ = connect; }

  void add_to(wire::Headers& headers) const override {
    headers.dcsh = session_;
    if (connect_ != nullptr) {
      headers.dcch = *connect_;
      headers.dcch.set_operation(headers.bth.opcode);
      headers.bth.opcode = static_cast<std::uint8_t>(wire::Opcode::dc_connect_data);
    }
  }

 private:
  wire::Dcsh session_{};
  const wire::Dcch* connect_ = nullptr;
};

}  // namespace rockhopper::dc
