// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <array>
#include <cstdint>

#include "apps/common/names.h"
#include "apps/services/ami/descriptor.h"

namespace rockhopper::apps {
class Fields;
}  // namespace rockhopper::apps

namespace rockhopper::ami {

// As options and reports say it.
constexpr auto names_of(Level) {
  return std::array{apps::Names{"local"}, apps::Names{"remote"}, apps::Names{"handled"}};
}
constexpr auto names_of(CompletionMode) {
  return std::array{apps::Names{"mask"}, apps::Names{"counter"}};
}

}  // namespace rockhopper::ami

namespace rockhopper::apps::messages {

/// What is measured.
enum class Operation : std::uint8_t {
  am_lat,  ///< active messages one at a time, there and back; half of that
  am_bw,   ///< active messages, a window of them on their way; so are the others
  put,
  put_notify,
  get,
  fetch_add,
};

constexpr auto names_of(Operation) {
  return std::array{Names{"am_lat", "Active message latency"},
                    Names{"am_bw", "Active messages"},
                    Names{"put", "Put"},
                    Names{"put_notify", "Put with notification"},
                    Names{"get", "Get"},
                    Names{"fetch_add", "Fetch and add"}};
}

/// One run, as both ends know it.
struct RunSpec {
  Operation operation = Operation::am_bw;
  std::uint32_t size = 8;         ///< bytes of a payload; 8 for fetch_add
  std::uint64_t iterations = 0;   ///< 0: by time
  std::uint64_t duration_ns = 0;  ///< of the measured part
  std::uint64_t warmup = 0;       ///< instructions before it
  std::uint64_t seed = 0;         ///< of the test data, and of who has a callback

  void describe(Fields& fields);
};

}  // namespace rockhopper::apps::messages
