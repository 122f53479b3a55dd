"use strict";
(() => {
  const root = document.documentElement;
  const tip = document.getElementById("tip");
  const stored = (() => { try { return localStorage.getItem("forerun-theme"); } catch { return null; } })();
  if (stored) root.dataset.theme = stored;
  document.getElementById("theme").addEventListener("click", () => {
    const dark = root.dataset.theme ? root.dataset.theme === "dark"
      : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = dark ? "light" : "dark";
    try { localStorage.setItem("forerun-theme", root.dataset.theme); } catch { /* a page from a file may not store */ }
  });

  const show = (text, x, y) => {
    tip.textContent = text;
    tip.hidden = false;
    const box = tip.getBoundingClientRect();
    tip.style.left = Math.max(8, Math.min(x + 14, innerWidth - box.width - 8)) + "px";
    tip.style.top = (y + 18 + box.height > innerHeight ? y - box.height - 12 : y + 18) + "px";
  };
  const hide = () => { tip.hidden = true; };
  document.addEventListener("pointermove", (event) => {
    const target = event.target.closest?.("[data-tip]");
    if (target) show(target.dataset.tip, event.clientX, event.clientY);
    else if (!event.target.closest?.(".area")) hide();
  });
  document.addEventListener("pointerleave", hide);
  addEventListener("scroll", hide, { passive: true });

  for (const chip of document.querySelectorAll(".chips button")) {
    chip.addEventListener("click", () => {
      const on = chip.getAttribute("aria-pressed") !== "true";
      chip.setAttribute("aria-pressed", String(on));
      const section = chip.closest("section");
      for (const part of section.querySelectorAll(`[data-run="${chip.dataset.for}"]`)) {
        part.classList.toggle("off", !on);
      }
    });
  }

  const digits = (v) => v < 9.995 ? v.toFixed(2) : v < 99.95 ? v.toFixed(1) : v.toFixed(0);
  const rate = (v) => {
    const units = ["B", "KiB", "MiB", "GiB", "TiB"];
    let unit = 0;
    while (v >= 1023.95 && unit < 4) { v /= 1024; unit += 1; }
    return digits(v) + " " + units[unit] + "/s";
  };
  const words = { rate, share: (v) => (v * 100).toFixed(1) + "%", plain: digits };
  const drawn = (line) => getComputedStyle(line).display !== "none";
  const areas = [];
  for (const area of document.querySelectorAll(".area")) {
    const [unit, xname] = area.dataset.unit.split(/:(.*)/);
    const plot = {
      area, unit, xname,
      section: area.closest("section"),
      all: [0, Number(area.dataset.xmax)],
      svg: area.querySelector("svg"),
      band: area.appendChild(Object.assign(document.createElement("div"), { className: "band", hidden: true })),
      ticks: [...area.parentElement.querySelectorAll(".xticks span")],
      curves: [...area.querySelectorAll(".line")].map((line) => ({
        line,
        name: line.dataset.name,
        points: line.dataset.points.split(" ").filter(Boolean).map((pair) => pair.split(",").map(Number)),
      })),
    };
    plot.shown = plot.all;
    plot.texts = plot.ticks.map((tick) => tick.textContent);
    areas.push(plot);
    const cross = area.querySelector(".cross");
    const share = (event) => {
      const box = area.getBoundingClientRect();
      return Math.min(1, Math.max(0, (event.clientX - box.left) / box.width));
    };
    const at = (where) => plot.shown[0] + where * (plot.shown[1] - plot.shown[0]);
    let from = null;
    area.addEventListener("pointermove", (event) => {
      const where = share(event);
      const x = at(where);
      cross.hidden = false;
      cross.style.left = where * 100 + "%";
      if (from !== null) {
        for (const other of linked(plot)) {
          other.band.hidden = false;
          other.band.style.left = Math.min(from, where) * 100 + "%";
          other.band.style.width = Math.abs(where - from) * 100 + "%";
        }
      }
      const rows = [];
      for (const { line, name, points } of plot.curves) {
        if (!drawn(line)) continue;
        const point = points.find((p) => p[0] >= x);
        if (point) rows.push([point[1], `${name}: ${words[unit](point[1])}`]);
      }
      rows.sort((a, b) => b[0] - a[0]);
      show([xname ? `${xname}: ${digits(x)}` : `after ${digits(x)} s`, ...rows.map((row) => row[1])].join("\n"), event.clientX, event.clientY);
    });
    area.addEventListener("pointerleave", () => { cross.hidden = true; hide(); });
    if (xname) continue; // no time
    area.classList.add("timed");
    area.addEventListener("pointerdown", (event) => {
      if (event.button !== 0) return;
      from = share(event);
      area.setPointerCapture(event.pointerId);
    });
    const end = (event) => {
      if (from === null) return;
      const range = [from, share(event)].sort((a, b) => a - b).map(at);
      const wide = Math.abs(share(event) - from) > 0.01;
      from = null;
      for (const other of linked(plot)) other.band.hidden = true;
      if (wide && event.type === "pointerup") look(plot, range);
    };
    area.addEventListener("pointerup", end);
    area.addEventListener("pointercancel", end);
    area.addEventListener("dblclick", () => look(plot, null));
  }

  // Pictures of one section over time show one range of it.
  const linked = (plot) => areas.filter((other) => other.section === plot.section && !other.xname);
  const look = (plot, range) => {
    for (const other of linked(plot)) {
      const whole = other.all[1];
      const [low, high] = other.shown = range ?? other.all;
      other.svg.setAttribute("viewBox", `${1000 * low / whole} 0 ${1000 * (high - low) / whole} 400`);
      other.svg.style.overflow = "hidden";
      other.ticks.forEach((tick, n) => {
        tick.textContent = range ? digits(low + (high - low) * n / (other.ticks.length - 1)) + " s" : other.texts[n];
      });
    }
    const figure = plot.section.querySelector("figure.range");
    figure.hidden = !range;
    if (!range) return;
    figure.querySelector("h3").textContent = `From ${digits(range[0])} s to ${digits(range[1])} s`;
    figure.querySelector(".scroll").replaceChildren(table(linked(plot).filter((other) => other.curves.length), range));
  };
  // The mean of a curve in a range: each point stands for the time since the one before.
  const mean = (points, [low, high]) => {
    let sum = 0, time = 0, before = 0;
    for (const [x, y] of points) {
      const part = Math.min(x, high) - Math.max(before, low);
      if (part > 0) { sum += y * part; time += part; }
      before = x;
    }
    return time > 0 ? sum / time : null;
  };
  const table = (plots, range) => {
    const element = document.createElement("table");
    const row = (cells, kind) => {
      const line = element.appendChild(document.createElement("tr"));
      for (const text of cells) line.appendChild(document.createElement(kind)).textContent = text;
      return line;
    };
    row(["scheme", ...plots.map((plot) => plot.area.closest("figure").querySelector("h3").textContent.replace(" over time", ""))], "th");
    for (const { line, name } of plots[0].curves) {
      const cells = plots.map((plot) => {
        const curve = plot.curves.find((other) => other.line.dataset.run === line.dataset.run);
        const value = curve && mean(curve.points, range);
        return value === null || value === undefined ? "–" : words[plot.unit](value);
      });
      row([name, ...cells], "td").dataset.run = line.dataset.run;
    }
    return element;
  };
  for (const button of document.querySelectorAll("figure.range button")) {
    const plot = areas.find((other) => other.section === button.closest("section") && !other.xname);
    if (plot) button.addEventListener("click", () => look(plot, null));
  }
})();
