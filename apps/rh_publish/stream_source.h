// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <memory>
#include <string>

#include "apps/rh_publish/byte_input.h"
#include "apps/rh_publish/framing.h"
#include "apps/rh_publish/source.h"

namespace rockhopper::apps::publish {

/// Lines or records of a file or of standard input. A message that is longer than allowed and
/// input that ends inside a record are errors, which tell the message's number from 1 on.
class StreamSource final : public Source {
 public:
  /// `path` and `follow` as in ByteInput::open().
  [[nodiscard]] static Expected<std::unique_ptr<StreamSource>> open(const std::string& path,
                                                                    Framing framing, bool follow,
                                                                    std::size_t payload_max);

  [[nodiscard]] Expected<Next> next(std::uint64_t now_ns,
                                    std::span<const std::byte>& payload) override;
  void visit_counters(const CounterVisit& visit) const override;

 private:
  StreamSource(ByteInput input, Framing framing, std::size_t payload_max)
      : input_(std::move(input)), framing_(framing), payload_max_(payload_max) {}
  /// The input is over, or another one begins: what is left over is a line without its end.
  [[nodiscard]] Expected<Next> finish(std::span<const std::byte>& payload);
  [[nodiscard]] std::string_view unit() const;

  ByteInput input_;
  Framing framing_;
  std::size_t payload_max_;
  std::size_t given_ = 0;  ///< bytes of the message that next() gave last
  std::size_t known_ = 0;  ///< bytes that have been looked at and are no whole message
  std::uint64_t messages_ = 0;
};

}  // namespace rockhopper::apps::publish
