// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/rh_dag/graph_parser.h"

#include <utility>

#include "apps/services/dag/graph/graph_image.h"

namespace rockhopper::apps::dag_node {

GraphParser::GraphParser(const dag::FunctionRegistry& registry, const dag::GraphLimits& limits)
    : registry_(registry), limits_(limits), thread_([this] { work(); }) {}

GraphParser::~GraphParser() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_one();
  thread_.join();
}

void GraphParser::submit(dag::RunId run, std::vector<std::byte> image) {
  {
    const std::lock_guard lock(mutex_);
    jobs_.push_back({run, std::move(image)});
  }
  wake_.notify_one();
}

std::optional<GraphParser::Parsed> GraphParser::take() {
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock || done_.empty()) return std::nullopt;
  std::optional<Parsed> parsed(std::move(done_.front()));
  done_.pop_front();
  return parsed;
}

void GraphParser::work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    wake_.wait(lock, [this] { return stop_ || !jobs_.empty(); });
    if (stop_) return;
    const Job job = std::move(jobs_.front());
    jobs_.pop_front();
    lock.unlock();
    auto graph = dag::parse_image(job.image, registry_, limits_);
    lock.lock();
    done_.push_back({job.run, std::move(graph)});
  }
}

}  // namespace rockhopper::apps::dag_node
