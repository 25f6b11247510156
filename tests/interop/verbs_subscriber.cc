// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors

/// A subscriber of rh-publish on any RDMA device, by libibverbs: SENDs for the access, and READs.
/// It has nothing of Rockhopper's own subscriber, only what docs/publisher.md says.
///
///   verbs_subscriber --device rxe0 --store NAME -p PORT HOST
///
/// The last line on standard output is the summary as JSON: "ok", "messages", "bytes", "lost"
/// (pairs of first and last), "digest" (SHA-256 of what `rh-subscribe --format records` writes), or
/// "error".
#include <array>
#include <chrono>
#include <cstring>
#include <exception>
#include <iostream>
#include <memory>
#include <random>

#include <CLI/CLI.hpp>
#include <openssl/evp.h>

#include "tests/interop/rc_exchange.h"
#include "tests/interop/store_reading.h"
#include "tests/interop/subscriber_greeting.h"
#include "tests/interop/subscriber_messages.h"
#include "tests/interop/verbs_endpoint.h"

namespace {

using namespace rockhopper::interop;

constexpr std::uint32_t kReceives = 8;
constexpr std::uint32_t kTag = 0x7a6;
constexpr int kConnectTimeoutS = 30;

struct Options {
  VerbsEndpoint::Device device;
  std::string host;
  std::uint16_t port = 0;
  std::string store;
  Identity identity;
  std::uint16_t layout_version = 1;
  std::uint64_t count = 0;
  std::uint32_t batch_bytes = 1 << 20;
  int pause_ms = 0;
};

/// SHA-256 of messages, each behind its length.
class Digest {
 public:
  Digest() { EVP_DigestInit_ex(context_.get(), EVP_sha256(), nullptr); }
  void add(std::span<const std::byte> payload) {
    const auto length = static_cast<std::uint32_t>(payload.size());
    std::array<std::byte, 4> bytes;
    for (unsigned i = 0; i < 4; ++i) {
      bytes[i] = static_cast<std::byte>(length >> (8 * i));
    }
    EVP_DigestUpdate(context_.get(), bytes.data(), bytes.size());
    EVP_DigestUpdate(context_.get(), payload.data(), payload.size());
  }
  std::string finish() {
    std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
    unsigned length = 0;
    EVP_DigestFinal_ex(context_.get(), digest.data(), &length);
    std::string text;
    for (unsigned i = 0; i < length; ++i) {
      constexpr char kDigits[] = "0123456789abcdef";
      text += kDigits[digest[i] >> 4];
      text += kDigits[digest[i] & 15];
    }
    return text;
  }

 private:
  struct Free {
    void operator()(EVP_MD_CTX* context) const { EVP_MD_CTX_free(context); }
  };
  std::unique_ptr<EVP_MD_CTX, Free> context_{EVP_MD_CTX_new()};
};

class Subscriber {
 public:
  explicit Subscriber(const Options& options)
      : options_(options),
        endpoint_(options.device),
        exchange_(Exchange::connect(options.host, options.port, kConnectTimeoutS)) {}
  Json run();

 private:
  // What is where in the endpoint's local memory.
  static constexpr std::uint32_t kMessage = 0;
  static constexpr std::uint32_t kControl = 1024;
  static constexpr std::uint32_t kRecords = 2048;

  void connect();
  void send(std::span<const std::byte> message);
  /// Takes completions until `requests` of ours are complete; `requests` 0: what is there.
  void complete(std::uint32_t requests);
  void on_message(const Completed& received);
  [[nodiscard]] PublisherMessage subscribe();
  /// One round. True: there was something new.
  bool read(StoreReading& reading, std::uint32_t rkey);
  void poll_publisher();
  /// Until something may have come.
  void wait() { endpoint_.wait(exchange_.descriptor(), 100); }
  void rest(int milliseconds);

