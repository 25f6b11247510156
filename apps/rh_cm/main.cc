// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/rh_cm/program.h"

int main(int argc, char** argv) { return rockhopper::apps::cm::program(argc, argv); }
