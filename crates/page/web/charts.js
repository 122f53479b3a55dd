// Charts of the live page: lines, stacked areas and the picture of offset against time, on canvases, with nothing from elsewhere.
"use strict";

const element = id => document.getElementById(id);
const tip = element("tip");

// Colours are custom properties that depend on the theme; only an element knows what they are now.
const probe = document.createElement("span");
probe.hidden = true;
document.body.append(probe);
let palette = new Map();
// Changes of the scheme, of the export that is shown.
let marks = [];
function color(name) {
  if (!palette.has(name)) {
    probe.style.color = `var(--${name})`;
    palette.set(name, getComputedStyle(probe).color);
  }
  return palette.get(name);
}
const forgetColors = () => { palette = new Map(); };

const UNITS = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
function bytes(n) {
  let unit = 0;
  while (n >= 1024 && unit < UNITS.length - 1) { n /= 1024; unit += 1; }
  return `${n.toFixed(unit && n < 10 ? 2 : unit && n < 100 ? 1 : 0)} ${UNITS[unit]}`;
}
const rate = n => `${bytes(n)}/s`;
const count = n => Math.round(n).toLocaleString("en-US");
const perSecond = n => `${n >= 10 ? count(n) : n.toFixed(1)}/s`;
const percent = n => `${(100 * n).toFixed(n > 0 && n < .0995 ? 1 : 0)}%`;
// Three digits; what would be 1000 of a unit when it is rounded is one of the next.
function duration(ns) {
  if (ns < 999.5) { return `${Math.round(ns)} ns`; }
  if (ns < 999.5e3) { return `${(ns / 1e3).toPrecision(3)} µs`; }
  if (ns < 999.5e6) { return `${(ns / 1e6).toPrecision(3)} ms`; }
  if (ns < 120e9) { return `${(ns / 1e9).toPrecision(3)} s`; }
  const minutes = Math.floor(ns / 60e9);
  if (minutes < 120) { return `${minutes} min ${Math.floor(ns / 1e9) % 60} s`; }
  return `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}

// A canvas with as many pixels as the screen has for it; null while it is not laid out.
function surface(canvas) {
  const { clientWidth: w, clientHeight: h } = canvas, scale = devicePixelRatio || 1;
  if (!w || !h) { return null; }
  if (canvas.width !== Math.round(w * scale) || canvas.height !== Math.round(h * scale)) {
    canvas.width = Math.round(w * scale);
    canvas.height = Math.round(h * scale);
  }
  const draw = canvas.getContext("2d");
  draw.setTransform(scale, 0, 0, scale, 0, 0);
  draw.clearRect(0, 0, w, h);
  draw.font = "12px system-ui, sans-serif";
  return { draw, w, h };
}

// The least of 1, 2, 5 × 10^n (or a power of two for bytes) that is not below `value`.
function niceTop(value, binary) {
  if (!(value > 0)) { return 1; }
  if (binary) { return 2 ** Math.ceil(Math.log2(value)); }
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 5, 10].map(step => step * power).find(step => step >= value * .999);
}

const LEFT = 74, RIGHT = 8, TOP = 8, BOTTOM = 22;

// Grid, labels of both axes; returns the functions from values to pixels.
function axes({ draw, w, h }, { from, to, low, high, format, ticks }) {
  const x = t => LEFT + (t - from) / (to - from) * (w - LEFT - RIGHT);
  const y = v => h - BOTTOM - (v - low) / (high - low) * (h - TOP - BOTTOM);
  draw.lineWidth = 1;
  draw.strokeStyle = color("line");
  draw.fillStyle = color("soft");
  draw.textBaseline = "middle";
  draw.textAlign = "right";
  for (const value of ticks) {
    const at = Math.round(y(value)) + .5;
    draw.beginPath(); draw.moveTo(LEFT, at); draw.lineTo(w - RIGHT, at); draw.stroke();
    draw.fillText(format(value), LEFT - 8, at);
  }
  draw.textBaseline = "alphabetic";
  const span = (to - from) / 1e9, step = [1, 2, 5, 10, 20, 30, 60].find(s => span / s <= 6) || 60;
  for (let back = 0; back <= span + .01; back += step) {
    const at = x(to - back * 1e9);
    draw.textAlign = back === 0 ? "right" : "center";
    if (back === 0 || at > LEFT + 12) { draw.fillText(back === 0 ? "now" : `−${back} s`, at, h - 5); }
  }
  return { x, y };
}

// What the pointer shows on a canvas: `words(time)` in lines, or nothing.
function hover(canvas, frame) {
  canvas.frame = frame;
  if (canvas.hasHover) { return; }
  canvas.hasHover = true;
  canvas.addEventListener("pointermove", event => {
    const { from, to, words } = canvas.frame, box = canvas.getBoundingClientRect();
    const share = (event.clientX - box.left - LEFT) / (box.width - LEFT - RIGHT);
    const text = share >= 0 && share <= 1 ? words(from + share * (to - from), event.clientY - box.top, box.height) : "";
    tip.hidden = !text;
    tip.textContent = text;
    const right = event.clientX > innerWidth - 300;
    tip.style.left = right ? "auto" : `${event.clientX + 14}px`;
    tip.style.right = right ? `${innerWidth - event.clientX + 14}px` : "auto";
    tip.style.top = `${Math.min(event.clientY + 14, innerHeight - 130)}px`;
  });
  canvas.addEventListener("pointerleave", () => { tip.hidden = true; });
}

function nearest(times, time) {
  let best = -1;
  times.forEach((t, i) => { if (best < 0 || Math.abs(t - time) < Math.abs(times[best] - time)) { best = i; } });
  return best;
}

function ago(from, to) {
  const seconds = (to - from) / 1e9;
  return seconds < .75 ? "now" : `${seconds.toFixed(1)} s ago`;
}

// Lines, or areas on top of one another; `share` makes each moment add up to one.
function chart(id, { from, to, times, series, format, stacked = false, share = false, binary = false, top = 0, limit = null }) {
  const canvas = element(id), paper = surface(canvas);
  if (!paper) { return; }
  const { draw } = paper;
  const sums = times.map((_, i) => series.reduce((sum, s) => sum + s.values[i], 0));
  const scaled = series.map(s => s.values.map((v, i) => share ? (sums[i] > 0 ? v / sums[i] : 0) : v));
  const largest = share ? 1 : Math.max(top, limit || 0, ...(stacked ? sums : scaled.flat()));
  const high = share ? 1 : niceTop(largest, binary);
  const { x, y } = axes(paper, { from, to, low: 0, high, format, ticks: [0, high / 2, high] });
  const base = times.map(() => 0), half = times.length > 1 ? (times[1] - times[0]) / 2 : 0;
  draw.save();
  draw.beginPath(); draw.rect(LEFT, 0, paper.w - LEFT - RIGHT, paper.h - BOTTOM + 1); draw.clip();
  series.forEach((s, k) => {
    const values = scaled[k];
    if (stacked || share) {
      draw.fillStyle = color(s.color);
      values.forEach((v, i) => {
        if (v <= 0) { return; }
        const left = x(times[i] - half), right = x(times[i] + half);
        draw.fillRect(left, y(base[i] + v), Math.max(right - left - .4, .8), y(base[i]) - y(base[i] + v));
        base[i] += v;
      });
    } else {
      draw.strokeStyle = color(s.color);
      draw.lineWidth = 2;
      draw.lineJoin = "round";
      draw.setLineDash(s.dash || []);
      draw.beginPath();
      values.forEach((v, i) => { if (i) { draw.lineTo(x(times[i]), y(v)); } else { draw.moveTo(x(times[i]), y(v)); } });
      draw.stroke();
      draw.setLineDash([]);
    }
  });
  // Where the scheme became another.
  marks.filter(mark => mark.at_ns >= from && mark.at_ns <= to).forEach(mark => {
    const at = x(mark.at_ns);
    draw.strokeStyle = draw.fillStyle = color("ink"); draw.setLineDash([2, 3]); draw.lineWidth = 1;
    draw.beginPath(); draw.moveTo(at, 0); draw.lineTo(at, paper.h - BOTTOM); draw.stroke();
    draw.setLineDash([]);
    draw.textAlign = "left";
    draw.fillText(mark.scheme, Math.min(at + 3, paper.w - RIGHT - draw.measureText(mark.scheme).width), 10);
  });
  if (limit !== null) {
    draw.strokeStyle = color("warn"); draw.setLineDash([5, 4]); draw.lineWidth = 1.5;
    draw.beginPath(); draw.moveTo(LEFT, y(limit)); draw.lineTo(paper.w - RIGHT, y(limit)); draw.stroke();
    draw.setLineDash([]);
  }
  draw.restore();
  hover(canvas, { from, to, words: time => {
    const i = nearest(times, time);
    if (i < 0) { return ""; }
    const line = (s, k) => `${s.name}: ${share ? percent(scaled[k][i]) : format(s.values[i])}`;
    return [ago(times[i], to), ...series.map(line)].join("\n");
  } });
}

function legend(id, entries) {
  element(id).replaceChildren(...entries.map(([name, shade, value]) => {
    const item = document.createElement("li"), dot = document.createElement("i");
    dot.style.background = `var(--${shade})`;
    item.append(dot, name);
    if (value !== undefined) {
      const figure = document.createElement("b");
      figure.textContent = value;
      item.append(figure);
    }
    return item;
  }));
}

// The least and largest block that most of the dashes lie between: a stray read of a superblock shall not squeeze the rest.
function reach(dashes) {
  const ends = dashes.flatMap(d => [d.first, d.first + d.blocks]).sort((a, b) => a - b);
  if (!ends.length) { return [0, 1]; }
  const low = ends[0], high = ends[ends.length - 1], room = Math.max((high - low) * .04, 16);
  return [Math.max(low - room, 0), high + room];
}

const OUTCOMES = [["found in the cache", "cache"], ["found, read ahead", "prefetch"], ["read ahead, but late", "late"], ["missed", "miss"]];

// Offset against time. Dashes: {from, to, first, blocks, kind, down}; kind -1 is what was brought unasked.
function picture(id, { from, to, dashes, blocks }) {
  const canvas = element(id), paper = surface(canvas);
  if (!paper) { return; }
  const { draw, w, h } = paper, seen = dashes.filter(d => d.to >= from);
  const [low, above] = reach(seen), high = Math.min(above, Math.max(blocks, low + 1));
  const ticks = [0, 1, 2, 3, 4].map(k => low + (high - low) * k / 4);
  const { x, y } = axes(paper, { from, to, low, high, format: block => bytes(block * 4096), ticks });
  draw.save();
  draw.beginPath(); draw.rect(LEFT, 0, w - LEFT - RIGHT, h - BOTTOM + 1); draw.clip();
  const path = d => {
    const begin = d.down ? d.first + d.blocks : d.first, end = d.down ? d.first : d.first + d.blocks;
    draw.moveTo(x(d.from), y(begin));
    draw.lineTo(Math.max(x(d.to), x(d.from) + .1), y(end));
  };
  draw.strokeStyle = color("band");
  draw.lineWidth = 8;
  draw.beginPath();
  seen.filter(d => d.kind < 0).forEach(path);
  draw.stroke();
  draw.lineCap = "round";
  // What was waited for lies on top: it is what a person looks for.
  for (const kind of [0, 1, 2, 3]) {
    draw.strokeStyle = color(OUTCOMES[kind][1]);
    // A read shorter than a point is drawn fainter, so that a few among many do not look like all of them.
    for (const [small, width, strength] of [[false, 2.6, 1], [true, 2.4, kind ? .45 : .8]]) {
      draw.lineWidth = width;
      draw.globalAlpha = strength;
      draw.beginPath();
      for (const d of seen.filter(d => d.kind === kind)) {
        if (small === Math.hypot(x(d.to) - x(d.from), y(d.first) - y(d.first + d.blocks)) < 1.5) { path(d); }
      }
      draw.stroke();
      draw.globalAlpha = 1;
    }
  }
  draw.restore();
  hover(canvas, { from, to, words: (time, top, height) => {
    const block = low + (height - BOTTOM - top) / (height - TOP - BOTTOM) * (high - low);
    const near = d => Math.abs(x(Math.min(Math.max(time, d.from), d.to)) - x(time)) + Math.abs(y(d.first + d.blocks / 2) - top);
    const best = seen.filter(d => d.kind >= 0).reduce((a, d) => (!a || near(d) < near(a) ? d : a), null);
    const where = [`${ago(time, to)}, offset ${bytes(Math.max(block, 0) * 4096)}`];
    if (best && near(best) < 40) { where.push(`${bytes(best.blocks * 4096)} ${OUTCOMES[best.kind][0]}`); }
    return where.join("\n");
  } });
}

// A small line without axes.
function spark(canvas, values, shade) {
  const paper = surface(canvas);
  if (!paper) { return; }
  const { draw, w, h } = paper, top = Math.max(1, ...values);
  draw.strokeStyle = color(shade);
  draw.lineWidth = 1.5;
  draw.beginPath();
  values.forEach((v, i) => {
    const at = [values.length > 1 ? i / (values.length - 1) * (w - 2) + 1 : 1, h - 2 - v / top * (h - 4)];
    if (i) { draw.lineTo(...at); } else { draw.moveTo(...at); }
  });
  draw.stroke();
}

// When a switch was on and off, from the beginning to now: [[time, on], …].
function ribbon(canvas, turns, from, to) {
  const paper = surface(canvas);
  if (!paper) { return; }
  const { draw, w, h } = paper, x = t => (t - from) / Math.max(to - from, 1) * w;
  turns.forEach(([time, on], i) => {
    if (on === null) { return; }
    const end = i + 1 < turns.length ? turns[i + 1][0] : to;
    draw.fillStyle = color(on ? "prefetch" : "miss");
    draw.fillRect(x(time), 0, Math.max(x(end) - x(time), 1), h);
  });
}
