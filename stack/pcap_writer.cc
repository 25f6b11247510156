// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "stack/pcap_writer.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string_view>

#include <fcntl.h>
#include <rte_log.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "stack/checksum_offload.h"
#include "stack/uncancelled.h"

namespace rockhopper::stack {
namespace {

// Block types and option codes of pcapng (draft-ietf-opsawg-pcapng), in the writer's byte order.
constexpr std::uint32_t kSectionHeader = 0x0A0D0D0A;
constexpr std::uint32_t kByteOrderMagic = 0x1A2B3C4D;
constexpr std::uint32_t kInterfaceDescription = 1;
constexpr std::uint32_t kEnhancedPacket = 6;
constexpr std::uint16_t kLinkTypeEthernet = 1;
constexpr std::uint16_t kEndOfOptions = 0;
constexpr std::uint16_t kComment = 1;
constexpr std::uint16_t kPacketFlags = 2;
constexpr std::uint16_t kInterfaceName = 2;
constexpr std::uint16_t kInterfaceMac = 6;
constexpr std::uint16_t kTimeResolution = 9;
constexpr std::uint16_t kApplication = 4;
constexpr std::uint8_t kNanoseconds = 9;  // 10^-9

constexpr std::size_t kRecordsMax = 256;
constexpr std::size_t kBlocksMax = std::size_t{1} << 20;
constexpr std::uint32_t kTypicalFrame = 9216;

template <typename T>
void put(std::vector<std::uint8_t>& out, T value) {
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(&value);
  out.insert(out.end(), bytes, bytes + sizeof(value));
}

void put_padded(std::vector<std::uint8_t>& out, const void* data, std::size_t size) {
  const auto* bytes = static_cast<const std::uint8_t*>(data);
  out.insert(out.end(), bytes, bytes + size);
  out.resize(out.size() + (4 - size % 4) % 4);
}

void put_option(std::vector<std::uint8_t>& out, std::uint16_t code, const void* data,
                std::size_t size) {
  put(out, code);
  put(out, static_cast<std::uint16_t>(size));
  put_padded(out, data, size);
}

void put_option(std::vector<std::uint8_t>& out, std::uint16_t code, std::string_view text) {
  put_option(out, code, text.data(), std::min<std::size_t>(text.size(), UINT16_MAX));
}

void put_end_of_options(std::vector<std::uint8_t>& out) {
  put(out, kEndOfOptions);
  put(out, std::uint16_t{0});
}

/// Begins a block: its length is filled in by end_block().
std::size_t begin_block(std::vector<std::uint8_t>& out, std::uint32_t type) {
  const std::size_t start = out.size();
  put(out, type);
  put(out, std::uint32_t{0});
  return start;
}

void end_block(std::vector<std::uint8_t>& out, std::size_t start) {
  const auto length = static_cast<std::uint32_t>(out.size() - start + sizeof(std::uint32_t));
  put(out, length);
  std::memcpy(out.data() + start + sizeof(std::uint32_t), &length, sizeof(length));
}

/// The bytes of the whole blocks among the first `written`, and the packets in the others.
std::size_t whole_blocks(const std::vector<std::uint8_t>& blocks, std::size_t written,
                         std::uint64_t& packets_behind) {
  std::size_t whole = 0;
  packets_behind = 0;
  for (std::size_t at = 0; at < blocks.size();) {
    std::uint32_t type_and_length[2];
    std::memcpy(type_and_length, blocks.data() + at, sizeof(type_and_length));
    at += type_and_length[1];
    if (at <= written) {
      whole = at;
    } else if (type_and_length[0] == kEnhancedPacket) {
      ++packets_behind;
    }
  }
  return whole;
}

/// The file that is given, as a descriptor of its own.
Expected<int> open_given(int given) {
  const int file = fcntl(given, F_DUPFD_CLOEXEC, 0);
  if (file >= 0) return file;
  return fail(ErrorCode::io, "cannot write the capture: {}", std::strerror(errno));
}

/// The file at `path`, empty. A regular one belongs to nobody else who writes captures: two writers
/// would each write over the other's blocks.
Expected<int> open_alone(const std::string& path) {
  const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
  struct stat found = {};
  if (file >= 0 && (fstat(file, &found) != 0 || !S_ISREG(found.st_mode))) return file;
  // It is locked before it is emptied. A file system without locks cannot tell.
  const bool is_taken = file >= 0 && flock(file, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
  if (file >= 0 && !is_taken && ftruncate(file, 0) == 0) return file;
  const int error = errno;
  if (file >= 0) close(file);
  if (is_taken) return fail(ErrorCode::busy, "the capture {} is being written already", path);
  return fail(ErrorCode::io, "cannot write the capture {}: {}", path, std::strerror(error));
}

}  // namespace

Expected<std::unique_ptr<PcapWriter>> PcapWriter::open(Link& inner, const PcapConfig& config) {
  ROCKHOPPER_TRY(const int file,
                 config.file >= 0 ? open_given(config.file) : open_alone(config.path));
  std::unique_ptr<PcapWriter> writer(new PcapWriter(inner, config, file));
  writer->write_headers();
  writer->write_out();
  if (writer->failed_) return fail(ErrorCode::io, "cannot write the capture {}", config.path);
  return writer;
}

PcapWriter::PcapWriter(Link& inner, const PcapConfig& config, int file)
    : inner_(inner), config_(config), file_(file) {
  config_.snap_length = std::max(config_.snap_length, 1u);
  records_.reserve(kRecordsMax);
  staged_.reserve(kRecordsMax * std::min(config_.snap_length, kTypicalFrame));
  blocks_.reserve(kBlocksMax + 2 * std::size_t{UINT16_MAX});
}

PcapWriter::~PcapWriter() {
  flush();
  close(file_);
}

void PcapWriter::write_headers() {
  std::size_t start = begin_block(blocks_, kSectionHeader);
  put(blocks_, kByteOrderMagic);
  put(blocks_, std::uint16_t{1});  // version 1.0
  put(blocks_, std::uint16_t{0});
  put(blocks_, std::uint64_t{UINT64_MAX});  // length of the section: not known
  put_option(blocks_, kApplication, "Rockhopper");
  put_end_of_options(blocks_);
  end_block(blocks_, start);

  start = begin_block(blocks_, kInterfaceDescription);
  put(blocks_, kLinkTypeEthernet);
  put(blocks_, std::uint16_t{0});
  put(blocks_, config_.snap_length);
  put_option(blocks_, kInterfaceName, config_.interface_name);
  const rte_ether_addr address = inner_.mac();
  put_option(blocks_, kInterfaceMac, address.addr_bytes, sizeof(address.addr_bytes));
  put_option(blocks_, kTimeResolution, &kNanoseconds, sizeof(kNanoseconds));
  put_end_of_options(blocks_);
  end_block(blocks_, start);
}

void PcapWriter::stage(const rte_mbuf* packet, Direction direction, std::uint64_t now_ns) {
  const std::uint32_t captured = std::min(packet->pkt_len, config_.snap_length);
  const auto offset = static_cast<std::uint32_t>(staged_.size());
  std::uint32_t missing = captured;
  for (const rte_mbuf* part = packet; missing > 0 && part != nullptr; part = part->next) {
    const auto* data = rte_pktmbuf_mtod(part, const std::uint8_t*);
    const std::uint32_t size = std::min<std::uint32_t>(missing, part->data_len);
    staged_.insert(staged_.end(), data, data + size);
    missing -= size;
  }
  if (direction == Direction::outbound) {
    fill_offloaded_checksum(packet, staged_.data() + offset, captured);
  }
  records_.push_back({.packet = direction == Direction::inbound ? packet : nullptr,
                      .comment = nullptr,
                      .time_ns = now_ns,
                      .offset = offset,
                      .captured = captured - missing,
                      .length = packet->pkt_len,
                      .direction = direction});
}

void PcapWriter::encode(const Record& record) {
  const std::uint64_t time_ns = record.time_ns + config_.time_offset_ns;
  const std::size_t start = begin_block(blocks_, kEnhancedPacket);
  put(blocks_, std::uint32_t{0});  // interface
  put(blocks_, static_cast<std::uint32_t>(time_ns >> 32));
  put(blocks_, static_cast<std::uint32_t>(time_ns));
  put(blocks_, record.captured);
  put(blocks_, record.length);
  put_padded(blocks_, staged_.data() + record.offset, record.captured);
  const auto flags = static_cast<std::uint32_t>(record.direction);
  put_option(blocks_, kPacketFlags, &flags, sizeof(flags));
  if (record.comment != nullptr) {
    put_option(blocks_, kComment, std::string("drop: ") + record.comment);
  }
  put_end_of_options(blocks_);
  end_block(blocks_, start);
}

void PcapWriter::encode_staged() {
  for (const Record& record : records_) {
    if (failed_) {
      counters_.lost.add();
      continue;
    }
    encode(record);
    counters_.packets.add();
    if (blocks_.size() >= kBlocksMax) write_out();
  }
  records_.clear();
  staged_.clear();
}

void PcapWriter::write_out() {
  const Uncancelled uncancelled;
  std::size_t written = 0;
  while (written < blocks_.size() && !failed_) {
    const ssize_t result = ::write(file_, blocks_.data() + written, blocks_.size() - written);
    if (result >= 0) {
      written += static_cast<std::size_t>(result);
    } else if (errno != EINTR) {
      give_up(written, errno);
    }
  }
  blocks_.clear();
}

void PcapWriter::give_up(std::size_t written, int error) {
  failed_ = true;
  std::uint64_t lost = 0;
  const std::size_t whole = whole_blocks(blocks_, written, lost);
  // Takes off the part of a block; on a pipe this fails and changes nothing.
  const off_t end = lseek(file_, 0, SEEK_CUR);
  const auto surplus = static_cast<off_t>(written - whole);
  if (end >= surplus && ftruncate(file_, end - surplus) != 0) errno = 0;
  counters_.lost.add(lost);
  static const int log_type = rte_log_register("rockhopper.pcap");
  rte_log(RTE_LOG_ERR, static_cast<std::uint32_t>(log_type), "the capture %s ends here: %s\n",
          config_.path.c_str(), std::strerror(error));
}

bool PcapWriter::flush() {
  encode_staged();
  write_out();
  return !failed_;
}

std::uint16_t PcapWriter::rx_burst(rte_mbuf** packets, std::uint16_t count, std::uint64_t now_ns) {
  encode_staged();
  if (!blocks_.empty() && now_ns - last_write_ns_ >= config_.flush_interval_ns) {
    write_out();
    last_write_ns_ = now_ns;
  }
  const auto room = static_cast<std::uint16_t>(std::min<std::size_t>(count, kRecordsMax));
  const std::uint16_t received = inner_.rx_burst(packets, room, now_ns);
  for (std::uint16_t i = 0; i < received; ++i) {
    stage(packets[i], Direction::inbound, now_ns);
  }
  return received;
}

std::uint16_t PcapWriter::tx_burst(rte_mbuf** packets, std::uint16_t count, std::uint64_t now_ns) {
  const auto room = static_cast<std::uint16_t>(std::min<std::size_t>(count, kRecordsMax));
  if (records_.size() + room > kRecordsMax) encode_staged();
  // Before they are sent, as afterwards they belong to the link; those it leaves are forgotten
  // again.
  const std::size_t first = records_.size();
  for (std::uint16_t i = 0; i < room; ++i) {
    stage(packets[i], Direction::outbound, now_ns);
  }
  const std::uint16_t sent = inner_.tx_burst(packets, room, now_ns);
  if (sent < room) {
    staged_.resize(records_[first + sent].offset);
    records_.resize(first + sent);
  }
  return sent;
}

void PcapWriter::on_drop(const rte_mbuf* packet, const char* reason) {
  const auto latest = std::find_if(records_.rbegin(), records_.rend(), [packet](const Record& r) {
    return r.packet == packet && r.comment == nullptr;
  });
  if (latest != records_.rend()) latest->comment = reason;
}

}  // namespace rockhopper::stack
