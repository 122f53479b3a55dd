// The live page: asks the server twice a second, keeps the last two minutes, draws them, and says in words why reads are fast.
"use strict";

const KEEP_NS = 120e9, NOW_NS = 10e9, BLOCK = 4096, EVERY_MS = 500, ROWS = 8, RIBBONS = 6;
let samples = [], stats = null, exportNumber = 0, windowSeconds = 15;
const set = (id, text) => { if (element(id).textContent !== text) { element(id).textContent = text; } };
const sum = values => values.reduce((a, b) => a + b, 0);

// What happened between two samples, as differences of their sums.
function between(a, b) {
  const minus = (x, y) => x.map((value, i) => Math.max(value - (y[i] || 0), 0));
  const [reads, waited] = [0, 1].map(k => minus(b.outcomes[k], a.outcomes[k]));
  return {
    seconds: Math.max((b.t - a.t) / 1e9, 1e-3),
    asked: minus(b.asked, a.asked), blocks: minus(b.blocks, a.blocks), ahead: minus(b.ahead, a.ahead),
    memberBlocks: b.member_blocks - a.member_blocks, reads, waited,
    members: b.members.map((m, i) => minus(m, a.members[i] || [])),
  };
}
const ZERO = { t: 0, outcomes: [[], []], asked: [], blocks: [], ahead: [], member_blocks: 0, members: [] };
const latest = () => samples[samples.length - 1];
function last(ns) {
  const end = latest(), begin = samples.find(s => s.t >= end.t - ns) || end;
  return begin === end ? between(ZERO, end) : between(begin, end);
}

// ---- words

function parts(d) {
  const blocks = sum(d.blocks) || 1, [cache, prefetch, late, miss] = d.blocks.map(n => n / blocks);
  return { cache, prefetch, late, miss };
}

function headline(d, view) {
  const { cache, prefetch, late, miss } = parts(d), of = share => Math.round(100 * share);
  // What holds for all comes before what holds for one; a scale that fell is no switch that is off, nor is an end.
  const off = lastTurns(view).filter(turn => !turn.on && !isOver(turn) && !turn.switch.endsWith("scale")).sort((a, b) => Boolean(a.of) - Boolean(b.of));
  if (prefetch + late >= .03) {
    const tail = miss + late < .005 ? "hardly any had to be waited for" : `${of(miss + late)} had to be waited for`;
    return [`${of(prefetch)} of 100 blocks were here because they had been read ahead; ${tail}.`, prefetch + cache >= .5 ? "good" : ""];
  }
  if (cache >= .5) {
    return [`${of(cache)} of 100 blocks had been read before and were still here. Little is left to read ahead.`, "good"];
  }
  if (off.length) { return [`Nothing is read ahead${off[0].of ? ` for ${whose(off[0].of)}` : ""}, because ${off[0].reason}.`, "bad"]; }
  if (view.scheme === "none") { return ["Nothing is read ahead: the scheme is none.", ""]; }
  return [`${of(miss)} of 100 blocks had to be waited for: ${view.scheme} found nothing to read ahead for these readers.`, "bad"];
}