  Options options_;
  VerbsEndpoint endpoint_;
  Exchange exchange_;
  std::optional<PublisherMessage> answer_;
  bool revoked_ = false;
  bool ended_ = false;
};

void Subscriber::connect() {
  const auto open = [this] {
    return endpoint_.open({.region_bytes = 4096,
                           .local_bytes = kRecords + options_.batch_bytes,
                           .receive_bytes = kReceives * kMessageMax,
                           .send_depth = 16,
                           .receive_depth = kReceives,
                           .queue_pair_rights = {.write = false, .read = false, .atomic = false},
                           .region_rights = {.write = false, .read = false, .atomic = false},
                           .first_psn = std::random_device()() & 0xffffff,
                           .timeout = 18});
  };
  const Limits limits = endpoint_.limits();
  const Greeting greeting =
      greet(exchange_, options_.identity, limits.path_mtu, open, [this] { wait(); });
  for (std::uint32_t i = 0; i < kReceives; ++i) {
    const Receive receive{.id = i, .pieces = 1, .piece = {{i * kMessageMax, kMessageMax}}};
    endpoint_.post(std::span(&receive, 1));
  }
  endpoint_.connect(greeting.publisher, greeting.path_mtu, limits.max_rd_atomic);
}

void Subscriber::send(std::span<const std::byte> message) {
  std::memcpy(endpoint_.local().data() + kMessage, message.data(), message.size());
  const Request request{.kind = OperationKind::send,
                        .pieces = 1,
                        .piece = {{kMessage, static_cast<std::uint32_t>(message.size())}}};
  endpoint_.post(std::span(&request, 1));
  complete(1);
}

void Subscriber::complete(std::uint32_t requests) {
  do {
    std::array<Completed, 16> completed;
    const std::size_t count = endpoint_.poll(completed);
    for (const Completed& one : std::span(completed).first(count)) {
      // What was flushed says only that something else has failed: that is the request's to tell.
      if (!one.success && one.receive && requests > 0) continue;
      if (!one.success) {
        throw Failure((one.receive ? "a receive: " : "a request: ") + one.status +
                      (revoked_ ? ", as the access was taken back" : ""));
      }
      if (one.receive) {
        on_message(one);
      } else if (requests > 0) {
        --requests;
      }
    }
    if (count == 0 && requests > 0) wait();
  } while (requests > 0);
}

void Subscriber::on_message(const Completed& received) {
  const auto offset = static_cast<std::uint32_t>(received.id) * kMessageMax;
  const PublisherMessage message =
      parse_message(endpoint_.receive().subspan(offset, received.length));
  if (message.kind == PublisherMessage::Kind::revoke) {
    revoked_ = true;
  } else {
    answer_ = message;
  }
  const Receive receive{.id = received.id, .pieces = 1, .piece = {{offset, kMessageMax}}};
  endpoint_.post(std::span(&receive, 1));
}

PublisherMessage Subscriber::subscribe() {
  send(subscribe_message(kTag, options_.layout_version, options_.store));
  while (!answer_) {
    complete(0);
    poll_publisher();
    if (!answer_) wait();
  }
  if (answer_->tag != kTag) throw Failure("the publisher answers something else");
  if (answer_->kind == PublisherMessage::Kind::refused) {
    throw Failure("refused: " + std::to_string(answer_->why));
  }
  if (answer_->name != options_.store) throw Failure("that is another store: " + answer_->name);
  return *answer_;
}

bool Subscriber::read(StoreReading& reading, std::uint32_t rkey) {
  std::vector<Request> requests;
  std::uint32_t bytes = 0;
  for (const StoreRange& range : reading.next(options_.batch_bytes)) {
    requests.push_back({.kind = OperationKind::read,
                        .remote_addr = range.offset,
                        .rkey = rkey,
                        .pieces = 1,
                        .piece = {{kRecords + bytes, range.length}}});
    bytes += range.length;
  }
  requests.push_back({.kind = OperationKind::read,
                      .rkey = rkey,
                      .pieces = 1,
                      .piece = {{kControl, StoreReading::kControlBytes}}});
  endpoint_.post(requests);
  complete(static_cast<std::uint32_t>(requests.size()));
  const auto local = endpoint_.local();
  return reading.take(local.subspan(kRecords, bytes),
                      local.subspan(kControl, StoreReading::kControlBytes));
}

void Subscriber::poll_publisher() {
  const auto line = exchange_.poll();
  if (!line) return;
  if (line->contains("error")) throw Failure("the publisher: " + (*line)["error"].dump());
  ended_ = ended_ || line->contains("end");
}

void Subscriber::rest(int milliseconds) {
  using Clock = std::chrono::steady_clock;
  const auto end = Clock::now() + std::chrono::milliseconds(milliseconds);
  while (Clock::now() < end) {
    endpoint_.wait(exchange_.descriptor(), 1);
  }
}

Json Subscriber::run() {
  connect();
  const PublisherMessage grant = subscribe();
  Digest digest;
  StoreReading reading(grant.store, [&digest](std::uint64_t, std::span<const std::byte> payload) {
    digest.add(payload);
  });
  if (reading.longest_record() > options_.batch_bytes) {
    throw Failure("a message of that store needs a --batch of " +
                  std::to_string(reading.longest_record()));
  }
  // What has been published before the end is in a control block that is read behind it.
  const StoreTally& tally = reading.tally();
  const auto enough = [&] { return options_.count > 0 && tally.messages >= options_.count; };
  for (bool last = false; !enough() && (!last || !reading.is_at_tail());) {
    last = ended_;
    const bool news = read(reading, grant.rkey);
    if (revoked_) throw Failure("the access was taken back");
    poll_publisher();
    if (!ended_) rest(options_.pause_ms > 0 ? options_.pause_ms : news ? 0 : 1);
  }
  if (!enough()) reading.finish();
  send(leave_message(grant.store.id));
  return {{"ok", true},
          {"messages", tally.messages},
          {"bytes", tally.bytes},
          {"lost", tally.lost},
          {"rounds", tally.rounds},
          {"lapped", tally.lapped},
          {"refused", tally.refused},
          {"digest", digest.finish()}};
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Subscribes to a store of rh-publish by verbs alone");
  Options options;
  app.add_option("-d,--device", options.device.name, "RDMA device (the first)");
  app.add_option("--address", options.device.address, "IP address of the GID (the first IPv4 one)");
  app.add_option("host", options.host, "TCP address of rh-publish")->required();
  app.add_option("-p,--tcp-port", options.port, "its TCP port")->required();
  app.add_option("--store", options.store, "What to read")->required();
  app.add_option("--name", options.identity.name, "Who we are");
  app.add_option("--secret", options.identity.secret, "What proves it");
  app.add_option("--layout-version", options.layout_version, "That we pretend to read (1)");
  app.add_option("--count", options.count, "End after so many messages (with the publisher)");
  app.add_option("--batch", options.batch_bytes, "Bytes that are read at a time (1048576)")
      ->check(CLI::Range(64u, 1u << 28));
  app.add_option("--pause", options.pause_ms, "Milliseconds between two rounds (0)")
      ->check(CLI::Range(0, 10'000));
  CLI11_PARSE(app, argc, argv);
  try {
    Subscriber subscriber(options);
    std::cout << subscriber.run().dump() << std::endl;
    return 0;
  } catch (const std::exception& error) {
    std::cout << Json{{"ok", false}, {"error", error.what()}}.dump() << std::endl;
    std::cerr << argv[0] << ": " << error.what() << '\n';
    return 1;
  }
}
