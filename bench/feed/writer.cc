// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "bench/feed/writer.h"

#include <ctime>
#include <stdexcept>

#include <pthread.h>
#include <rte_cycles.h>
#include <sched.h>

#include "apps/common/steady_clock.h"
#include "bench/feed/stamp.h"

namespace rockhopper::bench {
namespace {

void tie_to(std::thread& thread, unsigned cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(cpu, &set);
  if (pthread_setaffinity_np(thread.native_handle(), sizeof set, &set) != 0) {
    throw std::runtime_error("there is no processor for the writer");
  }
}

void pause_ns(long ns) {
  const timespec duration{0, ns};
  clock_nanosleep(CLOCK_MONOTONIC, 0, &duration, nullptr);
}

}  // namespace

Writer::Writer(publisher::Store& store, const WriterConfig& config)
    : store_(store), config_(config), limiter_(config.rate_per_s), payload_(config.bytes) {
  if (!config_.cpu) return;
  thread_ = std::thread([this] { run(); });
  try {
    tie_to(thread_, *config_.cpu);
  } catch (...) {
    stop_ = true;
    thread_.join();
    throw;
  }
}

Writer::~Writer() {
  stop_ = true;
  if (thread_.joinable()) thread_.join();
}

void Writer::run() {
  while (!stop_.load(std::memory_order_relaxed)) {
    const Mode mode = mode_.load(std::memory_order_acquire);
    if (mode == Mode::idle) {
      pause_ns(100'000);
      continue;
    }
    const std::uint64_t now_ns = apps::steady_now_ns();
    if (limiter_.ready(now_ns)) write(mode, now_ns);
  }
}

void Writer::turn() {
  const Mode mode = mode_.load(std::memory_order_relaxed);
  if (mode == Mode::idle || thread_.joinable()) return;
  const std::uint64_t now_ns = apps::steady_now_ns();
  if (!limiter_.ready(now_ns)) return;
  const std::uint64_t start = rte_rdtsc();
  write(mode, now_ns);
  cycles_.store(cycles_.load(std::memory_order_relaxed) + (rte_rdtsc() - start),
                std::memory_order_relaxed);
}

void Writer::write(Mode mode, std::uint64_t now_ns) {
  for (std::uint32_t i = 0; i < config_.burst; ++i) {
    put_stamp(payload_, {.sequence = store_.next_sequence(),
                         .time_ns = now_ns,
                         .measured = mode == Mode::measured ? 1u : 0u});
    (void)store_.append(payload_, 0, now_ns);
    limiter_.take(now_ns);
  }
  store_.commit();
  messages_.store(messages_.load(std::memory_order_relaxed) + config_.burst,
                  std::memory_order_relaxed);
}

Writer::Work Writer::work() const {
  Work work{.messages = messages_.load(std::memory_order_relaxed)};
  if (!config_.cpu) {
    work.seconds = static_cast<double>(cycles_.load(std::memory_order_relaxed)) /
                   static_cast<double>(rte_get_tsc_hz());
    return work;
  }
  clockid_t clock{};
  timespec used{};
  if (pthread_getcpuclockid(const_cast<std::thread&>(thread_).native_handle(), &clock) != 0 ||
      clock_gettime(clock, &used) != 0) {
    throw std::runtime_error("the writer's processor time is not known");
  }
  work.seconds = static_cast<double>(used.tv_sec) + static_cast<double>(used.tv_nsec) * 1e-9;
  return work;
}

}  // namespace rockhopper::bench
