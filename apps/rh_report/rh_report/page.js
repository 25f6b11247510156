// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
//
// The pictures of a report. Columns are inflated once; a plot walks over the packets that its stretch of time
// holds and sets pixels, so that a million of them take some ten milliseconds. d3 gives scales, axes, dragging and
// the brush. Nothing of a capture becomes HTML: texts are set as text.
(function () {
'use strict';

const data = JSON.parse(document.getElementById('data').textContent);
const C = {};  // columns by name
const headers = {};  // of an opcode: {width, planes, count}
const KIND = {};
data.classes.forEach((name, index) => { KIND[name] = index; });
const state = {connection: -1, from: 0, to: 1, hidden: new Set(), side: -1, cursor: -1, first: 0};
const TYPES = {time: Float64Array, trip: Float64Array, delay: Float64Array, place: Float64Array, outstanding: Float64Array,
  number: Uint32Array, other: Uint32Array, psn: Uint32Array, length: Uint32Array, wire: Uint32Array, port: Uint16Array,
  pkey: Uint16Array};
const ROWS = 60;  // of a ladder at once
// Kinds that are drawn as glyphs, above the crowd.
const GLYPHS = {
  'retransmission': 'plus', 'duplicate request': 'cross', 'duplicate response': 'cross', 'duplicate ack': 'cross',
  'NAK': 'down', 'RNR NAK': 'square', 'CNP': 'diamond', 'session': 'up', 'connection manager': 'up', 'other': 'square'};

// Data ----------------------------------------------------------------------------------------------------------------

async function inflated(text) {
  const binary = atob(text);
  const bytes = new Uint8Array(binary.length);
  for (let i = 0; i < binary.length; ++i) bytes[i] = binary.charCodeAt(i);
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream('deflate'));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

function undone(bytes, size, Type) {
  const count = bytes.length / size, values = new Type(count);
  // Upper planes are mostly empty.
  let used = size;
  while (used > 1 && bytes.subarray((used - 1) * count, used * count).every(byte => byte === 0)) --used;
  let value = 0;
  for (let i = 0; i < count; ++i) {
    let folded = bytes[i];
    if (used > 1) folded += bytes[count + i] * 256;
    if (used > 2) folded += bytes[2 * count + i] * 65536;
    for (let k = 3, scale = 16777216; k < used; ++k, scale *= 256) folded += bytes[k * count + i] * scale;
    value += bytes[i] & 1 ? -(folded + 1) / 2 : folded / 2;
    values[i] = value;
  }
  return values;
}

async function load() {
  for (const element of document.querySelectorAll('script.column')) {
    const [name, size] = element.dataset.name.split('/');
    if (element.textContent === '') continue;
    const bytes = await inflated(element.textContent);
    element.remove();
    if (name.startsWith('headers:')) {
      const width = Number(size), count = bytes.length / width;
      for (let k = 0; k < width; ++k)
        for (let i = 1, at = k * count + 1; i < count; ++i, ++at) bytes[at] = bytes[at] + bytes[at - 1] & 255;
      headers[Number(name.slice(8))] = {width, count, planes: bytes};
    } else {
      C[name] = undone(bytes, Number(size), TYPES[name] || Uint8Array);
    }
  }
  const seen = new Uint32Array(256);
  C.row = new Uint32Array(data.n);
  for (let i = 0; i < data.n; ++i) C.row[i] = seen[C.opcode[i]]++;
}

const connectionOf = packet => {
  let low = 0, high = data.connections.length - 1;
  while (low < high) {
    const middle = low + high + 1 >> 1;
    if (data.connections[middle].at <= packet) low = middle; else high = middle - 1;
  }
  return low;
};
const direction = packet => C.bits[packet] & 1;
const stream = packet => C.bits[packet] >> 1 & 1;
const isDropped = packet => Boolean(C.bits[packet] & 4);
const isLost = packet => Boolean(C.bits[packet] & 8);
const isMarked = packet => (C.tos[packet] & 3) === 3;
const opcodeOf = packet => data.opcodes[data.connections[connectionOf(packet)].opcodes[C.opcode[packet]]];

function headerBytes(packet) {
  const matrix = headers[C.opcode[packet]];
  if (!matrix) return new Uint8Array(0);
  const bytes = new Uint8Array(matrix.width);
  for (let k = 0; k < matrix.width; ++k) bytes[k] = matrix.planes[k * matrix.count + C.row[packet]];
  return bytes;
}

const hex = (value, digits) => '0x' + value.toString(16).padStart(digits, '0');
const NAMES_OF_LOCKS = ['', 'acquire', 'shared acquire', 'release', '', 'cancel', 'acquire of several', 'foreign acquire', 'foreign release'];
const STATUSES = ['', 'granted', 'waiting', 'failed', 'released', 'flushed', 'canceled'];
const RNR_10US = [65536, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048, 3072,
  4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152];
// Of a credit count's five bits (IBTA vol. 1, 9.7.7.2.5).
const credits = code => code === 31 ? Infinity : code === 0 ? 0 : code % 2 ? 2 ** ((code - 1) / 2) : code === 2 ? 2 : 3 * 2 ** (code / 2 - 2);

function syndrome(code) {
  const kind = code >> 5, low = code & 31;
  if (kind === 0) return 'ACK, ' + (low === 31 ? 'credits not limited' : credits(low) + ' credits');
  if (kind === 1) return 'RNR NAK, timer ' + duration(RNR_10US[low] * 1e4);
  if (kind === 3) return 'NAK: ' + (data.naks[low] || 'code ' + low);
  return 'reserved';
}

const SIZES = {RDETH: 4, DETH: 8, XRCETH: 4, DCSH: 12, DCCH: 48, FETH: 4, RETH: 16, AETH: 4, AtomicETH: 28, AtomicAckETH: 8,
  ImmDt: 4, IETH: 4, LKETH: 40, LKAETH: 24};

// [[name, text]] of the extension headers.
function extensions(packet) {
  const bytes = headerBytes(packet), view = new DataView(bytes.buffer), found = [];
  let at = 0;
  const u24 = place => view.getUint32(place) >>> 8, last24 = place => view.getUint32(place) & 0xFFFFFF;
  const u64 = place => '0x' + view.getBigUint64(place).toString(16).padStart(16, '0');
  for (const name of opcodeOf(packet).headers) {
    if (at + SIZES[name] > bytes.length) { found.push([name, 'not captured']); break; }
    let text;
    if (name === 'RETH') text = `VA ${u64(at)}, R_Key ${hex(view.getUint32(at + 8), 8)}, length ${view.getUint32(at + 12)}`;
    else if (name === 'AETH') text = `syndrome ${hex(bytes[at], 2)} (${syndrome(bytes[at])}), MSN ${last24(at)}`;
    else if (name === 'AtomicETH') text = `VA ${u64(at)}, R_Key ${hex(view.getUint32(at + 8), 8)}, swap or add ${u64(at + 12)}, compare ${u64(at + 20)}`;
    else if (name === 'AtomicAckETH') text = `original ${u64(at)}`;
    else if (name === 'ImmDt') text = hex(view.getUint32(at), 8);
    else if (name === 'IETH') text = `R_Key ${hex(view.getUint32(at), 8)}`;
    else if (name === 'DETH') text = `Q_Key ${hex(view.getUint32(at), 8)}, source QP ${hex(last24(at + 4), 6)}`;
    else if (name === 'DCSH') {
      const word = view.getUint32(at), form = word >>> 31;
      text = `stream ${word >>> 24 & 127}, source ${hex(word & 0xFFFFFF, 6)}, ` + (form ? `session ${u64(at + 4)}` : `nonce ${hex(view.getUint32(at + 4), 8)}`);
    } else if (name === 'LKETH') {
      text = `${NAMES_OF_LOCKS[bytes[at]] || 'subtype ' + bytes[at]} of scope ${view.getUint16(at + 2)}, flags ${hex(bytes[at + 1], 2)}, R_Key ${hex(view.getUint32(at + 4), 8)}, word ${u64(at + 8)}, ` +
        `tries ${view.getUint16(at + 16)}, wait ${view.getUint32(at + 20)} us, lease ${view.getUint32(at + 28)} us, scope PSNs ${view.getUint16(at + 32)}`;
    } else if (name === 'LKAETH') {
      text = `${STATUSES[bytes[at]] || 'status ' + bytes[at]}, cause ${bytes[at + 1]}, scope ${view.getUint16(at + 2)}, MSN ${u24(at + 4)}, previous word ${u64(at + 8)}, value ${u64(at + 16)}`;
    } else if (name === 'XRCETH') text = `SRQ ${hex(last24(at), 6)}`;
    else text = Array.from(bytes.slice(at, at + SIZES[name]), byte => byte.toString(16).padStart(2, '0')).join(' ');
    found.push([name, text]);
    at += SIZES[name];
  }
  return found;
}

function duration(ns) {
  for (const [unit, size] of [['s', 1e9], ['ms', 1e6], ['us', 1e3]]) if (Math.abs(ns) >= size) return +(ns / size).toPrecision(4) + ' ' + unit;
  return +ns.toPrecision(4) + ' ns';
}
const seconds = ns => (ns / 1e9).toFixed(9) + ' s';
function bytesText(value) {
  for (const [unit, size] of [['GB', 1e9], ['MB', 1e6], ['kB', 1e3]]) if (value >= size) return +(value / size).toPrecision(4) + ' ' + unit;
  return value + ' B';
}
function rate(value) {
  for (const [unit, size] of [['Gbit/s', 1e9], ['Mbit/s', 1e6], ['kbit/s', 1e3]]) if (value >= size) return +(value / size).toPrecision(3) + ' ' + unit;
  return Math.round(value) + ' bit/s';
}

function number(packet) {
  let text = 'frame ' + C.number[packet];
  if (C.file) {
    text += ' of ' + data.files[C.file[packet]];
    if (C.other[packet]) text += `, ${C.other[packet]} of the other`;
  }
  return text;
}

// All that is known of a packet: [[name, text]].
function decoded(packet) {
  const c = data.connections[connectionOf(packet)], way = direction(packet), at = packet - c.at;
  const qpn = way === 0 ? c.qpnB : c.qpnA;
  const ecn = ['not ECT', 'ECT(1)', 'ECT(0)', 'CE'][C.tos[packet] & 3], flags = C.flags[packet];
  const found = [
    ['packet', number(packet)],
    ['time', seconds(C.time[packet]) + ' after the first'],
    ['it is', data.classes[C.kind[packet]]],
    ['IP', `${way === 0 ? c.ipA : c.ipB} > ${way === 0 ? c.ipB : c.ipA}, DSCP ${C.tos[packet] >> 2}, ${ecn}, TTL ${C.ttl[packet]}`],
    ['UDP', `source port ${C.port[packet]}`],
    ['BTH', `${opcodeOf(packet).name} (${hex(C.opcode[packet], 2)}), PSN ${C.psn[packet]} (${hex(C.psn[packet], 6)})` + (qpn && c.kind !== 'CM' ? `, to QP ${hex(qpn, 6)}` : '') +
      `, P_Key ${hex(C.pkey[packet], 4)}` + (C.ack_request[packet] & 128 ? ', AckReq' : '') + (flags & 128 ? ', SE' : '') + (flags & 64 ? ', MigReq' : '') +
      (flags >> 4 & 3 ? `, pad ${flags >> 4 & 3}` : '') + (C.marks[packet] & 128 ? ', FECN' : '') + (C.marks[packet] & 64 ? ', BECN' : '')],
    ...extensions(packet)];
  if (c.texts[at] !== undefined) found.push(['message', c.texts[at]]);
  found.push(['payload', C.length[packet] + ' bytes of a frame of ' + C.wire[packet]]);
  if (C.trip[packet]) found.push(['round trip', duration(C.trip[packet]) + ' since its request']);
  if (C.delay && C.other[packet]) found.push(['on the way', duration(C.delay[packet]) + ' between the captures']);
  if (isDropped(packet)) found.push(['dropped', c.reasons[at] || 'yes']);
  if (isLost(packet)) found.push(['lost', 'it is not in the other capture']);
  for (const one of findingsAt(packet)) found.push(['finding', `${one[0]}: ${one[3]}`]);
  return found;
}

let byPacket = null;
function findingsAt(packet) {
  if (byPacket === null) {
    byPacket = new Map();
    for (const one of data.findings) {
      if (one[1] < 0) continue;
      const key = data.connections[one[1]].at + one[2];
      if (!byPacket.has(key)) byPacket.set(key, []);
      byPacket.get(key).push(one);
    }
  }
  return byPacket.get(packet) || [];
}

// Elements ------------------------------------------------------------------------------------------------------------

function make(tag, attributes, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) {
    if (name.startsWith('on')) element.addEventListener(name.slice(2), value); else element.setAttribute(name, value);
  }
  for (const child of children) if (child !== null) element.append(child);
  return element;
}
const style = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const colour = kind => style('--c' + kind);
// A pixel of image data, in the byte order of all machines that run browsers.
function abgr(text) {
  const value = parseInt(text.slice(1), 16);
  return (255 << 24 | (value & 255) << 16 | (value >> 8 & 255) << 8 | value >> 16) >>> 0;
}

const hoverBox = document.getElementById('hover');
function showHover(packet, x, y) {
  const rows = decoded(packet);
  hoverBox.replaceChildren();
  for (const [name, text] of rows) hoverBox.append(make('b', {}, name + ' '), text + '\n');
  hoverBox.dataset.packet = packet;
  hoverBox.style.display = 'block';
  const box = hoverBox.getBoundingClientRect();
  hoverBox.style.left = Math.max(4, Math.min(x + 16, innerWidth - box.width - 8)) + 'px';
  hoverBox.style.top = Math.max(4, y + 18 + box.height > innerHeight ? y - box.height - 12 : y + 18) + 'px';
}
function hideHover() { hoverBox.style.display = 'none'; }

function glyph(context, shape, x, y, size) {
  context.beginPath();
  if (shape === 'plus') { context.moveTo(x - size, y); context.lineTo(x + size, y); context.moveTo(x, y - size); context.lineTo(x, y + size); context.stroke(); return; }
  if (shape === 'cross') { context.moveTo(x - size, y - size); context.lineTo(x + size, y + size); context.moveTo(x + size, y - size); context.lineTo(x - size, y + size); context.stroke(); return; }
  if (shape === 'ring') { context.arc(x, y, size + 1, 0, 7); context.stroke(); return; }
  if (shape === 'down') { context.moveTo(x - size, y - size); context.lineTo(x + size, y - size); context.lineTo(x, y + size); }
  else if (shape === 'up') { context.moveTo(x - size, y + size); context.lineTo(x + size, y + size); context.lineTo(x, y - size); }
  else if (shape === 'diamond') { context.moveTo(x - size, y); context.lineTo(x, y - size); context.lineTo(x + size, y); context.lineTo(x, y + size); }
  else context.rect(x - size, y - size, 2 * size, 2 * size);
  context.fill();
}

// Plots over time -----------------------------------------------------------------------------------------------------

const MARGIN = {left: 66, right: 14, top: 20, bottom: 24};
const plots = [];

class Plot {
  // `walk(packet, use)` says where a packet is in this plot; `format` writes the numbers at the axis.
  constructor(parent, height, title, label, format) {
    this.box = make('div', {class: 'plot', tabindex: '0', role: 'application', 'aria-label': label, style: `height:${height}px`});
    this.canvas = make('canvas');
    this.svg = d3.select(this.box).append('svg');
    this.box.prepend(this.canvas);
    this.box.append(make('span', {class: 'title'}, title));
    parent.append(this.box);
    this.height = height;
    this.format = format;
    this.x = d3.scale.linear();
    this.y = d3.scale.linear();
    this.grid = this.svg.append('g').attr('class', 'grid');
    this.xAxis = this.svg.append('g').attr('class', 'axis');
    this.yAxis = this.svg.append('g').attr('class', 'axis');
    this.points = [];
    const drag = d3.behavior.drag().on('drag', () => pan(-d3.event.dx / (this.x.range()[1] - this.x.range()[0])));
    d3.select(this.box).call(drag);
    this.box.addEventListener('wheel', event => {
      if (!event.ctrlKey && document.activeElement !== this.box) return;
      event.preventDefault();
      const place = (event.offsetX - MARGIN.left) / (this.x.range()[1] - this.x.range()[0]);
      if (event.shiftKey) pan((event.deltaY || event.deltaX) / 1000); else zoom(Math.exp(event.deltaY * .002), Math.min(1, Math.max(0, place)));
    }, {passive: false});
    this.box.addEventListener('dblclick', event => zoom(1 / 4, (event.offsetX - MARGIN.left) / (this.x.range()[1] - this.x.range()[0])));
    this.box.addEventListener('mousemove', event => {
      const box = this.box.getBoundingClientRect(), packet = this.nearest(event.clientX - box.left, event.clientY - box.top);
      this.hovered = packet;
      if (packet >= 0) showHover(packet, event.clientX, event.clientY); else hideHover();
    });
    this.box.addEventListener('mouseleave', hideHover);
    this.box.addEventListener('click', () => { if (this.hovered >= 0) select(this.hovered, true); });
    this.box.addEventListener('keydown', keys);
    this.box.addEventListener('blur', hideHover);
  }

  prepare() {
    // It has none while the page is not laid out.
    this.width = Math.max(this.box.clientWidth, MARGIN.left + MARGIN.right + 20);
    this.ratio = devicePixelRatio || 1;
    this.canvas.width = this.width * this.ratio;
    this.canvas.height = this.height * this.ratio;
    this.x.range([MARGIN.left, this.width - MARGIN.right]).domain([state.from, state.to]);
    this.y.range([this.height - MARGIN.bottom, MARGIN.top]);
    this.context = this.canvas.getContext('2d');
    this.context.scale(this.ratio, this.ratio);
  }

  axes() {
    const step = (state.to - state.from) / 6, [unit, size] = step >= 2e8 ? ['s', 1e9] : step >= 2e5 ? ['ms', 1e6] : step >= 2e2 ? ['us', 1e3] : ['ns', 1];
    const xs = d3.svg.axis().scale(this.x).orient('bottom').ticks(Math.max(2, this.width / 150)).tickFormat(value => +(value / size).toPrecision(12) + ' ' + unit);
    const ys = d3.svg.axis().scale(this.y).orient('left').ticks(Math.max(2, this.height / 50)).tickFormat(this.format);
    this.xAxis.attr('transform', `translate(0,${this.height - MARGIN.bottom})`).call(xs);
    this.yAxis.attr('transform', `translate(${MARGIN.left},0)`).call(ys);
    this.grid.attr('transform', `translate(${MARGIN.left},0)`).call(d3.svg.axis().scale(this.y).orient('left')
      .ticks(Math.max(2, this.height / 50)).tickSize(-(this.width - MARGIN.left - MARGIN.right), 0).tickFormat(''));
  }

  // Null for a packet that is not in this plot.
  value(packet) {
    if (!this.kinds[C.kind[packet]] || !isShown(packet)) return null;
    const v = this.values[packet - this.base];
    return v !== v || this.skipZero && v === 0 ? null : v;
  }

  nearest(mouseX, mouseY) {
    let best = -1, least = 18 * 18;
    const reach = (state.to - state.from) / (this.x.range()[1] - this.x.range()[0]) * 18;
    const time = this.x.invert(mouseX), c = data.connections[state.connection];
    const [first, last] = range(c, time - reach, time + reach);
    for (let i = first; i < last; ++i) {
      const value = this.value(i);
      if (value === null) continue;
      const dx = this.x(C.time[i]) - mouseX, dy = this.y(value) - mouseY, away = dx * dx + dy * dy - (GLYPHS[data.classes[C.kind[i]]] ? 12 : 0);
      if (away < least) { least = away; best = i; }
    }
    return best;
  }
}

const isShown = packet => {
  if (state.side >= 0 && stream(packet) !== state.side) return false;
  return !state.hidden.has(C.kind[packet]);
};

function range(c, from, to) {
  const bound = value => {
    let low = c.at, high = c.at + c.n;
    while (low < high) {
      const middle = low + high >> 1;
      if (C.time[middle] < value) low = middle + 1; else high = middle;
    }
    return low;
  };
  return [bound(from), bound(to + .5)];
}

// Puts every packet of the stretch into the pixels, and what is rare on top. `values` has one for each packet from
// `base` on; `kinds` says which are in this plot; NaN, and 0 with `skipZero`, are no value.
function draw(plot, values, base, kinds, options) {
  plot.values = values;
  plot.base = base;
  plot.kinds = kinds;
  plot.skipZero = Boolean(options.skipZero);
  plot.prepare();
  const c = data.connections[state.connection], [first, last] = range(c, state.from, state.to);
  const shown = new Uint8Array(256), {time, kind, bits, tos} = C, side = state.side, skipZero = plot.skipZero;
  data.classes.forEach((_, index) => { shown[index] = kinds[index] && !state.hidden.has(index) ? 1 : 0; });
  let low = Infinity, high = -Infinity, count = 0;
  for (let i = first; i < last; ++i) {
    if (!shown[kind[i]] || side >= 0 && (bits[i] >> 1 & 1) !== side) continue;
    const v = values[i - base];
    if (v !== v || skipZero && v === 0) continue;
    ++count;
    if (v < low) low = v;
    if (v > high) high = v;
  }
  if (options.zero) low = Math.min(0, low);
  const isEmpty = !(low <= high);
  if (isEmpty) { low = 0; high = 1; }
  const margin = (high - low) * .06 || 1;
  plot.y.domain([options.zero ? low : low - margin, high + margin]);
  plot.axes();
  plot.yAxis.style('display', isEmpty ? 'none' : null);
  plot.grid.style('display', isEmpty ? 'none' : null);
  const {context, ratio, canvas} = plot, image = context.createImageData(canvas.width, canvas.height);
  const pixels = new Uint32Array(image.data.buffer), width = canvas.width, height = canvas.height;
  const inks = Uint32Array.from(data.classes, (_, index) => abgr(options.ink || colour(index)));
  const special = Uint8Array.from(data.classes, name => options.glyphs && GLYPHS[name] ? 1 : 0), found = [];
  const x0 = plot.x.range()[0] * ratio, kx = (plot.x.range()[1] - plot.x.range()[0]) * ratio / (state.to - state.from || 1);
  const y0 = plot.y(0) * ratio, ky = (plot.y(1) - plot.y(0)) * ratio, from = state.from;
  const dot = Math.max(2, Math.round((last - first < 3000 ? 4 : last - first < 50000 ? 3 : 2) * ratio)), half = dot >> 1;
  let before = -1;
  for (let i = first; i < last; ++i) {
    const k = kind[i];
    if (!shown[k] || side >= 0 && (bits[i] >> 1 & 1) !== side) continue;
    const v = values[i - base];
    if (v !== v || skipZero && v === 0) continue;
    if (special[k] || options.glyphs && (bits[i] & 12 || (tos[i] & 3) === 3)) found.push(i);
    const x = Math.round(x0 + (time[i] - from) * kx) - half, y = Math.round(y0 + v * ky) - half;
    const key = (y * width + x) * 16 + k;
    if (key === before) continue;
    before = key;
    const ink = inks[k], x1 = Math.min(width, x + dot), y1 = Math.min(height, y + dot);
    for (let py = Math.max(0, y); py < y1; ++py) for (let px = Math.max(0, x), at = py * width + px; px < x1; ++px) pixels[at++] = ink;
  }
  context.putImageData(image, 0, 0);
  if (!count) {
    context.fillStyle = style('--soft');
    context.textAlign = 'center';
    context.fillText('none in this stretch', plot.width / 2, plot.height / 2);
  }
  if (options.steps && last - first < 20000) steps(plot, first, last, options.ink || colour(0));
  if (options.glyphs) glyphs(plot, found);
  if (state.cursor >= first && state.cursor < last) cursor(plot);
  return count;
}

function steps(plot, first, last, ink) {
  const context = plot.context;
  context.strokeStyle = ink;
  context.lineWidth = 1;
  context.beginPath();
  let before = null;
  for (let i = first; i < last; ++i) {
    const v = plot.value(i);
    if (v === null) continue;
    const x = plot.x(C.time[i]), y = plot.y(v);
    if (before === null) context.moveTo(x, y); else { context.lineTo(x, before); context.lineTo(x, y); }
    before = y;
  }
  context.stroke();
}

// What is worse stands in front.
const RANK = ['CNP', 'session', 'connection manager', 'other', 'duplicate ack', 'duplicate response', 'duplicate request', 'retransmission', 'RNR NAK', 'NAK'];

function glyphs(plot, special) {
  const context = plot.context, taken = new Set(), size = special.length < 300 ? 5 : special.length < 1500 ? 4 : 3;
  const rank = data.classes.map(name => RANK.indexOf(name)), inks = data.classes.map((_, kind) => colour(kind));
  const ring = colour(KIND.CNP), bad = style('--bad');
  for (const i of special.sort((one, two) => rank[C.kind[one]] - rank[C.kind[two]])) {
    const x = plot.x(C.time[i]), y = plot.y(plot.values[i - plot.base]), kind = C.kind[i];
    // Of a crowd in one place one is drawn.
    const key = ((kind * 16 + (C.bits[i] & 12)) * 4096 + Math.round(x / 3)) * 4096 + Math.round(y / 3);
    if (taken.has(key)) continue;
    taken.add(key);
    context.lineWidth = size > 3 ? 2 : 1.2;
    context.fillStyle = context.strokeStyle = inks[kind];
    const shape = GLYPHS[data.classes[kind]];
    if (shape) glyph(context, shape, x, y, kind === KIND.CNP ? size - 1 : size);
    if (isMarked(i)) { context.strokeStyle = ring; context.lineWidth = 1; glyph(context, 'ring', x, y, size); }
    if (isDropped(i) || isLost(i)) { context.strokeStyle = bad; context.lineWidth = 1.5; glyph(context, 'cross', x, y, size); }
  }
  const [from, to] = range(data.connections[state.connection], state.from, state.to);
  context.fillStyle = style('--bad');
  findingsAt(-1);
  let lastX = -9;
  for (const [packet] of [...byPacket].filter(([at]) => at >= from && at < to).sort((one, two) => one[0] - two[0])) {
    const x = plot.x(C.time[packet]);
    if (x - lastX < 2) continue;
    lastX = x;
    glyph(context, 'down', x, MARGIN.top - 5, 5);
    context.fillRect(x - .5, MARGIN.top, 1, plot.height - MARGIN.top - MARGIN.bottom);
  }
}

function cursor(plot) {
  const value = plot.value(state.cursor), context = plot.context;
  context.strokeStyle = style('--ink');
  context.lineWidth = 1;
  context.setLineDash([4, 3]);
  const x = plot.x(C.time[state.cursor]);
  context.beginPath();
  context.moveTo(x, MARGIN.top);
  context.lineTo(x, plot.height - MARGIN.bottom);
  context.stroke();
  context.setLineDash([]);
  if (value !== null) glyph(context, 'ring', x, plot.y(value), 7);
}

function setRange(from, to) {
  const span = Math.max(1, data.span), width = Math.max(20, Math.min(to - from, span * 1.05));
  from = Math.max(-span * .02, Math.min(from, span * 1.02 - width));
  state.from = from;
  state.to = from + width;
  redraw();
}
function zoom(factor, place = .5) {
  const width = (state.to - state.from) * factor, middle = state.from + (state.to - state.from) * place;
  setRange(middle - width * place, middle + width * (1 - place));
}
function pan(part) { const by = (state.to - state.from) * part; setRange(state.from + by, state.to + by); }
function wholeConnection() {
  const c = data.connections[state.connection];
  if (!c.n) return;
  const from = C.time[c.at], to = C.time[c.at + c.n - 1], margin = (to - from) * .02 || 500;
  state.from = from - margin;
  state.to = to + margin;
  redraw();
}

function keys(event) {
  const c = data.connections[state.connection];
  const step = way => {
    let at = state.cursor < 0 ? range(c, state.from, state.to)[0] - way : state.cursor;
    do at += way; while (at >= c.at && at < c.at + c.n && !isShown(at));
    if (at >= c.at && at < c.at + c.n) select(at, false, true);
  };
  const actions = {
    ArrowLeft: () => pan(-.1), ArrowRight: () => pan(.1), '+': () => zoom(.5), '=': () => zoom(.5), '-': () => zoom(2),
    Home: wholeConnection, n: () => step(1), p: () => step(-1), Enter: () => { if (state.cursor >= 0) openLadder(state.cursor); },
    Escape: hideHover};
  const action = actions[event.key];
  if (!action || event.ctrlKey || event.metaKey || event.altKey) return;
  event.preventDefault();
  action();
}

let pending = 0;
function redraw() {
  if (pending) return;
  pending = requestAnimationFrame(() => {
    pending = 0;
    redrawNow();
  });
}

// Credits of each packet of a connection, where they are limited; null if no ACK tells any.
let creditsOf = [-1, null];
function creditColumn(index) {
  if (creditsOf[0] === index) return creditsOf[1];
  const c = data.connections[index], found = new Float64Array(c.n).fill(NaN);
  let most = 0;
  const places = new Map();
  for (const [opcode, id] of Object.entries(c.opcodes)) {
    const matrix = headers[opcode], names = data.opcodes[id].headers, at = names[0] === 'DCSH' ? 12 : 0;
    if (matrix && names.includes('AETH')) places.set(Number(opcode), [matrix, at]);
  }
  for (let i = c.at; i < c.at + c.n; ++i) {
    if (C.kind[i] !== KIND.ack && C.kind[i] !== KIND['duplicate ack']) continue;
    const place = places.get(C.opcode[i]);
    if (!place) continue;
    const value = credits(place[0].planes[place[1] * place[0].count + C.row[i]] & 31);
    if (!Number.isFinite(value)) continue;
    found[i - c.at] = value;
    if (value > most) most = value;
  }
  creditsOf = [index, most ? found : null];
  return creditsOf[1];
}

const EVERY = data.classes.map(() => true);
const ASKED = data.classes.map(name => !['datagram', 'CNP', 'session', 'connection manager', 'other'].includes(name));
function redrawNow() {
  if (state.connection < 0) return;
  const c = data.connections[state.connection], credit = creditColumn(state.connection);
  state.shown = draw(plots[0], C.place, 0, EVERY, {glyphs: true});
  plots[1].box.classList.toggle('off', !c.timed);
  plots[2].box.classList.toggle('off', !c.timed);
  plots[3].box.classList.toggle('off', !credit);
  if (c.timed) draw(plots[1], C.outstanding, 0, ASKED, {steps: true, zero: true, ink: colour(0)});
  if (c.timed) draw(plots[2], C.trip, 0, EVERY, {zero: true, skipZero: true, ink: colour(3)});
  if (credit) draw(plots[3], credit, c.at, EVERY, {steps: true, zero: true, ink: colour(1)});
  document.getElementById('stretch').textContent =
    `${seconds(Math.max(0, state.from))} to ${seconds(state.to)} (${duration(state.to - state.from)}), ${state.shown} packets shown`;
}

// The ladder ----------------------------------------------------------------------------------------------------------

const SVG = 'http://www.w3.org/2000/svg';
function shape(tag, attributes, text) {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  if (text !== undefined) element.textContent = text;
  return element;
}

function shortText(packet) {
  const c = data.connections[connectionOf(packet)], kind = C.kind[packet], at = packet - c.at;
  let text = opcodeOf(packet).name;
  if (c.texts[at] !== undefined && kind === KIND['connection manager']) text = 'CM ' + c.texts[at];
  else if (c.texts[at] !== undefined) text = 'DC ' + c.texts[at];
  else {
    text += `  PSN ${C.psn[packet]}`;
    if (C.length[packet]) text += `  ${C.length[packet]} B`;
    const more = extensions(packet).filter(([name]) => name === 'AETH' || name === 'LKETH' || name === 'LKAETH');
    for (const [name, words] of more) text += name === 'AETH' ? '  ' + words.replace(/^syndrome 0x.. \((.*)\), (MSN .*)$/, '$1, $2') : '  ' + words.split(', ').slice(0, 1)[0];
    if (kind >= KIND.NAK && kind <= KIND['duplicate ack'] && kind !== KIND.NAK && kind !== KIND['RNR NAK']) text = `${data.classes[kind]}: ${text}`;
  }
  if (isMarked(packet)) text += '  [CE]';
  if (isDropped(packet)) text += `  dropped${c.reasons[at] ? ': ' + c.reasons[at] : ''}`;
  if (isLost(packet)) text += '  lost on the way';
  return text;
}

function drawLadder() {
  const holder = document.getElementById('ladder'), c = data.connections[state.connection];
  const last = Math.min(c.at + c.n, state.first + ROWS), width = Math.max(720, holder.clientWidth);
  const left = 190, right = width - 60, rows = [];
  let y = 54;
  const svg = shape('svg', {width, role: 'group', 'aria-label': 'packets between the two ends, in the order of time'});
  const lines = shape('g', {});
  svg.append(lines);
  const places = new Map();
  // A wait is what is long beside the others here.
  const waits = d3.range(state.first + 1, last).map(i => C.time[i] - C.time[i - 1]), long = Math.max(2000, 12 * (d3.median(waits) || 0));
  for (let i = state.first; i < last; ++i) {
    const waited = i > state.first ? C.time[i] - C.time[i - 1] : 0;
    if (waited > long) {
      svg.append(shape('text', {x: (left + right) / 2, y: y + 12, 'text-anchor': 'middle', class: 'wait'}, `… ${duration(waited)} …`));
      y += 20;
    }
    rows.push(ladderRow(i, y, left, right, width));
    places.set(i, y + 15);
    y += 26;
  }
  for (const end of [left, right]) lines.append(shape('line', {x1: end, x2: end, y1: 40, y2: y + 6, stroke: style('--soft')}));
  svg.append(shape('text', {x: left, y: 22, 'text-anchor': 'middle', 'font-weight': 600}, c.a));
  svg.append(shape('text', {x: Math.min(right, width - 90), y: 22, 'text-anchor': 'middle', 'font-weight': 600}, c.b));
  svg.append(shape('text', {x: 8, y: 22, class: 'soft'}, C.file ? 'file: frame, time' : 'frame, time'));
  for (const [index, span] of c.spans.entries()) {
    const [kind, text, at, to] = span;
    if (c.at + to < state.first || c.at + at >= last) continue;
    const from = places.get(c.at + at) || 42, end = places.get(c.at + to) || y, x = right + 12 + index % 4 * 10;
    const ink = kind === 'lock' ? colour(KIND.CNP) : colour(KIND.session);
    const bar = shape('rect', {x, y: from, width: 6, height: Math.max(6, end - from), fill: ink, rx: 3, class: 'span'});
    bar.append(shape('title', {}, `${kind === 'cm' ? 'connection manager' : kind}: ${text}`));
    svg.append(bar);
  }
  for (const row of rows) svg.append(row);
  svg.setAttribute('height', y + 16);
  holder.replaceChildren(svg);
  document.getElementById('ladder-place').textContent =
    c.n ? `packets ${state.first - c.at + 1} to ${last - c.at} of ${c.n}` : 'no packets';
}

function ladderRow(packet, y, left, right, width) {
  const way = direction(packet), ink = colour(C.kind[packet]), from = way === 0 ? left : right, to = way === 0 ? right : left;
  const found = findingsAt(packet), bad = found.length > 0;
  const row = shape('g', {class: 'row' + (packet === state.cursor ? ' chosen' : ''), tabindex: '0', role: 'button', 'data-packet': packet});
  row.append(shape('rect', {class: 'hit', x: 2, y: y - 4, width: width - 4, height: 25, fill: 'transparent', rx: 3}));
  row.append(shape('text', {x: 8, y: y + 12, class: 'mono'}, C.file ? `${C.file[packet] + 1}: ${C.number[packet]}` : `${C.number[packet]}`));
  row.append(shape('text', {x: left - 12, y: y + 12, 'text-anchor': 'end', class: 'soft mono'}, `${(C.time[packet] / 1e6).toFixed(6)} ms`));
  // What is lost gets nowhere; what is dropped, to its receiver.
  const broken = isDropped(packet) || isLost(packet), end = isLost(packet) ? from + (to - from) * .55 : isDropped(packet) ? from + (to - from) * .97 : to, head = way === 0 ? -7 : 7;
  row.append(shape('line', {x1: from, y1: y + 15, x2: end, y2: y + 15, stroke: ink, 'stroke-width': bad ? 2.5 : 1.5,
    'stroke-dasharray': /dup|retrans/.test(data.classes[C.kind[packet]]) ? '6 3' : 'none'}));
  if (broken) row.append(shape('text', {x: end, y: y + 19, 'text-anchor': 'middle', class: 'bad', 'font-weight': 700}, '✕'));
  else row.append(shape('path', {d: `M${to},${y + 15}l${head},-4v8z`, fill: ink}));
  const text = shortText(packet), words = shape('text', {x: (left + right) / 2, y: y + 10, 'text-anchor': 'middle'}, text);
  row.append(words);
  if (bad) {
    words.setAttribute('class', 'bad');
    words.textContent = `▲ ${found.map(one => one[0]).join(', ')}: ${text}`;
  }
  row.append(shape('title', {}, decoded(packet).map(([name, value]) => `${name}: ${value}`).join('\n')));
  row.setAttribute('aria-label', `${number(packet)}, ${way === 0 ? 'to the right' : 'to the left'}, ${words.textContent}`);
  row.addEventListener('click', () => select(packet, false));
  row.addEventListener('keydown', event => {
    if (event.key === 'Enter' || event.key === ' ') { event.preventDefault(); select(packet, false); }
    const next = event.key === 'ArrowDown' ? packet + 1 : event.key === 'ArrowUp' ? packet - 1 : -1;
    if (next >= 0) {
      event.preventDefault();
      const other = document.querySelector(`#ladder [data-packet="${next}"]`);
      if (other) other.focus();
    }
  });
  return row;
}

function openLadder(packet, scroll = true) {
  const c = data.connections[state.connection];
  state.first = Math.max(c.at, Math.min(packet - 8, c.at + c.n - ROWS));
  state.cursor = packet;
  drawLadder();
  showPacket(packet);
  redraw();
  if (scroll) {
    document.getElementById('ladder-title').scrollIntoView();
    const row = document.querySelector(`#ladder [data-packet="${packet}"]`);
    if (row) row.focus({preventScroll: true});
  }
}

function turnLadder(by) {
  const c = data.connections[state.connection];
  state.first = Math.max(c.at, Math.min(state.first + by, c.at + Math.max(0, c.n - ROWS)));
  drawLadder();
}

function showPacket(packet) {
  const list = make('dl');
  for (const [name, text] of decoded(packet)) list.append(make('dt', {}, name), make('dd', {}, text));
  const parts = [make('h3', {}, `Packet: ${number(packet)}`), list];
  for (const [rule] of findingsAt(packet))
    parts.push(make('p', {}, make('a', {href: '#rule-' + rule, class: 'rule'}, rule), `: ${data.rules[rule][1]} [${data.rules[rule][0]}]`));
  document.getElementById('packet').replaceChildren(...parts);
}

// Chooses a packet in all pictures.
function select(packet, ladder, keyboard) {
  state.cursor = packet;
  if (keyboard && (C.time[packet] < state.from || C.time[packet] > state.to)) {
    const half = (state.to - state.from) / 2;
    setRange(C.time[packet] - half, C.time[packet] + half);
  }
  showPacket(packet);
  document.getElementById('said').textContent = decoded(packet).map(([name, text]) => `${name} ${text}`).join('; ');
  if (ladder || packet < state.first || packet >= state.first + ROWS) openLadder(packet, false);
  else drawLadder();
  redraw();
}

// Distributions -------------------------------------------------------------------------------------------------------

function histogram(title, found) {
  const width = 460, height = 190, margin = {left: 52, right: 34, top: 10, bottom: 26};
  const figure = make('figure');
  const svg = d3.select(figure).append('svg').attr('viewBox', `0 0 ${width} ${height}`).attr('role', 'img').attr('aria-label', title);
  const bounds = [found.bins[0][0], found.bins[found.bins.length - 1][1]];
  const x = (found.isWide ? d3.scale.log() : d3.scale.linear()).domain(bounds).range([margin.left, width - margin.right]);
  const y = d3.scale.linear().domain([0, d3.max(found.bins, bin => bin[2])]).range([height - margin.bottom, margin.top]);
  svg.selectAll('rect').data(found.bins).enter().append('rect').attr('x', bin => x(bin[0]))
    .attr('width', bin => Math.max(1, x(bin[1]) - x(bin[0]) - 1)).attr('y', bin => y(bin[2])).attr('height', bin => y(0) - y(bin[2]))
    .style('fill', 'var(--c0)').append('title').text(bin => `${duration(bin[0])} to ${duration(bin[1])}: ${bin[2]}`);
  const powers = d3.range(0, 13).map(power => 10 ** power).filter(value => value >= bounds[0] && value <= bounds[1]);
  const axis = d3.svg.axis().scale(x).tickFormat(duration);
  if (found.isWide && powers.length > 1) axis.tickValues(powers); else if (found.isWide) axis.tickValues(bounds); else axis.ticks(4);
  svg.append('g').attr('class', 'axis').attr('transform', `translate(0,${height - margin.bottom})`).call(axis);
  svg.append('g').attr('class', 'axis').attr('transform', `translate(${margin.left},0)`).call(d3.svg.axis().scale(y).orient('left').ticks(4));
  const q = found.quantiles;
  figure.append(make('figcaption', {}, `${title}: ${q.count} values; p50 ${duration(q.p50)}, p90 ${duration(q.p90)}, p99 ${duration(q.p99)}, p99.9 ${duration(q['p99.9'])}, max ${duration(q.max)}`));
  return figure;
}

// One connection ------------------------------------------------------------------------------------------------------

function choose(index, packet) {
  const c = data.connections[index];
  if (!c) return;
  const isNew = state.connection !== index;
  state.connection = index;
  if (isNew) {
    state.cursor = -1;
    state.first = c.at;
    state.side = -1;
    document.getElementById('which').value = index;
    for (const row of document.querySelectorAll('#connections tr')) row.classList.toggle('chosen', Boolean(row.querySelector(`a[href="#c${index}"]`)));
    const sides = document.getElementById('side');
    sides.replaceChildren(make('option', {value: -1}, 'both directions'), make('option', {value: 0}, `requests of ${c.a}`), make('option', {value: 1}, `requests of ${c.b}`));
    legend(c);
    tables(c);
    const few = new Float64Array(C.time.buffer, c.at * 8, c.n);
    const margin = c.n ? (few[c.n - 1] - few[0]) * .02 || 500 : 1;
    state.from = c.n ? few[0] - margin : 0;
    state.to = c.n ? few[c.n - 1] + margin : 1;
  }
  if (packet !== undefined && packet < c.n) {
    const at = c.at + packet, near = [Math.max(c.at, at - 60), Math.min(c.at + c.n - 1, at + 60)];
    const from = C.time[near[0]], to = C.time[near[1]], margin = (to - from) * .05 || 500;
    state.from = from - margin;
    state.to = to + margin;
    redrawNow();
    openLadder(at);
  } else {
    redrawNow();
    drawLadder();
    document.getElementById('packet').replaceChildren();
  }
}

function legend(c) {
  const counts = new Map();
  let marks = 0;
  for (let i = c.at; i < c.at + c.n; ++i) {
    counts.set(C.kind[i], (counts.get(C.kind[i]) || 0) + 1);
    marks += isMarked(i);
  }
  const box = document.getElementById('kinds');
  box.replaceChildren();
  for (const kind of [...counts.keys()].sort((one, two) => one - two)) {
    const name = data.classes[kind], tick = make('input', {type: 'checkbox', 'data-kind': kind});
    tick.checked = !state.hidden.has(kind);
    tick.addEventListener('change', () => {
      if (tick.checked) state.hidden.delete(kind); else state.hidden.add(kind);
      redraw();
    });
    const picture = shape('svg', {width: 12, height: 12, 'aria-hidden': 'true'});
    const paths = {plus: 'M1 6H11M6 1V11', cross: 'M2 2L10 10M10 2L2 10', down: 'M1 2H11L6 11Z', up: 'M1 10H11L6 1Z', diamond: 'M6 0L12 6L6 12L0 6Z', square: 'M1 1H11V11H1Z'};
    const glyphOf = GLYPHS[name], ink = `var(--c${kind})`;
    if (glyphOf) picture.append(shape('path', {d: paths[glyphOf], fill: glyphOf === 'plus' || glyphOf === 'cross' ? 'none' : ink, stroke: ink, 'stroke-width': 2}));
    else picture.append(shape('circle', {cx: 6, cy: 6, r: 4, fill: ink}));
    box.append(make('label', {}, tick, picture, `${name} ${counts.get(kind).toLocaleString('en')}`));
  }
  if (marks) box.append(make('span', {class: 'soft'}, `○ ring: marked CE, ${marks.toLocaleString('en')} `));
  if (c.figures.drops || c.figures.lost_between_captures)
    box.append(make('span', {class: 'soft'}, `✕ dropped or lost: ${(c.figures.drops + c.figures.lost_between_captures).toLocaleString('en')} `));
  if (c.figures.findings) box.append(make('span', {class: 'soft'}, `▼ at the top: findings, ${c.figures.findings.toLocaleString('en')}`));
}

function link(c, at, text) {
  return make('a', {href: `#c${data.connections.indexOf(c)}p${at}`}, text);
}

function tables(c) {
  const holder = document.getElementById('tables');
  holder.replaceChildren();
  const head = names => make('thead', {}, make('tr', {}, ...names.map(name => make('th', {}, name))));
  if (c.eventCount) {
    const body = make('tbody');
    for (const [at, time, way, cause, psn, waited] of c.events)
      body.append(make('tr', {}, make('td', {}, link(c, at, `frame ${C.number[c.at + at]}`)), make('td', {class: 'number'}, seconds(time)),
        make('td', {}, way === 0 ? '→' : '←'), make('td', {}, cause === 'timeout' ? 'sent again after a timeout' : cause.startsWith('NAK:') || cause.startsWith('RNR NAK r') ? cause : `sent again: ${cause}`),
        make('td', {class: 'number'}, String(psn)), make('td', {class: 'number'}, waited === null ? '' : duration(waited))));
    const open = c.eventCount <= 20 ? {open: ''} : {};
    holder.append(make('details', {id: 'events', ...open}, make('summary', {}, `NAKs, timeouts and retransmissions: ${c.eventCount}` + (c.eventCount > c.events.length ? `, the first ${c.events.length} are listed` : '')),
      make('div', {class: 'wide'}, make('table', {}, head(['packet', 'time', 'from', 'what', 'PSN', 'since it was sent']), body))));
  }
  if (c.spans.length) {
    const body = make('tbody');
    for (const [kind, text, at, , start, end, open] of c.spans)
      body.append(make('tr', {}, make('td', {}, link(c, at, `frame ${C.number[c.at + at]}`)), make('td', {}, kind === 'cm' ? 'connection manager' : kind),
        make('td', {class: 'number'}, seconds(start)), make('td', {class: 'number'}, duration(end - start) + (open ? ' at least' : '')), make('td', {class: 'words'}, text)));
    const unfold = c.spans.length <= 20 ? {open: ''} : {};
    holder.append(make('details', unfold, make('summary', {}, `Sessions, lock scopes and handshakes: ${c.spans.length}`),
      make('div', {class: 'wide'}, make('table', {}, head(['begins with', 'it is', 'time', 'lasts', 'what came']), body))));
  }
  const distributions = make('div', {class: 'histograms'});
  if (c.trips) distributions.append(histogram('Round trip, request to ACK or first response', c.trips));
  for (const [kind, found] of Object.entries(c.latencies)) distributions.append(histogram(`Latency of messages: ${kind}`, found));
  if (distributions.childElementCount) holder.append(make('h3', {}, 'Distributions'), distributions);
}

function goodput() {
  const section = document.getElementById('goodput'), holder = section.querySelector('.plot'), height = 190;
  section.classList.remove('off');
  const width = Math.max(holder.clientWidth, 200), left = 76, svg = d3.select(holder).html('').append('svg').style('pointer-events', 'all').attr('width', width).attr('height', height);
  const x = d3.scale.linear().domain([0, Math.max(1, data.span)]).range([left, width - 12]);
  const most = d3.max(data.curves, curve => d3.max(curve[2])) || 1;
  const y = d3.scale.linear().domain([0, most * 1.05]).range([height - 26, 12]);
  const inks = ['--ink', '--c0', '--c5', '--c1', '--c6', '--c3', '--c7', '--c10', '--c4'];
  svg.append('g').attr('class', 'grid').attr('transform', `translate(${left},0)`).call(d3.svg.axis().scale(y).orient('left').ticks(4).tickSize(-(width - left - 12), 0).tickFormat(''));
  svg.append('g').attr('class', 'axis').attr('transform', `translate(0,${height - 26})`).call(d3.svg.axis().scale(x).ticks(Math.max(2, width / 150)).tickFormat(duration));
  svg.append('g').attr('class', 'axis').attr('transform', `translate(${left},0)`).call(d3.svg.axis().scale(y).orient('left').ticks(4).tickFormat(rate));
  const line = d3.svg.line().x((_, index) => x((index + .5) * data.binNs)).y(value => y(value));
  const legendBox = section.querySelector('.legend');
  legendBox.replaceChildren();
  data.curves.forEach(([name, index, values], at) => {
    const ink = `var(${inks[at + (data.curves[0][1] === -1 ? 0 : 1)] || '--soft'})`;
    svg.append('path').attr('d', line(values)).style({fill: 'none', stroke: ink, 'stroke-width': at === 0 ? 1 : 1.6});
    const picture = shape('svg', {width: 14, height: 12, 'aria-hidden': 'true'});
    picture.append(shape('line', {x1: 0, x2: 14, y1: 6, y2: 6, stroke: ink, 'stroke-width': 3}));
    legendBox.append(make('label', {}, picture, index < 0 ? name : make('a', {href: '#c' + index}, name)));
  });
  const brush = d3.svg.brush().x(x).on('brushend', () => {
    if (brush.empty()) return;
    const [from, to] = brush.extent();
    state.from = from;
    state.to = to;
    redraw();
  });
  svg.append('g').attr('class', 'brush').call(brush).selectAll('rect').attr('y', 10).attr('height', height - 36);
}

function build() {
  const holder = document.getElementById('pictures');
  holder.classList.remove('off');
  const which = make('select', {id: 'which', 'aria-label': 'connection'});
  data.connections.slice(0, 5000).forEach((c, index) => which.append(make('option', {value: index}, `${c.kind}: ${c.a} ↔ ${c.b} (${c.n} packets)`)));
  which.addEventListener('change', () => { location.hash = `c${which.value}`; });
  const side = make('select', {id: 'side', 'aria-label': 'direction'});
  side.addEventListener('change', () => { state.side = Number(side.value); redraw(); });
  const button = (text, action, label) => make('button', {type: 'button', onclick: action, 'aria-label': label || text}, text);
  holder.append(make('div', {class: 'tools'}, which, side,
    button('+', () => zoom(.5), 'zoom in'), button('−', () => zoom(2), 'zoom out'), button('◀', () => pan(-.3), 'earlier'), button('▶', () => pan(.3), 'later'),
    button('All', wholeConnection, 'the whole connection'), button('Ladder of this stretch', () => {
      const [first, last] = range(data.connections[state.connection], state.from, state.to);
      if (first < last) openLadder(first);
    })));
  holder.append(make('p', {class: 'soft'}, 'Drag to move; double click, the wheel (after a click, or with Ctrl) or + and − zoom; n and p go from packet to packet; Enter opens the ladder; Home shows all.'));
  holder.append(make('div', {class: 'soft', id: 'stretch'}), make('div', {class: 'legend', id: 'kinds', role: 'group', 'aria-label': 'kinds of packets that are shown'}));
  plots.push(new Plot(holder, 400, 'PSN, from the first one seen', 'PSN over time. Arrows move, plus and minus zoom, n and p step through packets', value => value % 1 ? '' : value.toLocaleString('en')));
  plots.push(new Plot(holder, 120, 'outstanding: bytes asked for and not yet acknowledged', 'outstanding bytes over time', bytesText));
  plots.push(new Plot(holder, 120, 'round trip: from a request to what answers it', 'round trips over time', duration));
  plots.push(new Plot(holder, 100, 'credits in ACKs, where they are limited', 'credits over time', d3.format(',d')));
  holder.append(make('div', {id: 'said', class: 'off', 'aria-live': 'polite'}), make('div', {id: 'tables'}),
    make('h3', {id: 'ladder-title'}, 'Ladder'),
    make('div', {class: 'tools'}, button('Earlier', () => turnLadder(-ROWS + 4), 'earlier packets'), button('Later', () => turnLadder(ROWS - 4), 'later packets'), make('span', {class: 'soft', id: 'ladder-place'})),
    make('div', {id: 'ladder'}), make('div', {id: 'packet', 'aria-live': 'polite'}));
}

function follow() {
  const rule = /^#rule-/.test(location.hash) && document.getElementById(location.hash.slice(1));
  if (rule) { rule.open = true; rule.scrollIntoView(); return; }
  const match = /^#c(\d+)(?:p(\d+))?$/.exec(location.hash);
  if (!match) return;
  choose(Number(match[1]), match[2] === undefined ? undefined : Number(match[2]));
  if (match[2] === undefined) document.getElementById('view').scrollIntoView();
}

async function begin() {
  await load();
  build();
  goodput();
  choose(0);
  follow();
  addEventListener('hashchange', follow);
  // The same link once more brings its picture back.
  document.addEventListener('click', event => {
    const anchor = event.target.closest('a[href^="#c"]');
    if (anchor && anchor.getAttribute('href') === location.hash) { event.preventDefault(); follow(); }
  });
  addEventListener('resize', () => { goodput(); redraw(); drawLadder(); });
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => { redraw(); drawLadder(); });
  document.documentElement.dataset.ready = 'yes';
}

// What tests and the curious ask.
window.report = {
  state, data, columns: C, decoded, zoom, setRange,
  place: packet => {
    const box = plots[0].box.getBoundingClientRect();
    return [box.left + plots[0].x(C.time[packet]), box.top + plots[0].y(C.place[packet])];
  },
};
begin();
}());
