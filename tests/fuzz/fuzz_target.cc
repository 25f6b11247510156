// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "tests/fuzz/fuzz_target.h"

#include <cstdio>
#include <cstdlib>

namespace rockhopper::fuzz {
namespace {

std::vector<const FuzzTarget*>& registry() {
  static std::vector<const FuzzTarget*> targets;
  return targets;
}

}  // namespace

FuzzTarget::FuzzTarget(const char* target_name, Run target_run, MakeInput target_make_input)
    : name(target_name), run(target_run), make_input(target_make_input) {
  registry().push_back(this);
}

const std::vector<const FuzzTarget*>& fuzz_targets() { return registry(); }

void check(bool condition, const char* file, int line) {
  if (condition) return;
  std::fprintf(stderr, "%s:%d: a check failed\n", file, line);
  std::abort();
}

}  // namespace rockhopper::fuzz
