// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/common/event_printer.h"

#include <string>

#include <fmt/format.h>

#include "roce/completion_queue.h"
#include "roce/counters.h"
#include "roce/types.h"

namespace rockhopper::apps {
namespace {

std::string describe(roce::TraceEvent event, std::uint32_t a, std::uint32_t b) {
  using roce::TraceEvent;
  switch (event) {
    case TraceEvent::qp_state:
      return fmt::format("state {} -> {}", roce::to_string(static_cast<roce::QpState>(a)),
                         roce::to_string(static_cast<roce::QpState>(b)));
    case TraceEvent::request_posted:
      return fmt::format("posted opcode {} of {} bytes", a, b);
    case TraceEvent::request_done:
      return fmt::format("request {:#x} done: {}", b,
                         roce::to_string(static_cast<roce::WcStatus>(a)));
    case TraceEvent::nak_sent:
      return fmt::format("NAK sent, syndrome {:#04x}, PSN {:#08x}", a, b);
    case TraceEvent::nak_received:
      return fmt::format("NAK received, syndrome {:#04x}, PSN {:#08x}", a, b);
    case TraceEvent::retransmit:
      return fmt::format("goes back to PSN {:#08x}, {} retries left", a, b);
    case TraceEvent::ack_timeout:
      return fmt::format("no acknowledgement of PSN {:#08x}, {} retries left", a, b);
    case TraceEvent::rnr_wait:
      return fmt::format("receiver not ready, timer code {}, {} retries left", a, b);
    case TraceEvent::dropped:
      return fmt::format("packet with PSN {:#08x} dropped: {}", b,
                         roce::to_string(static_cast<roce::DropReason>(a)));
  }
  return fmt::format("event {} ({}, {})", static_cast<int>(event), a, b);
}

}  // namespace

void EventPrinter::on_event(std::uint64_t now_ns, wire::Qpn qp, roce::TraceEvent event,
                            std::uint32_t a, std::uint32_t b) {
  fmt::print(out_, "{:.6f} QP {:#08x} {}\n", static_cast<double>(now_ns) / 1e9, qp.value,
             describe(event, a, b));
}

}  // namespace rockhopper::apps
