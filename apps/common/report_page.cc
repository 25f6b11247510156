// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/common/report_page.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>

#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "apps/common/output_file.h"

namespace rockhopper::apps {
namespace {

constexpr const char* kProgram = "rh-report";

/// Returns the program in that folder if it may be run.
std::optional<std::string> program_in(const std::filesystem::path& folder) {
  const std::filesystem::path program = folder / kProgram;
  std::error_code error;
  if (!std::filesystem::is_regular_file(program, error)) return {};
  if (::access(program.c_str(), X_OK) != 0) return {};
  return program.string();
}

std::optional<std::string> find_program() {
  std::error_code error;
  const auto self = std::filesystem::read_symlink("/proc/self/exe", error);
  if (!error) {
    if (auto beside = program_in(self.parent_path())) return beside;
  }
  const char* path = std::getenv("PATH");
  std::string_view rest = path == nullptr ? "" : path;
  while (!rest.empty()) {
    const std::size_t end = rest.find(':');
    if (auto found = program_in(std::string(rest.substr(0, end)))) return found;
    rest = end == std::string_view::npos ? std::string_view{} : rest.substr(end + 1);
  }
  return {};
}

/// Returns how a child ended.
Expected<int> wait_for(pid_t child) {
  int status = 0;
  while (::waitpid(child, &status, 0) < 0) {
    if (errno != EINTR) return fail(ErrorCode::io, "{}: {}", kProgram, std::strerror(errno));
  }
  return status;
}

}  // namespace

Expected<TemporaryFolder> TemporaryFolder::make() {
  std::error_code error;
  const auto parent = std::filesystem::temp_directory_path(error);
  std::string name = ((error ? "/tmp" : parent) / "rockhopper-XXXXXX").string();
  if (::mkdtemp(name.data()) == nullptr) {
    return fail(ErrorCode::io, "{} cannot be made: {}", name, std::strerror(errno));
  }
  TemporaryFolder folder;
  folder.path_ = name;
  return folder;
}

TemporaryFolder& TemporaryFolder::operator=(TemporaryFolder&& other) noexcept {
  std::swap(path_, other.path_);
  return *this;
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
}

Expected<ReportPage> ReportPage::prepare(const std::string& file) {
  ROCKHOPPER_TRY(refuse_standard_output("--report", file));
  const auto program = find_program();
  if (!program) {
    return fail(ErrorCode::not_found,
                "--report needs the program {}, which is neither beside this one nor on the PATH",
                kProgram);
  }
  ReportPage page;
  page.file_ = file;
  page.program_ = *program;
  return page;
}

Expected<void> ReportPage::make(const std::vector<std::string>& captures) const {
  std::vector<std::string> words{program_};
  words.insert(words.end(), captures.begin(), captures.end());
  words.insert(words.end(), {"-o", file_});
  std::vector<char*> arguments;
  for (std::string& word : words) {
    arguments.push_back(word.data());
  }
  arguments.push_back(nullptr);

  // What it prints is not the output of this program, which may be JSON.
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, STDERR_FILENO, STDOUT_FILENO);
  pid_t child = 0;
  const int error =
      ::posix_spawn(&child, program_.c_str(), &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) return fail(ErrorCode::io, "{}: {}", program_, std::strerror(error));
  ROCKHOPPER_TRY(const int status, wait_for(child));
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
    return fail(ErrorCode::io, "{} is not made: {} has failed", file_, program_);
  }
  return {};
}

}  // namespace rockhopper::apps
