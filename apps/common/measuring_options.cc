// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/common/measuring_options.h"

namespace rockhopper::apps {

void add_measuring_options(const OptionSet& app, MeasuringOptions& options,
                           std::string_view report_gbits_names) {
  app.add_option("host", options.host,
                 "server to connect to (its TCP address); without it, be the server");
  app.add_option("-p,--port", options.port, "TCP port to exchange addresses on");
  app.add_flag(report_gbits_names, options.report_gbits, "bandwidth in Gbit/s instead of MiB/s");
  app.add_flag("--json", options.json, "print one JSON object instead of tables");
  add_seconds_option(app, "--timeout", options.timeout_s,
                     "give up when nothing has completed for so long");
}

void add_run_length_options(const OptionSet& app, MeasuringOptions& options,
                            const RunLengthTexts& texts) {
  const Option iterations = app.add_option("-n,--iters", options.iterations, texts.iterations)
                                .range(std::uint64_t{1}, kIterationsMax);
  app.add_option("-D,--duration SECONDS", options.duration_s, "run each size so long instead")
      .range(0.01, 86400.0)
      .excludes(iterations);
  app.add_option("--warmup", options.warmup, texts.warmup);
}

void add_queue_pair_options(const OptionSet& app, MeasuringOptions& options) {
  add_path_mtu_option(app, options.path_mtu, "path MTU. Default: the largest that both ends can");
  add_ack_timeout_option(app, "-u,--qp-timeout", options.ack_timeout);
}

}  // namespace rockhopper::apps
