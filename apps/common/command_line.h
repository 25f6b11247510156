// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "apps/common/endpoint_options.h"
#include "apps/common/exit_status.h"
#include "apps/common/option_set.h"
#include "apps/common/signals.h"
#include "stack/eal.h"
#include "stack/error.h"

namespace rockhopper::apps {

/// What `--help` says of a program besides its options.
struct ProgramText {
  std::string name;
  std::string summary;
  std::string examples;  ///< shown behind the options, as it is
};

/// A program's arguments: DPDK's before `--`, its own behind it, or its own alone. Problems and
/// help are printed here, so that every program words them alike.
class CommandLine {
 public:
  CommandLine(int argc, const char* const* argv, const ProgramText& text);
  CommandLine(const CommandLine&) = delete;
  CommandLine& operator=(const CommandLine&) = delete;

  /// Options are added here before parse().
  [[nodiscard]] OptionSet app() { return parser_.options(); }
  [[nodiscard]] const stack::Arguments& arguments() const { return arguments_; }

  /// A status to exit with: help was asked for, or the arguments are bad (said on standard error).
  [[nodiscard]] std::optional<ExitStatus> parse();

  /// For what the options cannot check: prints the error as bad arguments.
  [[nodiscard]] ExitStatus usage_error(const Error& error) const;
  /// The same of what a file has that an argument names, about which --help says nothing.
  [[nodiscard]] ExitStatus input_error(const Error& error) const;
  /// The endpoint that the options ask for, on a link on which packets of `path_mtu` pass.
  [[nodiscard]] Expected<EndpointConfig> endpoint_config(const EndpointOptions& options, Role role,
                                                         std::uint16_t path_mtu) const;
  /// Runs a program with such an endpoint: from here on SIGINT and SIGTERM are caught, and `run` is
  /// given the endpoint's settings and the EAL's arguments.
  template <typename Config, typename Run>
  [[nodiscard]] ExitStatus run(const Expected<Config>& config, bool json, Run run) const {
    if (!config) return usage_error(config.error());
    catch_stop_signals();
    return finish(run(*config, arguments_), json);
  }
  /// The end of a run: prints its error, if any; with `json` also as an object on standard output.
  [[nodiscard]] ExitStatus finish(const Expected<void>& result, bool json = false) const;

 private:
  std::string name_;
  stack::Arguments arguments_;
  OptionParser parser_;
};

}  // namespace rockhopper::apps
