// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
//
// What publisher-feed measures, with ZeroMQ in place of message stores:
//   zeromq-feed publish ENDPOINT [OPTIONS]
//   zeromq-feed subscribe ENDPOINT [OPTIONS]
// ENDPOINT is ZeroMQ's, as tcp://127.0.0.1:5000 or ipc:///tmp/feed. All subscribers of a process
// share a context, as is usual, and so an I/O thread.
#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <ctime>
#include <exception>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <sys/resource.h>
#include <zmq.h>

#include "apps/common/steady_clock.h"
#include "apps/rh_publish/rate_limiter.h"
#include "bench/feed/arrivals.h"
#include "bench/feed/stamp.h"

namespace {

using namespace rockhopper;
using apps::steady_now_ns;
using bench::Stamp;

constexpr std::uint64_t kPatienceNs = 30 * kNsPerSecond;
constexpr std::uint64_t kWarmUpNs = 50'000'000;
constexpr int kPauseMs = 100;  ///< of a call that waits

struct Options {
  std::string side;
  std::string endpoint;
  std::uint32_t subscribers = 1;
  double seconds = 1;
  std::uint32_t bytes = 64;
  std::uint32_t burst = 64;
  double rate_per_s = 0;
  bool drop = false;
  int high_water_mark = 1000;
  int io_threads = 1;
  bool latency = false;
};

void add_options(CLI::App& app, Options& options) {
  app.add_option("side", options.side, "publish or subscribe")
      ->required()
      ->check(CLI::IsMember({"publish", "subscribe"}));
  app.add_option("endpoint", options.endpoint, "where they meet")->required();
  app.add_option("--subscribers", options.subscribers, "publish: to wait for; subscribe: to be")
      ->check(CLI::Range(1, 1024));
  app.add_option("--seconds", options.seconds, "of the measurement")
      ->check(CLI::Range(0.01, 3600.0));
  app.add_option("--bytes", options.bytes, "of a message")
      ->check(CLI::Range(sizeof(Stamp), std::size_t{1} << 20));
  app.add_option("--burst", options.burst, "messages between two looks at the clock")
      ->check(CLI::Range(1, 65536));
  app.add_option("--rate", options.rate_per_s, "messages a second; 0: all it can")
      ->check(CLI::Range(0.0, 1e9));
  app.add_flag("--drop", options.drop,
               "drop at the high-water mark, as PUB does; else wait for the slowest subscriber");
  app.add_option("--hwm", options.high_water_mark, "messages that may wait, of each; 0: any number")
      ->check(CLI::Range(0, 1 << 30));
  app.add_option("--io-threads", options.io_threads, "of each process")->check(CLI::Range(1, 64));
  app.add_flag("--latency", options.latency, "from publishing to delivery");
}

void check(bool good, const char* what) {
  if (!good) throw std::runtime_error(fmt::format("{}: {}", what, zmq_strerror(zmq_errno())));
}

class Context {
 public:
  explicit Context(int io_threads) : context_(zmq_ctx_new()) {
    check(context_ != nullptr && zmq_ctx_set(context_, ZMQ_IO_THREADS, io_threads) == 0, "context");
  }
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;
  ~Context() { (void)zmq_ctx_term(context_); }
  [[nodiscard]] void* get() const { return context_; }

 private:
  void* context_;
};

class Socket {
 public:
  Socket(const Context& context, int type) : socket_(zmq_socket(context.get(), type)) {
    check(socket_ != nullptr, "socket");
    set(ZMQ_LINGER, 0);
  }
  Socket(Socket&& other) noexcept : socket_(std::exchange(other.socket_, nullptr)) {}
  Socket& operator=(Socket&&) = delete;
  ~Socket() {
    if (socket_ != nullptr) (void)zmq_close(socket_);
  }
  void set(int option, int value) {
    check(zmq_setsockopt(socket_, option, &value, sizeof value) == 0, "socket option");
  }
  [[nodiscard]] void* get() const { return socket_; }

 private:
  void* socket_;
};

double cpu_seconds(int who) {
  rusage usage{};
  check(getrusage(who, &usage) == 0, "getrusage");
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

void pause_until(std::uint64_t until_ns) {
  const timespec until{static_cast<time_t>(until_ns / kNsPerSecond),
                       static_cast<long>(until_ns % kNsPerSecond)};
  (void)clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, nullptr);
}

class Publisher {
 public:
  explicit Publisher(const Options& options)
      : options_(options),
        context_(options.io_threads),
        socket_(context_, ZMQ_XPUB),
        limiter_(options.rate_per_s),
        payload_(options.bytes) {
    // XPUB is PUB that says who subscribes, so that nothing is published to nobody.
    socket_.set(ZMQ_XPUB_VERBOSER, 1);
    socket_.set(ZMQ_XPUB_NODROP, options_.drop ? 0 : 1);
    socket_.set(ZMQ_SNDHWM, options_.high_water_mark);
    socket_.set(ZMQ_SNDTIMEO, kPauseMs);
    check(zmq_bind(socket_.get(), options_.endpoint.c_str()) == 0, options_.endpoint.c_str());
  }

