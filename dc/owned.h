// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <memory>
#include <utility>

#include "dc/endpoint.h"

namespace rockhopper::dc {

/// Ends an initiator or a target that an Owned has.
class Ender {
 public:
  Ender() = default;
  explicit Ender(Endpoint& endpoint) : endpoint_(&endpoint) {}
  void operator()(Dci* dci) const { endpoint_->destroy_dci(dci); }
  void operator()(Dct* dct) const { endpoint_->destroy_dct(dct); }

 private:
  Endpoint* endpoint_ = nullptr;
};

/// A Dci or a Dct that ends with whoever owns it here, as roce::Owned: before the queues that it
/// uses, and before the endpoint.
template <typename T>
using Owned = std::unique_ptr<T, Ender>;

/// Takes what the endpoint has made, or passes on why it has not.
template <typename T>
[[nodiscard]] Expected<Owned<T>> own(Endpoint& endpoint, Expected<T*> made) {
  ROCKHOPPER_TRY(T * object, std::move(made));
  return Owned<T>(object, Ender(endpoint));
}

}  // namespace rockhopper::dc
