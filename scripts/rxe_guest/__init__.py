# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""A Linux guest with Soft-RoCE (rdma_rxe) under QEMU, as an independent RoCEv2 peer.

Only the Python standard library is used.  `scripts/rxe-guest --help` is the user's view;
tests import `rxe_guest.guest.Guest`.
"""
