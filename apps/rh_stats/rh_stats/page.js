'use strict';
// The page of rh-stats --web. All text from outside gets into the page as text, never as markup.
const $ = id => document.getElementById(id);
const HISTORY = 300, HISTORY_SHOWN = 60;  // samples that the charts remember, and have room for at least
const SVG = 'http://www.w3.org/2000/svg';
let described = {programs: {}, server: {}};
let last = null;
let paused = false;
let chosen = null;  // the key of the program that is shown
let samplesOf = new Map();  // by program, '' for all: samples of its summary

function make(name, attributes = {}, ...children) {
  const node = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  node.append(...children);
  return node;
}

function human(value) {
  if (value === null || value === undefined) return '–';
  let at = 0;
  let size = Math.abs(value);
  while (size >= 999.5 && at < 5) { size /= 1000; at++; }
  const sign = value < 0 ? '-' : '';
  const digits = size === 0 || size >= 99.5 ? size.toFixed(0) : size >= 9.95 ? size.toFixed(1) : size.toFixed(2);
  return sign + digits + ['', ' k', ' M', ' G', ' T', ' P'][at];
}
const bits = bytes => bytes === null || bytes === undefined ? '–' : human(bytes * 8).replace(/^([\d.-]+)$/, '$1 ') + 'bit/s';
const whole = value => value === null || value === undefined ? '–' : value.toLocaleString('en').replaceAll(',', '\u202f');

// Tables. A row is made once and its cells are changed, so that focus and selection stay where they are.
function table(place, heads, rows, empty) {
  if (!rows.length) {
    if (!place.querySelector('.empty')) place.replaceChildren(make('p', {class: 'empty'}, empty));
    return;
  }
  let body = place.querySelector('tbody');
  if (!body) {
    body = make('tbody');
    const head = make('tr', {}, ...heads.map(([text, kind]) => make('th', {scope: 'col', class: kind === 'n' || kind === 'rate' ? 'n' : ''}, text)));
    place.replaceChildren(make('table', {}, make('thead', {}, head), body));
  }
  fill(body, rows.length, (row, at) => {
    const {cells, moves} = rows[at];
    row.classList.toggle('moves', Boolean(moves));
    while (row.children.length < cells.length) row.append(make('td', {class: heads[row.children.length][1] === 'rate' ? 'n rate' : heads[row.children.length][1]}));
    cells.forEach((text, column) => set(row.children[column], text));
  });
}
function fill(body, count, update) {
  while (body.children.length > count) body.lastElementChild.remove();
  while (body.children.length < count) body.append(make('tr'));
  for (let at = 0; at < count; at++) update(body.children[at], at);
}
function set(node, text) { if (node.textContent !== text) node.textContent = text; }

