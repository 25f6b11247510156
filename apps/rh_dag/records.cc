// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/rh_dag/records.h"

#include <algorithm>
#include <utility>

#include "apps/common/signals.h"
#include "apps/common/steady_clock.h"
#include "apps/services/dag/message.h"
#include "apps/services/dag/record.h"

namespace rockhopper::apps::dag_node {
namespace {

/// For what comes behind the last result.
constexpr std::uint64_t kCloseNs = kNsPerSecond;

RecordResult to_record_result(const dag::Result& result) {
  return {.status = result.status,
          .version = result.version,
          .control = result.control,
          .value = result.value,
          .data = {result.data.begin(), result.data.end()}};
}

}  // namespace

Expected<std::unique_ptr<Records>> Records::open(const ConnectOptions& options,
                                                 const EndpointConfig& config,
                                                 const stack::Arguments& arguments,
                                                 dag::Placement placement,
                                                 std::uint16_t operations) {
  std::unique_ptr<Records> records(new Records());
  records->operations_ = operations;
  ROCKHOPPER_TRY(records->connection_,
                 Connection::create(options, config, arguments, *records, operations));
  ROCKHOPPER_TRY(records->connection_->connect(std::move(placement)));
  return records;
}

// The connection calls the listener, so it ends first.
Records::~Records() { connection_.reset(); }

void Records::on_result(const dag::Result& result) {
  if (result.context != kContext) {
    if (taker_) taker_(result);
    return;
  }
  data_.assign(result.data.begin(), result.data.end());
  done_ = result;
  done_->data = data_;
}

Expected<dag::Result> Records::wait(dag::Started started) {
  switch (started) {
    case dag::Started::invalid:
      return dag::Result{.status = dag::Status::invalid};
    case dag::Started::unreachable:
      return dag::Result{.status = dag::Status::unreachable};
    case dag::Started::no_room:
      return fail(ErrorCode::busy, "the client has as many operations as it can have");
    case dag::Started::yes:
      break;
  }
  ROCKHOPPER_TRY(connection_->turn_until([this] { return done_.has_value(); }));
  return *std::exchange(done_, std::nullopt);
}

Expected<RecordResult> Records::result_of(dag::Started started) {
  ROCKHOPPER_TRY(auto result, wait(started));
  return to_record_result(result);
}

Expected<void> Records::reconnect(std::optional<std::uint16_t> server) {
  if (server && std::find(lost_.begin(), lost_.end(), *server) == lost_.end()) {
    lost_.push_back(*server);
  }
  while (!lost_.empty()) {
    const std::uint16_t next = lost_.back();
    ROCKHOPPER_TRY(connection_->reconnect(next));
    // It may have told of the loss meanwhile.
    std::erase(lost_, next);
  }
  return {};
}

void Records::close() {
  const std::uint64_t deadline_ns = steady_now_ns() + kCloseNs;
  while (client().in_use() > 0 && steady_now_ns() < deadline_ns) {
    (void)connection_->turn();
  }
}

Expected<RecordResult> Records::run(const RecordTask& task) {
  ROCKHOPPER_TRY(reconnect());
  const auto key = dag::bytes_of(task.key);
  switch (task.verb) {
    case Verb::get:
      return result_of(client().read(key, kContext));
    case Verb::create:
      return create(task);
    case Verb::put:
      return put(task);
    case Verb::update:
      return result_of(client().update(key, task.data, kContext));
    case Verb::erase:
      return result_of(client().erase(key, kContext));
    case Verb::resize:
      return result_of(client().resize(key, task.capacity, kContext));
    case Verb::add:
      return result_of(client().fetch_add(key, task.word, task.value, kContext));
  }
  return fail(ErrorCode::invalid_argument, "nothing to do");
}

Expected<RecordResult> Records::read(const dag::Pointer& pointer) {
  return result_of(client().read(client().own(pointer), kContext));
}

/// What does not fit into the request follows as an update.
Expected<RecordResult> Records::create(const RecordTask& task) {
  const auto key = dag::bytes_of(task.key);
  const bool whole = task.data.size() <= dag::kCreateDataMax;
  const auto capacity = std::max(
      task.capacity, static_cast<std::uint32_t>(std::max<std::size_t>(task.data.size(), 1)));
  auto created = result_of(client().create(
      key, whole ? std::span<const std::byte>(task.data) : std::span<const std::byte>(),
      {.capacity = capacity}, kContext));
  if (!created || created->status != dag::Status::ok || whole) return created;
  return result_of(client().update(key, task.data, kContext));
}

Expected<RecordResult> Records::put(const RecordTask& task) {
  const auto key = dag::bytes_of(task.key);
  auto result = create(task);
  if (!result || result->status != dag::Status::exists) return result;
  result = result_of(client().update(key, task.data, kContext));
  if (!result || result->status != dag::Status::too_long) return result;
  const auto capacity = std::max(task.capacity, static_cast<std::uint32_t>(task.data.size()));
  result = result_of(client().resize(key, capacity, kContext));
  if (!result || result->status != dag::Status::ok) return result;
  return result_of(client().update(key, task.data, kContext));
}

Expected<ReadSeries> Records::read_series(std::span<const std::string> keys, std::uint64_t count) {
  ROCKHOPPER_TRY(reconnect());
  ReadSeries series(client(), keys, count, operations_);
  taker_ = [&series](const dag::Result& done) { series.on_result(done); };
  Expected<void> result;
  while (!series.done()) {
    if (stop_requested()) {
      result = tl::make_unexpected(interrupted());
      break;
    }
    series.start();
    (void)connection_->turn();
  }
  taker_ = {};
  ROCKHOPPER_TRY(result);
  series.stop();
  return series;
}

}  // namespace rockhopper::apps::dag_node
