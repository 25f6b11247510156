// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "apps/rh_publish/capture_file.h"
#include "apps/rh_publish/source.h"

struct pcap;

namespace rockhopper::apps::publish {

/// The packets of a capture (pcap or pcapng, compressed by gzip or not, of one interface or many),
/// each a message, as they were captured. A packet that the store does not take and a damaged file
/// are errors.
class PcapSource final : public Source {
 public:
  struct Pace {
    double speed =
        1;  ///< 1 for the pauses that the capture has, 2 for half as long ones, 0 for none
    /// Pauses that would last longer are left out, and told of: the first time stamp of a capture
    /// may be 0, or that of a clock that was set meanwhile.
    std::uint64_t longest_ns = UINT64_MAX;
  };
  /// The first packet comes at once.
  [[nodiscard]] static Expected<std::unique_ptr<PcapSource>> open(const std::string& path,
                                                                  const Pace& pace,
                                                                  std::size_t payload_max);

  [[nodiscard]] Expected<Next> next(std::uint64_t now_ns,
                                    std::span<const std::byte>& payload) override;
  void visit_counters(const CounterVisit& visit) const override;

  /// Packets that the capture has only the beginning of.
  [[nodiscard]] std::uint64_t cut() const { return cut_; }

 private:
  struct Closer {
    void operator()(pcap* capture) const;
  };
  using Capture = std::unique_ptr<pcap, Closer>;

  PcapSource(std::string path, std::unique_ptr<CaptureFile> file, Capture capture, const Pace& pace,
             std::size_t payload_max)
      : path_(std::move(path)),
        file_(std::move(file)),
        capture_(std::move(capture)),
        pace_(pace),
        payload_max_(payload_max) {}
  /// Reads the next packet into waiting_; false at the end.
  [[nodiscard]] Expected<bool> read(std::uint64_t now_ns);
  /// When a packet with this stamp is due.
  [[nodiscard]] std::uint64_t due_ns(std::uint64_t stamp_ns);
  void leave_out(std::uint64_t pause_ns);

  std::string path_;
  std::unique_ptr<CaptureFile> file_;
  Capture capture_;  ///< reads file_
  Pace pace_;
  std::size_t payload_max_;
  std::optional<std::span<const std::byte>> waiting_;  ///< the library's
  std::uint64_t due_ns_ = 0;                           ///< of what waits
  std::uint64_t begin_ns_ = 0;        ///< when what follows the last pause left out was due
  std::uint64_t first_stamp_ns_ = 0;  ///< the stamp of that
  std::uint64_t packets_ = 0;
  std::uint64_t cut_ = 0;
  std::uint64_t pauses_left_out_ = 0;
};

}  // namespace rockhopper::apps::publish