// Charts: lines over the samples that are remembered.
function chart(place, key, title, lines, show) {
  let figure = [...place.children].find(one => one.dataset.key === key);
  if (!figure) {
    const svg = document.createElementNS(SVG, 'svg');
    svg.setAttribute('preserveAspectRatio', 'none');
    svg.setAttribute('role', 'img');
    const base = document.createElementNS(SVG, 'line');
    for (const [name, value] of [['x1', '0'], ['x2', '100%'], ['y1', '99.5'], ['y2', '99.5']]) base.setAttribute(name, value);
    svg.append(base);
    for (const line of lines) {
      const path = document.createElementNS(SVG, 'path');
      path.setAttribute('class', line.style);
      svg.append(path);
    }
    figure = make('figure', {'data-key': key}, make('figcaption', {}, make('strong', {}, title), ...lines.map(line => make('span', {class: line.style}))),
                  svg, make('div', {class: 'scale'}, make('span'), make('span')));
    place.append(figure);
  }
  const values = lines.map(line => line.values);
  const top = Math.max(1e-9, ...values.flat().filter(value => value !== null && value !== undefined));
  const svg = figure.querySelector('svg');
  const width = Math.max(HISTORY_SHOWN, ...lines.map(line => line.values.length));
  svg.setAttribute('viewBox', `0 0 ${width - 1} 100`);
  lines.forEach((line, at) => {
    const now = line.values.at(-1);
    set(figure.querySelectorAll('figcaption span')[at], `${line.name} ${show(now)}`);
    let d = '', pen = 'M';
    line.values.forEach((value, index) => {
      if (value === null || value === undefined) { pen = 'M'; return; }
      d += `${pen}${width - line.values.length + index} ${(99 - 97 * value / top).toFixed(1)}`;
      pen = 'L';
    });
    svg.querySelectorAll('path')[at].setAttribute('d', d);
  });
  svg.setAttribute('aria-label', `${title}: ` + lines.map(line => `${line.name} ${show(line.values.at(-1))}`).join(', '));
  const seconds = Math.round(Math.max(...lines.map(line => line.values.length)) * (described.interval || 1));
  set(figure.querySelectorAll('.scale span')[0], `last ${seconds} s`);
  set(figure.querySelectorAll('.scale span')[1], `highest ${show(top === 1e-9 ? 0 : top)}`);
}
function charts(place, key) {
  const seen = samplesOf.get(key) || [];
  const values = name => seen.map(one => one[name]);
  chart(place, 'traffic', 'Traffic', [
    {name: 'received', style: 'rx', values: values('rx_bytes')}, {name: 'sent', style: 'tx', values: values('tx_bytes')}], bits);
  chart(place, 'packets', 'Packets per second', [
    {name: 'received', style: 'rx', values: values('rx_packets')}, {name: 'sent', style: 'tx', values: values('tx_packets')}], human);
  chart(place, 'drops', 'Dropped and sent again, per second', [
    {name: 'dropped', style: 'bad', values: values('drops')}, {name: 'sent again', style: 'tx', values: values('retransmitted')}], human);
  chart(place, 'congestion', 'Congestion, per second', [
    {name: 'ECN marked', style: 'rx', values: values('marked')}, {name: 'CNPs obeyed', style: 'tx', values: values('cnps')}], human);
}
// Bars, and the same as a table for those who cannot see them.
function histogram(place, key, title, bounds, counts) {
  const label = at => at === 0 ? `${human(bounds[0])}` : at < bounds.length ? `≤ ${human(bounds[at])}` : `> ${human(bounds.at(-1))}`;
  let figure = [...place.children].find(one => one.dataset.key === key);
  if (!figure) {
    const svg = document.createElementNS(SVG, 'svg');
    svg.setAttribute('viewBox', `0 0 ${counts.length * 10} 100`);
    svg.setAttribute('preserveAspectRatio', 'none');
    svg.setAttribute('aria-hidden', 'true');
    counts.forEach((_, at) => {
      const bar = document.createElementNS(SVG, 'rect');
      bar.setAttribute('x', at * 10 + 1);
      bar.setAttribute('width', 8);
      svg.append(bar);
    });
    const table = make('table', {}, make('tbody', {}, make('tr', {class: 'bounds'}, ...counts.map(() => make('th', {scope: 'col'}))), make('tr', {class: 'counts'}, ...counts.map(() => make('td')))));
    figure = make('figure', {'data-key': key, class: 'wide'}, make('figcaption', {}, make('strong', {}, title)), svg, make('div', {class: 'scroll'}, table));
    place.append(figure);
  }
  const most = Math.max(1, ...counts);
  counts.forEach((count, at) => {
    const bar = figure.querySelectorAll('rect')[at];
    const height = count ? Math.max(2, 100 * count / most) : 0;
    bar.setAttribute('y', (100 - height).toFixed(1));
    bar.setAttribute('height', height.toFixed(1));
    set(figure.querySelectorAll('.bounds th')[at], label(at));
    set(figure.querySelectorAll('.counts td')[at], whole(count));
  });
}
function remember(sample) {
  const keys = new Set(['']);
  const all = {};
  for (const program of sample.programs) {
    keys.add(program.key);
    push(program.key, program.summary);
    for (const [name, value] of Object.entries(program.summary)) {
      if (value !== null) all[name] = (all[name] || 0) + value;
    }
  }
  push('', all);
  for (const key of [...samplesOf.keys()]) if (!keys.has(key)) samplesOf.delete(key);
}
function push(key, summary) {
  if (!samplesOf.has(key)) samplesOf.set(key, []);
  const seen = samplesOf.get(key);
  seen.push(summary);
  if (seen.length > HISTORY) seen.shift();
}

function choose(key) {
  if (chosen === key) return;
  chosen = key;
  for (const id of ['program-charts', 'ports', 'states', 'top', 'drops', 'congestion', 'losses', 'counters', 'histograms']) $(id).replaceChildren();
  if (last) show();
}

