// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include "stack/error.h"

namespace rockhopper::apps {

/// Lets SIGINT and SIGTERM ask the program to stop; a second one of either ends it at once. SIGPIPE
/// and SIGXFSZ are ignored: a write to a closed socket or pipe, or one that makes a file longer
/// than it may be, fails instead. Once, at the start of main().
void catch_stop_signals();

/// Calls `action` before a second signal ends the program, in its handler: only what is safe there.
void on_second_stop_signal(void (*action)());

/// True from the first SIGINT or SIGTERM on. Any thread.
[[nodiscard]] bool stop_requested();

/// Lets SIGHUP ask the program to read its files again. Once, at the start of main().
void catch_reload_signal();

/// True once for each SIGHUP that has come, or several.
[[nodiscard]] bool take_reload_request();

/// Lets SIGUSR1 ask the program to pause, and to go on. Once, before anybody may send it.
void catch_pause_signal();

/// True once for each SIGUSR1 that has come, or several.
[[nodiscard]] bool take_pause_request();

/// The error of work that a signal has ended.
[[nodiscard]] Error interrupted();

}  // namespace rockhopper::apps
