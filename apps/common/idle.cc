// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/common/idle.h"

namespace rockhopper::apps {

Option add_idle_option(const OptionSet& app, std::string& text) {
  return app
      .add_option(
          "--idle POLICY", text,
          "while no packet moves: poll on, yield the CPU to others, or sleep up to 50 us, and "
          "up to 500 us when none has moved for a while")
      .one_of({"poll", "yield", "sleep"});
}

IdlePolicy parse_idle(const std::string& text) {
  if (text == "poll") return IdlePolicy::poll;
  return text == "sleep" ? IdlePolicy::sleep : IdlePolicy::yield;
}

}  // namespace rockhopper::apps
