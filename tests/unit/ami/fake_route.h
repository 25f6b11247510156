// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstddef>
#include <vector>

#include "apps/services/ami/route.h"

namespace rockhopper::ami::test {

/// A way to a peer that keeps what is posted.
class FakeRoute final : public Route {
 public:
  struct Request {
    roce::SendWr wr;
    std::vector<std::byte> bytes;  ///< of inline requests
  };
  [[nodiscard]] Posted post(const roce::SendWr& wr) override {
    if (says != Posted::yes) return says;
    Request request{.wr = wr, .bytes = {}};
    request.wr.sg_list = {};
    if ((wr.send_flags & roce::kSendInline) != 0) {
      for (const roce::Sge& sge : wr.sg_list) {
        const auto* from = reinterpret_cast<const std::byte*>(sge.addr);
        request.bytes.insert(request.bytes.end(), from, from + sge.length);
      }
    }
    requests.push_back(request);
    if (takes > 0 && --takes == 0) says = Posted::full;
    return Posted::yes;
  }
  [[nodiscard]] Posted ready() override { return says; }
  [[nodiscard]] bool brings(wire::Qpn) const override { return true; }

  Posted says = Posted::yes;
  std::size_t takes = 0;  ///< so many more, then it is full; 0: any number
  std::vector<Request> requests;
};

}  // namespace rockhopper::ami::test
