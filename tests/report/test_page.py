# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""The page of rh-report in Chromium."""

import os
import shutil
import sys
import unittest

import rig

import packets as p
import scenarios

try:
    from selenium import webdriver
    from selenium.webdriver.common.by import By
    from selenium.webdriver.common.keys import Keys
    from selenium.webdriver.support.ui import WebDriverWait
except ModuleNotFoundError:
    webdriver = None

CHROMIUM, DRIVER = shutil.which('chromium'), shutil.which('chromedriver')
WIDTHS = (390, 1024, 1600)


def browser(script=True):
    from selenium.webdriver.chrome.options import Options
    from selenium.webdriver.chrome.service import Service
    options = Options()
    options.binary_location = CHROMIUM
    for argument in ('--headless=new', '--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage', '--hide-scrollbars',
                     '--window-size=1400,1000'):
        options.add_argument(argument)
    options.set_capability('goog:loggingPrefs', {'browser': 'ALL'})
    if not script:
        options.add_experimental_option('prefs', {'profile.managed_default_content_settings.javascript': 2})
    return webdriver.Chrome(service=Service(DRIVER), options=options)


@unittest.skipUnless(webdriver and CHROMIUM and DRIVER, 'no python3-selenium, chromium or chromium-driver')
class PageTest(rig.ReportTest):
    script = True

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        # Where it keeps what it needs while it runs is gone with the test.
        os.environ['HOME'] = str(cls.folder)
        cls.browser = browser(cls.script)
        cls.addClassCleanup(cls.browser.quit)

    def open(self, *captures, options=()):
        self.run_report(*captures, '-o', 'page.html', *options)
        self.browser.get((self.folder / 'page.html').as_uri())
        if self.script:
            self.until(lambda: self.ask('document.documentElement.dataset.ready') == 'yes')

    def tearDown(self):
        self.assertEqual([entry for entry in self.browser.get_log('browser')], [], 'the console')

    def ask(self, expression, *arguments):
        return self.browser.execute_script(f'return {expression}', *arguments)

    def until(self, condition):
        return WebDriverWait(self.browser, rig.LIMIT_S).until(lambda _: condition())

    def all(self, selector):
        return self.browser.find_elements(By.CSS_SELECTOR, selector)

    def one(self, selector):
        return self.browser.find_element(By.CSS_SELECTOR, selector)

    def settled(self):
        """Behind the next drawing."""
        self.browser.execute_async_script('requestAnimationFrame(() => requestAnimationFrame(arguments[0]))')

    def hover(self, packet):
        """Moves the mouse to where a packet is drawn; what the box then says, by name."""
        self.browser.execute_script('document.querySelector(".plot[role]").scrollIntoView({block: "center"})')
        x, y = self.ask('window.report.place(arguments[0])', packet)
        self.browser.execute_cdp_cmd('Input.dispatchMouseEvent', {'type': 'mouseMoved', 'x': x, 'y': y})
        self.until(lambda: self.ask('document.getElementById("hover").style.display') == 'block')
        return self.ask('''Array.from(document.querySelectorAll("#hover b"), name =>
            [name.textContent.trim(), name.nextSibling.textContent.trim()])''')

    def near(self, packet, around=3):
        """Zooms so far that single packets stand apart."""
        self.ask('''(() => {
            const r = window.report, c = r.data.connections[r.state.connection], t = r.columns.time;
            const i = arguments[0], from = Math.max(c.at, i - arguments[1]), to = Math.min(c.at + c.n - 1, i + arguments[1]);
            const margin = (t[to] - t[from]) * .1 + 100;
            r.setRange(t[from] - margin, t[to] + margin);
        })()''', packet, around)
        self.settled()


