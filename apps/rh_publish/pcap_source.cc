// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/rh_publish/pcap_source.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

#include <fmt/format.h>
#include <pcap/pcap.h>
#include <sys/stat.h>

namespace rockhopper::apps::publish {
namespace {

/// With PCAP_TSTAMP_PRECISION_NANO the microseconds of a timeval are nanoseconds.
std::uint64_t stamp_ns(const pcap_pkthdr& header) {
  return static_cast<std::uint64_t>(header.ts.tv_sec) * 1'000'000'000 +
         static_cast<std::uint64_t>(header.ts.tv_usec);
}

}  // namespace

void PcapSource::Closer::operator()(pcap* capture) const { pcap_close(capture); }

Expected<std::unique_ptr<PcapSource>> PcapSource::open(const std::string& path, const Pace& pace,
                                                       std::size_t payload_max) {
  struct stat status = {};
  if (::stat(path.c_str(), &status) != 0) {
    return fail(ErrorCode::io, "{} cannot be read: {}", path, std::strerror(errno));
  }
  // The library waits for what is not a file.
  if (!S_ISREG(status.st_mode)) {
    return fail(ErrorCode::invalid_argument, "pcap:{}: a capture must be a file", path);
  }
  ROCKHOPPER_TRY(auto file, CaptureFile::open(path));
  std::FILE* stream = file->stream();
  if (stream == nullptr) {
    return fail(ErrorCode::exhausted, "{} cannot be read: {}", path, std::strerror(errno));
  }
  std::array<char, PCAP_ERRBUF_SIZE> error{};
  Capture capture(
      pcap_fopen_offline_with_tstamp_precision(stream, PCAP_TSTAMP_PRECISION_NANO, error.data()));
  if (capture == nullptr) {
    (void)std::fclose(stream);
    return fail(ErrorCode::io, "{} is no capture: {}", path,
                file->error().empty() ? error.data() : file->error());
  }
  return std::unique_ptr<PcapSource>(
      new PcapSource(path, std::move(file), std::move(capture), pace, payload_max));
}

Expected<bool> PcapSource::read(std::uint64_t now_ns) {
  pcap_pkthdr* header = nullptr;
  const unsigned char* data = nullptr;
  const int got = pcap_next_ex(capture_.get(), &header, &data);
  if (got == PCAP_ERROR_BREAK) return false;
  if (got != 1) {
    return fail(ErrorCode::io, "{} is damaged behind packet {}: {}", path_, packets_,
                file_->error().empty() ? pcap_geterr(capture_.get()) : file_->error());
  }
  if (++packets_ == 1) {
    begin_ns_ = now_ns;
    due_ns_ = now_ns;
    first_stamp_ns_ = stamp_ns(*header);
  }
  if (header->caplen > payload_max_) {
    return fail(ErrorCode::invalid_argument, "{}: packet {} has {} bytes; the store takes up to {}",
                path_, packets_, header->caplen, payload_max_);
  }
  cut_ += header->caplen < header->len ? 1 : 0;
  waiting_ = std::as_bytes(std::span(data, header->caplen));
  if (pace_.speed > 0) due_ns_ = due_ns(stamp_ns(*header));
  return true;
}

std::uint64_t PcapSource::due_ns(std::uint64_t stamp_ns) {
  // Captures of several interfaces may go back in time a little: such packets come at once.
  const std::uint64_t passed_ns = std::max(stamp_ns, first_stamp_ns_) - first_stamp_ns_;
  const double due_ns =
      static_cast<double>(begin_ns_) + static_cast<double>(passed_ns) / pace_.speed;
  const double pause_ns = due_ns - static_cast<double>(due_ns_);
  if (pause_ns <= static_cast<double>(pace_.longest_ns)) {
    return begin_ns_ + static_cast<std::uint64_t>(static_cast<double>(passed_ns) / pace_.speed);
  }
  leave_out(static_cast<std::uint64_t>(pause_ns));
  begin_ns_ = due_ns_;
  first_stamp_ns_ = stamp_ns;
  return due_ns_;
}

void PcapSource::leave_out(std::uint64_t pause_ns) {
  if (pauses_left_out_++ > 0) return;
  fmt::print(stderr,
             "{}: a pause of {:.0f} seconds before packet {} is left out, as are all of more than "
             "{:g} (--longest-pause)\n",
             path_, static_cast<double>(pause_ns) * 1e-9, packets_,
             static_cast<double>(pace_.longest_ns) * 1e-9);
}

Expected<Next> PcapSource::next(std::uint64_t now_ns, std::span<const std::byte>& payload) {
  if (!waiting_) {
    ROCKHOPPER_TRY(auto more, read(now_ns));
    if (!more) return Next::end;
  }
  if (now_ns < due_ns_) return Next::nothing;
  payload = *std::exchange(waiting_, std::nullopt);
  return Next::message;
}

void PcapSource::visit_counters(const CounterVisit& visit) const {
  visit("cut", cut_);
  visit("pauses_left_out", pauses_left_out_);
}

}  // namespace rockhopper::apps::publish