function showPrograms() {
  const programs = [...last.programs].sort((a, b) => a.name.localeCompare(b.name) || a.pid - b.pid);
  $('none').hidden = programs.length > 0;
  $('programs').hidden = !programs.length;
  // Those of the one program that there is say the same.
  $('host-charts').hidden = programs.length === 1;
  if (!programs.some(one => one.key === chosen)) choose(programs.length ? programs[0].key : null);
  fill($('programs').tBodies[0], programs.length, (row, at) => {
    const one = programs[at], s = one.summary;
    if (!row.children.length) {
      const button = make('button', {type: 'button'});
      button.addEventListener('click', () => { choose(row.dataset.key); $('program').scrollIntoView({block: 'nearest'}); });
      row.append(make('td', {}, button));
      for (let column = 0; column < 8; column++) row.append(make('td', {class: 'n'}));
    }
    row.dataset.key = one.key;
    if (one.key === chosen) row.setAttribute('aria-current', 'true'); else row.removeAttribute('aria-current');
    set(row.querySelector('button'), one.name || '(no name)');
    [String(one.pid), whole(s.queue_pairs), bits(s.rx_bytes), bits(s.tx_bytes), human(s.drops), human(s.retransmitted), human(s.marked), human(s.cnps)]
      .forEach((text, column) => set(row.children[column + 1], text));
  });
  fillList($('failures'), [...last.failures, ...(last.left_out ? [`${last.left_out} programs are not asked: too many run`] : [])]);
}
function fillList(list, texts) {
  while (list.children.length > texts.length) list.lastElementChild.remove();
  while (list.children.length < texts.length) list.append(make('li'));
  texts.forEach((text, at) => set(list.children[at], text));
}

// [{group, name, value, rate, text}] of the counters of a program of one kind (a letter; '' for all).
function countersOf(program, kind, zeros) {
  const found = [];
  for (const [group, members] of Object.entries(described.programs[program.key] || {})) {
    const moving = program.counters[group] || {};
    for (const [name, [text, kinds]] of Object.entries(members)) {
      if (kind && !kinds.includes(kind)) continue;
      const [value, rate] = moving[name] || [0, 0];
      if (value || zeros) found.push({group, name, value, rate, text});
    }
  }
  return found;
}
const counterHeads = [['Group', 'code'], ['Counter', 'code'], ['Value', 'n'], ['Per second', 'rate'], ['What it counts', 'text']];
const counterRow = one => ({cells: [one.group, one.name, whole(one.value), human(one.rate), one.text], moves: one.rate > 0});

function showProgram() {
  const program = last.programs.find(one => one.key === chosen);
  $('program').hidden = !program;
  if (!program) return;
  set($('program-heading'), `${program.name} (PID ${program.pid})`);
  set($('program-note'), `File prefix ${program.file_prefix}; ` + (program.seconds === null ? 'seen for the first time.' : `rates are those of the last ${program.seconds.toFixed(2)} s.`));
  charts($('program-charts'), program.key);
  table($('ports'), [['Port', 'code'], ['Received', 'n'], ['Packets/s', 'n'], ['Sent', 'n'], ['Packets/s', 'n']],
        Object.entries(program.ports).map(([name, p]) => ({cells: [name, bits(p.rx_bytes), human(p.rx_packets), bits(p.tx_bytes), human(p.tx_packets)]})), 'It has none.');
  const qps = program.queue_pairs;
  table($('states'), [['Engine', 'code'], ['Service', ''], ['State', ''], ['Queue pairs', 'n']],
        qps.states.map(([group, kind, state, count]) => ({cells: [group, kind, state, whole(count)]})),
        program.summary.queue_pairs === null ? 'This program does not tell of queue pairs.' : 'It has none.');
  table($('top'), [['Queue pair', 'code'], ['Engine', 'code'], ['Service', ''], ['State', ''], ['Sent/s', 'n'], ['Received/s', 'n'], ['Sent', 'n'], ['Received', 'n']],
        qps.top.map(([group, number, kind, state, sent, received, allSent, allReceived]) => ({cells: [
          '0x' + number.toString(16).padStart(6, '0'), group, kind, state, human(sent), human(received), whole(allSent), whole(allReceived)]})),
        program.summary.queue_pairs === null ? 'This program does not tell of queue pairs.' : 'It has none.');
  $('histograms-section').hidden = !qps.seen;
  if (qps.seen) histogram($('histograms'), 'rates', 'Queue pairs by packets per second', ...qps.rates);
  const byRate = (a, b) => (b.rate || 0) - (a.rate || 0) || b.value - a.value;
  table($('drops'), counterHeads, countersOf(program, 'd').sort(byRate).map(counterRow), 'Nothing has been dropped.');
  table($('congestion'), counterHeads, countersOf(program, 'c').map(counterRow), 'Nothing has been marked, and no notification came.');
  table($('losses'), counterHeads, countersOf(program, 'l').map(counterRow), 'Nothing was lost.');
  if ($('counters-details').open) {
    const wanted = $('filter').value.toLowerCase();
    const found = countersOf(program, '', $('zeros').checked).filter(one => !wanted || `${one.group} ${one.name} ${one.text}`.toLowerCase().includes(wanted));
    table($('counters'), counterHeads, found.map(counterRow).map(row => ({...row, moves: false})), 'No counter is like that.');
  }
}

