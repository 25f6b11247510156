# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
import sys

from .cli import main

sys.exit(main())
