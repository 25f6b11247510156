// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "stack/error.h"

namespace rockhopper::apps {

/// A new folder for files of a moment, removed with all that is in it.
class TemporaryFolder {
 public:
  [[nodiscard]] static Expected<TemporaryFolder> make();
  TemporaryFolder() = default;
  TemporaryFolder(TemporaryFolder&& other) noexcept : path_(std::move(other.path_)) {
    other.path_.clear();
  }
  TemporaryFolder& operator=(TemporaryFolder&& other) noexcept;
  ~TemporaryFolder();

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

/// A page of what was on the wire, for those who would rather look than read (`--report FILE`). It
/// is made of captures by rh-report, a program of its own.
class ReportPage {
 public:
  /// Finds rh-report in the folder of the running program, else on the PATH: before the run, as a
  /// page that cannot be made is no reason to lose one. Errors: `not_found`, `invalid_argument` for
  /// standard output.
  [[nodiscard]] static Expected<ReportPage> prepare(const std::string& file);

  /// Waits for rh-report to make it. Errors: `io`.
  [[nodiscard]] Expected<void> make(const std::vector<std::string>& captures) const;

 private:
  std::string file_;
  std::string program_;
};

}  // namespace rockhopper::apps
