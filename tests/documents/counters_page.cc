// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
//
// Prints docs/counters.md: every counter with what it counts, as the code says it and telemetry
// tells it. With --check FILE it compares instead.
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <set>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include "apps/node/personality/personality_link.h"
#include "apps/node/segment_gateway.h"
#include "apps/services/ami/adapter.h"
#include "apps/services/ami/collectives.h"
#include "apps/services/ami/context.h"
#include "apps/services/dag/client.h"
#include "apps/services/dag/schedule/home.h"
#include "apps/services/dag/schedule/worker.h"
#include "apps/services/dag/server.h"
#include "apps/services/publisher/counters.h"
#include "apps/services/publisher/publisher.h"
#include "apps/services/publisher/subscriber.h"
#include "dc/endpoint.h"
#include "roce/cm/connection_manager.h"
#include "roce/engine.h"
#include "roce/lock/region.h"
#include "stack/fault_injector.h"
#include "stack/host.h"
#include "stack/net/learning_switch.h"
#include "stack/port.h"
#include "stack/shard_link.h"
#include "stack/switched_link.h"
#include "stack/telemetry.h"
#include "stack/udp_link.h"

namespace {

using namespace rockhopper;

/// What DPDK's telemetry carries in a text, and a table of Markdown in a cell.
constexpr std::size_t kTextMax = 127;
constexpr std::string_view kNotInTexts = "\"\\|\n";

struct Section {
  const char* group;
  const char* about;  ///< who counts, and where else it is told
  stack::CounterGroup::Describe describe;
};

#define X(name, text) visit(context, #name, text);
void describe_store(stack::CounterTextVisitor visit, void* context) {
  ROCKHOPPER_PUBLISHER_STORE_COUNTERS(X)
}
void describe_reader(stack::CounterTextVisitor visit, void* context) {
  ROCKHOPPER_PUBLISHER_READER_COUNTERS(X)
}
void describe_copies(stack::CounterTextVisitor visit, void* context) {
  ROCKHOPPER_PUBLISHER_COPY_COUNTERS(X)
}
#undef X

constexpr Section kEndpoint[] = {
    {"port", "The port, first as its driver counts; with several ports `port0` and so on.",
     &stack::Port::describe_counters},
    {"udp", "The sockets of `--device udp`.", &stack::UdpLink::describe_counters},
    {"faults", "The faults of `--faults`, in the direction `rx` or `tx`.",
     &stack::FaultInjector::describe_counters},
    {"personality", "What `--personality` has changed.", &PersonalityLink::describe_counters},
    {"switch", "The switch that joins several ports to one endpoint: its table of addresses.",
     &stack::SwitchedLink::describe_counters},
    {"switch_port0", "A port of that switch, and so on; the last one is the endpoint's own.",
     &stack::net::LearningSwitch::describe_port_counters},
    {"host", "The IP host: events, then packets that were dropped, by their reason.",
     &stack::Host::describe_counters},
    {"engine",
     "The transport; `drop_` are received packets that were not used. The names are those that "
     "rxe and mlx5 have where the meaning is the same.",
     &roce::Engine::describe_counters},
};

constexpr Section kPrograms[] = {
    {"cm", "The connection manager with its queue pair 1: `rh-cm`.",
     &roce::cm::ConnectionManager::describe_counters},
    {"dc", "Dynamic connections, as initiator and as target.", &dc::Endpoint::describe_counters},
    {"ami", "The adapter of `rh-ami`.", &ami::Adapter::describe_counters},
    {"ami_context", "The context of `rh-ami`.", &ami::Context::describe_counters},
    {"publisher", "`rh-publish`; those of copies only with `--multicast`.",
     &publisher::Publisher::describe_counters},
    {"subscriber", "`rh-subscribe`.", &publisher::Subscriber::describe_counters},
    {"dag_server", "The store of `rh-dag serve`.", &dag::Server::describe_counters},
    {"dag_home", "The home of runs in `rh-dag serve`.", &dag::Home::describe_counters},
    {"dag_client", "What of `rh-dag` uses a store.", &dag::Client::describe_counters},
    {"dag_worker", "`rh-dag work`.", &dag::Worker::describe_counters},
    {"mac_table", "The table of addresses of `rh-switch`.",
     &stack::net::LearningSwitch::describe_mac_counters},
    {"port0",
     "A port of `rh-switch`, and so on. Besides these it has those of [port](#port), with "
     "`device_` in front of their names, or if it is a segment those of "
     "[segment_port](#segment_port). Its faults are the group `port0_faults`, as "
     "[faults](#faults).",
     &stack::net::LearningSwitch::describe_port_counters},
    {"segment_port",
     "What a port of `rh-switch --segment` has, with `device_` in front of their names: as the way "
     "out of the segment, in its lanes (`tx_` is what processes get), and as the host that answers "
     "for the addresses (`host_`).",
     &SegmentGateway::describe_counters},
};

constexpr Section kElsewhere[] = {
    {"locks",
     "Locks of a region, told by `rh-perf --op lock`; see [locks.md](locks.md#statistics).",
     &roce::lock::Region::describe_counters},
    {"copies", "Copies by multicast, told by `rh-subscribe --json` of each subscription.",
     &describe_copies},
    {"store", "The writer of a message store; `rh-publish --json` has some of them.",
     &describe_store},
    {"reader", "A reader of a message store.", &describe_reader},
    {"collectives", "A communicator of active messages.", &ami::Communicator::describe_counters},
    {"shards", "What the shards of a port hand to each other.",
     &stack::ShardLink::describe_counters},
};

/// A table of counters, and whether each may stand in it.
struct Table {
  std::string rows;
  std::set<std::string, std::less<>> names{};
  bool good = true;