function reasons(d, view) {
  const lines = [], [, saved, late, missed] = d.reads, [, , lateWait, missWait] = d.waited;
  const price = missed ? missWait / missed : 0, waited = sum(d.waited);
  if (saved && price) {
    lines.push(`${count(missed)} reads were not here and waited ${duration(price)} each. ${count(saved)} reads found what had been read ahead ` +
      `and did not wait. Over all reads that makes ${duration(waited / sum(d.reads))} a read.`);
  } else if (missed) {
    lines.push(`${count(missed)} reads waited ${duration(price)} each.`);
  }
  if (late) { lines.push(`${count(late)} reads came while their prefetch was still on its way and waited ${duration(lateWait / late)} each.`); }
  const commands = sum(d.members.map(m => m[2])), seeks = sum(d.members.map(m => m[6])), moved = sum(d.members.map(m => m[4]));
  if (commands && d.asked[0]) {
    lines.push(`For ${count(d.asked[0])} reads of ${bytes(d.asked[2] / d.asked[0])} members got ${count(commands)} commands of ` +
      `${bytes(moved / commands)}, with ${count(seeks)} seeks: ${(moved / Math.max(d.asked[2], 1)).toFixed(2)} bytes for each byte asked for.`);
  }
  const { auto_wait_without_ns: without, auto_wait_ns: with_, auto_wait_foretold_ns: foretold } = view.gauges;
  if (without) {
    const off = foretold / Math.max(with_, 1), guess = off > 1.25 || off < .8 ? ", so the first is a guess" : "";
    lines.push(`Since the start, without prefetching readers would have waited ${duration(without)} by auto's shadows; they waited ${duration(with_)}, where the shadows foretold ${duration(foretold)}${guess}.`);
  }
  const [, used, wasted] = d.ahead;
  if (used + wasted > 100) { lines.push(`Of what was read ahead and has been read or has left, ${percent(used / (used + wasted))} was read.`); }
  const { asp_cost_none_ns: none, asp_cost_strip_ns: strip } = view.gauges;
  if (none > 0 && strip > 0) {
    lines.push(`By the scheme's own account the disks would have spent ${duration(none)} on the blocks now in the cache reading block by block, ` +
      `and ${duration(strip)} reading whole strips.`);
    const asp = lastTurns(view).find(turn => turn.switch === "asp" && !turn.on);
    if (asp && strip < none) {
      lines.push("asp asks that only when a read misses. It is off since the last miss at which strips did not pay, " +
        "and what another part reads ahead in time does not miss.");
    }
  }
  return lines;
}

/** What is not well with the export, before anything else. */
function warnings(view) {
  return (view.warnings ?? []).map(line => {
    const item = document.createElement("li");
    item.className = "warning";
    item.textContent = `Warning: ${line}.`;
    return item;
  });
}

function verdict(view) {
  const box = document.querySelector(".verdict"), recent = last(NOW_NS), idle = !sum(recent.blocks);
  const d = idle ? between(ZERO, latest()) : recent;
  if (view.changed) {
    set("headline", `Nothing is answered any more: ${view.changed}.`);
    const item = document.createElement("li");
    item.textContent = "Every request gets an error, so that no wrong byte is read. Look what became of the member, then start the server anew.";
    element("because").replaceChildren(item);
    box.className = "verdict bad";
    return;
  }
  if (!sum(d.blocks)) {
    set("headline", "Nobody has read anything yet.");
    const item = document.createElement("li"), code = document.createElement("code");
    code.textContent = `nbdcopy --connections=1 --requests=1 '${view.uri}' null:`;
    item.append("Read it, for instance with ", code, ", which asks for one piece after the other, as most programs do.");
    element("because").replaceChildren(...warnings(view), item);
    box.className = "verdict";
    return;
  }
  const [text, mood] = headline(d, view);
  const when = idle ? "Since the start: " : "Last 10 s: ";
  set("headline", when + text);
  box.className = `verdict ${mood}`;
  element("because").replaceChildren(...warnings(view), ...reasons(d, view).map(line => {
    const item = document.createElement("li");
    item.textContent = line;
    return item;
  }));
}

