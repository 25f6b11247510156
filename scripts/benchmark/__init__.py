# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
