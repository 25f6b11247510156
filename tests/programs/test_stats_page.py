#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""The live page of rh-stats --web in a browser, Debian's Chromium without a screen.

ROCKHOPPER_SCREENSHOTS=FOLDER: leaves pictures of the page there.
"""

import importlib.util
import os
import pathlib
import shutil
import sys

if importlib.util.find_spec('selenium') is None and sys.executable != '/usr/bin/python3':
    # Another Python than Debian's does not have Debian's modules.
    os.execv('/usr/bin/python3', ['/usr/bin/python3', *sys.argv])

import support  # noqa: E402 (needs the lines above)
from stats_support import WebTest  # noqa: E402
from support import LIMIT_S, wait_until  # noqa: E402

BROWSER, DRIVER = shutil.which('chromium'), shutil.which('chromedriver')
WIDTHS = (1400, 800, 390)


class Page(WebTest):
    def setUp(self):
        super().setUp()
        if BROWSER is None or DRIVER is None or importlib.util.find_spec('selenium') is None:
            self.skipTest('no browser: packages chromium, chromium-driver and python3-selenium')

    def open(self, web):
        from selenium import webdriver
        from selenium.webdriver.chrome.options import Options
        from selenium.webdriver.chrome.service import Service
        options = Options()
        options.binary_location = BROWSER
        for argument in ('--headless=new', '--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage',
                         f'--user-data-dir={self.lab.path("profile")}'):
            options.add_argument(argument)
        options.set_capability('goog:loggingPrefs', {'browser': 'ALL'})
        self.browser = webdriver.Chrome(service=Service(DRIVER, log_path=str(self.lab.path('driver.log'))),
                                        options=options)
        self.addCleanup(self.browser.quit)
        self.browser.set_script_timeout(LIMIT_S)
        self.browser.get(f'http://127.0.0.1:{web.port}/')

    def run_js(self, script, *arguments):
        return self.browser.execute_script(script, *arguments)

    def text(self, identifier):
        return self.run_js('return document.getElementById(arguments[0]).textContent', identifier)

    def samples(self):
        return int(self.run_js('return document.body.dataset.samples || 0'))

    def see(self, condition, what):
        return wait_until(condition, LIMIT_S, what)

    def width(self, pixels):
        self.browser.execute_cdp_cmd('Emulation.setDeviceMetricsOverride', {
            'width': pixels, 'height': 1000, 'deviceScaleFactor': 1, 'mobile': False})

    def colours(self, scheme):
        self.browser.execute_cdp_cmd('Emulation.setEmulatedMedia', {
            'features': [{'name': 'prefers-color-scheme', 'value': scheme}]})

    def keep(self, name):
        if folder := os.environ.get('ROCKHOPPER_SCREENSHOTS'):
            self.browser.save_screenshot(str(pathlib.Path(folder, name + '.png')))

    def press(self, *keys):
        from selenium.webdriver.common.action_chains import ActionChains
        ActionChains(self.browser).send_keys(*keys).perform()

    def assert_no_complaints(self):
        self.assertEqual(self.browser.get_log('browser'), [])

    def contrast(self, selector):
        """Of an element's text with what is behind it, as WCAG 2 has it; None if there is none at the moment."""
        return self.run_js('''
            const rgb = text => text.match(/[\\d.]+/g).map(Number);
            const light = colour => { const [r, g, b] = rgb(colour).map(c => c / 255).map(
                c => c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4); return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
            const node = document.querySelector(arguments[0]);
            if (!node) return null;
            let behind = node;
            while (behind && rgb(getComputedStyle(behind).backgroundColor)[3] === 0) behind = behind.parentElement;
            const [a, b] = [light(getComputedStyle(node).color), light(getComputedStyle(behind).backgroundColor)].sort((x, y) => y - x);
            return (a + 0.05) / (b + 0.05);''', selector)

    def test_page(self):
        server, client = self.start_perf('-q', 4, loss='1%')
        self.open(self.start_web('--pid', server.child.pid))
        self.see(lambda: self.samples() > 2, 'updates arrive')
        self.see(lambda: 'rx_lost' in self.text('drops'), 'drops are shown')
        self.assertIn('packets lost by chance (loss)', self.text('drops'))
        self.assertIn('rh-perf', self.text('program-heading'))
        self.assertIn(str(server.child.pid), self.text('programs'))
        self.assertNotIn(str(client.child.pid), self.text('programs'))
        self.assertIn('RCRTS4', self.text('states'))
        self.assertEqual(self.run_js('return document.querySelectorAll("#top tbody tr").length'), 4)
        self.assertRegex(self.text('ports'), r'bit/s')
        # Lines are drawn, and have values that are not all the same.
        self.see(lambda: self.run_js('return document.querySelector("#host-charts path.rx").getAttribute("d").length') > 30,
                 'a line is drawn')
        before = self.samples()
        self.see(lambda: self.samples() > before + 2, 'further updates arrive')

        for pixels in WIDTHS:
            self.width(pixels)
            for scheme in ('light', 'dark'):
                with self.subTest(width=pixels, scheme=scheme):
                    self.colours(scheme)
                    self.see(lambda: self.run_js('return matchMedia("(prefers-color-scheme: dark)").matches') ==
                             (scheme == 'dark'), 'the colours are those')
                    overflow = self.run_js('return document.documentElement.scrollWidth - window.innerWidth')
                    self.assertLessEqual(overflow, 0)
                    for selector in ('body', '#state', 'th', 'td.text', 'td button', 'tr.moves td.rate', '.scale span',
                                     'figcaption .rx', 'figcaption .tx', 'figcaption .bad'):
                        # No queue pair may be moving just now: each waits for what it has lost.
                        contrast = self.see(lambda selector=selector: self.contrast(selector), selector)
                        self.assertGreaterEqual(contrast, 4.5, selector)
                    self.keep(f'page-{pixels}-{scheme}')
        self.assert_no_complaints()

    def test_keyboard(self):
        from selenium.webdriver.common.keys import Keys
        server, client = self.start_perf('-q', 2, loss='1%')
        del server
        self.open(self.start_web())
        row = f'tr[data-key^="{client.child.pid}-"]'
        self.see(lambda: self.run_js('return document.querySelector(arguments[0]) !== null', row), 'the program is listed')
        focused = 'const one = document.activeElement; return one.id || one.className || one.tagName'
        self.press(Keys.TAB)
        self.assertEqual(self.run_js(focused), 'skip')
        self.press(Keys.ENTER)
        self.assertEqual(self.run_js(focused), 'main')
        # From there by Tab alone to the program, which Enter chooses; updates meanwhile do not take the focus away.
        for _ in range(200):
            self.press(Keys.TAB)
            if self.run_js('return document.activeElement.closest(arguments[0]) !== null', row):
                break
        else:
            self.fail('no Tab leads to the program')
        self.assertNotEqual(self.run_js('return getComputedStyle(document.activeElement).outlineStyle'), 'none')
        before = self.samples()
        self.see(lambda: self.samples() > before + 2, 'updates arrive')
        self.press(Keys.ENTER)
        self.see(lambda: str(client.child.pid) in self.text('program-heading'), 'the program is chosen')
        self.assertEqual(self.run_js('return document.querySelectorAll("[aria-current=true]").length'), 1)

        self.run_js('document.getElementById("pause").focus()')
        self.press(Keys.SPACE)
        self.assertEqual(self.run_js('return document.getElementById("pause").getAttribute("aria-pressed")'), 'true')
        self.assertIn('Paused', self.text('state'))
        self.press(Keys.SPACE)
        before = self.samples()
        self.see(lambda: self.samples() > before, 'updates go on')

        self.run_js('document.querySelector("#counters-details summary").focus()')
        self.press(Keys.ENTER)
        self.see(lambda: 'sent_pkts' in self.text('counters'), 'all counters are shown')
        self.run_js('document.getElementById("filter").focus()')
        self.press('retransmitted')
        self.see(lambda: 'sent_pkts' not in self.text('counters'), 'they are filtered')

        self.run_js('document.getElementById("theme").focus()')
        for key, theme in ((Keys.ARROW_DOWN, 'light'), (Keys.ARROW_DOWN, 'dark'), (Keys.ARROW_UP, 'light')):
            self.press(key)
            self.see(lambda: self.run_js('return getComputedStyle(document.documentElement).colorScheme') == theme,
                     f'it is {theme}')
        self.browser.refresh()
        self.see(lambda: self.run_js('return document.documentElement.dataset.theme') == 'light', 'it is remembered')
        # Everything that can be operated has a name.
        nameless = self.run_js('''return [...document.querySelectorAll("button, input, select, a, summary")].filter(
            one => !(one.textContent.trim() || one.labels?.length || one.ariaLabel)).map(one => one.outerHTML)''')
        self.assertEqual(nameless, [])
        self.assert_no_complaints()

    def test_programs_and_servers_that_go(self):
        web = self.start_web()
        self.open(web)
        first, _ = self.start_server('rh-perf', '--memif-socket', self.lab.path('first.sock'), '--ip', '10.42.0.1/24')
        self.see(lambda: str(first.child.pid) in self.text('programs'), 'a program that comes is shown')
        first.end()
        self.see(lambda: str(first.child.pid) not in self.text('programs'), 'one that has gone is not')
        self.assert_no_complaints()
        web.end()
        self.see(lambda: 'does not answer' in self.text('state'), 'the page says that what it shows is old')
        # It goes on by itself when there is a server again.
        self.start_web(place=web.port)
        self.see(lambda: 'Live' in self.text('state'), 'the page goes on')

    def test_nothing_is_markup(self):
        """What a program or a counter is called cannot be markup."""
        self.open(self.start_web())
        self.see(lambda: self.samples() > 0, 'updates arrive')
        self.run_js('''
            last.failures = ['<img src=x onerror=document.title="bad">'];
            last.programs = [{key: '1-x', pid: 1, name: '<b id=markup>x</b>', file_prefix: '<b id=markup>', seconds: 1,
                summary: {}, ports: {'<b id=markup>': {}}, counters: {g: {'<b id=markup>': [1, 1]}},
                queue_pairs: {states: [['<b id=markup>', '', '', 1]], seen: 0, top: [], rates: [[0], [0, 0]]}}];
            described.programs = {'1-x': {g: {'<b id=markup>': ['<b id=markup>', 'd']}}};
            paused = true;
            show();''')
        self.assertEqual(self.run_js('return document.querySelectorAll("#markup, img").length'), 0)
        self.assertIn('<b id=markup>x</b>', self.text('programs'))
        # And the policy would not let any run.
        self.assertRaisesRegex(Exception, 'TrustedHTML', self.run_js,
                               'document.body.insertAdjacentHTML("beforeend", "<p>x")')


if __name__ == '__main__':
    support.main()
