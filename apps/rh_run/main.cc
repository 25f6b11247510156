// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/rh_run/program.h"

int main(int argc, char** argv) { return rockhopper::apps::launcher::program(argc, argv); }
