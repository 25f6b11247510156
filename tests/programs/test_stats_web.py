#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""rh-stats --web: what it tells of running programs, as updates and as metrics, and whom it turns away.

ROCKHOPPER_SOAK=1: 100,000 hostile requests in place of some hundreds.
"""

import asyncio
import contextlib
import json
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import unittest
import unittest.mock
import urllib.parse
import urllib.request

import support
from stats_support import WebTest, samples
from support import LIMIT_S, ROOT, wait_until

sys.path.insert(0, str(ROOT / 'apps/rh_stats'))

from rh_stats import limits, metrics, queue_pairs, server  # noqa: E402 (needs the path above)

SOAK = os.environ.get('ROCKHOPPER_SOAK') == '1'
SEED = int(os.environ.get('ROCKHOPPER_SEED', random.randrange(1 << 32)))
DASHBOARD = ROOT / 'apps/rh_stats/grafana/rockhopper.json'
OPENMETRICS = 'application/openmetrics-text; version=1.0.0'


def raw(web, data, limit_s=LIMIT_S):
    """What the server answers to these bytes, until it ends the connection."""
    with socket.create_connection(('127.0.0.1', web.port), limit_s) as connection:
        # A server that has enough may end the connection before it has taken all.
        with contextlib.suppress(ConnectionError):
            connection.sendall(data)
            connection.shutdown(socket.SHUT_WR)
        answer = b''
        with contextlib.suppress(ConnectionError):
            while piece := connection.recv(65536):
                answer += piece
        return answer


def status_of(answer):
    found = re.match(rb'HTTP/1\.1 (\d{3}) ', answer)
    return int(found[1]) if found else None


class Updates(WebTest):
    def test_a_pair_at_work(self):
        server, client = self.start_perf('-q', 3, loss='1%')
        with self.updates(self.start_web()) as told:
            name, described = next(told)
            self.assertEqual(name, 'describe')
            seen = self.sample_of(told, client.child.pid, lambda one: (one['summary']['tx_bytes'] or 0) > 0)
            self.assertGreater(seen['summary']['tx_packets'], 0)
            self.assertEqual(set(seen['counters']), {'engine', 'host', 'port'})
            dropped = self.sample_of(told, server.child.pid, lambda one: (one['summary']['drops'] or 0) > 0)
            self.assertGreater(dropped['counters']['faults']['rx_lost'][0], 0)
        texts = next(groups for key, groups in described['programs'].items() if key.startswith(f'{server.child.pid}-'))
        self.assertEqual(texts['faults']['rx_lost'], ['packets lost by chance (loss)', 'd'])

    def test_queue_pairs(self):
        _, client = self.start_perf('-q', 5)
        with self.updates(self.start_web()) as told:
            seen = self.sample_of(told, client.child.pid, lambda one: any(
                qp[4] > 0 for qp in one['queue_pairs']['top']))
        self.assertEqual(seen['queue_pairs']['states'], [['engine', 'RC', 'RTS', 5]])
        self.assertEqual(seen['summary']['queue_pairs'], 5)
        self.assertEqual(len({qp[1] for qp in seen['queue_pairs']['top']}), 5)
        self.assertEqual({tuple(qp[2:4]) for qp in seen['queue_pairs']['top']}, {('RC', 'RTS')})
        self.assertEqual(sum(seen['queue_pairs']['rates'][1]), 5)

    def test_programs_end_and_come(self):
        web = self.start_web()
        first, _ = self.start_server('rh-perf', '--memif-socket', self.lab.path('first.sock'), '--ip', '10.42.0.1/24')
        with self.updates(web) as told:
            self.sample_of(told, first.child.pid, lambda one: True)
            for end in (signal.SIGINT, signal.SIGKILL):
                first.child.send_signal(end)
                first.wait(LIMIT_S)
                next(data for name, data in told if name == 'sample' and
                     first.child.pid not in {program['pid'] for program in data['programs']})
                first, _ = self.start_server('rh-perf', '--memif-socket', self.lab.path(f'{end}.sock'),
                                             '--ip', '10.42.0.1/24')
                self.sample_of(told, first.child.pid, lambda one: one['seconds'] is not None)
        self.assertGreaterEqual(self.metrics(web)['rockhopper_stats_programs_went_total'][0][1], 2)

    def test_one_that_stands_still(self):
        """A program that does not answer is left out and told of, and all others go on."""
        web = self.start_web()
        still, other = (self.start_server('rh-perf', '--memif-socket', self.lab.path(f'{name}.sock'), '--ip',
                                          '10.42.0.1/24')[0] for name in ('still', 'other'))
        with self.updates(web) as told:
            self.sample_of(told, still.child.pid, lambda one: True)
            still.child.send_signal(signal.SIGSTOP)
            self.addCleanup(still.child.send_signal, signal.SIGCONT)
            failed = next(data['failures'] for name, data in told if name == 'sample' and data['failures'])
            self.assertTrue(any(str(still.child.pid) in text for text in failed), failed)
            self.sample_of(told, other.child.pid, lambda one: True)
            still.child.send_signal(signal.SIGCONT)
            self.sample_of(told, still.child.pid, lambda one: True)

    def test_nobody_is_asked_while_nobody_looks(self):
        web = self.start_web()
        first = self.metrics(web)['rockhopper_stats_looks_total'][0][1]
        with self.updates(web) as told:
            for _ in range(6):
                next(told)
        looks = self.metrics(web)['rockhopper_stats_looks_total'][0][1]
        self.assertGreater(looks, first)
        # Requests within one interval share a look: of these ten hardly two need one.
        many = self.start_web(interval_s=3600)
        counts = {self.metrics(many)['rockhopper_stats_looks_total'][0][1] for _ in range(10)}
        self.assertEqual(counts, {1})


class Metrics(WebTest):
    def test_counters(self):
        _, client = self.start_perf('-q', 2)
        web = self.start_web()
        pid = str(client.child.pid)
        wait_until(lambda: self.metrics(web, pid=pid).get('rockhopper_engine_sent_pkts_total', [(0, 0)])[0][1] > 0,
                   LIMIT_S, 'packets are counted')
        found = self.metrics(web, pid=pid)
        [(labels, _)] = found['rockhopper_port_opackets_total']
        self.assertEqual(labels, {'program': 'rh-perf', 'pid': pid, 'group': 'port',
                                  'file_prefix': f'rockhopper-{pid}'})
        [(labels, count)] = found['rockhopper_queue_pairs']
        self.assertEqual((labels['type'], labels['state'], count), ('RC', 'RTS', 2))
        self.assertEqual(len(found['rockhopper_queue_pair_sent_packets_total']), 2)
        self.assertEqual(sum(count for _, count in found['rockhopper_queue_pairs_by_rate']), 2)
        self.assertEqual(found['rockhopper_queue_pairs_left_out'][0][1], 0)
        self.assertIn('bad_icrc', {labels['reason'] for labels, _ in found['rockhopper_drops_total']})

    def test_of_many_queue_pairs_few_are_labelled(self):
        _, client = self.start_perf('-q', 40)
        web = self.start_web()
        pid = str(client.child.pid)
        wait_until(lambda: self.metrics(web, pid=pid).get('rockhopper_queue_pairs_left_out', [(0, 0)])[0][1] > 0,
                   LIMIT_S, 'queue pairs are left out')
        found = self.metrics(web, pid=pid)
        labelled = {labels['qp'] for labels, _ in found['rockhopper_queue_pair_sent_packets_total']}
        self.assertEqual(len(labelled), 32)
        self.assertEqual(found['rockhopper_queue_pairs_left_out'][0][1], 8)
        # Who has a time series keeps it.
        again = self.metrics(web, pid=pid)['rockhopper_queue_pair_sent_packets_total']
        self.assertEqual({labels['qp'] for labels, _ in again}, labelled)

    def test_formats(self):
        web = self.start_web()
        for accept, kind in (('', 'text/plain'), ('*/*', 'text/plain'), ('text/html', 'text/plain'),
                             (OPENMETRICS, 'application/openmetrics-text'),
                             (f'{OPENMETRICS};q=0.5,text/plain;q=0.9', 'text/plain'),
                             (f'{OPENMETRICS};q=0.9,text/plain;version=0.0.4;q=0.5', 'application/openmetrics-text')):
            with self.subTest(accept=accept):
                status, headers, body = self.get(web, '/metrics', {'Accept': accept})
                self.assertEqual(status, 200)
                self.assertEqual(headers.get_content_type(), kind)
                is_openmetrics = kind != 'text/plain'
                self.assertEqual(body.endswith(b'# EOF\n'), is_openmetrics)
                self.assertEqual(b'# TYPE rockhopper_stats_looks counter\n' in body, is_openmetrics)
                self.assertEqual(b'# TYPE rockhopper_stats_looks_total counter\n' in body, not is_openmetrics)

    def test_escaping(self):
        """Names and texts come from other processes, and may be anything."""
        made = metrics.Metrics()
        nasty = 'a"b\\c\nd{}=,\x00é'
        made.add('rockhopper_x', 'counter', 'one\\two\nthree "four"', (('program', nasty),), 7)
        for openmetrics in (False, True):
            text = made.text(openmetrics)
            told = [one for one in samples(text)]
            self.assertEqual(told, [('rockhopper_x_total', {'program': nasty}, 7.0)])
            self.assertIn('one\\\\two\\nthree ', text)
        self.assertEqual(metrics.metric_name('left/port0_faults', 'rx lost\n"'), 'rockhopper_port_faults_rx_lost__')

    def test_promtool(self):
        if shutil.which('promtool') is None:
            self.skipTest('no promtool: package prometheus')
        self.start_perf('-q', 2)
        _, _, body = self.get(self.start_web(), '/metrics')
        done = subprocess.run(['promtool', 'check', 'metrics'], input=body, capture_output=True, check=False)
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, b'', b''))
        spoilt = body.replace(b'_total{', b'{')
        done = subprocess.run(['promtool', 'check', 'metrics'], input=spoilt, capture_output=True, check=False)
        self.assertNotEqual(done.returncode, 0)

    def test_prometheus(self):
        """A real Prometheus scrapes it, and every query of the dashboard has an answer."""
        if shutil.which('prometheus') is None:
            self.skipTest('no prometheus')
        _, client = self.start_perf('-q', 2, loss='1%')
        web = self.start_web()
        config = self.lab.path('prometheus.yml')
        config.write_text(f"""\
