// As much of a browser's document as the page's script touches, for the tests: made of the page's own HTML, and told of a pointer.
"use strict";
class Element {
  constructor(tag) {
    Object.assign(this, { tag, attributes: {}, children: [], parentElement: null, text: "", hidden: false, heard: {}, style: {}, dataset: {} });
    this.classes = new Set();
    this.classList = {
      add: (name) => this.classes.add(name),
      toggle: (name, on) => (on ? this.classes.add(name) : this.classes.delete(name)),
    };
  }
  set className(words) { this.classes = new Set(words.split(" ").filter(Boolean)); }
  get textContent() { return this.text + this.children.map((child) => child.textContent).join(""); }
  set textContent(text) { this.children = []; this.text = String(text); }
  getAttribute(name) { return this.attributes[name] ?? null; }
  setAttribute(name, value) {
    this.attributes[name] = value;
    if (name === "class") this.className = value;
    if (name === "hidden") this.hidden = true;
    if (name.startsWith("data-")) this.dataset[name.slice(5)] = value;
  }
  appendChild(child) { child.parentElement = this; this.children.push(child); return child; }
  replaceChildren(...children) { this.textContent = ""; children.forEach((child) => this.appendChild(child)); }
  getBoundingClientRect() { return { left: 0, top: 0, width: 1000, height: 400 }; }
  setPointerCapture() {}
  addEventListener(kind, hear) { (this.heard[kind] ??= []).push(hear); }
  fire(kind, more = {}) { for (const hear of this.heard[kind] ?? []) hear({ type: kind, target: this, button: 0, clientX: 0, clientY: 0, ...more }); }
  is(selector) {
    const [, tag, rest] = selector.match(/^([a-z0-9]*)(.*)$/);
    const attribute = rest.match(/\[([a-z-]+)(?:="(.*)")?\]/);
    const classes = rest.replace(/\[.*\]/, "").split(".").filter(Boolean);
    return (!tag || this.tag === tag) && classes.every((name) => this.classes.has(name)) &&
      (!attribute || (attribute[2] === undefined ? attribute[1] in this.attributes : this.attributes[attribute[1]] === attribute[2]));
  }
  closest(selector) { return this.is(selector) ? this : this.parentElement?.closest(selector) ?? null; }
  all() { return this.children.flatMap((child) => [child, ...child.all()]); }
  querySelectorAll(selector) {
    const parts = selector.split(" ");
    return this.all().filter((element) => element.is(parts.at(-1)) && (parts.length === 1 || element.parentElement?.closest(parts[0])));
  }
  querySelector(selector) { return this.querySelectorAll(selector)[0] ?? null; }
}

const EMPTY = new Set(["meta", "link", "input", "br", "hr", "!doctype"]);
const plain = (text) => text.replace(/&lt;/g, "<").replace(/&gt;/g, ">").replace(/&quot;/g, '"').replace(/&#39;/g, "'").replace(/&amp;/g, "&");
function read(html) {
  const root = new Element("root");
  let open = root;
  const body = html.replace(/<(style|script)>[^]*?<\/\1>/g, "");
  for (const [, end, tag, attributes, closed, text] of body.matchAll(/<(\/?)([!a-z0-9]+)((?:\s+[\w:-]+(?:="[^"]*")?)*)\s*(\/?)>([^<]*)/gi)) {
    if (end) {
      if (open.tag !== tag) throw new Error(`</${tag}> closes <${open.tag}>`);
      open = open.parentElement;
    } else {
      const element = open.appendChild(new Element(tag));
      for (const [, name, value] of attributes.matchAll(/([\w:-]+)(?:="([^"]*)")?/g)) element.setAttribute(name, plain(value ?? ""));
      if (!closed && !EMPTY.has(tag)) open = element;
    }
    if (text.trim()) open.text += plain(text);
  }
  if (open !== root) throw new Error(`<${open.tag}> is left open`);
  return root;
}

const page = read(HTML);
globalThis.document = {
  documentElement: page.querySelector("html"),
  getElementById: (id) => page.all().find((element) => element.attributes.id === id),
  querySelectorAll: (selector) => page.querySelectorAll(selector),
  createElement: (tag) => new Element(tag),
  addEventListener() {},
};
Object.assign(globalThis, {
  addEventListener() {}, innerWidth: 1280, innerHeight: 800,
  matchMedia: () => ({ matches: false }),
  getComputedStyle: (element) => ({ display: element.classes.has("off") ? "none" : "inline" }),
});