function tiles(view) {
  const d = last(NOW_NS), { cache, prefetch } = parts(d), any = sum(d.blocks) > 0, reads = sum(d.reads);
  const [, used, wasted] = d.ahead;
  const entries = [
    [rate(d.asked[2] / d.seconds), "clients read"],
    [any ? percent(cache + prefetch) : "–", any ? `hits: ${percent(cache)} cache, ${percent(prefetch)} prefetch` : "hits"],
    [!reads ? "–" : sum(d.waited) ? duration(sum(d.waited) / reads) : "none", "mean wait of a read"],
    ...[["reads", view.lag], ["writes", view.write_lag]].filter(([, lag]) => lag.requests).map(([kind, lag]) =>
      [duration(lag.p99_ns), `p99 of ${kind}, of client ${lag.clients[0].client} ${duration(lag.clients[0].p99_ns)}`]),
    ...(view.write_back ? [[bytes(view.write_back.dirty_bytes), `held back on the journal (${percent(view.write_back.journal_bytes / view.write_back.journal_bytes_max)} of it), ` +
      `the oldest ${duration(view.write_back.dirty_age_ns)}; ${rate(view.write_back.home_bytes_per_second)} go home`]] : []),
    ...[view.raid?.rebuild, view.raid?.scrub].filter(work => work && work.done < work.all).map(work =>
      [percent(work.done / work.all), work.member === undefined ? `scrubbed, ${count(work.wrong)} blocks differ` : `of member ${work.member} rebuilt${work.paused ? ", stands still" : ""}`]),
    [d.asked[2] ? (d.memberBlocks * BLOCK / d.asked[2]).toFixed(2) : "–", "bytes from members per byte read"],
    [used + wasted ? percent(used / (used + wasted)) : "–", "of what was read ahead and decided was read"],
    [perSecond(sum(d.members.map(m => m[6])) / d.seconds), "seeks of all members"],
    [count(view.connections), `clients now, ${count(view.clients)} so far`],
  ];
  element("tiles").replaceChildren(...entries.map(([figure, words]) => {
    const tile = document.createElement("div"), bold = document.createElement("b"), label = document.createElement("span");
    tile.className = "tile";
    bold.textContent = figure;
    label.textContent = words;
    tile.append(bold, label);
    return tile;
  }));
}

// ---- charts

function charts(view) {
  const end = latest().t, span = Math.min(KEEP_NS, Math.max(end - samples[0].t, 20e9)), from = end - span, to = end;
  const steps = samples.slice(1).map((b, i) => between(samples[i], b)), times = samples.slice(1).map(s => s.t);
  const frame = { from, to, times }, per = pick => steps.map(d => pick(d) / d.seconds), now = last(NOW_NS);
  const share = parts(now), any = sum(now.blocks) > 0;
  const outcomes = [["cache", "cache"], ["prefetch", "prefetch"], ["late", "late"], ["miss", "miss"]];
  legend("servedLegend", outcomes.map(([name, shade]) => [name, shade, any ? percent(share[name]) : undefined]));
  chart("served", { ...frame, share: true, format: percent, series: outcomes.map(([name, shade], k) => ({ name, color: shade, values: steps.map(d => d.blocks[k]) })) });

  legend("rateLegend", [["clients read", "cache", rate(now.asked[2] / now.seconds)], ["read from members", "miss", rate(now.memberBlocks * BLOCK / now.seconds)]]);
  chart("rate", { ...frame, format: rate, binary: true, series: [
    { name: "read from members", color: "miss", values: per(d => d.memberBlocks * BLOCK) },
    { name: "clients read", color: "cache", values: per(d => d.asked[2]) }] });

  const causes = [["misses", "miss", 3], ["late prefetches", "late", 2], ["no memory free", "behind", 4]];
  legend("waitLegend", causes.map(([name, shade, k]) => [name, shade, now.reads[k] ? `${duration(now.waited[k] / now.reads[k])} a read` : undefined]));
  chart("wait", { ...frame, stacked: true, format: duration, series: causes.map(([name, shade, k]) => ({ name, color: shade, values: per(d => d.waited[k]) })) });

  legend("fateLegend", [["read", "prefetch", perSecond(now.ahead[1] / now.seconds)], ["left unread", "miss", perSecond(now.ahead[2] / now.seconds)]]);
  chart("fate", { ...frame, stacked: true, format: perSecond, series: [
    { name: "read", color: "prefetch", values: per(d => d.ahead[1]) }, { name: "left unread", color: "miss", values: per(d => d.ahead[2]) }] });
  scheme(frame, view);

  const members = pick => per(d => sum(d.members.map(m => m[pick]))), now_of = pick => perSecond(sum(now.members.map(m => m[pick])) / now.seconds);
  legend("workLegend", [["reads of clients", "cache", perSecond(now.asked[0] / now.seconds)], ["commands of members", "accent", now_of(2)], ["seeks", "miss", now_of(6)]]);
  chart("work", { ...frame, format: perSecond, series: [
    { name: "reads of clients", color: "cache", values: per(d => d.asked[0]) },
    { name: "commands of members", color: "accent", dash: [6, 4], values: members(2) },
    { name: "seeks", color: "miss", values: members(6) }] });

  const [used, most] = latest().cache;
  legend("memoryLegend", [["in use", "cache", bytes(used * BLOCK)], ["on its way", "prefetch", bytes(latest().ahead[3] * BLOCK)], ["budget", "warn", bytes(most * BLOCK)]]);
  chart("memory", { from, to, times: samples.map(s => s.t), format: bytes, binary: true, limit: most * BLOCK, series: [
    { name: "in use", color: "cache", values: samples.map(s => s.cache[0] * BLOCK) },
    { name: "on its way", color: "prefetch", values: samples.map(s => s.ahead[3] * BLOCK) }] });
  map(end);
}

