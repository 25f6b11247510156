// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/rh_switch/program.h"

int main(int argc, char** argv) { return rockhopper::apps::ethernet_switch::program(argc, argv); }