function showVerbs() {
  const verbs = last.verbs;
  $('verbs').hidden = !verbs || !verbs.processes.length;
  if ($('verbs').hidden) return;
  set($('verbs-note'), `Segment ${verbs.segment}` + (verbs.problem ? `; ${verbs.problem}` : '') + (verbs.left_out ? `; ${verbs.left_out} processes more` : ''));
  table($('verbs-states'), [['Device', 'code'], ['Type', ''], ['State', ''], ['Queue pairs', 'n']],
        verbs.states.map(([device, kind, state, count]) => ({cells: [device, kind, state, whole(count)]})), 'No queue pairs.');
  table($('verbs-processes'), [['Process', 'code'], ['PID', 'n'], ['Devices', ''], ['QPs', 'n'], ['CQs', 'n'], ['MRs', 'n'], ['Since', '']],
        verbs.processes.map(one => ({cells: [one.comm, String(one.pid), one.devices.join(', '), whole(one.qp), whole(one.cq), whole(one.mr), one.since]})), 'No processes.');
}

function showServer() {
  table($('server'), [['Counter', 'code'], ['Value', 'n'], ['What it counts', 'text']],
        Object.entries(described.server).map(([name, [, text]]) => ({cells: [name, whole(last.server[name] || 0), text]})), 'Nothing yet.');
}

function show() {
  showPrograms();
  charts($('host-charts'), '');
  showProgram();
  showVerbs();
  showServer();
  reachScrolling();
}

// What scrolls sideways can be reached by the keyboard. All sizes are read before anything is changed: the page is laid
// out once.
function reachScrolling() {
  const places = [...document.querySelectorAll('.scroll')];
  const scroll = places.map(place => place.scrollWidth > place.clientWidth);
  places.forEach((place, at) => { if (scroll[at]) place.tabIndex = 0; else place.removeAttribute('tabindex'); });
}

function tell(text, isLost) {
  set($('state'), text);
  $('state').classList.toggle('lost', Boolean(isLost));
}

let lostTold = false;
function listen() {
  const source = new EventSource('/events');
  source.addEventListener('describe', event => {
    described = JSON.parse(event.data);
    set($('host'), `on ${described.host}`);
    document.title = `Rockhopper on ${described.host}`;
  });
  source.addEventListener('sample', event => {
    const sample = JSON.parse(event.data);
    remember(sample);
    if (paused) return;
    last = sample;
    lostTold = false;
    // The clock is for eyes: a status that changed each second would be read out each second.
    tell(`Live, every ${described.interval} s, version ${described.version}.`);
    document.body.dataset.samples = Number(document.body.dataset.samples || 0) + 1;
    show();
  });
  source.addEventListener('error', () => {
    if (lostTold) return;
    lostTold = true;
    tell('The server does not answer; what is shown is old. Trying again.', true);
    // A refusal ends an EventSource for good.
    if (source.readyState === EventSource.CLOSED) setTimeout(() => { lostTold = false; listen(); }, 5000);
  });
}

$('pause').addEventListener('click', () => {
  paused = !paused;
  $('pause').setAttribute('aria-pressed', String(paused));
  tell(paused ? 'Paused; the figures stand still.' : 'Going on with the next update.');
});
function paint(theme) {
  if (theme) document.documentElement.dataset.theme = theme; else delete document.documentElement.dataset.theme;
}
$('theme').addEventListener('change', () => {
  paint($('theme').value);
  try { localStorage.setItem('theme', $('theme').value); } catch { /* a browser may have no storage for us */ }
});
try { $('theme').value = localStorage.getItem('theme') || ''; paint($('theme').value); } catch { /* as above */ }
$('filter').addEventListener('input', () => last && showProgram());
$('zeros').addEventListener('change', () => last && showProgram());
$('counters-details').addEventListener('toggle', () => last && showProgram());
listen();
