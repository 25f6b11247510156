// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "tests/dag_schedule/digest_executor.h"

#include <algorithm>

namespace rockhopper::sim {

std::size_t DigestExecutor::room() const { return slots_ == 0 ? 1 : slots_ - jobs_.size(); }

void DigestExecutor::start(const Job& job) {
  ++started;
  const std::uint64_t work = work_ns ? work_ns(job.key) : 0;
  const Running running{.job = job, .start_ns = now_ns_, .end_ns = now_ns_ + work};
  if (slots_ == 0) {
    finish(running);
  } else {
    jobs_.push_back(running);
  }
}

void DigestExecutor::finish(const Running& running) {
  busy_ns += running.end_ns - running.start_ns;
  const std::string why = failure ? failure(running.job.key) : "";
  if (!why.empty()) {
    worker->complete(running.job.ticket, fail(ErrorCode::invalid_state, "{}", why),
                     running.start_ns, running.end_ns);
    return;
  }
  auto ran = runner_.run(running.job.key, running.job.tasks, running.job.inputs, output_);
  if (!ran) {
    worker->complete(running.job.ticket, tl::make_unexpected(ran.error()), running.start_ns,
                     running.end_ns);
    return;
  }
  worker->complete(running.job.ticket, std::span<const std::byte>(output_), running.start_ns,
                   running.end_ns);
}

bool DigestExecutor::progress(std::uint64_t now_ns) {
  now_ns_ = now_ns;
  bool worked = false;
  for (std::size_t i = 0; i < jobs_.size();) {
    if (jobs_[i].end_ns > now_ns) {
      ++i;
      continue;
    }
    const Running done = jobs_[i];
    jobs_.erase(jobs_.begin() + static_cast<std::ptrdiff_t>(i));
    finish(done);
    worked = true;
  }
  return worked;
}

std::uint64_t DigestExecutor::next_deadline_ns() const {
  std::uint64_t next_ns = UINT64_MAX;
  for (const Running& running : jobs_) {
    next_ns = std::min(next_ns, running.end_ns);
  }
  return next_ns;
}

}  // namespace rockhopper::sim