class Pictures(PageTest):
    @rig.needs_tshark
    def test_hover_shows_what_tshark_shows(self):
        path = rig.CAPTURES / 'ipv4-rc-rnr-mtu1024.pcap'
        seen = {packet.number: packet for packet in rig.tshark(path)}
        self.open(path)
        for at in (0, 3, 4, 10, 23):
            self.near(at, 1)
            words = dict(self.hover(at))
            shown = int(self.one('#hover').get_attribute('data-packet'))
            number = int(words['packet'].removeprefix('frame '))
            self.assertEqual(self.ask('window.report.columns.number[arguments[0]]', shown), number)
            expected = seen[number]
            self.assertIn(f'PSN {expected.psn} (', words['BTH'])
            self.assertIn(f'(0x{expected.opcode:02x})', words['BTH'])
            self.assertIn(f'to QP 0x{expected.qpn:06x}', words['BTH'])
            self.assertTrue(words['IP'].startswith(f'{expected.source} > {expected.destination},'), words['IP'])
            self.assertTrue(words['payload'].startswith(f'{expected.payload} bytes'), (words, expected.payload))
            if expected.syndrome is not None:
                self.assertIn(f'syndrome 0x{expected.syndrome:02x}', words['AETH'])
            self.assertEqual(number, at + 1)

    @rig.needs_tshark
    def test_each_packet_is_decoded_as_tshark_does(self):
        """Through the columns, for all packets of captures of each transport."""
        for name in ('ipv4-rc-mixed', 'ipv4-rc-psn-wrap', 'ipv6-rc-read', 'ipv4-uc', 'ipv6-ud', 'ipv4-rc-atomic'):
            path = rig.CAPTURES / f'{name}-mtu1024.pcap'
            self.open(path)
            found = {number: (psn, opcode, length) for number, psn, opcode, length in self.ask(
                '''Array.from({length: window.report.data.n}, (_, i) => ["number", "psn", "opcode", "length"]
                    .map(name => window.report.columns[name][i]))''')}
            self.assertEqual(found, {packet.number: (packet.psn, packet.opcode, packet.payload) for packet in rig.tshark(path)})
            for words in self.ask('Array.from({length: window.report.data.n}, (_, i) => window.report.decoded(i))'):
                self.assertNotIn('undefined', str(words))
                self.assertNotIn('NaN', str(words))

    def test_zoom_and_filters(self):
        self.open(rig.CAPTURES / 'ipv4-rc-rnr-mtu1024.pcap')
        shown = lambda: self.ask('window.report.state.shown')  # noqa: E731
        total = self.ask('window.report.data.n')
        self.assertEqual(shown(), total)
        box = self.one('.plot[role]')
        box.send_keys('+')
        self.settled()
        self.assertLess(shown(), total)
        box.send_keys(Keys.HOME)
        self.settled()
        self.assertEqual(shown(), total)
        counts = {}
        for label in self.all('#kinds label'):
            name, _, count = label.text.rpartition(' ')
            counts[name] = int(count)
        self.assertEqual(sum(counts.values()), total)
        for tick in self.all('#kinds input'):
            name, _, count = tick.find_element(By.XPATH, '..').text.rpartition(' ')
            tick.click()
            self.settled()
            self.assertEqual(shown(), total - int(count), name)
            tick.click()
        self.settled()
        # Step by step from packet to packet, and what is said of each.
        box.send_keys('n')
        self.settled()
        self.assertIn('frame 1;', self.one('#said').get_attribute('textContent'))
        box.send_keys('n')
        self.settled()
        self.assertIn('frame 2;', self.one('#said').get_attribute('textContent'))
        box.send_keys('p')
        self.settled()
        self.assertIn('frame 1;', self.one('#said').get_attribute('textContent'))

    def test_findings_open_their_ladder(self):
        packets, start = [], 1_700_000_000_000_000_000
        for index, breach in enumerate(scenarios.BREACHES[:40]):
            # Each between two hosts of its own.
            for packet in breach.build():
                for field in ('src', 'dst'):
                    host = getattr(packet, field)
                    if '.' in host:
                        setattr(packet, field, f'10.{index}.0.{host.rpartition(".")[2]}')
                packet.time_ns += index * 60 * 10**9
                packets.append(packet)
        self.assertGreater(min(packet.time_ns for packet in packets), start - 1)
        self.open(self.write('breaches.pcapng', p.pcapng(packets)), options=('--strict', '--settle-ms', '0'))
        findings = self.all('a.finding')
        self.assertGreater(len(findings), 30)
        self.browser.execute_script('document.querySelectorAll("details").forEach(each => { each.open = true; })')
        for link in findings:
            number, frame = int(link.get_attribute('data-finding')), link.text
            self.browser.execute_script('arguments[0].click()', link)
            rule = self.ask('window.report.data.findings[arguments[0]][0]', number)
            self.until(lambda frame=frame: self.one('#packet h3').text == f'Packet: {frame}')
            chosen = self.one('#ladder .row.chosen')
            self.assertIn(rule, chosen.get_attribute('aria-label'))
            self.assertIn(frame + ',', chosen.get_attribute('aria-label'))
            # And back to the rule.
            self.assertIn(f'rule-{rule}', [each.get_attribute('href').rpartition('#')[2] for each in self.all('#packet a.rule')])

    def test_handshakes_sessions_and_locks(self):
        self.open(rig.CAPTURES / 'cm-rping-ipv4.pcap')
        self.browser.execute_script('location.hash = "#c1"')
        self.until(lambda: any('CM REQ' in row.get_attribute('aria-label') for row in self.all('#ladder .row')))
        self.assertEqual(len(self.all('#ladder rect.span')), 1)
        import dc_scenarios  # noqa: F401 (it adds its dialogues to scenarios)
        import lock_scenarios  # noqa: F401 (as above)
        for name, word in (('DC: two_targets', 'DC CONNECT'), ('locks: one_round_trip', 'acquire of scope')):
            self.open(self.write('extension.pcapng', p.pcapng(scenarios.CLEAN[name][0]())))
            rows = [row.get_attribute('aria-label') for row in self.all('#ladder .row')]
            self.assertTrue(any(word in row for row in rows), rows)
            self.assertGreater(len(self.all('#ladder rect.span')), 0)

    def test_two_ends(self):
        a, b = self.simulate(rig.LOSSY, 'ends')
        self.open(a, b)
        self.assertEqual(self.ask('window.report.data.files'), ['ends.a.pcapng', 'ends.b.pcapng'])
        lost = self.ask('Array.from(window.report.columns.bits).filter(bits => bits & 8).length')
        self.assertGreater(lost, 0)
        both = self.ask('Array.from(window.report.columns.other).filter(Boolean).length')
        self.assertGreater(both, 500)

    def test_every_width(self):
        """Nothing sticks out of the page to the side."""
        self.open(rig.CAPTURES / 'ipv4-rc-rnr-mtu1024.pcap')
        self.addCleanup(self.browser.set_window_size, 1400, 1000)
        for width in WIDTHS:
            self.browser.execute_cdp_cmd('Emulation.setDeviceMetricsOverride', {
                'width': width, 'height': 900, 'deviceScaleFactor': 1, 'mobile': False})
            self.settled()
            self.assertLessEqual(self.ask('document.documentElement.scrollWidth'), width)
            self.assertEqual(self.ask('window.report.state.shown'), 24)
        self.browser.execute_cdp_cmd('Emulation.clearDeviceMetricsOverride', {})

    def test_dark_and_light(self):
        self.open(rig.CAPTURES / 'ipv4-rc-rnr-mtu1024.pcap')
        seen = set()
        for scheme in ('dark', 'light'):
            self.browser.execute_cdp_cmd('Emulation.setEmulatedMedia', {
                'features': [{'name': 'prefers-color-scheme', 'value': scheme}]})
            self.settled()
            seen.add(self.ask('getComputedStyle(document.body).backgroundColor'))
        self.browser.execute_cdp_cmd('Emulation.setEmulatedMedia', {'features': []})
        self.assertEqual(len(seen), 2)

    def test_hostile_words(self):
        packets = scenarios.basic()
        for packet in packets:
            packet.comment = 'drop: <img src=x onerror="document.title = 1">'
        self.open(self.write('evil<img src=x onerror=alert(1)>.pcapng', p.pcapng(packets)))
        self.assertEqual(self.all('img'), [])
        self.ask('window.report.decoded(0)')
        self.near(0, 1)
        self.assertIn('<img', str(self.hover(0)))
        self.assertEqual(self.all('img'), [])


class WithoutScript(PageTest):
    script = False

    def test_tables(self):
        self.open(rig.CAPTURES / 'ipv4-rc-rnr-mtu1024.pcap')
        self.assertEqual(self.one('#connections tbody td').text, '10.8.0.1 QP 0x00001e ↔ 10.8.0.2 QP 0x00001e')
        self.assertEqual(len(self.all('a.finding')), 4)
        self.assertIn('nak-after-rnr', self.one('#findings').text)
        self.assertIn('RC_ACKNOWLEDGE', self.one('#overview').text)
        self.assertIn('JavaScript', self.one('#view').text)


if __name__ == '__main__':
    sys.dont_write_bytecode = True
    unittest.main()
