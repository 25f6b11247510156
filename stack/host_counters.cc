// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "stack/host_counters.h"

namespace rockhopper::stack {
namespace {

#define ROCKHOPPER_NAME(name, text) #name,
constexpr const char* kDropNames[] = {ROCKHOPPER_HOST_DROPS(ROCKHOPPER_NAME) "none"};
constexpr const char* kEventNames[] = {ROCKHOPPER_HOST_EVENTS(ROCKHOPPER_NAME)};
#undef ROCKHOPPER_NAME

}  // namespace

const char* to_string(HostDrop reason) { return kDropNames[static_cast<std::size_t>(reason)]; }

void HostCounters::visit(void (*visitor)(void* context, const char* name, std::uint64_t value),
                         void* context) const {
  for (std::size_t i = 0; i < events_.size(); ++i) {
    visitor(context, kEventNames[i], events_[i].value());
  }
  for (std::size_t i = 0; i < drops_.size(); ++i) {
    visitor(context, kDropNames[i], drops_[i].value());
  }
}

void HostCounters::describe(void (*visitor)(void* context, const char* name, const char* text),
                            void* context) {
#define ROCKHOPPER_DESCRIBE(name, text) visitor(context, #name, text);
  ROCKHOPPER_HOST_EVENTS(ROCKHOPPER_DESCRIBE)
  ROCKHOPPER_HOST_DROPS(ROCKHOPPER_DESCRIBE)
#undef ROCKHOPPER_DESCRIBE
}

}  // namespace rockhopper::stack
