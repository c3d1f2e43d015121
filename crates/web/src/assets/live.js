// Keeps a page live: its own address, asked for as an event stream, sends the whole of <main> whenever it has changed. The
// page works without this script.

const main = document.getElementById("main");
const banner = document.getElementById("stale");

// --- Time -----------------------------------------------------------------------------------------------------------

function age(ms) {
  const s = Math.max(0, Math.floor(ms / 1000));
  if (s < 120) return `${s}s`;
  if (s < 7200) return `${Math.floor(s / 60)}m`;
  if (s < 172800) return `${Math.floor(s / 3600)}h`;
  return `${Math.floor(s / 86400)}d`;
}

// Texts such as "12s ago" are shown here alone, so that the server's page changes only when something has happened.
function showAges() {
  for (const time of document.querySelectorAll("time[data-since]")) {
    const ms = Date.now() - Number(time.dataset.since);
    const text = ms < -999 ? `in ${age(-ms)}` : `${age(ms)} ago`;
    if (time.textContent !== text) {
      time.title = time.dateTime;
      time.textContent = text;
    }
  }
}

// A running job: how far it would be if it took as long as usual.
function showProgress() {
  for (const bar of document.querySelectorAll("progress.job")) {
    const ms = Math.max(0, Date.now() - Number(bar.dataset.start));
    const estimate = Number(bar.dataset.estimate);
    bar.value = Math.min(ms, estimate);
    const text = `${age(ms)} of about ${age(estimate + 999)}`;
    const words = bar.nextElementSibling;
    if (words && words.textContent !== text) words.textContent = text;
  }
}

function showTimes() {
  showAges();
  showProgress();
}

// --- Morph ----------------------------------------------------------------------------------------------------------

// What people have done to an element stays: what they typed, opened, focused.
const KEPT = new Set(["open", "value", "title"]);

function sameKind(a, b) {
  const is = (name) => (a.getAttribute?.(name) ?? "") === (b.getAttribute?.(name) ?? "");
  return a.nodeType === b.nodeType && a.nodeName === b.nodeName && is("id") && is("class");
}

function morph(from, to) {
  if (from.nodeType === Node.TEXT_NODE) {
    if (from.data !== to.data) from.data = to.data;
    return;
  }
  if (from.nodeName === "TIME" && from.dataset.since === to.dataset.since) return;
  for (const { name, value } of to.attributes) {
    if (from.getAttribute(name) !== value) from.setAttribute(name, value);
  }
  for (const { name } of [...from.attributes]) {
    if (!to.hasAttribute(name) && !KEPT.has(name)) from.removeAttribute(name);
  }
  morphChildren(from, to);
}

// When forms have appeared: nobody can have meant one that was not there when they reached for it.
const appeared = new WeakMap();

function insert(from, wanted, at) {
  const forms = wanted.querySelectorAll ? [...wanted.querySelectorAll("form.act")] : [];
  if (wanted.matches?.("form.act")) forms.push(wanted);
  for (const form of forms) appeared.set(form, Date.now());
  from.insertBefore(wanted, at);
}

// Whether an element without an id is among those that are still to come.
function isWanted(node, wanted) {
  for (let next = wanted; next; next = next.nextSibling) if (sameKind(node, next)) return true;
  return false;
}

function morphChildren(from, to) {
  const ids = new Set();
  for (const child of to.children) if (child.id) ids.add(child.id);
  const byId = new Map();
  for (const child of [...from.children]) {
    if (!child.id) continue;
    // Rows behind one that leaves stay where they are, and keep the focus.
    if (ids.has(child.id)) byId.set(child.id, child);
    else child.remove();
  }
  let at = from.firstChild;
  for (const wanted of [...to.childNodes]) {
    // What has left must not stand in the way of what stays: an element that is moved loses the focus.
    while (at && !at.id && at.nodeType === Node.ELEMENT_NODE && !isWanted(at, wanted)) {
      const next = at.nextSibling;
      at.remove();
      at = next;
    }
    const match = wanted.id ? byId.get(wanted.id) : at && sameKind(at, wanted) ? at : undefined;
    if (match && match.nodeName === wanted.nodeName) {
      if (match === at) at = at.nextSibling;
      else from.insertBefore(match, at);
      morph(match, wanted);
    } else {
      insert(from, wanted, at);
    }
  }
  while (at) {
    const next = at.nextSibling;
    at.remove();
    at = next;
  }
}

