// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "stack/net/ecn_marking.h"

#include "stack/quantity.h"

namespace rockhopper::stack::net {

Expected<EcnMarking> parse_ecn_marking(std::string_view text) {
  EcnMarking marking;
  const std::size_t first = text.find(',');
  const std::size_t second = first == std::string_view::npos ? first : text.find(',', first + 1);
  if (second == std::string_view::npos || !parse_bytes(text.substr(0, first), marking.kmin_bytes) ||
      !parse_bytes(text.substr(first + 1, second - first - 1), marking.kmax_bytes) ||
      !parse_probability(text.substr(second + 1), marking.pmax)) {
    return fail(ErrorCode::invalid_argument,
                "ECN marking \"{}\": expected is KMIN,KMAX,PMAX as 5KiB,200KiB,1%", text);
  }
  if (marking.kmax_bytes == 0 || marking.kmin_bytes > marking.kmax_bytes) {
    return fail(ErrorCode::invalid_argument,
                "ECN marking \"{}\": KMAX is to be above 0 and not below KMIN", text);
  }
  return marking;
}

}  // namespace rockhopper::stack::net
