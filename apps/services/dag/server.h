// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>

#include "apps/services/dag/application.h"
#include "apps/services/dag/client_area.h"
#include "apps/services/dag/counters.h"
#include "apps/services/dag/grant.h"
#include "apps/services/dag/message.h"
#include "apps/services/dag/store.h"
#include "dc/dci_pool.h"
#include "dc/endpoint.h"
#include "dc/target_address.h"
#include "roce/engine.h"

namespace rockhopper::dag {

struct ServerConfig {
  std::uint16_t max_clients = 256;         ///< 1 to 4096
  std::uint64_t lease_ns = 1'000'000'000;  ///< 1 ms to 1 h; silent for so long, clients are fenced
  roce::PathMtu path_mtu = roce::PathMtu::mtu_1024;
  std::uint8_t timeout = 14;   ///< local ACK timeout code
  std::uint8_t retry_cnt = 7;  ///< 0 to 7
  /// What clients' application requests go to; without one they are refused. Must outlive the
  /// server.
  ServerApplication* application = nullptr;
  /// Each client may READ it and do atomics in it, but not WRITE. Begins at a multiple of
  /// kRecordAlignment; stays the caller's and must outlive the server. May be empty.
  std::span<std::byte> application_memory;
};

/// What a server tells. Called from progress(); must not call the server.
class ServerListener {
 public:
  ServerListener() = default;
  ServerListener(const ServerListener&) = delete;
  ServerListener& operator=(const ServerListener&) = delete;
  virtual ~ServerListener() = default;
  /// It has been silent for too long, or cannot be reached. It reads and writes nothing any more,
  /// and what it held is free.
  virtual void on_fenced(ClientId /*id*/) {}
};

/// Serves a store's records to clients: creates, deletes and finds them when asked, and takes no
/// part in reading and updating (DG-18, DG-19). Each client has a target, a protection domain and
/// keys of its own; taking these away fences it.
///
/// Belongs to the engine's thread.
class Server {
 public:
  /// All must outlive it. `store` is used by this server alone.
  [[nodiscard]] static Expected<std::unique_ptr<Server>> create(roce::Engine& engine,
                                                                dc::Endpoint& endpoint,
                                                                Store& store,
                                                                ServerListener& listener,
                                                                const ServerConfig& config);
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;
  /// All clients are fenced; the application is not told.
  ~Server();

  /// `address` is the client's target. The lease begins.
  [[nodiscard]] Expected<Grant> add_client(const dc::TargetAddress& address, std::uint64_t now_ns);
  /// Fences it: from the return on no packet of it is executed; its locks and arenas are free.
  /// Harmless if there is no such one.
  void remove_client(ClientId id, std::uint64_t now_ns);

  /// One turn. True if there was something to do.
  bool progress(std::uint64_t now_ns);
  /// When progress() has something to do if nothing else happens.
  [[nodiscard]] std::uint64_t next_deadline_ns() const { return next_check_ns_; }

  [[nodiscard]] std::size_t client_count() const { return clients_.size(); }
  [[nodiscard]] const ServerCounters& counters() const { return counters_; }
  /// Any thread.
  void visit_counters(void (*visit)(void* context, const char* name, std::uint64_t value),
                      void* context) const;
  /// Calls `visit` with the name of each counter and what it counts, in one line. Any thread.
  static void describe_counters(void (*visit)(void* context, const char* name, const char* text),
                                void* context);

 private:
  struct Client;

  Server(roce::Engine& engine, dc::Endpoint& endpoint, Store& store, ServerListener& listener,
         const ServerConfig& config);
  [[nodiscard]] Expected<void> set_up();
  [[nodiscard]] Expected<void> set_up(Client& client, const dc::TargetAddress& address);
  void tear_down(Client& client, std::uint64_t now_ns);
  [[nodiscard]] Client* find(ClientId id) const;

  [[nodiscard]] bool poll_sends();
  [[nodiscard]] bool poll_receives(Client& client, std::uint64_t now_ns);
  void accept(Client& client, std::span<const std::byte> bytes, std::uint64_t now_ns);
  [[nodiscard]] Response execute(Client& client, const Request& request, std::uint64_t now_ns);
  [[nodiscard]] Response apply(const Client& client, const Request& request, std::uint64_t now_ns);
  void count(RequestType type, Status status);
  void answer(Client& client, std::size_t word);
  [[nodiscard]] bool send_responses(Client& client);
  void check_leases(std::uint64_t now_ns);
  void check_quarantine(std::uint64_t now_ns);
  [[nodiscard]] bool fence_failed(std::uint64_t now_ns);

  roce::Engine& engine_;
  dc::Endpoint& endpoint_;
  Store& store_;
  ServerListener& listener_;
  ServerConfig config_;
  roce::ProtectionDomain pd_;
  std::unique_ptr<roce::CompletionQueue> send_cq_;
  std::unique_ptr<dc::DciPool> pool_;
  std::map<ClientId, std::unique_ptr<Client>> clients_;
  std::uint32_t next_id_ = 1;
  std::uint64_t next_check_ns_ = 0;
  std::uint64_t last_check_ns_ = 0;
  ServerCounters counters_;
};

}  // namespace rockhopper::dag