global: {{scrape_interval: 1s, scrape_timeout: 1s}}
scrape_configs:
- job_name: rockhopper
  static_configs: [{{targets: ['127.0.0.1:{web.port}']}}]
""", encoding='utf-8')
        # It tells of no port that the system has chosen: one is found, and another one if somebody else was faster.
        for _ in range(10):
            with socket.create_server(('127.0.0.1', 0)) as free:
                port = free.getsockname()[1]
            prometheus = self.lab.start('prometheus', [
                'prometheus', f'--config.file={config}', f'--storage.tsdb.path={self.lab.path(f"data{port}")}',
                f'--web.listen-address=127.0.0.1:{port}'])
            if wait_until(lambda: prometheus.has_ended() or 'Server is ready' in prometheus.messages(), LIMIT_S,
                          'Prometheus is ready') and not prometheus.has_ended():
                break

        def ask(query):
            url = f'http://127.0.0.1:{port}/api/v1/query?' + urllib.parse.urlencode({'query': query})
            with urllib.request.urlopen(url, timeout=LIMIT_S) as answer:
                return json.load(answer)['data']['result']
        pid = client.child.pid
        rate = f'rate(rockhopper_engine_sent_pkts_total{{pid="{pid}"}}[10s])'
        wait_until(lambda: any(float(one['value'][1]) > 0 for one in ask(rate)), LIMIT_S, 'a rate of packets')
        self.assertEqual(ask('up{job="rockhopper"}')[0]['value'][1], '1')
        may_be_empty = re.compile(r'> 0')
        for query in dashboard_queries():
            query = query.replace('$__rate_interval', '30s').replace('$program', '.*').replace('$pid', '.*')
            with self.subTest(query=query):
                answer = ask(query.replace('$job', '.*'))
                if not may_be_empty.search(query):
                    self.assertTrue(answer)

    def test_dashboard(self):
        """Every metric and label that the dashboard names exists in the output of a real run."""
        _, client = self.start_perf('-q', 2)
        web = self.start_web()
        pid = str(client.child.pid)
        wait_until(lambda: 'rockhopper_queue_pair_sent_packets_total' in self.metrics(web, pid=pid), LIMIT_S,
                   'queue pairs are told of')
        found = self.metrics(web)
        queries = dashboard_queries()
        self.assertGreater(len(queries), 20)
        named = {name for query in queries for name in re.findall(r'\brockhopper_\w+', query)}
        self.assertGreater(len(named), 20)
        self.assertEqual(named - set(found), set())
        # 'job' is what Prometheus adds.
        for query in queries:
            for name, selector in re.findall(r'(rockhopper_\w+)\{([^}]*)\}', query):
                labels = set(re.findall(r'(\w+)=~?"', selector)) - {'job'}
                self.assertLessEqual(labels, set(found[name][0][0]), query)


def dashboard_queries():
    dashboard = json.loads(DASHBOARD.read_text(encoding='utf-8'))
    variables = [one['definition'] for one in dashboard['templating']['list'] if 'definition' in one]
    inner = [re.sub(r'label_values\((.*), \w+\)', r'\1', query) for query in variables]
    return inner + [target['expr'] for panel in dashboard['panels'] for target in panel.get('targets', ())]


class Refusals(WebTest):
    """Each kind of request that is not answered has a status, and a counter that moves by it alone."""

    def setUp(self):
        super().setUp()
        self.web = self.start_web(interval_s=0.05)

    def counted(self, request, limit_s=LIMIT_S):
        """The status, and which refusals have been counted for it."""
        before = self.refusals(self.web)
        answer = raw(self.web, request, limit_s)

        def moved():
            after = self.refusals(self.web)
            return {name for name, value in after.items() if value > before.get(name, 0) and
                    name not in ('requests', 'connections', 'open_connections', 'updates')}
        wait_until(moved, LIMIT_S, 'a refusal is counted')
        return status_of(answer), moved()

    def test_each(self):
        end = b'\r\nHost: localhost\r\n\r\n'
        for request, status, counter in (
                (b'GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n', 421, 'refused_host'),
                (b'GET / HTTP/1.1\r\nHost: localhost.evil.example\r\n\r\n', 421, 'refused_host'),
                (b'GET / HTTP/1.1\r\nHost: \r\n\r\n', 421, 'refused_host'),
                (b'GET / HTTP/1.1\r\n\r\n', 400, 'refused_malformed'),
                (b'GET / HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n\r\n', 400, 'refused_malformed'),
                (b'\x16\x03\x01\x02\x00\x01\r\n\r\n', 400, 'refused_malformed'),
                (b'GET  / HTTP/1.1' + end, 400, 'refused_malformed'),
                (b'GET / HTTP/1.1\r\nHost: localhost\r\n folded: x\r\n\r\n', 400, 'refused_malformed'),
                (b'GET / HTTP/2.0' + end, 505, 'refused_version'),
                (b'POST / HTTP/1.1' + end, 405, 'refused_method'),
                (b'OPTIONS * HTTP/1.1' + end, 405, 'refused_method'),
                (b'GET /nothing HTTP/1.1' + end, 404, 'refused_path'),
                (b'GET /../../etc/passwd HTTP/1.1' + end, 404, 'refused_path'),
                (b'GET / HTTP/1.1\r\nContent-Length: 5' + end + b'hello', 413, 'refused_body'),
                (b'GET / HTTP/1.1\r\nTransfer-Encoding: chunked' + end, 413, 'refused_body'),
                (b'GET /' + b'a' * 5000 + b' HTTP/1.1' + end, 414, 'refused_line_too_long'),
                (b'A' * 5000, 414, 'refused_line_too_long'),
                (b'GET / HTTP/1.1\r\n' + b'X: y\r\n' * 100 + b'\r\n', 431, 'refused_headers_too_long'),
                (b'GET / HTTP/1.1\r\nX: ' + b'y' * 30000, 431, 'refused_headers_too_long'),
                (b'GET /events HTTP/1.1\r\nSec-Fetch-Site: cross-site' + end, 403, 'refused_cross_site'),
                (b'GET /metrics HTTP/1.1\r\nSec-Fetch-Site: same-site\r\nSec-Fetch-Mode: navigate' + end, 403,
                 'refused_cross_site')):
            with self.subTest(request=request[:60]):
                self.assertEqual(self.counted(request), (status, {counter}))

    def test_names_and_addresses_of_the_server(self):
        for host in ('localhost', f'localhost:{self.web.port}', 'LOCALHOST', '127.0.0.1', '[::1]:80', '10.1.2.3'):
            with self.subTest(host=host):
                self.assertEqual(self.get(self.web, '/', {'Host': host})[0], 200)
        # A link from elsewhere leads to the page.
        self.assertEqual(self.get(self.web, '/', {'Sec-Fetch-Site': 'cross-site', 'Sec-Fetch-Mode': 'navigate'})[0], 200)

    def test_headers_of_answers(self):
        _, headers, page = self.get(self.web, '/')
        policy = headers['Content-Security-Policy']
        self.assertIn("default-src 'none'", policy)
        self.assertNotIn('unsafe', policy)
        self.assertIn("frame-ancestors 'none'", policy)
        self.assertNotRegex(page.decode(), r'''(?:src|href)=["'](?:https?:)?//''')
        for path in ('/', '/metrics', '/text', '/nothing'):
            _, headers, _ = self.get(self.web, path)
            self.assertIsNone(headers['Access-Control-Allow-Origin'])
            self.assertEqual(headers['X-Content-Type-Options'], 'nosniff')
        status, headers, body = self.get(self.web, '/', method='HEAD')
        self.assertEqual((status, body, headers['Content-Length']), (200, b'', str(len(page))))

    def test_requests_on_one_connection(self):
        """Also where they come in pieces, or several at once."""
        request = b'GET /nothing HTTP/1.1\r\nHost: localhost\r\n\r\n'
        with socket.create_connection(('127.0.0.1', self.web.port), LIMIT_S) as connection:
            connection.sendall(request * 3 + request[:20])
            connection.sendall(request[20:].replace(b'\r\n\r\n', b'\r\nConnection: close\r\n\r\n'))
            answer = b''
            while piece := connection.recv(65536):
                answer += piece
        self.assertEqual(answer.count(b'HTTP/1.1 404'), 4)

    def test_slow_clients(self):
        """One that does not end its request, and a live page that takes nothing."""
        before = self.refusals(self.web)
        with socket.create_connection(('127.0.0.1', self.web.port), LIMIT_S) as slow:
            slow.sendall(b'GET / HTTP/1.1\r\nHost: loc')
            self.assertEqual(slow.recv(100), b'')
        self.assertEqual(self.refusals(self.web)['slow_request'], before['slow_request'] + 1)

    def test_a_client_that_takes_no_answers(self):
        request = b'GET / HTTP/1.1\r\nHost: localhost\r\n\r\n'
        with socket.socket() as deaf:
            deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            deaf.connect(('127.0.0.1', self.web.port))
            # It has asked for far more than the kernel keeps for it.
            with contextlib.suppress(ConnectionError):
                deaf.sendall(request * 200)
            wait_until(lambda: self.refusals(self.web)['slow_receiver'] > 0, LIMIT_S, 'the client is given up')

    def test_live_pages_are_bounded(self):
        # These are not read further: updates that come faster would soon fill what the kernel keeps for them.
        self.web = self.start_web(interval_s=2)
        with contextlib.ExitStack() as stack:
            for _ in range(16):
                next(stack.enter_context(self.updates(self.web)))
            self.assertEqual(self.counted(b'GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n'),
                             (503, {'refused_stream'}))
        wait_until(lambda: self.refusals(self.web)['live_pages'] == 0, LIMIT_S, 'the pages are forgotten')
        with self.updates(self.web) as told:
            next(told)

    def test_a_thousand_connections(self):
        """Those that say nothing make room, so that one that asks has its answer meanwhile."""
        with contextlib.ExitStack() as stack:
            for at in range(1000):
                one = stack.enter_context(socket.create_connection(('127.0.0.1', self.web.port), LIMIT_S))
                # Reset at the end: no port of the machine waits for what is late.
                one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b'\1\0\0\0\0\0\0\0')
                if at % 100 == 99:
                    self.assertEqual(self.get(self.web, '/')[0], 200)
            found = self.refusals(self.web)
            self.assertGreaterEqual(found['pushed_out'], 900)
            self.assertLessEqual(found['open_connections'], 64)

    def test_random_requests(self):
        """Nothing that is sent ends the server, or is not counted."""
        rng = random.Random(SEED)
        count = 100_000 if SOAK else 500
        before = self.refusals(self.web)
        statuses = {}
        for _ in range(count):
            status = status_of(raw(self.web, random_request(rng)))
            statuses[status] = statuses.get(status, 0) + 1
        self.assertIsNone(self.web.child.poll(), f'seed {SEED}: {self.web.messages()}')
        expected = sum(number for status, number in statuses.items() if status not in (None, 200))

        def refused():
            # Figures are those of the last look, which may be a moment old.
            after = self.refusals(self.web)
            moved.update((name, after[name] - before.get(name, 0)) for name in after)
            return sum(value for name, value in moved.items() if name.startswith('refused_'))
        moved = {}
        wait_until(lambda: refused() >= expected, LIMIT_S, f'seed {SEED}: {statuses}: {expected} refusals')
        told = f'seed {SEED}: {statuses}, {moved}'
        # A client that ended amid its request may not have read why it was refused.
        self.assertLessEqual(refused() - expected, statuses.get(None, 0), told)
        self.assertEqual(moved['refused_failure'], 0, told)
        self.assertGreater(len(statuses), 4, told)
        self.assertEqual(len(self.web.messages().splitlines()), 1, self.web.messages())


class Busiest(unittest.TestCase):
    def test_order_is_kept(self):
        """As sorting all of them anew would give it, whatever rates do, and come and go."""
        chance = random.Random(7)

        class Program:
            pairs = {}

            def ask(self, command):
                first = int(command.split(',')[2])
                listed = sorted(number for number in self.pairs if number >= first)
                answer = {'queue_pairs': [f'{number} RC rts {sent} 0' for number in listed[:50]
                                          for sent in [self.pairs[number]]]}
                return answer | ({'next': listed[50]} if len(listed) > 50 else {})
        program = Program()
        follower = queue_pairs.Follower(program)
        follower.groups = ['engine']
        for _ in range(40):
            for number in chance.sample(range(300), 60):
                if chance.random() < 0.2:
                    program.pairs.pop(number, None)
                else:
                    program.pairs[number] = program.pairs.get(number, 0) + chance.choice((0, 0, 1, 50, 10 ** 6))
            follower._read_pages(chance.choice((0.0, 1.0)))
            expected = sorted(follower.found.values(), key=lambda qp: (-qp.rate, qp.number))
            self.assertEqual(follower.top(), expected[:queue_pairs.TOP])
            bounds = (float('-inf'), *queue_pairs.RATES, float('inf'))
            self.assertEqual(follower.ranking.by_rate(),
                             [sum(low < qp.rate <= high for qp in expected)
                              for low, high in zip(bounds, bounds[1:])])
        self.assertTrue(any(qp.rate for qp in follower.found.values()))


class Stream(unittest.IsolatedAsyncioTestCase):
    """The server itself, with limits that are reached soon."""

    async def test_a_live_page_that_takes_nothing(self):
        async def begin(_request):
            return server.Stream(b'x' * 65536)
        with unittest.mock.patch.multiple(limits, SEND_S=0.05, STREAM_BUFFER_MAX=4096):
            web = server.Server({'/events': begin})
            port = await web.listen('127.0.0.1', 0)
            with socket.socket() as deaf:
                deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                deaf.connect(('127.0.0.1', port))
                deaf.sendall(b'GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n')
                while not web.streams:
                    await asyncio.sleep(0)
                while web.streams:
                    web.update(b'y' * 4096)
                    await asyncio.sleep(0.001)
            self.assertEqual(web.counters['slow_receiver'], 1)
            self.assertGreater(web.counters['missed_updates'], 0)
            await web.close()


def random_request(rng):
    """Bytes that are a request to a varying degree."""
    words = (b'GET', b'HEAD', b'POST', b'/', b'/metrics', b'/events', b'/text', b'HTTP/1.1', b'HTTP/1.0', b'Host:',
             b'localhost', b'evil', b'\r\n', b'\r\n\r\n', b' ', b':', b'Connection: close', b'Content-Length: 9', b'\0',
             b'\xff\xfe', b'a' * 3000)
    kind = rng.randrange(4)
    if kind == 0:
        return rng.randbytes(rng.randrange(200))
    if kind == 1:
        return b''.join(rng.choice(words) for _ in range(rng.randrange(20)))
    valid = bytearray(b'%s %s HTTP/1.1\r\nHost: localhost\r\nAccept: */*\r\n\r\n' % (
        rng.choice((b'GET', b'HEAD')), rng.choice((b'/', b'/metrics', b'/text', b'/nothing', b'/metrics?a=b'))))
    for _ in range(rng.randrange(3)):
        valid[rng.randrange(len(valid))] = rng.randrange(256)
    return bytes(valid) if kind == 2 else bytes(valid[:rng.randrange(len(valid))])


class Options(WebTest):
    def test_places(self):
        for place in ('127.0.0.1:0', '0', '[::1]:0', 'localhost:0'):
            with self.subTest(place=place):
                web = self.start_web(place=place)
                host = '::1' if '[' in place else '127.0.0.1'
                self.assertEqual(self.get(web, '/', host=host)[0], 200)
                self.assertNotIn('WARNING', web.messages())
        open_to_all = self.start_web(place='0.0.0.0:0')
        self.assertIn('WARNING: whoever reaches 0.0.0.0', open_to_all.messages())
        self.assertEqual(self.get(open_to_all, '/', {'Host': socket.gethostname()})[0], 200)

    def test_it_ends(self):
        for number in (signal.SIGINT, signal.SIGTERM):
            web = self.start_web()
            with self.updates(web) as told:
                next(told)
                web.child.send_signal(number)
                self.assert_status(web, 0)

    def test_a_port_that_is_taken(self):
        web = self.start_web()
        self.assert_failed(self.run_program('rh-stats', '--web', web.port), f'cannot listen on 127.0.0.1, port {web.port}')

    def test_bad_arguments(self):
        for arguments in (('--web', '1.2.3.4:99999'), ('--web', 'a:b:c'), ('--web', '[::1'), ('--web', '--list'),
                          ('--web', '--top'), ('--web', '--json'), ('--web', '--watch', 1, '--count', 2),
                          ('--top', '--group', 'x')):
            with self.subTest(arguments=arguments):
                self.assert_refused('rh-stats', *arguments)


if __name__ == '__main__':
    support.main()
