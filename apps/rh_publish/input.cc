// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/rh_publish/input.h"

#include <utility>

#include <fmt/format.h>

#include "apps/rh_publish/pcap_source.h"
#include "apps/rh_publish/stream_source.h"
#include "apps/rh_publish/udp_source.h"

namespace rockhopper::apps::publish {
namespace {

template <typename T>
Expected<std::unique_ptr<Source>> as_source(Expected<std::unique_ptr<T>> opened) {
  ROCKHOPPER_TRY(auto source, std::move(opened));
  return std::unique_ptr<Source>(std::move(source));
}

Expected<std::unique_ptr<Source>> open_source(const InputSpec& spec, const InputSettings& settings,
                                              std::size_t payload_max) {
  switch (spec.kind) {
    case InputKind::lines:
      return as_source(
          StreamSource::open(spec.where, Framing::lines, settings.follow, payload_max));
    case InputKind::records:
      return as_source(
          StreamSource::open(spec.where, Framing::records, settings.follow, payload_max));
    case InputKind::udp: {
      auto udp = UdpSource::open(spec.where, payload_max);
      if (udp) fmt::print(stderr, "listening on UDP port {}\n", (*udp)->port());
      return as_source(std::move(udp));
    }
    case InputKind::pcap:
      break;
  }
  const double speed = settings.rate_per_s > 0 ? 0 : settings.speed;
  return as_source(PcapSource::open(
      spec.where,
      {.speed = speed, .longest_ns = static_cast<std::uint64_t>(settings.longest_pause_s * 1e9)},
      payload_max));
}

}  // namespace

Expected<InputSpec> parse_input(std::string_view text) {
  InputSpec spec;
  std::string_view rest = text;
  const std::size_t equals = rest.find('=');
  if (equals < rest.find(':')) {
    spec.store = rest.substr(0, equals);
    rest.remove_prefix(equals + 1);
    if (spec.store.empty()) {
      return fail(ErrorCode::invalid_argument, "--input {}: no store in front of =", text);
    }
  }
  const std::size_t colon = rest.find(':');
  const std::string_view name = rest.substr(0, colon);
  if (colon != std::string_view::npos) spec.where = rest.substr(colon + 1);
  const auto kind = parse_name<InputKind>(name);
  if (!kind) {
    return fail(ErrorCode::invalid_argument,
                "--input {}: expected is [STORE=]KIND[:WHERE] with one of the kinds {}", text,
                all_names<InputKind>());
  }
  spec.kind = *kind;
  if (is_stream(*kind) && colon == std::string_view::npos) spec.where = "-";
  if (!spec.where.empty()) return spec;
  return fail(ErrorCode::invalid_argument, "--input {}: {}: is followed by {}", text, name,
              *kind == InputKind::udp ? "a port" : "a file");
}

std::string to_string(const InputSpec& spec) {
  return fmt::format("{}{}{}:{}", spec.store, spec.store.empty() ? "" : "=", name_of(spec.kind),
                     spec.where);
}

Expected<std::unique_ptr<Input>> Input::open(const InputSpec& spec, const InputSettings& settings,
                                             std::size_t payload_max) {
  ROCKHOPPER_TRY(auto source, open_source(spec, settings, payload_max));
  return std::unique_ptr<Input>(new Input(spec, settings, std::move(source)));
}

Expected<Next> Input::next(std::uint64_t now_ns, std::span<const std::byte>& payload) {
  if (ended_) return Next::end;
  if (!limiter_.ready(now_ns) || now_ns < ask_ns_) return Next::nothing;
  ROCKHOPPER_TRY(auto next, source_->next(now_ns, payload));
  switch (next) {
    case Next::message:
      limiter_.take(now_ns);
      ended_ = ++messages_ == count_;
      break;
    case Next::nothing:
      ask_ns_ = now_ns + kPauseNs;
      break;
    case Next::end:
      ended_ = true;
      break;
  }
  return next;
}

}  // namespace rockhopper::apps::publish