function map(end, view = stats.exports[exportNumber]) {
  const from = end - windowSeconds * 1e9, dashes = [];
  samples.forEach((s, i) => {
    const begin = i ? samples[i - 1].t : s.t - EVERY_MS * 1e6;
    const add = (list, kind) => list.forEach(([a, b, first, blocks, outcome, down]) =>
      dashes.push({ from: begin + a * 1e3, to: begin + b * 1e3, first, blocks, kind: kind < 0 ? kind : outcome, down }));
    if (s.t >= from) { add(s.ahead_dashes, -1); add(s.read_dashes, 0); }
  });
  legend("mapLegend", [...OUTCOMES, ["brought before it was asked for", "band"]]);
  picture("map", { from, to: end, dashes, blocks: view.size_bytes / BLOCK });
  const most = Math.max(1, ...samples.filter(s => s.t >= from).map(s => s.one_in));
  set("mapNote", most > 1 ? `There are more reads than a picture can hold: where they are densest one of ${count(most)} is drawn.` : "");
}

function scheme(frame, view) {
  const has = name => view.gauges[name] !== undefined, times = samples.map(s => s.t);
  const values = name => samples.map(s => s.gauges[name] || 0);
  element("costsFigure").hidden = !has("asp_cost_none_ns");
  element("upFigure").hidden = !has("asp_upstream_max_strips");
  if (has("asp_cost_none_ns")) {
    const [none, strip] = [view.gauges.asp_cost_none_ns, view.gauges.asp_cost_strip_ns];
    legend("costsLegend", [["block by block, Cₙ", "miss", duration(none)], ["whole strips, Cₛₚ", "prefetch", duration(strip)]]);
    chart("costs", { ...frame, times, format: duration, series: [
      { name: "block by block", color: "miss", values: values("asp_cost_none_ns") },
      { name: "whole strips", color: "prefetch", values: values("asp_cost_strip_ns") }] });
  }
  if (has("asp_upstream_max_strips")) {
    const gauges = view.gauges, strips = n => count(n);
    legend("upLegend", [["limit N_U", "accent", strips(gauges.asp_upstream_max_strips)], ["upstream", "prefetch", strips(gauges.asp_upstream_strips)],
      ["downstream", "behind", strips(gauges.asp_downstream_strips)]]);
    chart("up", { ...frame, times, format: strips, series: [
      { name: "downstream", color: "behind", values: values("asp_downstream_strips") },
      { name: "upstream", color: "prefetch", values: values("asp_upstream_strips") },
      { name: "limit N_U", color: "accent", dash: [6, 4], values: values("asp_upstream_max_strips") }] });
  }
  element("scaleFigure").hidden = !has("flashy_scale");
  if (has("flashy_scale")) {
    const [read, ahead] = [view.gauges.flashy_read_rate, view.gauges.flashy_prefetch_rate];
    legend("scaleLegend", [["asked for by clients", "cache", rate(read)], ["prefetched", "prefetch", rate(ahead)], ["scale", "accent", `${view.gauges.flashy_scale.toFixed(2)}×`]]);
    chart("scale", { ...frame, times, format: rate, binary: true, series: [
      { name: "asked for", color: "cache", values: values("flashy_read_rate") },
      { name: "prefetched", color: "prefetch", values: values("flashy_prefetch_rate") }] });
  }
}

