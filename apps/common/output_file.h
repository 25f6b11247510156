// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "apps/common/file_descriptor.h"
#include "stack/error.h"

namespace rockhopper::apps {

/// Whether that is standard output: "-", or one of the names that the system has for it.
[[nodiscard]] bool is_standard_output(std::string_view path);

/// Fails for standard output as the value of `option`: what is written is several files.
[[nodiscard]] Expected<void> refuse_standard_output(std::string_view option, std::string_view path);

/// Standard output for what an option writes there as into a file. What the program prints from now
/// on, its tables for example, goes to standard error. Errors: `busy` if another option has it,
/// `io`.
[[nodiscard]] Expected<FileDescriptor> claim_standard_output();

/// The FIFO at `path`, for writing, once somebody reads it: a line says that it is waited for.
/// Not valid() if it is anything else than a FIFO. Errors: `io`, or a signal to stop.
[[nodiscard]] Expected<FileDescriptor> open_fifo(const std::string& path);

struct FileCloser {
  void operator()(std::FILE* file) const { (void)std::fclose(file); }
};
using OutputFile = std::unique_ptr<std::FILE, FileCloser>;

/// The file at `path`, empty and for writing, or standard output. Errors: `busy`, `io`.
[[nodiscard]] Expected<OutputFile> open_output(const std::string& path);
/// Writes what is left. Errors: `io` if that, or anything before it, could not be written.
[[nodiscard]] Expected<void> close_output(OutputFile file, const std::string& path);

}  // namespace rockhopper::apps
