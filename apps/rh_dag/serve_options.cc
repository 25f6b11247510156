// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/rh_dag/serve_options.h"

#include "apps/rh_dag/quantities.h"
#include "apps/services/dag/map.h"
#include "apps/services/dag/record.h"

namespace rockhopper::apps::dag_node {
namespace {

constexpr const char* kRecords = "Records";
constexpr const char* kClients = "Clients";
constexpr const char* kRuns = "Runs of graphs";
constexpr Range kMemory{.least = 1u << 16, .most = std::uint64_t{1} << 40};
constexpr Range kServedRecordMax{.least = 64, .most = dag::kCapacityMax};
constexpr Range kQuarantine{.least = 0, .most = 3'600'000'000'000};
constexpr Range kLease{.least = 1'000'000, .most = 3'600'000'000'000};

}  // namespace

void add_serve_options(OptionSet app, RawServeOptions& raw) {
  ServeOptions& options = raw.options;
  app.add_option("--memory", raw.memory, "for records, as 64MiB or 4GB")
      .type_name("BYTES")
      .group(kRecords);
  app.add_option("--records", options.records, "records at a time, at most")
      .range(std::uint32_t{1}, dag::Map::kRecordsMax)
      .type_name("N")
      .group(kRecords);
  app.add_option("--record-max", raw.record_max, "data of one record, at most")
      .type_name("BYTES")
      .group(kRecords);
  app.add_option("--hash-bits", options.hash_bits,
                 "of a key's hash that the map goes by; with few, keys collide often")
      .range(1, 64)
      .type_name("N")
      .group(kRecords);
  app.add_option("--quarantine", raw.quarantine,
                 "for which freed memory rests at least, as 500ms or 2s")
      .type_name("TIME")
      .group(kRecords);
  app.add_option("-p,--port", options.port,
                 "TCP port by which clients connect; 0: the system chooses")
      .group(kClients);
  app.add_option("--lease", raw.lease,
                 "a client that is silent for so long is fenced: 1ms to 3600s")
      .type_name("TIME")
      .group(kClients);
  app.add_option("--max-clients", options.clients_max, "at a time")
      .range(1, 4096)
      .type_name("N")
      .group(kClients);
  app.add_option("-m,--mtu", options.path_mtu, "largest path MTU. Default: what the link allows")
      .one_of({256, 512, 1024, 2048, 4096})
      .type_name("BYTES")
      .group(kClients);
  app.add_option("-u,--qp-timeout", options.ack_timeout,
                 "local ACK timeout code: 4.096 us * 2^code")
      .range(1, 31)
      .group(kClients);
  app.add_option("--runs", options.runs, "at a time, those that have ended included")
      .range(1, 256)
      .type_name("N")
      .group(kRuns);
  app.add_option("--workers", options.workers, "at a time")
      .range(1, 4096)
      .type_name("N")
      .group(kRuns);
  app.add_flag("--json", options.json, "print the result as JSON");
  add_endpoint_options(app, options.endpoint, "-d,--device");
}

Expected<ServeOptions> finish_options(const RawServeOptions& raw) {
  ServeOptions options = raw.options;
  std::uint64_t record_max = 0;
  ROCKHOPPER_TRY(read_bytes("--memory", raw.memory, kMemory, options.memory_bytes));
  ROCKHOPPER_TRY(read_bytes("--record-max", raw.record_max, kServedRecordMax, record_max));
  ROCKHOPPER_TRY(read_time("--quarantine", raw.quarantine, kQuarantine, options.quarantine_ns));
  ROCKHOPPER_TRY(read_time("--lease", raw.lease, kLease, options.lease_ns));
  options.record_max = static_cast<std::uint32_t>(record_max);
  return options;
}

}  // namespace rockhopper::apps::dag_node