// ---- tables

function row(table, cells, head) {
  const line = table.insertRow();
  cells.forEach(cell => {
    const field = document.createElement(head ? "th" : "td");
    if (cell instanceof Node) { field.append(cell); } else if (cell && cell.kind) { field.className = cell.kind; field.append(cell.node || cell.text); } else { field.textContent = cell; }
    line.append(field);
  });
}

function meter(share) {
  const cell = document.createElement("span"), track = document.createElement("span"), fill = document.createElement("i");
  track.className = "meter";
  fill.style.width = percent(Math.min(share, 1));
  track.append(fill);
  cell.append(track, percent(Math.min(share, 1)));
  return cell;
}

function members(view) {
  const table = element("members"), d = last(NOW_NS), recent = samples.slice(-60), sparks = [];
  const steps = recent.slice(1).map((b, i) => between(recent[i], b));
  const line = (values, shade) => { const canvas = document.createElement("canvas"); sparks.push([canvas, values, shade]); return canvas; };
  table.replaceChildren();
  row(table, ["member", "busy", "queue", "", "commands", "each of", "each took", "seeks", "", "read"], true);
  view.members.forEach((m, i) => {
    const [, , reads, writes, readBytes, written, seeks, busy, took] = d.members[i] || [], commands = (reads + writes) || 0;
    const name = (m.name.split("/").pop() || m.name) + (m.emulates ? ` as ${m.emulates}` : "");
    row(table, [name, meter((busy || 0) / 1e9 / d.seconds), count(m.queue), line(recent.map(s => (s.members[i] || [0, 0])[1]), "accent"),
      perSecond(commands / d.seconds), commands ? bytes((readBytes + written) / commands) : "–", commands ? duration(took / commands) : "–",
      perSecond((seeks || 0) / d.seconds), line(steps.map(s => (s.members[i] || [])[6] / s.seconds || 0), "miss"), rate((readBytes || 0) / d.seconds)]);
  });
  sparks.forEach(s => spark(...s));
  const emulated = view.members.some(m => m.emulates);
  const late = view.emulated_commands ? ` Their timing was off by at most ${duration(view.emulated_late_p99_ns)} in 99 of 100 commands.` : "";
  set("membersText", "The last 10 seconds; the small curves are the last 30: most commands at once, and seeks a second. " +
    (emulated ? `Emulated members count seeks as their model does.${late}` : "A seek here is a command that does not begin where the one before ended."));
}

// ---- reasons

// Whether a stream is no more, or nothing of it is left here: neither on nor off.
const isOver = turn => ["ended", "forgotten", "given up"].includes(turn.to);

// Which switch a turn is of: of the scheme, or of one file, stream, reader or region.
const keyOf = ({ switch: part, of }) => of ? `${part} ${of.kind} ${of.number} ${of.kind === "file" ? "" : of.process}` : part;

// The last turn of each switch, the one that turned longest ago first.
function lastTurns(view) {
  const turns = new Map();
  view.decisions.forEach(turn => { turns.delete(keyOf(turn)); turns.set(keyOf(turn), turn); });
  return [...turns.values()];
}

