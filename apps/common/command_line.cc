// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/common/command_line.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <new>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "apps/common/last_words.h"
#include "apps/common/version.h"

namespace rockhopper::apps {
namespace {

/// Messages of libraries may have several lines; a user gets one.
std::string one_line(std::string text) {
  while (!text.empty() && text.back() == '\n') {
    text.pop_back();
  }
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

/// No part of a program could go on, and an exception would end it with a dump.
[[noreturn]] void on_no_memory() {
  (void)std::fputs("no memory is left; is it limited (ulimit -v, ulimit -d)?\n", stderr);
  std::_Exit(kExitFailed);
}

std::string footer(const ProgramText& text) {
  return fmt::format(
      "EXAMPLES\n{}\n"
      "EAL ARGUMENTS\n"
      "  {} [EAL arguments] -- [options]\n"
      "  Arguments before -- go to DPDK. Without -- the program needs no huge pages, no\n"
      "  PCI device and no root rights.\n\n"
      "EXIT STATUS\n"
      "  0  all that was asked for is done and verified\n"
      "  1  some of it failed\n"
      "  2  bad arguments",
      text.examples, text.name);
}

}  // namespace

CommandLine::CommandLine(int argc, const char* const* argv, const ProgramText& text)
    : name_(text.name),
      arguments_(stack::split_arguments(argc, argv)),
      parser_({.name = text.name,
               .summary = text.summary,
               .version = fmt::format("{} {}", text.name, kVersion),
               .footer = footer(text)}) {
  std::set_new_handler(&on_no_memory);
}

std::optional<ExitStatus> CommandLine::parse() {
  const auto outcome = parser_.parse(arguments_.application);
  if (!outcome) return usage_error(outcome.error());
  if (*outcome == OptionParser::Outcome::shown) return finish({});
  return std::nullopt;
}

ExitStatus CommandLine::usage_error(const Error& error) const {
  const std::string command = parser_.command();
  fmt::print(stderr, "{}: {} (see {}{}{} --help)\n", name_, one_line(error.message), name_,
             command.empty() ? "" : " ", command);
  return kExitUsage;
}

ExitStatus CommandLine::input_error(const Error& error) const {
  fmt::print(stderr, "{}: {}\n", name_, one_line(error.message));
  return kExitUsage;
}

Expected<EndpointConfig> CommandLine::endpoint_config(const EndpointOptions& options, Role role,
                                                      std::uint16_t path_mtu) const {
  ROCKHOPPER_TRY(auto config, make_endpoint_config(options, {.role = role,
                                                             .use_eal_ports = !arguments_.embedded,
                                                             .path_mtu = path_mtu}));
  ROCKHOPPER_TRY(check_path_mtu(path_mtu, config));
  return config;
}

ExitStatus CommandLine::finish(const Expected<void>& result, bool json) const {
  if (!result && json) {
    const nlohmann::json object{{"program", name_}, {"error", result.error().message}};
    fmt::print("{}\n", object.dump());
  }
  const auto written = write_out();
  const LastWords& words = last_words();
  if (result && written && words.incomplete.empty()) return kExitOk;
  std::string why = !written  ? written.error().message
                    : !result ? result.error().message
                              : words.incomplete;
  if (!result && !words.drops.empty()) why += fmt::format("; dropped here: {}", words.drops);
  fmt::print(stderr, "{}: {}\n", name_, one_line(why));
  return kExitFailed;
}

}  // namespace rockhopper::apps
