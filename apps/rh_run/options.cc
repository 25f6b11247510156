// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/rh_run/options.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include <sys/stat.h>
#include <unistd.h>

#include "apps/common/output_file.h"
#include "apps/verbs/abi/devices.h"
#include "apps/verbs/node/settings.h"
#include "stack/fault_config.h"

namespace rockhopper::apps::launcher {
namespace {

constexpr std::array<std::string_view, 6> kWithValue = {"--device", "--addresses", "--pcap",
                                                        "--faults", "--progress",  "--uplink"};

bool has_value_behind(std::string_view option) {
  return std::find(kWithValue.begin(), kWithValue.end(), option) != kWithValue.end();
}

Expected<void> check_device(const std::string& name, const Options& options) {
  if (!verbs::is_device_name(name.data(), name.size())) {
    return fail(ErrorCode::invalid_argument,
                "--device {}: a name is a letter, then letters, digits, '_' and '-'", name);
  }
  const auto& given = options.devices;
  if (std::find(given.begin(), given.end(), name) != given.end()) {
    return fail(ErrorCode::invalid_argument, "--device {} is given twice", name);
  }
  if (given.size() == verbs::kDevicesMax) {
    return fail(ErrorCode::invalid_argument, "--device: up to {}", verbs::kDevicesMax);
  }
  return {};
}

/// Whether a capture can be written there is known before the command runs. Whether another process
/// writes it already, only the library can tell.
Expected<void> check_writable(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  const std::string folder = slash == std::string::npos ? "." : path.substr(0, slash + 1);
  struct stat found = {};
  const bool exists = stat(path.c_str(), &found) == 0;
  if (exists && S_ISDIR(found.st_mode)) {
    errno = EISDIR;
  } else if (access(exists ? path.c_str() : folder.c_str(), W_OK) == 0) {
    return {};
  }
  return fail(ErrorCode::invalid_argument, "--pcap {}: {}", path, std::strerror(errno));
}

}  // namespace

void add_options(const OptionSet& app, Options& options) {
  const OptionSet device = app.group("Device");
  device.add_parsed_list(
      "--device NAME",
      [&options](const std::string& name) -> Expected<void> {
        ROCKHOPPER_TRY(check_device(name, options));
        options.devices.push_back(name);
        return {};
      },
      "a device that the command sees; once for each. Default: rh0");
  device.add_parsed(
      "--addresses LIST", "",
      [&options](const std::string& text) -> Expected<void> {
        options.addresses = text;  // check() reads it
        return {};
      },
      "its addresses with their prefix lengths, as 192.0.2.1/24,fd00::1/64: the GID table. "
      "Default: the kernel's");
  device
      .add_option("--progress MODE", options.progress,
                  "which threads move packets: the command's while it polls and another one while "
                  "it does not (adaptive), only the other one, or only the command's. Default: "
                  "adaptive")
      .one_of({"adaptive", "thread", "inline"});
  device
      .add_option(
          "--uplink KIND", options.uplink,
          "the way to other hosts: through UDP sockets on port 4791 of its addresses, which "
          "are then the kernel's (udp), or through the port of an rh-switch --segment "
          "(switch). Default: none")
      .one_of({"none", "udp", "switch"});
  const OptionSet observation = app.group("Observation and faults");
  observation.add_parsed(
      "--pcap FILE", "",
      [&options](const std::string& path) -> Expected<void> {
        if (path.empty()) return {};
        ROCKHOPPER_TRY(refuse_standard_output("--pcap", path));
        options.pcap = path;
        return check_writable(verbs::capture_path(path));
      },
      "capture what is on the wire, in pcapng; %p stands for the process's id");
  observation.add_parsed(
      "--faults SPEC", "",
      [&options](const std::string& text) -> Expected<void> {
        if (text.empty()) return {};
        ROCKHOPPER_TRY(const auto parsed, stack::parse_faults(text));
        (void)parsed;
        options.faults = text;
        return {};
      },
      "impair the link: loss=1%,dup=1%,reorder=5%:2ms,corrupt=0.1%,delay=1ms or profile=P2");
  const OptionSet loading = app.group("Loading");
  loading.add_flag("--preload", options.preload,
                   "load libibverbs before all else, for programs with an RPATH of their own");
  loading.add_flag("--check", options.check,
                   "do not run the command: say which symbols of libibverbs it and its libraries "
                   "need, and whether all are there");
}

Expected<void> check(const Options& options) {
  const char* around = std::getenv("ROCKHOPPER_UPLINK");
  ROCKHOPPER_TRY(
      const auto uplink,
      verbs::parse_uplink(!options.uplink.empty() || around == nullptr ? options.uplink : around));
  if (options.addresses.empty()) {
    const char* addresses = std::getenv("ROCKHOPPER_ADDRESSES");
    const bool given = addresses != nullptr && *addresses != '\0';
    if (given || uplink != verbs::UplinkKind::rh_switch) return {};
    return fail(ErrorCode::invalid_argument,
                "--uplink switch needs --addresses: those that rh-switch has for the segment");
  }
  ROCKHOPPER_TRY(const auto parsed, verbs::parse_addresses(options.addresses, uplink));
  (void)parsed;
  return {};
}

Split split_command(int argc, const char* const* argv) {
  Split split;
  int i = 1;
  for (; i < argc && argv[i][0] == '-'; ++i) {
    if (std::strcmp(argv[i], "--") == 0) {
      ++i;
      break;
    }
    split.own.emplace_back(argv[i]);
    if (has_value_behind(argv[i]) && i + 1 < argc) split.own.emplace_back(argv[++i]);
  }
  for (; i < argc; ++i) {
    split.command.emplace_back(argv[i]);
  }
  return split;
}

}  // namespace rockhopper::apps::launcher