// What a decision is about; an export has clients and no files.
function whose(of) {
  const client = `client ${of.process}`, at = bytes(of.first_block * BLOCK);
  const known = { file: "the volume", reader: client, region: `${client} at ${at}` };
  return known[of.kind] || `${of.kind} ${of.number} of ${client} at ${at}`;
}

// A time whose difference from another decided something: more digits than a chart needs.
const exactly = ns => ns < 1e6 ? duration(ns) : `${(ns / 1e9).toFixed(6)} s`;

// A number of a decision, in the unit that its name ends with.
function number(name, value) {
  const units = [["_bytes_per_s", rate], ["_bytes", bytes], ["_blocks", n => bytes(n * BLOCK)], ["_percent", n => `${n}%`], ["_ns", exactly]];
  const [unit, format] = units.find(([ending]) => name.endsWith(ending)) || ["", count];
  return `${name.slice(0, name.length - unit.length)} ${format(value)}`.replaceAll("_", " ").replaceAll(" ", "\u00a0");
}

function state(turn) {
  const word = document.createElement("b");
  word.className = isOver(turn) ? "over" : turn.on ? "on" : "off";
  word.textContent = turn.to;
  return word;
}

// One line for each switch of the scheme, and for those of its files, streams, readers or regions that turned last.
function switches(view, now) {
  const last = lastTurns(view), whole = last.filter(turn => !turn.of), single = last.filter(turn => turn.of);
  const from = Math.min(...view.decisions.map(turn => turn.at_ns), now);
  const line = (name, turn) => {
    const label = document.createElement("span"), canvas = document.createElement("canvas"), key = keyOf(turn);
    label.append(`${name} `, state(turn), turn.of ? "" : `, turned ${count(turn.turn)}×`);
    canvas.turns = view.decisions.filter(other => keyOf(other) === key).map(other => [other.at_ns, isOver(other) ? null : other.on]);
    return [label, canvas];
  };
  const lines = [...whole.flatMap(turn => line(turn.switch, turn)), ...single.slice(-RIBBONS).reverse().flatMap(turn => line(whose(turn.of), turn))];
  element("switches").replaceChildren(...lines);
  lines.forEach(node => { if (node.turns) { ribbon(node, node.turns, from, now); } });
  // How the others stand: as far as the turns that are kept tell.
  const tally = new Map();
  single.forEach(turn => tally.set(turn.to, (tally.get(turn.to) || 0) + 1));
  const others = [...tally].map(([to, n]) => `${count(n)} ${to}`).join(", ");
  set("switchesNote", single.length > RIBBONS ? `The ${count(RIBBONS)} that turned last are shown. Of the last ${count(single.length)}: ${others}.` : "");
}

function decisions(view, now) {
  const any = view.decisions.length > 0, switched = /\b(asp|msp|rpp|regions|flashy|streams|cadence)\b/.test(view.scheme);
  set("decisionsText", any ? "Each turn of a switch of the scheme, the newest first, with the numbers that it looked at." :
    switched ? "No switch of the scheme has turned yet." : `${view.scheme} has no switch: what it reads ahead follows from each request alone.`);
  switches(view, now);
  const table = element("decisions");
  table.replaceChildren();
  if (!any) { return; }
  const single = view.decisions.some(turn => turn.of), text = (words, kind = "") => ({ kind: `text ${kind}`, text: words });
  const head = ["when", text("part"), text("for"), text("turned"), text("because", "wide"), text("numbers", "wide")];
  row(table, head.filter((_, k) => k !== 2 || single), true);
  view.decisions.slice(-ROWS).reverse().forEach(turn => {
    const numbers = Object.entries(turn.because).map(pair => number(...pair)).join(", "), ago = `${duration(Math.max(now - turn.at_ns, 1e6))} ago`;
    const cells = [ago, text(turn.switch), text(turn.of ? whose(turn.of) : "all"), { kind: "text", node: state(turn) }, text(turn.reason, "wide"), text(numbers, "wide")];
    row(table, cells.filter((_, k) => k !== 2 || single));
  });
}

