// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>

#include "apps/common/background.h"
#include "apps/common/tcp.h"
#include "apps/rh_perf/perftest_destination.h"
#include "stack/error.h"

namespace rockhopper::apps::perf {

/// What takes the messages of perftest's exchange to the peer and back.
class PerftestCarrier {
 public:
  PerftestCarrier() = default;
  PerftestCarrier(const PerftestCarrier&) = delete;
  PerftestCarrier& operator=(const PerftestCarrier&) = delete;
  virtual ~PerftestCarrier() = default;

  [[nodiscard]] virtual Expected<void> send(std::string_view message) = 0;
  /// The next message, which must have that many bytes. Waits without limit.
  [[nodiscard]] virtual Expected<std::string> receive(std::size_t bytes) = 0;
  /// The word of farewell, where there is one; it is not answered.
  [[nodiscard]] virtual Expected<void> say_done() = 0;
  /// True once the peer has gone. Does not wait.
  [[nodiscard]] virtual bool peer_closed() = 0;
  /// Of the messages about queue pairs.
  [[nodiscard]] virtual PerftestForm form() const = 0;
};

/// A TCP connection: how the programs talk without -R.
class PerftestTcpCarrier final : public PerftestCarrier {
 public:
  /// `background` goes on while this waits; not owned.
  PerftestTcpCarrier(TcpConnection connection, Background& background)
      : connection_(std::move(connection)), background_(background) {}

  [[nodiscard]] Expected<void> send(std::string_view message) override;
  [[nodiscard]] Expected<std::string> receive(std::size_t bytes) override;
  [[nodiscard]] Expected<void> say_done() override;
  [[nodiscard]] bool peer_closed() override { return connection_.peer_closed(); }
  [[nodiscard]] PerftestForm form() const override { return PerftestForm::text; }

 private:
  TcpConnection connection_;
  Background& background_;
};

}  // namespace rockhopper::apps::perf
