// The live page of `forerun watch`: asks twice a second and says who is helped, why, and what it earned.
"use strict";

const EVERY_MS = 500, PAGE_BYTES = 4096, ROWS = 30;
const set = (id, text) => { if (element(id).textContent !== text) { element(id).textContent = text; } };

/** A table of rows of texts; names of programs and files are only ever set as text. */
function table(id, head, rows) {
  const line = (cells, kind) => {
    const row = document.createElement("tr");
    row.append(...cells.map(([text, name]) => {
      const cell = document.createElement(kind);
      cell.textContent = text;
      if (name) { cell.className = name; }
      return cell;
    }));
    return row;
  };
  // A head over nothing is no table.
  element(id).replaceChildren(...rows.length ? [line(head, "th"), ...rows.map(cells => line(cells, "td"))] : []);
}

const times = percent => percent === null ? "–" : `${(percent / 100).toFixed(2)}×`;
/** So many of something: one reader, two readers. */
const some = (n, one, more = `${one}s`) => `${count(n)} ${n === 1 ? one : more}`;
const last = path => path.split("/").pop();

function tile(value, words) {
  const tile = document.createElement("div"), number = document.createElement("b"), text = document.createElement("span");
  tile.className = "tile";
  number.textContent = value;
  text.textContent = words;
  tile.append(number, text);
  return tile;
}

function headline(f) {
  const replays = Math.max(f.runs.without_ns - f.runs.waited_ns, 0), all = replays + f.sums.pattern_earned_ns;
  if (f.observe) { return ["Observing: everything is decided, and nothing is changed.", ""]; }
  if (f.budget_share === 0) { return ["Nothing is read ahead: programs wait for memory.", "bad"]; }
  if (all > 0) { return [`Readers have waited ${duration(all)} less.`, "good"]; }
  if (f.sums.windows_kept) { return [`${some(f.sums.windows_kept, "reader has", "readers have")} got a window that suits better.`, "good"]; }
  return [f.programs.length ? "Nothing was earned yet." : "Nobody has missed anything yet.", ""];
}

function reasons(f) {
  const lines = [], { sums, runs } = f;
  if (runs.without_ns) {
    lines.push(`Known programs waited ${duration(runs.waited_ns)} for reads, and without would have waited ${duration(runs.without_ns)} (estimated).`);
  }
  if (sums.pattern_readers) {
    const vain = sums.pattern_readers_slow ? `, ${count(sums.pattern_readers_slow)} of them in vain` : "";
    lines.push(`${some(sums.pattern_readers, "reader was", "readers were")} read ahead of by pattern${vain}; ` +
      `${percent(sums.pattern_pages_read / Math.max(sums.pattern_pages, 1))} of what was read ahead was read.`);
  }
  if (sums.windows_tried) { lines.push(`${some(sums.windows_tried, "window was", "windows were")} tried, ${count(sums.windows_kept)} paid.`); }
  if (sums.dense_strips) {
    lines.push(`${some(sums.dense_readers, "reader came", "readers came")} back to the same MiB of a file: ${count(sums.dense_strips)} of them were read whole.`);
  }
  if (sums.whole_bytes) {
    lines.push(`${bytes(sums.whole_bytes)} of mapped files were read as a whole: windows would have loaded half of each.`);
  }
  if (sums.beside_marks) {
    lines.push(`Of ${count(sums.beside_marks)} small files that were left out to be counted their readers came to ${count(sums.beside_marks_hit)}.`);
  }
  if (sums.lost_events) { lines.push(`${count(sums.lost_events)} events were lost: the rings were full.`); }
  return lines.map(line => {
    const item = document.createElement("li");
    item.textContent = line;
    return item;
  });
}

function show(f) {
  set("what", `watch${f.observe ? " --observe" : ""}, all programs`);
  const [words, kind] = headline(f);
  set("headline", words);
  element("headline").parentElement.className = `verdict ${kind}`;
  element("because").replaceChildren(...reasons(f));
  element("tiles").replaceChildren(
    tile(count(f.sums.events), "events of the kernel"), tile(count(f.streams.length), "readers helped now"),
    tile(f.sums.windows_tried ? `${count(f.sums.windows_kept)} of ${count(f.sums.windows_tried)}` : "–", "windows paid"),
    tile(duration(f.sums.cpu_ns), "processor time of Forerun"), tile(bytes(f.resident_bytes), "its memory"));
  set("streamsText", f.streams.length ? "How fast: compared with the same reader before it was helped." : "None.");
  const text = words => [words, "text"];
  table("streams", [text("program"), ["pid"], text("file"), text("how"), ["how fast"], ["for"]],
    f.streams.map(s => [text(s.program), [s.pid], text(last(s.file)), text(s.kind), [times(s.rate_percent)], [duration(f.now_ns - s.since_ns)]]));
  set("decisionsText", f.decisions.length
    ? "The newest first: a window is tried, kept or taken back; a pattern is found, and over; a known program begins." : "None yet.");
  table("decisions", [["ago"], text("program"), ["pid"], text("file"), ["decision", "text wide"]],
    f.decisions.slice(-ROWS).reverse().map(d => [[duration(f.now_ns - d.at_ns)], text(d.program), [d.pid], text(last(d.file)), [d.text, "text wide"]]));
  set("programsText", f.programs.length ? "What they wanted and was not in memory. What is in memory is not seen and costs nothing." : "None has missed anything yet.");
  table("programs", [text("program"), ["misses"], ["missed"], ["windows"], ["spared"]],
    f.programs.slice(0, ROWS).map(p => [text(p.name), [count(p.misses)], [bytes(p.missed_pages * PAGE_BYTES)], [count(p.windows_kept)], [p.earned_ns ? duration(p.earned_ns) : "–"]]));
  set("budgetsText", f.budget_share < 1 ? `Programs wait for memory: ${percent(f.budget_share)} of them may be used.` : "Nothing grows without a maximum.");
  const size = (name, n) => name.endsWith("_bytes") ? bytes(n) : count(n);
  table("budgets", [text("of"), ["now"], ["at most"]],
    f.budgets.map(b => [text(b.name.replace("_bytes", "").replaceAll("_", " ")), [size(b.name, b.now)], [size(b.name, b.max)]]));
  set("foot", `Forerun ${f.forerun}, running ${duration(f.now_ns)}.`);
}

async function ask() {
  const state = element("state");
  try {
    const answer = await fetch("stats.json", { cache: "no-store" });
    show(await answer.json());
    state.className = "";
    state.textContent = "live";
  } catch {
    state.className = "lost";
    state.textContent = "no answer";
  }
  setTimeout(ask, EVERY_MS);
}

element("theme").addEventListener("click", () => {
  const root = document.documentElement, dark = matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = (root.dataset.theme || (dark ? "dark" : "light")) === "dark" ? "light" : "dark";
  forgetColors();
});
ask();
