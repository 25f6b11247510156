// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/rh_subscribe/options.h"

#include <algorithm>
#include <ctime>
#include <optional>

#include <sys/stat.h>

#include "apps/common/json_document.h"
#include "apps/rh_publish/names.h"
#include "stack/quantity.h"

namespace rockhopper::apps::subscribe {
namespace {

constexpr const char* kPublisher = "Publisher";
constexpr const char* kReading = "Reading";
constexpr const char* kOutput = "Output";
constexpr std::size_t kStoresMax = 64;

void add_publisher_options(OptionSet app, RawOptions& raw) {
  Options& options = raw.options;
  app.add_option("host", options.host, "TCP address of rh-publish").required().type_name("SERVER");
  app.add_option("-p,--port", options.port, "its TCP port").group(kPublisher);
  app.add_option("--name", options.name, "who we are, as the publisher's policy names us")
      .group(kPublisher);
  app.add_option("--secret-file", raw.secret_file,
                 "file whose first line is the secret of that name")
      .type_name("FILE")
      .group(kPublisher);
  app.add_flag("--list", options.list, "show which stores there are, and end").group(kPublisher);
  app.add_option("-m,--mtu", options.path_mtu, "path MTU. Default: the largest that both ends can")
      .one_of({256, 512, 1024, 2048, 4096})
      .type_name("BYTES")
      .group(kPublisher);
  app.add_option("-u,--qp-timeout", options.ack_timeout,
                 "local ACK timeout code: 4.096 us * 2^code")
      .range(1, 31)
      .group(kPublisher);
}

void add_reading_options(OptionSet app, RawOptions& raw) {
  Options& options = raw.options;
  app.add_option("--store", options.stores, "what to read; may be repeated. Default: all stores")
      .type_name("NAME")
      .one_value_each()
      .group(kReading);
  app.add_option("--from", raw.from,
                 "where to begin: tail, what comes from now on; oldest, what is still there; a "
                 "sequence number; or a time: @SECONDS since 1970, UTC as 2026-01-31T12:00:00, "
                 "or how long ago, as 250ms or 10s")
      .type_name("WHERE")
      .group(kReading);
  app.add_option("-n,--count", options.count, "end after so many messages of all stores")
      .positive()
      .type_name("N")
      .group(kReading);
  app.add_flag("--strict", options.strict, "fail if a message is lost, at the end").group(kReading);
  app.add_flag("--no-multicast", options.no_multicast,
               "READ all messages, even if the publisher sends copies of them to a group")
      .group(kReading);
  app.add_option("--batch", options.reader.batch_bytes,
                 "bytes that are read at a time, at most; the longest message in any case")
      .range(256u, 64u << 20)
      .type_name("BYTES")
      .group(kReading);
  app.add_option("--poll-min", raw.poll_min_us,
                 "microseconds until it is looked again after something new")
      .range(0.0, 1e9)
      .type_name("US")
      .group(kReading);
  app.add_option("--poll-max", raw.poll_max_us,
                 "how far that is doubled while nothing comes: the latency to expect then")
      .range(0.0, 1e9)
      .type_name("US")
      .group(kReading);
  app.add_flag("--watch", options.reader.watch,
               "once all is read, have the publisher tell when there is more, and read nothing "
               "until then")
      .group(kReading);
  app.add_option("--reads-per-second", options.reader.reads_per_second,
                 "of each store, at most; 0: no limit")
      .type_name("N")
      .group(kReading);
}

void add_output_options(OptionSet app, RawOptions& raw) {
  app.add_option("-o,--output", raw.output,
                 "-: standard output; or a folder, for a file for each store")
      .type_name("FOLDER")
      .group(kOutput);
  app.add_option("--format", raw.format,
                 "lines; records, each behind its length (32 bits, little endian); or json, an "
                 "object a line")
      .one_of({"lines", "records", "json"})
      .group(kOutput);
  app.add_flag("--json", raw.options.json, "print the result as JSON; needs --output")
      .group(kOutput);
}

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
  if (!text) {
    return fail(ErrorCode::invalid_argument, "--secret-file: {}", text.error().message);
  }
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

Expected<void> set_identity(const RawOptions& raw, Options& options) {
  if (options.name.empty() != raw.secret_file.empty()) {
    return fail(ErrorCode::invalid_argument, "--name and --secret-file go together");
  }
  if (options.name.empty()) return {};
  if (auto valid = publish::check_name(options.name); !valid) {
    return fail(ErrorCode::invalid_argument, "--name: {}", valid.error().message);
  }
  ROCKHOPPER_TRY(options.secret, read_secret(raw.secret_file));
  return {};
}

Expected<void> set_output(const RawOptions& raw, Options& options) {
  options.format = *parse_format(raw.format);
  options.output = raw.output == "-" ? "" : raw.output;
  if (options.output.empty()) {
    if (!options.json || options.list) return {};
    return fail(ErrorCode::invalid_argument,
                "--json: standard output has the messages; give them a folder with --output");
  }
  struct stat status = {};
  if (::stat(options.output.c_str(), &status) != 0 || !S_ISDIR(status.st_mode)) {
    return fail(ErrorCode::invalid_argument, "--output {}: there is no such folder",
                options.output);
  }
  return {};
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

void add_options(OptionSet app, RawOptions& raw) {
  add_publisher_options(app, raw);
  add_reading_options(app, raw);
  add_output_options(app, raw);
  add_endpoint_options(app, raw.options.endpoint, "-d,--device");
}

Expected<Options> finish_options(const RawOptions& raw, std::uint64_t wall_now_ns) {
  Options options = raw.options;
  ROCKHOPPER_TRY(options.reader.start, parse_start(raw.from, wall_now_ns));
  if (raw.poll_min_us > raw.poll_max_us) {
    return fail(ErrorCode::invalid_argument, "--poll-min is above --poll-max");
  }
  options.reader.poll_min_ns = static_cast<std::uint64_t>(raw.poll_min_us * 1e3);
  options.reader.poll_max_ns = static_cast<std::uint64_t>(raw.poll_max_us * 1e3);
  ROCKHOPPER_TRY(check_stores(options));
  ROCKHOPPER_TRY(set_identity(raw, options));
  ROCKHOPPER_TRY(set_output(raw, options));
  return options;
}

}  // namespace rockhopper::apps::subscribe