function details(view) {
  const fill = (id, entries) => {
    const table = element(id);
    table.replaceChildren();
    entries.forEach(([name, value]) => row(table, [name.replaceAll("_", " "), value]));
    if (!entries.length) { row(table, ["this scheme shows no numbers"]); }
  };
  fill("gauges", Object.entries(view.gauges).map(([name, value]) => [name.replace(/_ns$/, ""), name.endsWith("_ns") ? duration(value) : Number.isInteger(value) ? count(value) : value.toPrecision(4)]));
  const names = ["reads", "writes", "errors", "blocks_read", "cache_hits", "prefetch_hits", "late_hits", "misses", "prefetched_blocks", "used", "wasted"];
  fill("counters", names.map(name => [name, count(view[name])]));
}

// ---- the loop

function show() {
  const view = { ...stats, ...stats.exports[exportNumber] };
  set("what", `${view.name ? `${view.name}: ` : ""}${bytes(view.size_bytes)}, ${view.array}, ${view.scheme}, cache ${bytes(view.cache_bytes_max)}`);
  document.title = `Forerun: ${percent(view.hit_ratio)} hits`;
  const choice = element("export");
  choice.hidden = stats.exports.length < 2;
  if (choice.options.length !== stats.exports.length) {
    choice.replaceChildren(...stats.exports.map((e, i) => new Option(e.name || "(default)", i)));
  }
  set("foot", `Forerun ${stats.forerun}: ${bytes(stats.resident_bytes)} resident, ${duration(stats.cpu_ns)} of processor time.`);
  marks = view.changes;
  verdict(view);
  tiles(view);
  charts(view);
  members(view);
  decisions(view, stats.now_ns);
  details(view);
}

async function get(address) {
  const answer = await fetch(address, { cache: "no-store" });
  if (!answer.ok) { throw new Error(answer.status); }
  return answer.json();
}

async function poll() {
  const asked = exportNumber;
  try {
    const since = samples.length ? latest().n : 0;
    const [figures, live] = await Promise.all([get("stats.json"), get(`live.json?export=${asked}&since=${since}`)]);
    if (asked === exportNumber) {
      // A server that was started anew counts from the beginning.
      if (stats && figures.now_ns < stats.now_ns) { samples = []; }
      stats = figures;
      samples.push(...live.samples.filter(s => !samples.length || s.n > latest().n));
      const end = samples.length ? latest().t : 0;
      samples = samples.filter(s => s.t >= end - KEEP_NS);
      // A page that was just opened lacks more than one answer holds; it waits until it has all.
      if (samples.length && stats.now_ns - end < 2e9) { show(); }
      const failed = stats.exports[exportNumber]?.changed;
      set("state", failed ? "failed" : `running ${duration(stats.now_ns)}`);
      element("state").className = failed ? "lost" : "";
    }
    if (live.samples.length > 1 && asked === exportNumber) { setTimeout(poll, 0); return; }
  } catch {
    set("state", "the server does not answer");
    element("state").className = "lost";
  }
  setTimeout(poll, EVERY_MS);
}

element("export").addEventListener("change", event => { exportNumber = Number(event.target.value); samples = []; });
element("theme").addEventListener("click", () => {
  const dark = document.documentElement.dataset.theme ? document.documentElement.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  document.documentElement.dataset.theme = dark ? "light" : "dark";
  forgetColors();
  if (samples.length) { show(); }
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", forgetColors);
document.querySelectorAll("[data-window]").forEach(button => button.addEventListener("click", () => {
  windowSeconds = Number(button.dataset.window);
  document.querySelectorAll("[data-window]").forEach(other => other.setAttribute("aria-pressed", String(other === button)));
  if (samples.length) { map(latest().t); }
}));
addEventListener("resize", () => { if (samples.length) { show(); } });
poll();
