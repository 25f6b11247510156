// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/rh_ami/program.h"

int main(int argc, char** argv) { return rockhopper::apps::messages::program(argc, argv); }