  void run() {
    const std::uint64_t deadline_ns = steady_now_ns() + kPatienceNs;
    while (subscribed_ < options_.subscribers) {
      note_subscriptions(kPauseMs);
      if (steady_now_ns() >= deadline_ns) throw std::runtime_error("not all have subscribed");
    }
    publish_for(kWarmUpNs, false);
    const std::uint64_t start_ns = steady_now_ns();
    const std::uint64_t sequence = sequence_;
    const double process_s = cpu_seconds(RUSAGE_SELF);
    const double writer_s = cpu_seconds(RUSAGE_THREAD);
    publish_for(static_cast<std::uint64_t>(options_.seconds * kNsPerSecond), true);
    const double all_s = cpu_seconds(RUSAGE_SELF) - process_s;
    const double own_s = cpu_seconds(RUSAGE_THREAD) - writer_s;
    const nlohmann::json report{
        {"subscribers", options_.subscribers},
        {"seconds", static_cast<double>(steady_now_ns() - start_ns) / kNsPerSecond},
        {"messages", sequence_ - sequence},
        {"writer_seconds", own_s},
        {"engine_seconds", all_s - own_s}};
    fmt::print("{}\n", report.dump());
    (void)std::fflush(stdout);
    // The subscribers' window has begun later than ours.
    while (subscribed_ > 0 && steady_now_ns() < deadline_ns + kPatienceNs) {
      publish_for(1'000'000, true);
      note_subscriptions(0);
    }
  }

 private:
  void note_subscriptions(int wait_ms) {
    zmq_pollitem_t item{socket_.get(), 0, ZMQ_POLLIN, 0};
    if (zmq_poll(&item, 1, wait_ms) <= 0) return;
    std::array<char, 64> message;
    while (zmq_recv(socket_.get(), message.data(), message.size(), ZMQ_DONTWAIT) > 0) {
      subscribed_ = message[0] == 1 ? subscribed_ + 1 : subscribed_ - 1;
    }
  }

  void publish_for(std::uint64_t duration_ns, bool measured) {
    const std::uint64_t end_ns = steady_now_ns() + duration_ns;
    for (std::uint64_t now_ns = 0; (now_ns = steady_now_ns()) < end_ns;) {
      if (!limiter_.ready(now_ns)) {
        // Its I/O thread may need this processor.
        pause_until(std::min(end_ns, limiter_.next_deadline_ns()));
        continue;
      }
      for (std::uint32_t i = 0; i < options_.burst; ++i) {
        send(now_ns, measured);
      }
    }
  }

  void send(std::uint64_t now_ns, bool measured) {
    bench::put_stamp(payload_,
                     {.sequence = sequence_, .time_ns = now_ns, .measured = measured ? 1u : 0u});
    if (zmq_send(socket_.get(), payload_.data(), payload_.size(), 0) < 0) {
      check(zmq_errno() == EAGAIN || zmq_errno() == EINTR, "send");
      return;
    }
    ++sequence_;
    limiter_.take(now_ns);
  }

  const Options& options_;
  Context context_;
  Socket socket_;
  apps::publish::RateLimiter limiter_;
  std::vector<std::byte> payload_;
  std::uint64_t sequence_ = 0;
  std::uint32_t subscribed_ = 0;
};

void subscribe(const Options& options) {
  bench::Arrivals arrivals(options.subscribers,
                           static_cast<std::uint64_t>(options.seconds * kNsPerSecond),
                           options.latency);
  const Context context(options.io_threads);
  std::vector<Socket> sockets;
  std::vector<zmq_pollitem_t> items;
  for (std::uint32_t i = 0; i < options.subscribers; ++i) {
    Socket& socket = sockets.emplace_back(context, ZMQ_SUB);
    socket.set(ZMQ_RCVHWM, options.high_water_mark);
    check(zmq_setsockopt(socket.get(), ZMQ_SUBSCRIBE, "", 0) == 0, "subscribe");
    check(zmq_connect(socket.get(), options.endpoint.c_str()) == 0, options.endpoint.c_str());
    items.push_back({socket.get(), 0, ZMQ_POLLIN, 0});
  }
  std::vector<std::byte> payload(std::size_t{1} << 20);
  const std::uint64_t deadline_ns =
      steady_now_ns() + kPatienceNs + static_cast<std::uint64_t>(options.seconds * kNsPerSecond);
  while (!arrivals.over()) {
    check(zmq_poll(items.data(), static_cast<int>(items.size()), kPauseMs) >= 0, "poll");
    for (std::size_t i = 0; i < items.size(); ++i) {
      if ((items[i].revents & ZMQ_POLLIN) == 0) continue;
      // A batch of each in turn.
      for (std::uint32_t n = 0; n < options.burst; ++n) {
        const int bytes = zmq_recv(items[i].socket, payload.data(), payload.size(), ZMQ_DONTWAIT);
        if (bytes < 0) break;
        arrivals.take(i, {payload.data(), static_cast<std::size_t>(bytes)});
      }
    }
    const std::uint64_t now_ns = steady_now_ns();
    arrivals.tick(now_ns);
    if (now_ns >= deadline_ns) {
      throw std::runtime_error("nothing of the feed came, or no end of it");
    }
  }
  fmt::print("{}\n", arrivals.report().dump());
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("ZeroMQ's publisher and subscribers, and what they cost", "zeromq-feed");
  Options options;
  add_options(app, options);
  CLI11_PARSE(app, argc, argv);
  try {
    if (options.side == "publish") {
      Publisher(options).run();
    } else {
      subscribe(options);
    }
  } catch (const std::exception& error) {
    fmt::print(stderr, "zeromq-feed: {}\n", error.what());
    return 1;
  }
  return 0;
}