  static void add(void* context, const char* name, const char* text) {
    auto& table = *static_cast<Table*>(context);
    const std::string_view words(text);
    if (words.empty() || words.size() > kTextMax ||
        words.find_first_of(kNotInTexts) != std::string_view::npos ||
        !table.names.emplace(name).second) {
      fmt::print(stderr, "counters-page: {}: twice, or a text that telemetry does not carry: {}\n",
                 name, text);
      table.good = false;
    }
    table.rows += fmt::format("| `{}` | {} |\n", name, text);
  }
};

/// Appends the sections to `page`; false if a text cannot be told.
template <std::size_t kCount>
bool append(std::string& page, const char* heading, const Section (&sections)[kCount]) {
  bool good = true;
  page += fmt::format("\n## {}\n", heading);
  for (const Section& section : sections) {
    Table table;
    section.describe(&Table::add, &table);
    good = good && table.good && !table.rows.empty();
    page += fmt::format("\n### {}\n\n{}\n\n| counter | what it counts |\n|---|---|\n{}",
                        section.group, section.about, table.rows);
  }
  return good;
}

/// The page; empty if a text cannot be told.
std::string make_page() {
  std::string page =
      "# Counters\n\n"
      "Every counter is a line of this page, in the words of the code, of which it is made:\n"
      "`build/gcc/tests/documents/counters-page > docs/counters.md`. A test compares the two. A\n"
      "running program says the same of itself, as it is in its own version: `rh-stats "
      "--describe`\n"
      "([rh-stats](programs/rh-stats.md)). Counters begin with 0 when a program starts.\n";
  const bool good = append(page, "Groups of every endpoint", kEndpoint) &&
                    append(page, "Groups of some programs", kPrograms) &&
                    append(page, "Told in reports, or by the library alone", kElsewhere);
  return good ? page : std::string();
}

int check(const char* path, const std::string& page) {
  std::ifstream file(path);
  const std::string found{std::istreambuf_iterator<char>(file), {}};
  if (found == page) return 0;
  fmt::print(stderr, "counters-page: {} is not what the code says; without --check it is printed\n",
             path);
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string page = make_page();
  if (page.empty()) return 1;
  if (argc == 3 && std::string_view(argv[1]) == "--check") return check(argv[2], page);
  if (argc != 1) {
    fmt::print(stderr, "usage: counters-page [--check FILE]\n");
    return 2;
  }
  fmt::print("{}", page);
  return 0;
}
