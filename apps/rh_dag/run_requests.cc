// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/rh_dag/run_requests.h"

#include <algorithm>
#include <span>
#include <vector>

#include "apps/rh_dag/board_reader.h"
#include "apps/services/dag/graph/graph_image.h"
#include "apps/services/dag/record.h"
#include "apps/services/dag/schedule/home_request.h"
#include "apps/services/dag/schedule/node_record.h"
#include "apps/services/dag/schedule/run_group.h"

namespace rockhopper::apps::dag_node {
namespace {

/// As a home means it.
std::string_view reason(dag::Status status) {
  switch (status) {
    case dag::Status::not_found:
      return "there is no such run";
    case dag::Status::exists:
      return "there is a run of that name already";
    case dag::Status::exhausted:
      return "the home has no room for another run, or no memory left";
    case dag::Status::invalid:
      return "the run is in another state, or the server keeps no runs";
    case dag::Status::timed_out:
      return "the home did not take the request in time";
    default:
      return dag::to_string(status);
  }
}

}  // namespace

Expected<dag::Result> RunRequests::wait(dag::Started started, const char* what) {
  auto result = records_.wait(started);
  if (!result || result->status == dag::Status::ok) return result;
  return fail(ErrorCode::invalid_state, "{}: {}", what, reason(result->status));
}

Expected<void> RunRequests::ask(std::uint8_t code, const std::string& run, const char* what) {
  ROCKHOPPER_TRY(
      wait(records_.client().ask(home_, code, dag::bytes_of(run), {}, 0, Records::kContext), what));
  return {};
}

Expected<void> RunRequests::submit(const dag::Graph& graph, const Submission& submission) {
  dag::Client& client = records_.client();
  const std::vector<std::byte> image = dag::to_image(graph);
  ROCKHOPPER_TRY(auto arena, wait(client.allocate_arena(home_, image.size(), Records::kContext),
                                  "there is no room for the graph at home"));
  const dag::Pointer pointer = arena.pointer;
  const std::span<const std::byte> all(image);
  const std::size_t piece = client.config().buffer_bytes;
  for (std::size_t at = 0; at < all.size(); at += piece) {
    const auto bytes = all.subspan(at, std::min(piece, all.size() - at));
    ROCKHOPPER_TRY(wait(client.write_arena(pointer, at, bytes, Records::kContext),
                        "the graph cannot be uploaded"));
  }
  const auto request = dag::emit(dag::SubmitRequest{.image_bytes = image.size(),
                                                    .incarnation = pointer.entry.incarnation,
                                                    .priority = submission.priority,
                                                    .attempts = submission.attempts});
  auto asked = wait(
      client.ask(home_, static_cast<std::uint8_t>(dag::HomeRequest::submit),
                 dag::bytes_of(submission.name), request, pointer.entry.address, Records::kContext),
      "the run was refused");
  // The home has a copy.
  auto released = wait(client.release_arena(pointer, Records::kContext),
                       "the uploaded graph cannot be given back");
  ROCKHOPPER_TRY(asked);
  ROCKHOPPER_TRY(released);
  return {};
}

Expected<void> RunRequests::cancel(const std::string& run) {
  return ask(static_cast<std::uint8_t>(dag::HomeRequest::cancel), run, "the run was not canceled");
}

Expected<void> RunRequests::drop(const dag::RunSlot& run) {
  const std::string name(dag::text_of(run.name));
  // The other servers first: once the home has forgotten the run, nobody knows what to release. Of
  // a run that has ended nobody writes outputs any more. One that goes on the home refuses.
  if (has_ended(run.phase)) {
    const dag::RunGroup group(name, dag::RunId{run.id});
    dag::Client& client = records_.client();
    for (std::uint16_t server = 0; server < client.servers(); ++server) {
      if (server == home_) continue;
      ROCKHOPPER_TRY(wait(client.release_group(server, group.bytes(), Records::kContext),
                          "the run's outputs cannot be released"));
    }
  }
  return ask(static_cast<std::uint8_t>(dag::HomeRequest::drop), name, "the run was not dropped");
}

Expected<void> check_run_name(const std::string& name) {
  if (dag::is_run_name(name)) return {};
  return fail(ErrorCode::invalid_argument,
              "{:?} is no name of a run: 1 to {} letters, digits, '.', '_' and '-' are", name,
              dag::kRunNameMax);
}

}  // namespace rockhopper::apps::dag_node
