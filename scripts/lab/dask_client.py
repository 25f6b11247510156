# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""Has graphs of empty tasks run by the workers of a Dask scheduler; prints how long the last one
took, from handing it over to its end."""

import argparse
import json
import random
import time

from distributed import Client


def nothing(*_):
    return None


def graph(name, nodes, edges):
    """Each node has so many predecessors by chance; one more node waits for all that nobody else
    waits for, so that one result comes back."""
    random.seed(name)
    tasks, awaited = {}, set()
    for node in range(nodes):
        before = {random.randrange(node) for _ in range(edges)} if node else set()
        awaited |= before
        tasks[f'{name}-{node}'] = (nothing, *(f'{name}-{one}' for one in before))
    last = f'{name}-end'
    tasks[last] = (nothing, [f'{name}-{one}' for one in range(nodes) if one not in awaited])
    return tasks, last


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('scheduler')
    for name in ('--workers', '--nodes', '--edges', '--runs'):
        parser.add_argument(name, type=int, required=True)
    arguments = parser.parse_args()
    with Client(arguments.scheduler, timeout=60, set_as_default=False) as client:
        client.wait_for_workers(arguments.workers, timeout=60)
        for run in range(arguments.runs):
            tasks, last = graph(f'run{run}', arguments.nodes, arguments.edges)
            begin = time.perf_counter()
            client.get(tasks, last, optimize_graph=False)
            seconds = time.perf_counter() - begin
    print(json.dumps({'seconds': seconds}))


if __name__ == '__main__':
    main()
