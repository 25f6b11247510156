// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "apps/rh_subscribe/delivery.h"
#include "apps/rh_subscribe/format.h"
#include "apps/rh_subscribe/output_stream.h"

namespace rockhopper::apps::subscribe {

/// Where the messages of all stores go: to standard output, or into a file for each store. Reports
/// losses on standard error. For one thread; no function waits.
class Sink {
 public:
  /// `folder` empty: standard output. Else it exists, and its files are named after the stores.
  Sink(Format format, std::string folder) : format_(format), folder_(std::move(folder)) {}

  /// Before anything else of that store. Fails if its file cannot be made, or has no name that is
  /// only a name, as the publisher's word is not to be trusted.
  [[nodiscard]] Expected<void> add_store(const std::string& name);

  void write(const Delivery& delivery);
  /// One line on standard error: "STORE: lost FIRST-LAST".
  void report(const Loss& loss);

  /// Nothing should be written before flush() has made room.
  [[nodiscard]] bool is_full() const;
  /// Nothing waits.
  [[nodiscard]] bool is_empty() const;
  [[nodiscard]] Expected<void> flush();

 private:
  [[nodiscard]] OutputStream& stream(std::string_view store);

  Format format_;
  std::string folder_;
  std::map<std::string, OutputStream, std::less<>> streams_;  ///< by store; "" is standard output
};

}  // namespace rockhopper::apps::subscribe
