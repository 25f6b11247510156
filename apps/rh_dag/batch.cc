// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/rh_dag/batch.h"

#include <charconv>
#include <cstdio>
#include <memory>
#include <system_error>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "apps/common/json_bytes.h"
#include "apps/common/signals.h"
#include "apps/common/steady_clock.h"
#include "apps/rh_publish/stream_source.h"
#include "apps/services/dag/record.h"

namespace rockhopper::apps::dag_node {
namespace {

constexpr std::string_view kBlanks = " \t";
constexpr std::size_t kLineMax = 1 << 20;
constexpr std::uint64_t kReadsMax = 1'000'000'000;

/// Takes words from the front.
class Words {
 public:
  explicit Words(std::string_view text) : rest_(text) { skip(); }

  [[nodiscard]] bool empty() const { return rest_.empty(); }
  [[nodiscard]] std::string_view rest() const { return rest_; }
  std::string_view take() {
    const std::string_view word = rest_.substr(0, rest_.find_first_of(kBlanks));
    rest_.remove_prefix(word.size());
    skip();
    return word;
  }
  template <typename T>
  Expected<T> take_number(const char* what, T least, T most) {
    const std::string_view word = take();
    T value = 0;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
    if (error != std::errc{} || end != word.data() + word.size() || value < least || value > most) {
      return fail(ErrorCode::invalid_argument, "{:?} is no {}: a number from {} to {}", word, what,
                  least, most);
    }
    return value;
  }

 private:
  void skip() {
    const std::size_t begin = rest_.find_first_not_of(kBlanks);
    rest_.remove_prefix(begin == std::string_view::npos ? rest_.size() : begin);
  }

  std::string_view rest_;
};

Expected<BatchLine> parse_reads(Words words) {
  BatchLine line;
  ROCKHOPPER_TRY(line.reads, words.take_number<std::uint64_t>("count", 1, kReadsMax));
  while (!words.empty()) {
    line.keys.emplace_back(words.take());
    ROCKHOPPER_TRY(check_key(line.keys.back()));
  }
  if (line.keys.empty()) return fail(ErrorCode::invalid_argument, "read what? COUNT KEY...");
  return line;
}

/// What stands behind the key.
Expected<void> parse_rest(Words& words, RecordTask& task) {
  switch (task.verb) {
    case Verb::get:
    case Verb::erase:
      break;
    case Verb::create:
    case Verb::put:
    case Verb::update: {
      const auto data = std::as_bytes(std::span(words.rest()));
      task.data.assign(data.begin(), data.end());
      return {};
    }
    case Verb::resize: {
      ROCKHOPPER_TRY(task.capacity,
                     words.take_number<std::uint32_t>("capacity", 1, dag::kCapacityMax));
      break;
    }
    case Verb::add: {
      ROCKHOPPER_TRY(task.word,
                     words.take_number<unsigned>("control word", 0, dag::kControlWords - 1));
      ROCKHOPPER_TRY(task.value, words.take_number<std::uint64_t>("number", 0, UINT64_MAX));
      break;
    }
  }
  if (!words.empty()) {
    return fail(ErrorCode::invalid_argument, "there is more than {} takes: {:?}",
                name_of(task.verb), words.rest());
  }
  return {};
}

class Batch {
 public:
  Batch(Records& records, bool json) : records_(records), json_(json) {}

  [[nodiscard]] Expected<void> run(std::string_view text) {
    ++lines_;
    const Words words(text);
    if (words.empty() || words.rest().front() == '#') return {};
    auto line = parse_batch_line(text);
    if (!line) return fail(line.error().code, "line {}: {}", lines_, line.error().message);
    ++done_;
    auto answered = line->reads > 0 ? read(*line) : run(line->task);
    // Whoever has sent the line may be waiting for it.
    (void)std::fflush(stdout);
    return answered;
  }

  [[nodiscard]] Expected<void> finish() const {
    if (failed_ == 0) return {};
    return fail(ErrorCode::invalid_state, "{} of {} lines could not be done", failed_, done_);
  }

 private:
  [[nodiscard]] Expected<void> run(const RecordTask& task) {
    ROCKHOPPER_TRY(auto result, records_.run(task));
    if (result.status != dag::Status::ok) ++failed_;
    fmt::print("{}\n", json_ ? to_json(task, result).dump() : to_line(task, result));
    return {};
  }

  [[nodiscard]] Expected<void> read(const BatchLine& line) {
    ROCKHOPPER_TRY(auto series, records_.read_series(line.keys, line.reads));
    if (series.failed() + series.mixed() > 0) ++failed_;
    fmt::print("{}\n", json_ ? series.to_json().dump() : series.to_line());
    return {};
  }

  Records& records_;
  bool json_;
  std::uint64_t lines_ = 0;
  std::uint64_t done_ = 0;
  std::uint64_t failed_ = 0;
};

}  // namespace

Expected<BatchLine> parse_batch_line(std::string_view text) {
  Words words(text);
  const std::string_view verb = words.take();
  if (verb == "read") return parse_reads(words);
  BatchLine line;
  const auto known = parse_name<Verb>(verb);
  if (!known) {
    return fail(ErrorCode::invalid_argument,
                "{:?} is none of get, create, put, update, delete, resize, add, read", verb);
  }
  line.task.verb = *known;
  line.task.key = words.take();
  ROCKHOPPER_TRY(check_key(line.task.key));
  ROCKHOPPER_TRY(parse_rest(words, line.task));
  return line;
}

Expected<void> run_batch(Records& records, const std::string& path, bool json) {
  ROCKHOPPER_TRY(auto source, publish::StreamSource::open(path, publish::Framing::lines,
                                                          /*follow=*/false, kLineMax));
  Batch batch(records, json);
  for (;;) {
    if (stop_requested()) return tl::make_unexpected(interrupted());
    (void)records.connection().turn();
    std::span<const std::byte> line;
    ROCKHOPPER_TRY(auto next, source->next(steady_now_ns(), line));
    if (next == publish::Next::end) return batch.finish();
    if (next != publish::Next::message) continue;
    ROCKHOPPER_TRY(batch.run(as_text(line)));
  }
}

}  // namespace rockhopper::apps::dag_node
