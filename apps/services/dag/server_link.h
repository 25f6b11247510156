// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include <boost/intrusive/list.hpp>

#include "apps/services/dag/grant.h"
#include "apps/services/dag/lease.h"
#include "apps/services/dag/operation.h"
#include "apps/services/dag/request_words.h"
#include "dc/dci_pool.h"
#include "dc/owned.h"
#include "roce/owned.h"
#include "roce/receive_buffers.h"

namespace rockhopper::dag {

/// A client's way to one server: what waits to be posted there, the requests that the server works
/// on, and the lease, which it renews.
class ServerLink {
 public:
  /// All must outlive it.
  ServerLink(ClientParts& client, std::uint16_t server) : client_(client), server_(server) {}
  ServerLink(const ServerLink&) = delete;
  ServerLink& operator=(const ServerLink&) = delete;
  /// Where answers arrive; before all else.
  [[nodiscard]] Expected<void> set_up(roce::Engine& engine, dc::Endpoint& endpoint,
                                      roce::ProtectionDomain pd);
  /// Nothing is posted or received any more; before the client's pool ends.
  void shut();

  [[nodiscard]] std::uint16_t server() const { return server_; }
  [[nodiscard]] const dc::Dct& target() const { return *dct_; }
  [[nodiscard]] const Grant& grant() const { return grant_; }
  [[nodiscard]] Lease& lease() { return lease_; }
  [[nodiscard]] bool is_connected() const { return lease_.is_on(); }
  [[nodiscard]] bool is_to(const dc::PoolTarget& peer) const { return peer_ && &*peer_ == &peer; }
  /// The entry leads into the server's records with our key: a request there cannot cost the
  /// connection.
  [[nodiscard]] bool is_good(const Entry& entry) const;

  /// As Client::connect().
  [[nodiscard]] Expected<void> connect(roce::Engine& engine, roce::ProtectionDomain pd,
                                       const roce::AddressVector& av, const Grant& grant);
  /// An operation at this server has begun, or ended.
  void on_begun() { ++operations_; }
  void on_ended() { --operations_; }

  /// Posts the operation's work, now or when there is room.
  void post(Operation& operation);
  /// Posts what there is room for now.
  void drain();
  /// Gives the operation a request word, now or when there is one: Operation::on_word().
  void wait_for_word(Operation& operation);
  /// It waits for a word, or to be posted, no more.
  void forget(Operation& operation);
  [[nodiscard]] RequestWords& words() { return words_; }
  /// Takes answers. True if there was any.
  bool poll_receives();

  /// Renews the lease if that is due and nothing holds it up. True if it was renewed.
  [[nodiscard]] bool renew();
  /// A request with this wr_id is complete, which is of a renewal (is_renewal).
  void on_renewal(const roce::Completion& completion);
  [[nodiscard]] static bool is_renewal(std::uint64_t wr_id);

  /// The server cannot be reached, or may have fenced us: end_if_lost() follows.
  void mark_lost() { is_lost_ = is_connected(); }
  /// Ends the connection if it is lost or the lease has ended, and all that was under way.
  void end_if_lost();

 private:
  using List = boost::intrusive::list<
      Operation, boost::intrusive::member_hook<Operation, boost::intrusive::list_member_hook<>,
                                               &Operation::hook>>;

  [[nodiscard]] bool post_next(Operation& operation);
  void admit_waiting();
  void accept(std::span<const std::byte> bytes);
  void lose();
  [[nodiscard]] std::uint64_t renewal_wr_id(std::uint64_t number) const;

  ClientParts& client_;
  const std::uint16_t server_;
  std::unique_ptr<roce::ReceiveBuffers> receives_;
  dc::Owned<dc::Dct> dct_;
  roce::Owned<roce::AddressHandle> ah_;
  std::optional<dc::PoolTarget> peer_;  ///< names ah_
  Grant grant_;                         ///< of this connection, or of the last one
  Lease lease_;                         ///< on as long as there is a connection
  bool is_lost_ = false;                ///< to be ended
  std::uint32_t connection_ = 0;        ///< how many there have been
  List to_post_;
  List waiting_;  ///< for a request word
  RequestWords words_;
  std::size_t operations_ = 0;
};

}  // namespace rockhopper::dag
