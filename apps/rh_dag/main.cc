// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/rh_dag/program.h"

int main(int argc, char** argv) { return rockhopper::apps::dag_node::program(argc, argv); }
