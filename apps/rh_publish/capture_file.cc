// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/rh_publish/capture_file.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>
#include <utility>

#include <byteswap.h>
#include <zlib.h>

namespace rockhopper::apps::publish {
namespace {

// Blocks of pcapng: type, length, what the type says, length again.
constexpr std::uint32_t kSectionBlock = 0x0a0d0d0a;  // the same in both orders of bytes
constexpr std::uint32_t kInterfaceBlock = 1;
constexpr std::uint32_t kByteOrderMagic = 0x1a2b3c4d;
constexpr std::size_t kBlockMin = 12;
constexpr std::size_t kInterfaceHead = 16;  // up to the snap length
constexpr std::size_t kLinkTypeOffset = 8;
constexpr std::size_t kSnapLengthOffset = 12;

}  // namespace

void CaptureFile::Closer::operator()(gzFile_s* file) const { (void)gzclose(file); }

Expected<std::unique_ptr<CaptureFile>> CaptureFile::open(const std::string& path) {
  errno = 0;
  File file(gzopen(path.c_str(), "rbe"));
  if (file == nullptr) {
    return fail(ErrorCode::io, "{} cannot be read: {}", path,
                std::strerror(errno == 0 ? ENOMEM : errno));
  }
  return std::unique_ptr<CaptureFile>(new CaptureFile(std::move(file)));
}

std::FILE* CaptureFile::stream() {
  cookie_io_functions_t functions{};
  functions.read = [](void* self, char* to, std::size_t size) -> ssize_t {
    return static_cast<CaptureFile*>(self)->read(to, size);
  };
  return ::fopencookie(this, "rb", functions);
}

long CaptureFile::unpack(void* to, std::size_t size) {
  const auto most =
      static_cast<unsigned>(std::min<std::size_t>(size, std::numeric_limits<int>::max()));
  const int got = gzread(file_.get(), to, most);
  int code = Z_OK;
  const char* text = gzerror(file_.get(), &code);
  // An end in the middle of the compressed bytes is told behind the last of those before it.
  if (got > 0 || (code != Z_BUF_ERROR && code >= Z_OK)) return got;
  error_ = code == Z_ERRNO ? std::strerror(errno) : text;
  errno = EIO;
  return -1;
}

long CaptureFile::read(char* to, std::size_t size) {
  if (!is_checked_ || (has_blocks_ && head_taken_ == head_size_ && rest_ == 0)) {
    if (!begin_block()) return -1;
  }
  if (head_taken_ < head_size_) {
    const std::size_t count = std::min(size, head_size_ - head_taken_);
    std::memcpy(to, head_.data() + head_taken_, count);
    head_taken_ += count;
    return static_cast<long>(count);
  }
  if (!has_blocks_) return unpack(to, size);
  const long got = unpack(to, std::min<std::uint64_t>(size, rest_));
  if (got > 0) rest_ -= static_cast<std::uint64_t>(got);
  return got;
}

bool CaptureFile::begin_block() {
  head_size_ = 0;
  head_taken_ = 0;
  if (!fill_head(kBlockMin)) return false;
  if (!is_checked_) {
    is_checked_ = true;
    has_blocks_ = head_size_ == kBlockMin && word_at(0) == kSectionBlock;
  }
  if (!has_blocks_ || head_size_ < kBlockMin) return true;
  if (word_at(0) == kSectionBlock) {
    is_other_order_ = false;
    is_other_order_ = word_at(8) != kByteOrderMagic;
  }
  const std::uint32_t length = word_at(4);
  // What is no block ends the blocks: it is libpcap that says so.
  has_blocks_ = length >= kBlockMin;
  if (!has_blocks_) return true;
  if (word_at(0) == kInterfaceBlock && length >= kInterfaceHead) {
    if (!fill_head(kInterfaceHead)) return false;
    if (head_size_ < kInterfaceHead) return true;
    if (!link_type_) std::memcpy(&link_type_.emplace(), &head_[kLinkTypeOffset], 2);
    std::memcpy(&head_[kLinkTypeOffset], &*link_type_, 2);
    std::memset(&head_[kSnapLengthOffset], 0, 4);  // no limit
  }
  rest_ = length - head_size_;
  return true;
}

bool CaptureFile::fill_head(std::size_t size) {
  while (head_size_ < size) {
    const long got = unpack(head_.data() + head_size_, size - head_size_);
    if (got < 0 && head_size_ == 0) return false;
    if (got <= 0) return true;  // what there is of it
    head_size_ += static_cast<std::size_t>(got);
  }
  return true;
}

std::uint32_t CaptureFile::word_at(std::size_t offset) const {
  std::uint32_t word = 0;
  std::memcpy(&word, head_.data() + offset, sizeof word);
  return is_other_order_ ? bswap_32(word) : word;
}

}  // namespace rockhopper::apps::publish
