// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/rh_publish/pcap_source.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

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

Expected<std::unique_ptr<PcapSource>> PcapSource::open(const std::string& path, double speed,
                                                       std::size_t payload_max) {
  struct stat status = {};
  if (::stat(path.c_str(), &status) != 0) {
    return fail(ErrorCode::io, "{} cannot be read: {}", path, std::strerror(errno));
  }
  // The library waits for what is not a file.
  if (!S_ISREG(status.st_mode)) {
    return fail(ErrorCode::invalid_argument, "pcap:{}: a capture must be a file", path);
  }
  std::array<char, PCAP_ERRBUF_SIZE> error{};
  Capture capture(pcap_open_offline_with_tstamp_precision(path.c_str(), PCAP_TSTAMP_PRECISION_NANO,
                                                          error.data()));
  if (capture == nullptr) return fail(ErrorCode::io, "{} is no capture: {}", path, error.data());
  return std::unique_ptr<PcapSource>(new PcapSource(path, std::move(capture), speed, payload_max));
}

Expected<bool> PcapSource::read(std::uint64_t now_ns) {
  pcap_pkthdr* header = nullptr;
  const unsigned char* data = nullptr;
  const int got = pcap_next_ex(capture_.get(), &header, &data);
  if (got == PCAP_ERROR_BREAK) return false;
  if (got != 1) {
    return fail(ErrorCode::io, "{} is damaged behind packet {}: {}", path_, packets_,
                pcap_geterr(capture_.get()));
  }
  if (++packets_ == 1) {
    begin_ns_ = now_ns;
    first_stamp_ns_ = stamp_ns(*header);
  }
  if (header->caplen > payload_max_) {
    return fail(ErrorCode::invalid_argument, "{}: packet {} has {} bytes; the store takes up to {}",
                path_, packets_, header->caplen, payload_max_);
  }
  cut_ += header->caplen < header->len ? 1 : 0;
  waiting_ = std::as_bytes(std::span(data, header->caplen));
  if (speed_ > 0) {
    // Captures of several interfaces may go back in time a little: such packets come at once.
    const std::uint64_t stamp = std::max(stamp_ns(*header), first_stamp_ns_);
    due_ns_ = begin_ns_ +
              static_cast<std::uint64_t>(static_cast<double>(stamp - first_stamp_ns_) / speed_);
  }
  return true;
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

void PcapSource::visit_counters(const CounterVisit& visit) const { visit("cut", cut_); }

}  // namespace rockhopper::apps::publish
