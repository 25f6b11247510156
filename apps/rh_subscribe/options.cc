// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/rh_subscribe/options.h"

#include <algorithm>
#include <ctime>
#include <optional>

#include <fmt/format.h>
#include <sys/stat.h>

#include "apps/common/json.h"
#include "apps/rh_publish/names.h"
#include "stack/quantity.h"

namespace rockhopper::apps::subscribe {
namespace {

constexpr std::size_t kStoresMax = 64;

std::optional<std::uint64_t> parse_utc(const std::string& text) {
  std::tm time{};
  const char* end = ::strptime(text.c_str(), "%Y-%m-%dT%H:%M:%S", &time);
  if (end == nullptr) return std::nullopt;
  if (*end == 'Z') ++end;
  if (*end != '\0') return std::nullopt;
  const time_t seconds = ::timegm(&time);
  if (seconds < 0) return std::nullopt;
  return static_cast<std::uint64_t>(seconds) * 1'000'000'000;
}

std::optional<std::uint64_t> parse_unix_seconds(std::string_view text) {
  const std::size_t point = text.find('.');
  std::uint64_t seconds = 0;
  std::uint64_t fraction = 0;
  if (!stack::parse_unsigned(text.substr(0, point), seconds) || seconds > 18'000'000'000) {
    return std::nullopt;
  }
  if (point != std::string_view::npos) {
    std::string digits(text.substr(point + 1));
    if (digits.empty() || digits.size() > 9 ||
        digits.find_first_not_of("0123456789") != std::string::npos) {
      return std::nullopt;
    }
    digits.resize(9, '0');
    fraction = std::stoul(digits);
  }
  return seconds * 1'000'000'000 + fraction;
}

Expected<std::string> read_secret(const std::string& path) {
  auto text = read_text_file(path);
  if (!text) return fail(ErrorCode::invalid_argument, "--secret-file: {}", text.error().message);
  std::string secret = text->substr(0, text->find('\n'));
  if (!secret.empty() && secret.back() == '\r') secret.pop_back();
  if (!secret.empty()) return secret;
  return fail(ErrorCode::invalid_argument, "--secret-file {}: its first line is empty", path);
}

Expected<void> check_stores(const Options& options) {
  for (auto store = options.stores.begin(); store != options.stores.end(); ++store) {
    if (auto valid = publish::check_name(*store); !valid) {
      return fail(ErrorCode::invalid_argument, "--store: {}", valid.error().message);
    }
    if (std::find(options.stores.begin(), store, *store) != store) {
      return fail(ErrorCode::invalid_argument, "--store {}: is given twice", *store);
    }
  }
  if (options.stores.size() > kStoresMax) {
    return fail(ErrorCode::invalid_argument, "--store: {} are possible", kStoresMax);
  }
  return {};
}

Expected<void> set_identity(const std::string& secret_file, Options& options) {
  ROCKHOPPER_TRY(refuse_if(
      {{options.name.empty() != secret_file.empty(), "--name and --secret-file go together"}}));
  if (options.name.empty()) return {};
  if (auto valid = publish::check_name(options.name); !valid) {
    return fail(ErrorCode::invalid_argument, "--name: {}", valid.error().message);
  }
  ROCKHOPPER_TRY(options.secret, read_secret(secret_file));
  return {};
}

Expected<void> settle_output(Options& options) {
  if (options.output == "-") options.output.clear();
  struct stat status = {};
  const bool standard = options.output.empty();
  return refuse_if({
      {standard && options.json && !options.list,
       "--json: standard output has the messages; give them a folder with --output"},
      {!standard && (::stat(options.output.c_str(), &status) != 0 || !S_ISDIR(status.st_mode)),
       fmt::format("--output {}: there is no such folder", options.output)},
  });
}

void add_publisher_options(const OptionSet& app, Options& options) {
  app.add_option("-p,--port", options.port, "its TCP port");
  app.add_option("--name", options.name, "who we are, as the publisher's policy names us");
  app.add_parsed(
      "--secret-file FILE", "",
      [&options](const std::string& file) { return set_identity(file, options); },
      "file whose first line is the secret of that name");
  app.add_flag("--list", options.list, "show which stores there are, and end");
  add_path_mtu_option(app, options.path_mtu, "path MTU. Default: the largest that both ends can");
  add_ack_timeout_option(app, "-u,--qp-timeout", options.ack_timeout);
}

void add_reading_options(const OptionSet& app, Options& options, std::uint64_t wall_now_ns) {
  app.add_option("--store NAME", options.stores,
                 "what to read; may be repeated. Default: all stores")
      .one_value_each();
  app.add_parsed(
      "--from WHERE", "tail",
      [&options, wall_now_ns](const std::string& text) -> Expected<void> {
        ROCKHOPPER_TRY(options.reader.start, parse_start(text, wall_now_ns));
        return {};
      },
      "where to begin: tail, what comes from now on; oldest, what is still there; a sequence "
      "number; or a time: @SECONDS since 1970, UTC as 2026-01-31T12:00:00, or how long ago, as "
      "250ms or 10s");
  app.add_option("-n,--count N", options.count, "end after so many messages of all stores")
      .positive();
  app.add_flag("--strict", options.strict, "fail if a message is lost, at the end");
  app.add_flag("--no-multicast", options.no_multicast,
               "READ all messages, even if the publisher sends copies of them to a group");
  app.add_option("--batch BYTES", options.reader.batch_bytes,
                 "bytes that are read at a time, at most; the longest message in any case")
      .range(256u, 64u << 20);
  app.add_option("--poll-min US", options.poll_min_us,
                 "microseconds until it is looked again after something new")
      .range(0.0, 1e9);
  app.add_option("--poll-max US", options.poll_max_us,
                 "how far that is doubled while nothing comes: the latency to expect then")
      .range(0.0, 1e9);
  app.add_flag("--watch", options.reader.watch,
               "once all is read, have the publisher tell when there is more, and read nothing "
               "until then");
  app.add_option("--reads-per-second N", options.reader.reads_per_second,
                 "of each store, at most; 0: no limit");
}

void add_output_options(const OptionSet& app, Options& options) {
  app.add_option("-o,--output FOLDER", options.output,
                 "-: standard output; or a folder, for a file for each store");
  app.add_option("--format", options.format,
                 "lines; records, each behind its length (32 bits, little endian); or json, an "
                 "object a line");
  app.add_flag("--json", options.json, "print the result as JSON; needs --output");
}

}  // namespace

Expected<publisher::Start> parse_start(std::string_view text, std::uint64_t wall_now_ns) {
  using publisher::Start;
  std::uint64_t value = 0;
  if (text == "tail") return Start{};
  if (text == "oldest") return Start{.at = Start::At::oldest};
  if (stack::parse_unsigned(text, value)) return Start{.at = Start::At::sequence, .value = value};
  if (text.starts_with('@')) {
    if (const auto time_ns = parse_unix_seconds(text.substr(1))) {
      return Start{.at = Start::At::time, .value = *time_ns};
    }
  } else if (stack::parse_time(text, value)) {
    return Start{.at = Start::At::time, .value = wall_now_ns - std::min(value, wall_now_ns)};
  } else if (const auto time_ns = parse_utc(std::string(text))) {
    return Start{.at = Start::At::time, .value = *time_ns};
  }
  return fail(ErrorCode::invalid_argument,
              "--from {}: expected is tail, oldest, a sequence number, or a time as @1700000000, "
              "2026-01-31T12:00:00 or 10s (ago)",
              text);
}

void add_options(const OptionSet& app, Options& options, std::uint64_t wall_now_ns) {
  app.add_option("host SERVER", options.host, "TCP address of rh-publish").required();
  add_publisher_options(app.group("Publisher"), options);
  add_reading_options(app.group("Reading"), options, wall_now_ns);
  add_output_options(app.group("Output"), options);
  add_endpoint_options(app, options.endpoint);
  app.check([&options]() -> Expected<void> {
    ROCKHOPPER_TRY(
        refuse_if({{options.poll_min_us > options.poll_max_us, "--poll-min is above --poll-max"}}));
    options.reader.poll_min_ns = static_cast<std::uint64_t>(options.poll_min_us * 1e3);
    options.reader.poll_max_ns = static_cast<std::uint64_t>(options.poll_max_us * 1e3);
    ROCKHOPPER_TRY(check_stores(options));
    return settle_output(options);
  });
}

}  // namespace rockhopper::apps::subscribe
