// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <list>
#include <optional>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "apps/common/control_channel.h"
#include "apps/common/tcp.h"

namespace rockhopper::apps {

/// What each client of a ControlServer has.
struct ControlClient {
  ControlChannel channel;
  std::uint64_t deadline_ns = 0;  ///< of the greeting; the server sets it
  bool admitted = false;
  bool gone = false;  ///< to be dismissed in the next turn
};

/// Those who have come to a program by TCP, each of whom is greeted, says hello, is admitted or
/// sent away, and stays until it closes the connection. `Client` is a ControlClient. One thread.
template <typename Client>
class ControlServer {
 public:
  /// How often it is looked at what has come.
  static constexpr std::uint64_t kLookNs = 1'000'000;
  /// For the whole greeting.
  static constexpr std::uint64_t kGreetingNs = 10'000'000'000;
  /// That are being greeted at a time; others wait.
  static constexpr std::size_t kGreetedMax = 64;

  ControlServer() = default;
  ControlServer(const ControlServer&) = delete;
  ControlServer& operator=(const ControlServer&) = delete;
  /// Clients are not dismissed.
  virtual ~ControlServer() = default;

  [[nodiscard]] Expected<void> listen(std::uint16_t port) {
    ROCKHOPPER_TRY(auto listener, TcpListener::open(port));
    fmt::print(stderr, "listening on TCP port {}\n", listener.port());
    listener_.emplace(std::move(listener));
    return {};
  }

  /// One turn. Fails when nobody can come any more.
  [[nodiscard]] Expected<void> turn(std::uint64_t now_ns) {
    if (now_ns < next_look_ns_) return {};
    next_look_ns_ = now_ns + kLookNs;
    ROCKHOPPER_TRY(accept(now_ns));
    dismiss_if([&](Client& client) { return !serve(client, now_ns); });
    return {};
  }

  [[nodiscard]] std::uint64_t admitted() const { return admitted_; }
  [[nodiscard]] std::uint64_t refused() const { return refused_; }

 protected:
  /// Begins the greeting of whom has just come.
  [[nodiscard]] virtual Expected<Client> greet(TcpConnection connection) = 0;
  /// Admits it by its hello, and answers.
  [[nodiscard]] virtual Expected<void> admit(Client& client, const nlohmann::json& hello) = 0;
  /// Says on standard error that the client is told this, and leaves.
  virtual void print_refusal(const Client& client, const Error& why) = 0;
  /// The client leaves; its connection is closed behind this.
  virtual void dismiss(Client& client) = 0;

  void send_away(Client& client, const Error& why) {
    ++refused_;
    print_refusal(client, why);
    client.channel.send_error(why);
  }

  template <typename Predicate>
  void dismiss_if(const Predicate& leaves) {
    for (auto client = clients_.begin(); client != clients_.end();) {
      if (leaves(*client)) {
        dismiss(*client);
        client = clients_.erase(client);
      } else {
        ++client;
      }
    }
  }

  [[nodiscard]] std::list<Client>& clients() { return clients_; }
  [[nodiscard]] const std::list<Client>& clients() const { return clients_; }

 private:
  [[nodiscard]] Expected<void> accept(std::uint64_t now_ns) {
    const auto greeted = static_cast<std::size_t>(std::count_if(
        clients_.begin(), clients_.end(), [](const Client& client) { return !client.admitted; }));
    for (std::size_t i = greeted; i < kGreetedMax; ++i) {
      ROCKHOPPER_TRY(auto connection, listener_->poll_accept());
      if (!connection) return {};
      ROCKHOPPER_TRY(auto client, greet(std::move(*connection)));
      client.deadline_ns = now_ns + kGreetingNs;
      clients_.push_back(std::move(client));
    }
    return {};
  }

  /// False: it leaves.
  [[nodiscard]] bool serve(Client& client, std::uint64_t now_ns) {
    if (client.gone) return false;
    auto message = client.channel.poll();
    if (!message) return false;  // it has closed the connection, or speaks another language
    if (!*message) return client.admitted || now_ns < client.deadline_ns;
    if (client.admitted || (*message)->type != "hello") return false;
    auto admitted = admit(client, (*message)->body);
    if (client.admitted) ++admitted_;
    if (!admitted) send_away(client, admitted.error());
    return admitted.has_value();
  }

  std::optional<TcpListener> listener_;
  std::list<Client> clients_;
  std::uint64_t next_look_ns_ = 0;
  std::uint64_t admitted_ = 0;
  std::uint64_t refused_ = 0;
};

}  // namespace rockhopper::apps