function show(html) {
  const log = document.getElementById("log");
  const follows = log && isAtEnd(log);
  const next = new DOMParser().parseFromString(`<main>${html}</main>`, "text/html").querySelector("main");
  morphChildren(main, next);
  showTimes();
  if (follows) toEnd();
}

// Whoever looks at the end of a log sees what is added; whoever has scrolled up stays there.
function isAtEnd(log) {
  return log.scrollHeight - log.scrollTop - log.clientHeight < 8;
}

function toEnd() {
  const log = document.getElementById("log");
  if (log) log.scrollTop = log.scrollHeight;
}

// --- Stream ---------------------------------------------------------------------------------------------------------

let lost = null; // since when there is no connection
let stale = null; // what the server says
let gone = null; // why there is nothing any more

function showBanner() {
  const clock = (ms) => new Date(ms).toLocaleTimeString();
  let text = "";
  if (lost !== null) text = `stale since ${clock(lost)}: the server does not answer; trying again`;
  else if (stale) text = `stale since ${clock(stale.since_ms)}: ${stale.why}`;
  else if (gone) text = gone;
  if (banner.textContent !== text) banner.textContent = text;
  banner.hidden = text === "";
  document.body.toggleAttribute("data-is-stale", text !== "");
}

// The server says something every 15 s. A stream that is silent for longer is dead, though its connection may look open.
const SILENCE_MAX_MS = 35000;

let source = null;
let heard = 0; // when the stream last said something

function close() {
  source?.close();
  source = null;
}

function connect() {
  close();
  const mine = source = new EventSource(location.pathname + location.search);
  heard = Date.now();
  const on = (name, act) => mine.addEventListener(name, (event) => { heard = Date.now(); act(event); showBanner(); });
  // The server says it again if there is trouble.
  mine.onopen = () => { heard = Date.now(); lost = stale = gone = null; showBanner(); };
  mine.onerror = () => {
    lost ??= Date.now();
    showBanner();
    // After an answer that is no stream, such as 503, a browser gives up: we do not.
    if (mine.readyState === EventSource.CLOSED) setTimeout(() => { if (mine === source) connect(); }, 2000);
  };
  on("page", (event) => { stale = gone = null; show(event.data); });
  on("fresh", () => { stale = gone = null; });
  on("stale", (event) => { stale = JSON.parse(event.data); });
  on("gone", (event) => { gone = JSON.parse(event.data).detail; });
  on("alive", () => {});
  // The style and script of this page may be of another version, too. A form that somebody fills in is not thrown away.
  on("reload", () => { if (!document.querySelector("input:focus")) location.reload(); });
}

// A stream keeps one of the six connections that a browser opens to a server, for all of its tabs: those that nobody sees
// let theirs go.
function follow() {
  if (document.visibilityState === "visible") connect();
  else close();
}

function begin() {
  follow();
  addEventListener("visibilitychange", follow);
  addEventListener("pagehide", close);
  addEventListener("pageshow", (event) => { if (event.persisted) follow(); });
  setInterval(() => {
    if (!source || Date.now() - heard < SILENCE_MAX_MS) return;
    lost ??= heard;
    showBanner();
    connect();
  }, 1000);
}

// --- Keyboard -------------------------------------------------------------------------------------------------------

addEventListener("submit", (event) => {
  if (Date.now() - (appeared.get(event.target) ?? 0) < 700) event.preventDefault();
});

let leader = 0; // when `g` was pressed
addEventListener("keydown", (event) => {
  const typing = event.target.closest?.("input, textarea, select");
  if (typing || event.ctrlKey || event.altKey || event.metaKey) return;
  if (event.key === "/") {
    const filter = document.querySelector("form.filter input");
    if (filter) { filter.focus(); event.preventDefault(); }
  } else if (event.key === "g") {
    leader = Date.now();
  } else if (Date.now() - leader < 1500) {
    leader = 0;
    document.querySelector(`nav [data-key="${CSS.escape(event.key)}"]`)?.click();
  }
});

showTimes();
toEnd();
setInterval(showTimes, 1000);
if ("live" in document.body.dataset) begin();
