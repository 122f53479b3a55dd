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
  for (const area of document.querySelectorAll(".area")) {
    const xmax = Number(area.dataset.xmax);
    const [unit, xname] = area.dataset.unit.split(/:(.*)/);
    const cross = area.querySelector(".cross");
    const curves = [...area.querySelectorAll(".line")].map((line) => ({
      line,
      name: line.dataset.name,
      points: line.dataset.points.split(" ").filter(Boolean).map((pair) => pair.split(",").map(Number)),
    }));
    area.addEventListener("pointermove", (event) => {
      const box = area.getBoundingClientRect();
      const x = Math.min(1, Math.max(0, (event.clientX - box.left) / box.width)) * xmax;
      cross.hidden = false;
      cross.style.left = (x / xmax) * 100 + "%";
      const rows = [];
      for (const { line, name, points } of curves) {
        if (line.classList.contains("off")) continue;
        const point = points.find((p) => p[0] >= x);
        if (point) rows.push([point[1], `${name}: ${words[unit](point[1])}`]);
      }
      rows.sort((a, b) => b[0] - a[0]);
      show([xname ? `${xname}: ${digits(x)}` : `after ${digits(x)} s`, ...rows.map((row) => row[1])].join("\n"), event.clientX, event.clientY);
    });
    area.addEventListener("pointerleave", () => { cross.hidden = true; hide(); });
  }
})();
