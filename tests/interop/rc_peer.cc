// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors

/// The verbs peer: runs the operation script of rc_script.h, or the negative cases of
/// rc_negative.h, over an RC connection between two RDMA devices, or between one and Rockhopper
/// (rh_rc_peer).
///
///   rc_peer --device rxe0                       the server; prints {"listening":PORT}
///   rc_peer --device rxe1 -p PORT HOST          the client, which decides the options
///
/// The last line on standard output is the summary as JSON: "ok", "phases", "seconds",
/// "path_mtu", "seed", and what was requested and received, or "error". rc_exchange.h describes
/// what goes over the TCP connection.
#include <memory>

#include "tests/interop/rc_main.h"
#include "tests/interop/verbs_endpoint.h"

int main(int argc, char** argv) {
  using rockhopper::interop::VerbsEndpoint;
  VerbsEndpoint::Device device;
  const auto add_options = [&device](CLI::App& app) {
    app.add_option("-d,--device", device.name, "RDMA device (the first)");
    app.add_option("--port", device.port, "Port of the device (1)");
    app.add_option("-g,--gid-index", device.gid_index, "GID index");
    app.add_option("--address", device.address,
                   "Or the IP address of the GID (the first IPv4 one)");
  };
  return rockhopper::interop::rc_main(
      argc, argv, "Verifies an RC connection with a script of operations", add_options,
      [&device] { return std::make_unique<VerbsEndpoint>(device); });
}
