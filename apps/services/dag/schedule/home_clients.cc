// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
//
// What clients ask of a home.
#include "apps/services/dag/graph/graph_image.h"
#include "apps/services/dag/schedule/home.h"

namespace rockhopper::dag {
namespace {

std::string_view characters_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

ApplicationResponse refuse(stack::Counter& counter, Status status) {
  counter.add();
  return {.status = status};
}

}  // namespace

ApplicationResponse Home::on_request(ClientId client, const ApplicationRequest& request,
                                     std::uint64_t now_ns) {
  next_turn_ns_ = 0;
  switch (static_cast<HomeRequest>(request.code)) {
    case HomeRequest::submit:
      return submit(client, request);
    case HomeRequest::cancel:
      return cancel(request);
    case HomeRequest::drop:
      return drop(request, now_ns);
    case HomeRequest::join:
      return join(client, request);
    case HomeRequest::leave:
      return leave(client, request);
    case HomeRequest::node_failed:
      return node_failed(client, request);
  }
  return refuse(counters_.refused_code, Status::invalid);
}

ApplicationResponse Home::submit(ClientId client, const ApplicationRequest& request) {
  const auto wanted = parse_submit(request.data);
  if (!wanted) return refuse(counters_.refused_data, Status::invalid);
  const std::string_view name = characters_of(request.name);
  if (!is_run_name(name)) return refuse(counters_.refused_name, Status::invalid);
  const auto arena =
      store_.arena_bytes(static_cast<std::uint32_t>(client), request.value, wanted->incarnation);
  if (!arena || wanted->image_bytes > arena->size() ||
      wanted->image_bytes > image_bytes_max(config_.limits)) {
    return refuse(counters_.refused_image, Status::invalid);
  }
  const ApplicationResponse slot = find_slot(name);
  if (slot.status == Status::exists) return refuse(counters_.refused_exists, slot.status);
  if (slot.status != Status::ok) return refuse(counters_.refused_runs, slot.status);
  const auto which = static_cast<std::uint32_t>(slot.value);
  static_cast<void>(add(which, name, wanted->priority, wanted->attempts));
  // The client can write to it still.
  const auto image = arena->first(wanted->image_bytes);
  runs_[which].image.assign(image.begin(), image.end());
  runs_[which].submitted = true;
  return slot;
}

Run* Home::find(const ApplicationRequest& request) {
  Run* run = find(characters_of(request.name));
  if (run == nullptr) counters_.refused_not_found.add();
  return run;
}

ApplicationResponse Home::cancel(const ApplicationRequest& request) {
  Run* run = find(request);
  if (run == nullptr) return {.status = Status::not_found};
  run->cancel();
  return {.status = Status::ok};
}

ApplicationResponse Home::drop(const ApplicationRequest& request, std::uint64_t now_ns) {
  Run* run = find(request);
  if (run == nullptr) return {.status = Status::not_found};
  if (!run->drop(now_ns)) return refuse(counters_.refused_not_ended, Status::invalid);
  // Its entries must not be there when its slot is another run's. Before the slot rests, so that
  // who has taken one sees that the run is gone.
  pool_.remove_run(static_cast<std::uint8_t>(run->slot()));
  return {.status = Status::ok};
}

ApplicationResponse Home::join(ClientId client, const ApplicationRequest& request) {
  const auto wanted = parse_join(request.data);
  if (!wanted) return refuse(counters_.refused_data, Status::invalid);
  const ApplicationResponse joined = workers_.join(client, *wanted);
  if (joined.status == Status::exists) return refuse(counters_.refused_joined, joined.status);
  if (joined.status != Status::ok) return refuse(counters_.refused_workers, joined.status);
  counters_.joins.add();
  return joined;
}

ApplicationResponse Home::leave(ClientId client, const ApplicationRequest& request) {
  if (!request.name.empty() || !request.data.empty()) {
    return refuse(counters_.refused_data, Status::invalid);
  }
  if (!workers_.leave(client)) return refuse(counters_.refused_not_joined, Status::not_found);
  counters_.leaves.add();
  on_worker_gone();
  return {.status = Status::ok};
}

ApplicationResponse Home::node_failed(ClientId client, const ApplicationRequest& request) {
  Run* run = find(request);
  if (run == nullptr) return {.status = Status::not_found};
  const Status status = run->on_node_failed(
      static_cast<std::uint32_t>(client), static_cast<NodeIndex>(request.value >> 32),
      static_cast<std::uint32_t>(request.value), characters_of(request.data));
  if (status != Status::ok) return refuse(counters_.refused_failure, status);
  return {.status = Status::ok};
}

}  // namespace rockhopper::dag
