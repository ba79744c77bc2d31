
"use strict";
(() => {
// ---- Elements ----------------------------------------------------------------------------------------------------

const $ = (id) => document.getElementById(id);

/** el makes an element. Text gets in as text, never as HTML. */
function el(tag, props, ...children) {
  const e = document.createElement(tag);
  for (const [name, value] of Object.entries(props ?? {})) {
    if (value === undefined || value === null || value === false) continue;
    e.setAttribute(name, value === true ? "" : String(value));
  }
  e.append(...children.flat(3).filter((c) => c !== null && c !== undefined && c !== false && c !== ""));
  return e;
}

const svgNS = "http://www.w3.org/2000/svg";
function icon(name, cls = "") {
  const svg = document.createElementNS(svgNS, "svg");
  svg.setAttribute("class", `icon ${cls}`.trim());
  svg.setAttribute("aria-hidden", "true");
  const use = document.createElementNS(svgNS, "use");
  use.setAttribute("href", `#i-${name}`);
  svg.append(use);
  return svg;
}

const keyOf = (node) => node.nodeType === 1 ? node.getAttribute("data-key") : null;

/** morph makes an element what another one is, and leaves alone what is so already, focus and scrolling with it. */
function morph(have, want) {
  if (have.isEqualNode(want)) return;
  if (have.nodeType !== want.nodeType || have.nodeName !== want.nodeName) return have.replaceWith(want);
  if (have.nodeType !== 1) { have.data = want.data; return; }
  for (const { name } of [...have.attributes]) if (!want.hasAttribute(name)) have.removeAttribute(name);
  for (const { name, value } of want.attributes) if (have.getAttribute(name) !== value) have.setAttribute(name, value);
  fill(have, [...want.childNodes]);
}

/** fill makes the children of an element what is wanted. */
function fill(parent, wanted) {
  wanted = wanted.flat(3).filter((c) => c).map((c) => typeof c === "string" ? document.createTextNode(c) : c);
  const keys = new Set(wanted.map(keyOf).filter((k) => k !== null));
  const keyed = new Map();
  for (const child of [...parent.children]) {
    const key = keyOf(child);
    if (key === null) continue;
    if (keys.has(key)) keyed.set(key, child); else child.remove();
  }
  let at = parent.firstChild;
  for (const want of wanted) {
    const key = keyOf(want);
    const have = key !== null ? keyed.get(key) : at && keyOf(at) === null ? at : undefined;
    if (!have) { parent.insertBefore(want, at); continue; }
    if (have === at) at = at.nextSibling; else parent.insertBefore(have, at);
    morph(have, want);
  }
  while (at) { const next = at.nextSibling; at.remove(); at = next; }
}

/**
 * table makes a table; a column is {name, num, wide, by}, a row {key, cells, marked}; the first cell names its row. A
 * column with by, a function of a row's thing, has a button to sort by it; sorted is {name, down}.
 */
function table(caption, columns, rows, sorted) {
  const cls = (c) => c.num ? "num" : c.wide ? "break" : undefined;
  const head = (c) => {
    const at = sorted && c.by && sorted.name === c.name ? sorted.down ? "descending" : "ascending" : null;
    return el("th", { scope: "col", class: c.num && "num", "aria-sort": at }, !c.by ? c.name
      : el("button", { type: "button", class: "sort", "data-do": "sort", "data-name": c.name }, c.name,
        el("span", { "aria-hidden": "true" }, at ? at === "ascending" ? " ↑" : " ↓" : "")));
  };
  return el("table", {}, el("caption", {}, caption), el("thead", {}, el("tr", {}, columns.map(head))),
    el("tbody", {}, rows.map((r) => el("tr", { "data-key": r.key, class: r.marked && "marked" },
      r.cells.map((cell, i) => el(i ? "td" : "th", { scope: i ? null : "row", class: cls(columns[i]) }, cell))))));
}

// ---- Words -------------------------------------------------------------------------------------------------------

const numbers = new Intl.NumberFormat("en");
const num = (n) => numbers.format(n);
const many = (n, one, more) => `${num(n)} ${n === 1 ? one : more}`;
const percent = (part, all) => all ? `${(100 * part / all).toFixed(1)} %` : "0 %";

/** lasting says how long so many milliseconds are. */
function lasting(ms) {
  const s = Math.max(0, ms) / 1000;
  if (s < 1) return `${Math.round(s * 1000)} ms`;
  if (s < 10) return `${s.toFixed(1)} s`;
  if (s < 60) return `${Math.floor(s)} s`;
  const m = Math.floor(s / 60), h = Math.floor(m / 60), d = Math.floor(h / 24);
  if (m < 60) return `${m} min ${Math.floor(s % 60)} s`;
  if (h < 48) return `${h} h ${m % 60} min`;
  return `${d} d ${h % 24} h`;
}
/** coarse is lasting without figures that change from second to second. */
const coarse = (ms) => ms < 1000 ? "a moment" : ms < 10000 ? `${Math.floor(ms / 1000)} s` : lasting(ms);
const clock = (at) => at.toLocaleTimeString("en-GB");
const withMillis = (at) => `${clock(at)}.${String(at.getMilliseconds()).padStart(3, "0")}`;

/** since is an element that says how long ago a moment of the node's clock was; tick keeps it current. */
function since(moment, before = "", after = "") {
  const at = Date.parse(moment);
  const e = el("time", { datetime: moment, "data-since": at, "data-before": before, "data-after": after,
    title: new Date(at).toLocaleString("en-GB") });
  e.textContent = before + coarse(now() - at) + after;
  return e;
}

// ---- State -------------------------------------------------------------------------------------------------------

/** The pages that the stream has, and what each is for. */
const pages = {
  status: "/cluster/status", leader: "/cluster/leader", health: "/cluster/health", nodes: "/cluster/nodes?limit=1000",
  shards: "/cluster/shards", events: "/cluster/events?limit=10", elections: "/cluster/elections",
  locks: "/cluster/locks", unknown: "/cluster/effects?unknown=true", effects: "/cluster/effects",
  processors: "/cluster/processors/all", own: "/cluster/processors", automations: "/cluster/automations",
};
/** got has the newest {status, body} of each page. */
const got = {};
const body = (name) => got[name]?.status === 200 ? got[name].body : undefined;
const detail = (name) => got[name]?.body?.detail ?? got[name]?.body?.title ?? "";

/** inEtcd: the cluster is one in etcd. In PostgreSQL there are no shards, objects, effects and figures to show. */
const inEtcd = () => got.status?.body?.store !== "postgresql";
const store = () => inEtcd() ? "etcd" : "PostgreSQL";
function hideUnknown() {
  for (const id of ["h-shards", "h-services", "h-commands"]) $(id).closest("section").hidden = !inEtcd();
  for (const id of ["sparks", "sparks-note"]) $(id).hidden = !inEtcd();
  const effects = kindsOfWork.indexOf("effects");
  if (inEtcd() || effects < 0) return;
  kindsOfWork.splice(effects, 1);
  if (tab === "effects") tab = "all";
  dirty.add("effects");
}

/** skew is how far the node's clock is ahead of this one, in milliseconds. */
let skew = 0;
const now = () => Date.now() + skew;

/** numberOf has the number of each node's sign: an address keeps its own while the page is open. */
const numberOf = new Map();
function sign(address) {
  if (!numberOf.has(address)) numberOf.set(address, numberOf.size);
  return numberOf.get(address);
}
const colours = 16;
const mark = (address) => address === ""
  ? el("span", { class: "sign none", "aria-hidden": "true" }, "–")
  : el("span", { class: `sign c${sign(address) % colours}`, "aria-hidden": "true" }, letters(sign(address)));
/** letters are A to Z, then AA to ZZ. */
const letters = (s) => (s >= 26 ? letters(Math.floor(s / 26) - 1) : "") + String.fromCharCode(65 + s % 26);

/** safeURL is a node's own dashboard, if it names one that a browser may go to. */
function safeURL(text) {
  if (!text) return null;
  try {
    const u = new URL(text);
    if (u.protocol !== "http:" && u.protocol !== "https:") return null;
    return u.pathname === "" ? `${u.href}/` : u.href;
  } catch { return null; }
}
const memberAt = (address) => members.get(address);
/** members has the nodes by address, and hosts how many nodes each host has. */
let members = new Map(), hosts = new Map();
function readMembers(nodes) {
  members = new Map(nodes.map((n) => [n.address, n]));
  hosts = new Map();
  for (const n of nodes) if (n.hostname) hosts.set(n.hostname, (hosts.get(n.hostname) ?? 0) + 1);
  for (const n of nodes) if (n.hostname) hostOf.set(n.address, n.hostname);
  for (const address of [...hostOf.keys()].slice(0, -2000)) hostOf.delete(address);
}
/** hostOf remembers the hosts of nodes that have gone. */
const hostOf = new Map();
const port = (address) => address.slice(address.lastIndexOf(":"));
/** nameFor is the shortest name of a node: its host, with its port where the host has several; else its address. */
function nameFor(address) {
  const host = hostOf.get(address);
  if (!host || address.startsWith(`${host}:`)) return address;
  return (hosts.get(host) ?? 0) > 1 ? host + port(address) : host;
}
/** who shows a node: its host's name, or with full both that and its address. */
function who(address, link = false, full = false) {
  const url = link && safeURL(memberAt(address)?.api_url), name = nameFor(address);
  const title = name === address ? address : `${name}, ${address}`;
  return el("span", { class: "who" }, mark(address),
    url && address !== self() ? el("a", { href: url, title }, name) : el("span", { title }, name),
    full && name !== address ? el("small", { class: "address" }, address) : "");
}
const self = () => got.status?.body?.node_id ?? "";

// ---- Connection --------------------------------------------------------------------------------------------------

const silence = 6000; // milliseconds without a beat after which the node counts as gone
const connection = { source: null, live: false, seen: 0, failures: 0, again: 0, timer: 0 };

function connect() {
  clearTimeout(connection.timer);
  connection.source?.close();
  connection.again = 0;
  const query = Object.values(pages).map((p) => `page=${encodeURIComponent(p)}`).join("&");
  const source = connection.source = new EventSource(`cluster/stream?${query}`);
  const began = Date.now();
  const heard = () => {
    if (source !== connection.source) return false;
    connection.seen = Date.now();
    if (!connection.live) { connection.live = true; connection.failures = 0; paintLive(); }
    return true;
  };
  source.addEventListener("beat", heard);
  for (const [name, page] of Object.entries(pages)) {
    source.addEventListener(page, (e) => { if (heard()) take(name, JSON.parse(e.data)); });
  }
  source.onerror = () => { if (source === connection.source) disconnected(); };
  connection.began = began;
}

/** disconnected waits longer from time to time, up to five seconds. */
function disconnected() {
  connection.source?.close();
  connection.source = null;
  connection.live = false;
  const wait = Math.min(5000, 250 * 2 ** connection.failures++) * (0.75 + Math.random() / 2);
  connection.again = Date.now() + wait;
  clearTimeout(connection.timer);
  connection.timer = setTimeout(connect, wait);
  paintLive();
}

function watchdog() {
  const from = Math.max(connection.seen, connection.began ?? 0);
  if (connection.source && Date.now() - from > silence) disconnected();
}

// A page that is not visible gives its connection back after half a minute.
let away = 0;
document.addEventListener("visibilitychange", () => {
  if (!document.hidden) askFigures();
  clearTimeout(away);
  if (document.hidden) {
    away = setTimeout(() => {
      clearTimeout(connection.timer);
      connection.source?.close();
      Object.assign(connection, { source: null, live: false });
      paintLive();
    }, 30000);
  } else if (!connection.source) { connection.failures = 0; connect(); }
});

/** old says why what is shown may not be so, "" if it is current. */
function old() {
  if (!connection.live) return connection.seen ? "disconnected" : "";
  const st = got.status?.body;
  if (!st) return "";
  if (st.state === "starting") return "This node is starting: it is no part of the cluster yet.";
  if (st.state === "stopped") return "This node has stopped: it is no part of the cluster any more.";
  if (!st.ready) return `This node is cut off from ${store()}, reads the cluster anew, or stops: what it shows is what it last ` +
    "knew, and may not be so any more.";
  return "";
}

function paintLive() {
  const live = $("live"), why = old();
  document.documentElement.classList.toggle("stale", why !== "");
  const at = connection.seen ? `last seen ${clock(new Date(connection.seen))}` : "";
  if (connection.live) {
    live.className = why ? "live wait" : "live on";
    fill(live, [why ? "connected, view not current" : "live"]);
  } else {
    live.className = connection.seen ? "live off" : "live wait";
    const ago = el("span", { "aria-hidden": "true" }, ` (${lasting(Math.floor((Date.now() - connection.seen) / 1000) * 1000 || 0)} ago)`);
    fill(live, connection.seen ? [`reconnecting… ${at}`, ago] : ["connecting…"]);
  }
  const banner = $("banner");
  const says = why === "disconnected"
    ? `Disconnected from this node: everything below is as of ${clock(new Date(connection.seen))}.` : why;
  banner.hidden = says === "";
  if (banner.textContent !== says) banner.textContent = says;
  paintTitle();
  paintLease();
  $("health").hidden = !connection.live || !got.health?.body?.status;
}

function paintTitle() {
  const st = got.status?.body;
  const lead = st?.leader_id ? `${nameFor(st.leader_id)} leads` : "no node leads";
  document.title = !st ? "Goverse" : old() ? `(not current) ${nameFor(st.node_id)} · Goverse` : `${lead} · Goverse`;
}

// ---- What comes in -----------------------------------------------------------------------------------------------

const offsets = [];
let dirty = new Set(), frame = 0;

function take(name, push) {
  got[name] = push;
  if (name === "health" && push.body?.timestamp) {
    offsets.push(Date.parse(push.body.timestamp) - Date.now()); // the least delayed is nearest
    if (offsets.length > 20) offsets.shift();
    const best = Math.max(...offsets);
    skew = Math.abs(best) < 250 ? 0 : best; // of clocks that agree, delay alone is left
  }
  if (name === "nodes") {
    readMembers(push.body?.nodes ?? []);
    for (const n of push.body?.nodes ?? []) sign(n.address);
  }
  // In the order of the addresses, so that each page that is opened has the same signs.
  if (name === "status") { for (const address of push.body?.nodes ?? []) sign(address); hideUnknown(); paintAdmin(); }
  dirty.add(name);
  // Not by requestAnimationFrame: a page in the background is current too.
  frame ||= setTimeout(paint, 0);
}

const paints = [
  [["status", "nodes", "health"], paintHeader], [["status", "leader", "nodes"], paintLeader],
  [["status", "nodes", "shards", "unknown"], paintTiles], [["status", "nodes"], paintQueue],
  [["nodes", "status", "shards"], paintNodes], [["shards", "nodes"], paintShards],
  [["elections", "locks", "effects", "unknown", "processors", "own", "automations", "nodes"], paintWork],
  [["events"], takeEvents], [["status", "leader", "nodes", "events"], paintLanes], [["status"], paintCommands],
];

function paint() {
  frame = 0;
  const changed = dirty;
  dirty = new Set();
  for (const [names, draw] of paints) if (names.some((n) => changed.has(n))) draw();
  if (changed.has("status")) paintLive();
}
function paintAll() {
  for (const [, draw] of paints) draw();
  paintSparks();
  paintServices();
}

function tick() {
  watchdog();
  for (const e of document.querySelectorAll("[data-since]")) {
    const says = e.dataset.before + coarse(now() - Number(e.dataset.since)) + e.dataset.after;
    if (connection.live && e.textContent !== says) e.textContent = says;
  }
  if (!connection.live) paintLive();
  paintLease();
  if (connection.live && Date.now() - drawnAt > 2000) { drawnAt = Date.now(); paintLanes(); }
}
let drawnAt = 0;

// ---- Header, leader, figures, queue --------------------------------------------------------------------------------

const healthIcon = { healthy: ["ok", "good"], degraded: ["warn", "warn"], suspected: ["warn", "bad"], silent: ["warn", "bad"] };
function health(text) {
  const [sym, cls] = healthIcon[text] ?? ["dot", "soft"];
  return el("span", { class: `status ${cls}` }, icon(sym), text);
}

function paintHeader() {
  const st = got.status?.body, h = got.health?.body;
  if (!st) return;
  const host = memberAt(st.node_id)?.hostname;
  fill($("self"), ["as seen by ", el("b", {}, nameFor(st.node_id)), host && nameFor(st.node_id) !== st.node_id ? ` at ${st.node_id}` : "",
    h?.version ? el("span", {}, `, version ${h.version}`) : ""]);
  const badge = $("health");
  if (h?.status) fill(badge, [health(h.status)]);
  fill($("foot"), [`Goverse${h?.version ? ` ${h.version}` : ""}, ${inEtcd() ? "revision" : "event"} ${num(st.revision)} of ${store()}`]);
}

/** unanswered says for how long a node has not answered, and to how many. */
const unanswered = (n) => el("span", { class: "bad silence" }, ` not answering for ${num(Math.floor(n.silent_seconds))} s, seen by ` +
  many(n.silent_to, "node", "nodes"));

let lastLeader; // what was said last
function paintLeader() {
  const st = got.status?.body, info = body("leader");
  if (!st) return;
  const parts = [];
  const known = info && info.leader_id === st.leader_id ? info : undefined;
  if (st.mode === "fallback") {
    parts.push(el("p", { class: "banner" }, icon("bolt"), " Fallback: the election cannot work, and the node with the " +
      "smallest address leads. Look at the log of the leader for why."));
  }
  if (st.leader_id) {
    const m = memberAt(st.leader_id);
    parts.push(el("p", { class: "name" }, who(st.leader_id, true, true)));
    if (m?.silent_to) parts.push(el("p", { class: "bad", role: "alert" }, icon("warn"), unanswered(m)));
    const facts = [["Token of the term", el("span", {}, num(st.token))],
      ["Leads", known?.acquired_at ? since(known.acquired_at, "for ") : "time not known"],
      ["Version", m?.version || "not known"]];
    parts.push(el("dl", {}, facts.map(([k, v]) => el("div", {}, el("dt", {}, k), el("dd", {}, v)))));
  } else {
    parts.push(el("p", { class: "name" }, !st.ready && st.state !== "starting" ? "Not known" : "No node leads"));
    const next = st.queue[0];
    parts.push(el("p", { class: "soft" }, !st.ready
      ? `This node cannot say who leads while it has no current view of ${store()}.${lastLeader ? ` It was ${lastLeader}.` : ""}`
      : next ? ["The next in the queue is ", who(next), "; it leads as soon as the former leader is gone."]
        : "No node stands for election: start one, or look why none can."));
  }
  fill($("leader"), parts);
  if (st.ready && st.leader_id !== (lastLeader ?? "")) {
    if (lastLeader !== undefined || !st.leader_id) {
      $("news").textContent = st.leader_id ? `${st.leader_id} leads now.` : "No node leads now.";
    }
    lastLeader = st.leader_id;
  }
  fill($("leader-buttons"), token && st.leader_id && inEtcd() ? [act("resign", "Resign…"), act("transfer", "Transfer…")] : []);
  paintTitle();
  paintLease();
}

/** lease is the newest end that the leader's lease is known to have, and how long it is in full. */
const lease = { token: 0, ends: 0, full: 0 };
function paintLease() {
  const info = body("leader"), st = got.status?.body;
  const box = $("lease");
  box.hidden = !(info?.expires_at && st?.leader_id === info.leader_id && st.ready);
  if (box.hidden) return;
  const ends = Date.parse(info.expires_at);
  const full = info.renewed_at ? ends - Date.parse(info.renewed_at) : Math.max(lease.full, ends - now());
  // etcd says what is left to the second, so estimated ends differ by that from one look to the next.
  const later = ends - lease.ends, same = info.estimated && lease.token === info.token && lease.full === full;
  if (!same || later > Math.min(1200, full / 5) || later < -1500) Object.assign(lease, { ends, full, token: info.token });
  if (!connection.live) { $("lease-text").textContent = "The lease is not known while this page is disconnected."; return; }
  const left = Math.max(0, lease.ends - now()), share = lease.full > 0 ? Math.min(1, left / lease.full) : 0;
  const bar = $("lease-bar");
  bar.style.transform = `scaleX(${share.toFixed(4)})`;
  const unsure = info.estimated ? 1000 : 0; // it may be so much longer
  bar.classList.toggle("low", (left + unsure) / lease.full < 0.34);
  const says = left === 0 ? lease.ends + unsure > now() ? "lease is about to end unless renewed, estimated"
    : "lease over: not renewed in time, as far as this node knows" : `lease runs for ${(left / 1000).toFixed(1)} s of ${(lease.full / 1000).toFixed(0)} s unless renewed` +
    `${info.estimated ? ", estimated" : ""}`;
  if ($("lease-text").textContent !== says) $("lease-text").textContent = says;
}

function paintTiles() {
  const st = got.status?.body, nodes = body("nodes")?.nodes ?? [], t = body("shards");
  if (!st) return;
  const unwell = nodes.filter((n) => n.health !== "healthy").length;
  const leaving = nodes.filter((n) => n.draining || n.stopping).length;
  const tile = (name, value, small, cls) => el("div", {}, el("dt", {}, name), el("dd", {}, value, el("small", { class: cls }, small)));
  const unknown = body("unknown")?.effects.length ?? 0;
  fill($("tiles"), [
    tile("Nodes", num(st.cluster_size), unwell ? `${num(unwell)} not healthy` : leaving ? `${num(leaving)} leaving or draining`
      : "all healthy", unwell ? "bad" : leaving ? "warn" : null),
    tile("Candidates", num(st.queue.length), st.mode === "election" ? "election works" : "fallback",
      st.mode === "election" ? null : "warn"),
  ...!inEtcd() ? [] : [
    tile("Shards", t ? num(t.count) : "–", t ? `${t.balance.least === t.balance.most ? "" : `${num(t.balance.least)}–`}${num(t.balance.most)} each` : "no map"),
    tile("Moves", t ? num(t.open_moves) : "–", t?.open_moves ? "open" : "none open", t?.open_moves ? "warn" : null),
    tile("Unknown effects", num(unknown), unknown ? "to be resolved"
      : body("unknown")?.truncated ? "none among the first" : "none to resolve", unknown ? "bad" : null),
  ]]);
}

const chipsShown = 9;
let allChips = false;
function paintQueue() {
  const st = got.status?.body;
  if (!st) return;
  const queue = st.queue, shown = allChips ? queue : queue.slice(0, chipsShown);
  const chips = shown.map((a, i) => el("li", { class: i || a !== st.leader_id ? "chip" : "chip first", "data-key": `${a} ${queue.indexOf(a) === i ? "" : i}` },
    el("span", { class: "place" }, `${i + 1}`), who(a), a === st.leader_id && i === 0 ? el("span", { class: "tag main" }, icon("crown"), "leads") : ""));
  fill($("queue"), [queue.length ? el("ol", { class: "chips", tabindex: queue.length > 12 ? 0 : null,
    "aria-label": "The queue in order" }, chips)
    : el("p", { class: "empty" }, "The queue is empty: no node stands for election."),
  queue.length > chipsShown ? el("button", { type: "button", class: "small more", "data-do": "chips" },
    allChips ? "Show fewer" : `Show all ${num(queue.length)}`) : ""]);
}

// ---- Nodes -------------------------------------------------------------------------------------------------------

const stateIcon = { leader: "crown", candidate: "clock", follower: "dot", observer: "eye" };
let wanted = "";
const order = { name: "Node", down: false };
const healths = { suspected: 0, silent: 1, degraded: 2, healthy: 3 };
const nodeColumns = [
  { name: "Node", by: (n) => nameFor(n.address) }, { name: "State", by: (n) => (n.stopping ? 0 : n.draining ? 1 : 2) + n.state },
  { name: "Place", num: true, by: (n) => n.place || Infinity }, { name: "Health", by: (n) => healths[n.health] ?? 4 },
  { name: "Shards", num: true, by: (n) => n.shards }, { name: "Weight", num: true, by: (n) => n.weight || 1 },
  { name: "Round trip", num: true, by: (n) => n.round_trip_ms },
  { name: "Seen for", num: true, by: (n) => -Date.parse(n.seen_since ?? 0) },
  { name: "Version", by: (n) => n.version }, { name: "Labels", wide: true },
];
/** inOrder sorts nodes as they are asked for; those that are alike, by address. */
function inOrder(nodes) {
  const { by } = nodeColumns.find((c) => c.name === order.name), sense = order.down ? -1 : 1;
  return nodes.map((n) => [by(n), n]).sort(([a, m], [b, n]) => a === b ? m.address < n.address ? -1 : 1
    : typeof a === "string" ? sense * a.localeCompare(b, "en", { numeric: true }) : a < b ? -sense : sense).map(([, n]) => n);
}
const words = (n) => [n.address, n.hostname, n.state, n.health, n.version, n.draining && "draining", n.stopping && "stopping",
  n.election_only && "election only",
  ...Object.entries(n.labels).map(([k, v]) => `${k}=${v}`)].filter(Boolean).join(" ").toLowerCase();

function paintNodes() {
  const all = body("nodes");
  if (!all) {
    if (got.nodes) fill($("nodes"), [el("p", { class: "empty" }, detail("nodes"))]);
    return;
  }
  const parts = wanted.toLowerCase().split(/\s+/).filter(Boolean);
  const rows = inOrder(all.nodes).filter((n) => { const w = words(n); return parts.every((p) => w.includes(p)); });
  fill($("nodes-note"), [parts.length ? `${num(rows.length)} of ${many(all.nodes.length, "node", "nodes")}`
    : many(all.nodes.length, "node", "nodes"), all.truncated ? ", and more that are not shown" : ""]);
  const columns = [...nodeColumns];
  if (token) columns.push({ name: "Admin" });
  columns.push({ name: "Copy" });
  const shards = body("shards")?.count;
  fill($("nodes"), [rows.length ? table("Nodes of the cluster", columns, rows.map((n) => ({
    key: `${n.address} ${n.incarnation}`, marked: n.health !== "healthy",
    cells: [
      [who(n.address, true, true), n.address === self() ? [" ", el("span", { class: "tag" }, "this node")] : ""],
      el("span", { class: "tags" },
        el("span", { class: n.state === "leader" ? "tag main" : "tag" }, icon(stateIcon[n.state] ?? "dot"), n.state),
        n.election_only ? el("span", { class: "tag", title: "A process of the election: it has no server and no shards" },
          "election only") : "",
        n.draining ? el("span", { class: "tag warn" }, icon("drain"), "draining") : "",
        n.stopping ? el("span", { class: "tag warn" }, icon("stop"), "stopping") : ""),
      n.place ? num(n.place) : "–",
      el("span", { title: n.election_failed || null }, health(n.health), n.silent_to ? unanswered(n) : "", n.election_failed
        ? el("span", { class: "hidden" }, ` ${n.election_failed}`) : ""),
      [num(n.shards), shards ? el("span", { class: "soft" }, ` ${percent(n.shards, shards)}`) : ""],
      num(n.weight || 1),
      n.round_trip_ms ? `≤ ${num(n.round_trip_ms)} ms` : el("span", { class: "soft" }, "near"),
      n.seen_since ? since(n.seen_since) : "–",
      n.version || "–",
      Object.keys(n.labels).length ? el("span", { class: "tags" }, Object.entries(n.labels).sort().map(([k, v]) =>
        el("span", { class: "tag label", title: `${k}=${v}` }, `${k}=${v}`))) : el("span", { class: "soft" }, "–"),
      ...(token ? [el("div", { class: "buttons" },
        n.election_only || !inEtcd() ? "" : n.draining ? act("undrain", "Undrain…", { node: n.address })
          : act("drain", "Drain…", { node: n.address }),
        n.state === "candidate" && inEtcd() ? act("transfer", "Make leader…", { to: n.address }) : "")] : []),
      el("div", { class: "buttons" }, n.election_only || !inEtcd() ? "" : copies(n.draining ? ["goversed", "drain", "--undo", n.address] : ["goversed", "drain", n.address])),
    ],
  })), order) : el("p", { class: "empty" }, all.nodes.length ? "No node fits the filter." : "No node is registered.")]);
}

// ---- Shards ------------------------------------------------------------------------------------------------------

/** ranges calls f with each number of "0-99,105". */
function ranges(text, f) {
  if (!text) return;
  for (const part of text.split(",")) {
    const [from, to] = part.split("-").map(Number);
    for (let i = from; i <= (to ?? from); i++) f(i);
  }
}

/** map is the picture: of each shard its owner's sign, -1 without one; its epoch; its open move. */
const map = { hot: new Set(), wanted: "", count: 0, generation: -1, owner: new Int32Array(0), unserved: new Uint8Array(0), epoch: [], moves: new Map(), flash: new Map(),
  size: 0, columns: 0, cursor: -1, hover: -1, only: null, base: document.createElement("canvas"), anim: 0, later: 0 };
const calm = matchMedia("(prefers-reduced-motion: reduce)");
const flashFor = 1600;

function readMap(t) {
  const owner = new Int32Array(t.count).fill(-1), epoch = new Float64Array(t.count);
  for (const o of t.owners) { const s = sign(o.address); ranges(o.shards, (i) => { owner[i] = s; }); }
  for (const e of t.epochs ?? []) ranges(e.shards, (i) => { epoch[i] = e.epoch; });
  const moves = new Map();
  for (const m of t.moves) if (!m.done) ranges(m.shards, (i) => moves.set(i, m));
  if (map.count === t.count && map.generation >= 0) {
    const until = performance.now() + flashFor;
    for (let i = 0; i < t.count; i++) {
      if (owner[i] !== map.owner[i] || moves.has(i) !== map.moves.has(i)) map.flash.set(i, until);
    }
  } else map.flash.clear();
  const unserved = new Uint8Array(t.count);
  ranges(t.unowned, (i) => { unserved[i] = 1; });
  for (const o of t.owners) if (o.state === "gone") ranges(o.shards, (i) => { unserved[i] = 1; });
  Object.assign(map, { count: t.count, generation: t.generation, owner, epoch, moves, unserved });
  if (map.cursor >= t.count) map.cursor = -1;
}

const nameOf = (s) => { for (const [a, i] of numberOf) if (i === s) return a; return ""; };

function paintShards() {
  const t = body("shards");
  $("shards-map").hidden = !t;
  $("shard").disabled = !t;
  if (!t) {
    if (got.shards) {
      fill($("shards-note"), []);
      fill($("shards-none"), [el("p", { class: "empty" }, detail("shards"))]);
    }
    return;
  }
  fill($("shards-none"), []);
  fill($("shards-note"), [`${num(t.count)} in generation ${num(t.generation)}, `,
    t.open_moves ? el("span", { class: "warn" }, many(t.open_moves, "move open", "moves open")) : "no move open",
    t.unowned ? el("span", { class: "bad" }, ", some without an owner") : ""]);
  $("shard").max = t.count - 1;
  readMap(t);
  const owners = t.owners;
  if (map.wanted) { for (const o of owners) if (o.address === map.wanted) map.only = sign(o.address); map.wanted = ""; }
  const least = Math.max(1, ...owners.map((o) => o.count)), rank = { gone: 0, draining: 1 };
  const leaves = new Map(); // how many shards each node has yet to release
  for (const m of t.moves) if (!m.done) leaves.set(m.from, (leaves.get(m.from) ?? 0) + m.count);
  const most = Math.max(least, ...owners.map((o) => o.count + (leaves.get(o.address) ?? 0)));
  const part = (n) => `${(100 * n / most).toFixed(2)}%`;
  fill($("legend"), [...owners].sort((a, b) => (rank[a.state] ?? 2) - (rank[b.state] ?? 2) || b.count - a.count || (a.address < b.address ? -1 : 1)).map((o) => {
    const s = sign(o.address) % colours, comes = o.count - o.may_serve, goes = leaves.get(o.address) ?? 0;
    return el("li", { "data-key": `${o.address} ${o.incarnation}` },
      el("button", { type: "button", "data-do": "only", "data-node": o.address, "aria-pressed": String(map.only === sign(o.address)) },
        who(o.address), o.state === "alive" ? "" : el("span", { class: o.state === "gone" ? "tag bad" : "tag warn" }, o.state),
        el("span", { class: "count" }, comes ? el("span", { class: "warn" }, `${num(comes)} to come · `) : "", goes ? el("span", { class: "warn" }, `${num(goes)} to go · `) : "",
          `${num(o.count)} · ${percent(o.count, t.count)}`),
        svg("svg", { class: "bar-of", "aria-hidden": "true", height: 8, width: "100%" }, svg("rect", { class: o.state === "gone" ? "unserved" : `f${s}`, width: part(o.may_serve), height: 8, rx: 2 }),
          comes ? svg("rect", { class: "comes", x: part(o.may_serve), width: part(comes), height: 8 }) : "",
          goes ? svg("rect", { class: "goes", x: part(o.count), width: part(goes), height: 8 }) : "")));
  }));
  const gone = owners.filter((o) => o.state === "gone").reduce((n, o) => n + o.count, 0);
  let unowned = 0;
  ranges(t.unowned, () => unowned++);
  const hot = (figures.body?.busy ?? []).filter((b) => b.hot);
  map.hot = new Set(hot.map((b) => b.shard));
  fill($("shards-trouble"), [unowned || gone ? el("p", { class: "bad" }, icon("warn"), ` ${many(unowned + gone, "shard is", "shards are")} not served`,
    gone ? `: ${num(gone)} of nodes that are gone${unowned ? `, ${num(unowned)} without an owner` : ""}.` : ": without an owner.") : "",
  hot.length ? el("p", { class: "warn" }, icon("bolt"), " Hot: ", hot.slice(0, 6).map((b, i) => [i ? ", " : "", `shard ${num(b.shard)} on `, nameFor(b.node), ` with ${rate(b.turns_per_second)} calls per second`]),
    hot.length > 6 ? `, and ${num(hot.length - 6)} more` : "", ".") : ""]);
  const open = t.moves.filter((m) => !m.done);
  fill($("moves"), [open.length ? el("ul", { class: "moves" }, open.slice(0, 12).map((m) =>
    el("li", {}, el("span", { class: "hatch", "aria-hidden": "true" }), many(m.count, "shard moves from ", "shards move from "),
      who(m.from), "to", who(m.to), el("span", { class: "soft" }, `since generation ${num(m.since)}, waits for ${nameFor(m.waits_for ?? m.from)}`))),
  open.length > 12 ? el("li", { class: "soft" }, `and ${many(open.length - 12, "other group", "other groups")}`) : "") : ""]);
  fill($("owners"), [table("Owners of shards", [{ name: "Owner" }, { name: "State" }, { name: "Shards", num: true },
    { name: "Share", num: true }, { name: "May serve", num: true }, { name: "Weight", num: true }],
  owners.map((o) => ({ key: `${o.address} ${o.incarnation}`, cells: [who(o.address), o.state, num(o.count),
    percent(o.count, t.count), num(o.may_serve), num(o.weight)] })))]);
  layout();
  paintSays();
}

/** layout finds the size of cells with which the picture has a good height, and draws it. */
function layout() {
  const canvas = $("map"), width = Math.floor(canvas.parentElement.clientWidth);
  if (!map.count || width < 20) return;
  const most = innerWidth < 640 ? 420 : 300;
  let size = map.count <= 64 ? 30 : 20;
  while (size > 2 && Math.ceil(map.count / Math.floor(width / size)) * size > most) size -= size > 8 ? 1 : 0.5;
  const ratio = devicePixelRatio || 1;
  map.size = Math.max(2, Math.floor(size * ratio) / ratio); // whole device pixels: edges are sharp
  map.columns = Math.floor(width / map.size);
  const rows = Math.ceil(map.count / map.columns), height = Math.ceil(rows * map.size);
  canvas.style.height = `${height}px`;
  for (const c of [canvas, map.base]) { c.width = Math.round(width * ratio); c.height = Math.round(height * ratio); }
  drawBase();
}

/** palette is read from the style sheet, in which colours are once. */
const palette = { colours: [], none: "", text: "", back: "" };
function readPalette() {
  const probe = el("span", {});
  probe.hidden = false;
  document.body.append(probe);
  const of = (cls) => { probe.className = cls; return getComputedStyle(probe); };
  palette.colours = Array.from({ length: colours }, (_, i) => of(`sign c${i}`).backgroundColor);
  palette.inks = Array.from({ length: colours }, (_, i) => of(`sign c${i}`).color);
  palette.none = of("sign none").backgroundColor;
  palette.text = getComputedStyle(document.body).color;
  palette.back = getComputedStyle(document.querySelector(".card")).backgroundColor;
  palette.bad = of("bad").color;
  probe.remove();
}
const colour = (s) => s < 0 ? palette.none : palette.colours[s % colours];

function rect(i) { return [(i % map.columns) * map.size, Math.floor(i / map.columns) * map.size]; }

function drawBase() {
  if (!palette.colours.length) readPalette();
  const g = map.base.getContext("2d"), ratio = devicePixelRatio || 1;
  g.setTransform(ratio, 0, 0, ratio, 0, 0);
  g.clearRect(0, 0, map.base.width, map.base.height);
  const gap = map.size >= 4 ? 1 / Math.min(ratio, 1) : 0, side = map.size - gap;
  for (let i = 0; i < map.count; i++) {
    const s = map.owner[i], [x, y] = rect(i);
    g.globalAlpha = map.only === null || map.only === s ? 1 : 0.14;
    g.fillStyle = colour(s);
    g.fillRect(x, y, side, side);
    if (map.size >= 18 && s >= 0) {
      g.fillStyle = palette.inks[s % colours];
      g.font = "600 10px system-ui, sans-serif";
      g.textAlign = "center"; g.textBaseline = "middle";
      g.fillText(letters(s), x + side / 2, y + side / 2 + 0.5);
    }
  }
  g.globalAlpha = 1;
  drawMap();
}

/** drawMap draws what changes from moment to moment over what does not, and again while something does. */
function drawMap() {
  cancelAnimationFrame(map.anim);
  clearTimeout(map.later);
  const canvas = $("map"), g = canvas.getContext("2d"), ratio = devicePixelRatio || 1, at = performance.now();
  if (!map.count || !canvas.width || !map.columns) return;
  g.setTransform(1, 0, 0, 1, 0, 0);
  g.clearRect(0, 0, canvas.width, canvas.height);
  g.drawImage(map.base, 0, 0);
  g.setTransform(ratio, 0, 0, ratio, 0, 0);
  const side = map.size - (map.size >= 4 ? 1 : 0);
  const phase = calm.matches ? 0 : (at / 120) % 4;
  for (const [i, m] of map.moves) { // hatched: the former owner's colour, striped with the next one's
    const [x, y] = rect(i);
    g.save();
    g.beginPath(); g.rect(x, y, side, side); g.clip();
    g.fillStyle = colour(sign(m.from)); g.fillRect(x, y, side, side);
    g.strokeStyle = colour(map.owner[i]); g.lineWidth = 1.5; g.beginPath();
    for (let d = -side - 4 + phase; d < side + 4; d += 4) { g.moveTo(x + d, y + side); g.lineTo(x + d + side, y); }
    g.stroke();
    g.restore();
  }
  for (let i = 0; i < map.count; i++) if (map.unserved[i]) { // crossed in red: colour is not the only sign
    const [x, y] = rect(i);
    g.fillStyle = palette.back; g.fillRect(x, y, side, side);
    g.strokeStyle = palette.bad; g.lineWidth = Math.min(2, side / 3); g.beginPath();
    g.moveTo(x, y); g.lineTo(x + side, y + side); g.moveTo(x + side, y); g.lineTo(x, y + side); g.stroke();
  }
  for (const i of map.hot) if (i < map.count) {
    const [x, y] = rect(i);
    g.strokeStyle = palette.text; g.lineWidth = 2; g.beginPath();
    g.arc(x + side / 2, y + side / 2, Math.max(5, side * 0.7), 0, 2 * Math.PI); g.stroke();
  }
  for (const [i, until] of map.flash) {
    if (until <= at) { map.flash.delete(i); continue; }
    const [x, y] = rect(i);
    g.globalAlpha = calm.matches ? 0.8 : Math.min(1, (until - at) / flashFor);
    g.fillStyle = palette.text;
    if (map.size >= 7) { g.lineWidth = 2; g.strokeStyle = palette.text; g.strokeRect(x + 0.5, y + 0.5, side - 1, side - 1); }
    else g.fillRect(x, y, side, side);
  }
  g.globalAlpha = 1;
  for (const i of [map.hover, map.cursor]) if (i >= 0) {
    const [x, y] = rect(i);
    g.lineWidth = 3; g.strokeStyle = palette.back; g.strokeRect(x - 1, y - 1, side + 2, side + 2);
    g.lineWidth = 1.5; g.strokeStyle = palette.text; g.strokeRect(x - 1, y - 1, side + 2, side + 2);
  }
  if (document.hidden || !map.flash.size && (!map.moves.size || calm.matches)) return;
  // Many cells are drawn less often: the page is to answer meanwhile.
  const wait = Math.min(200, (map.flash.size + map.moves.size) / 50 + (map.flash.size ? 0 : 30));
  map.later = setTimeout(() => { map.anim = requestAnimationFrame(drawMap); }, wait);
}

function shardSays(i) {
  const s = map.owner[i], m = map.moves.get(i), name = s < 0 ? "" : nameOf(s);
  const parts = [el("b", {}, `Shard ${num(i)}`), name ? ": owner " : ": no owner"];
  if (name) parts.push(who(name));
  if (map.epoch[i]) parts.push(`, epoch ${num(map.epoch[i])}`);
  if (map.unserved[i]) parts.push(", not served");
  if (map.hot.has(i)) parts.push(", hot");
  if (m) parts.push(`, moves here from ${nameFor(m.from)} since generation ${num(m.since)}, which has not released it yet`);
  return parts;
}
function paintSays() {
  const i = map.hover >= 0 ? map.hover : map.cursor;
  fill($("shard-says"), i >= 0 && i < map.count ? shardSays(i) : ["Point at a shard, or go from one to the next by arrow keys."]);
}
function goTo(i, aloud) {
  map.cursor = Math.max(0, Math.min(map.count - 1, i));
  paintSays();
  drawMap();
  if (aloud) $("shard-news").textContent = $("shard-says").textContent;
}

$("map").addEventListener("keydown", (e) => {
  const step = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: map.columns, ArrowUp: -map.columns,
    PageDown: 10 * map.columns, PageUp: -10 * map.columns }[e.key];
  if (e.key === "Home") goTo(0, true);
  else if (e.key === "End") goTo(map.count - 1, true);
  else if (step && map.cursor < 0) goTo(0, true);
  else if (step && map.cursor + step >= 0 && map.cursor + step < map.count) goTo(map.cursor + step, true);
  else if (e.key === "Escape") { map.cursor = -1; paintSays(); drawMap(); }
  else if (!step) return;
  e.preventDefault();
});
function shardAt(e) {
  const x = Math.floor(e.offsetX / map.size), y = Math.floor(e.offsetY / map.size), i = y * map.columns + x;
  return x >= 0 && x < map.columns && i >= 0 && i < map.count ? i : -1;
}
$("map").addEventListener("pointermove", (e) => {
  const i = shardAt(e);
  if (i !== map.hover) { map.hover = i; paintSays(); drawMap(); }
});
$("map").addEventListener("pointerleave", () => { map.hover = -1; paintSays(); drawMap(); });
$("map").addEventListener("click", (e) => { const i = shardAt(e); if (i >= 0) goTo(i, false); });
$("shard").addEventListener("input", (e) => {
  const i = e.target.valueAsNumber;
  if (Number.isInteger(i) && i >= 0 && i < map.count) goTo(i, true);
});
new ResizeObserver(() => layout()).observe($("shards-map"));

/*parts*/

// ---- Lists ---------------------------------------------------------------------------------------------------------

const scrolled = (label, t) => el("div", { class: "scroll high", role: "region", "aria-label": label, tabindex: 0 }, t);
const empty = (text) => el("p", { class: "empty" }, text);
const named = (name) => el("span", { class: "named", title: name }, name);
/** party is a node, or what another process calls itself. */
const party = (address) => numberOf.has(address) ? who(address) : el("span", { class: "who" }, el("span", { title: address }, address));

$("tabs").addEventListener("keydown", (e) => {
  const i = kindsOfWork.indexOf(tab);
  const to = { ArrowRight: i + 1, ArrowLeft: i - 1, Home: 0, End: kindsOfWork.length - 1 }[e.key];
  if (to === undefined) return;
  e.preventDefault();
  tab = kindsOfWork[(to + kindsOfWork.length) % kindsOfWork.length];
  writeAddress();
  paintWork();
  $(`tab-${tab}`).focus();
});

// ---- Events ------------------------------------------------------------------------------------------------------

/** kinds of events: icon, class, group, and what is said, in which a node is shown by its sign. */
const kinds = {
  leader_elected: ["crown", "good", "Leaders", (e) => [who(e.node), " leads", e.seconds
    ? [", no node led for ", el("span", { class: "gap" }, lasting(e.seconds * 1000))] : ""]],
  leader_lost: ["crown", "warn", "Leaders", (e) => [who(e.node), " leads no more"]],
  election_started: ["clock", "warn", "Leaders", () => ["no node leads, the next candidate will"]],
  cluster_degraded: ["warn", "bad", "Leaders", () => ["no node has led for a second or longer"]],
  cluster_recovered: ["ok", "good", "Leaders", (e) => ["a node leads again, no node led for ", el("span", { class: "gap" }, lasting(e.seconds * 1000))]],
  fallback_entered: ["bolt", "warn", "Leaders", (e) => [who(e.node), " leads by its address: the election cannot work"]],
  fallback_left: ["bolt", "good", "Leaders", (e) => [who(e.node), " leads by its address no more"]],
  node_joined: ["plus", "good", "Nodes", (e) => [who(e.node), " joined"]],
  node_left: ["minus", "soft", "Nodes", (e) => [who(e.node), " stopped"]],
  node_lost: ["x", "bad", "Nodes", (e) => [who(e.node), " lost: its lease is over"]],
  node_accused: ["warn", "warn", "Nodes", (e) => [who(e.node), " suspected by ", who(e.peer)]],
  node_refuted: ["ok", "good", "Nodes", (e) => [who(e.node), " lives, though ", who(e.peer), " could not reach it"]],
  node_removed: ["x", "bad", "Nodes", (e) => [who(e.node), " was removed"]],
  node_silent: ["warn", "bad", "Nodes", (e) => [who(e.node), " does not answer", e.peer ? [", seen by ", who(e.peer)] : ""]],
  node_answering: ["ok", "good", "Nodes", (e) => [who(e.node), " answers again", e.seconds ? `, was silent for ${lasting(e.seconds * 1000)}` : ""]],
  session_lost: ["x", "warn", "Nodes", (e) => [who(e.node), " lost its session", e.seconds ? `, had none for ${lasting(e.seconds * 1000)}` : ""]],
  format_changed: ["moves", "soft", "Nodes", (e) => ["the cluster may use format ", num(e.cluster_format), ", decided by ", who(e.node)]],
  drain_started: ["drain", "warn", "Shards", (e) => [who(e.node), " drains"]],
  drain_ended: ["drain", "good", "Shards", (e) => [who(e.node), " drains no more"]],
  shards_rebalanced: ["moves", "soft", "Shards", (e) => [`${many(e.moved ?? 0, "shard has", "shards have")} ${e.reason ? "an owner for the first time" : "another owner"}, generation ${num(e.generation ?? 0)}`]],
  processor_paused: ["stop", "warn", "Processors", (e) => [named(e.processor), " paused", byOperator(e)]],
  processor_resumed: ["bolt", "good", "Processors", (e) => [named(e.processor), " resumed", byOperator(e)]],
  processor_rewound: ["moves", "warn", "Processors", (e) => [named(e.processor), ` rewound from ${place(e.from)} to ${place(e.position)}`, byOperator(e)]],
  processor_retried: ["clock", "soft", "Processors", (e) => [named(e.processor), `: retry of the event at ${place(e.position)}`, byOperator(e)]],
  processor_dropped: ["x", "warn", "Processors", (e) => [named(e.processor), `: the event at ${place(e.position)} dropped`, byOperator(e)]],
  processor_unfenced: ["key", "warn", "Processors", (e) => [named(e.processor), " unfenced", byOperator(e)]],
};
/** byOperator says which operator made a request, and place is a position in the words of one. */
const byOperator = (e) => e.by ? ` by ${e.by}` : "";
const place = (position) => position ? position : "the beginning";
/** kindOf is the entry of a type; those that this page does not know are shown by their names. */
const kindOf = (type) => kinds[type] ?? ["dot", "soft", type.startsWith("app_") ? "Programs" : "", (e) => [
  type.replace(/^app_/, "").replaceAll("_", " "), e.node ? [", ", who(e.node)] : ""]];
/** mostEvents are kept of Goverse's own, and as many of the programs'; so many are listed. */
const mostEvents = 500;
let events = [], eventSource = "", asking = false, eventsAsked = false;
let show = "";

/** takeEvents takes in the newest ones; if some may lie between these and those before, it asks for more. */
function takeEvents() {
  const b = body("events");
  if (!b) {
    if (got.events) fill($("events"), [empty(detail("events"))]);
    return;
  }
  eventSource = b.source;
  const known = new Set(events.map((e) => e.id));
  const joined = b.events.length < 10 || b.events.some((e) => known.has(e.id));
  merge(b.events);
  if (!eventsAsked || !joined) askEvents();
}
function merge(more) {
  const byID = new Map(events.map((e) => [e.id, e]));
  for (const e of more) byID.set(e.id, e);
  events = [...byID.values()].sort((a, b) => Date.parse(b.time) - Date.parse(a.time) || (b.seq ?? 0) - (a.seq ?? 0));
  const kept = { true: 0, false: 0 };
  events = events.filter((e) => ++kept[e.type.startsWith("app_")] <= mostEvents);
  paintEvents();
  paintLanes();
}
async function askEvents() {
  if (asking) return;
  asking = true;
  try {
    const r = await fetch(`cluster/events?limit=${2 * mostEvents}`, { cache: "no-store", signal: AbortSignal.timeout(10000) });
    if (r.ok) { eventsAsked = true; merge((await r.json()).events); }
  } catch { /* The next that come in ask again. */ } finally { asking = false; }
}

function paintEvents() {
  const shown = events.filter((e) => show === "" || e.type === show || kindOf(e.type)[2] === show).slice(0, mostEvents);
  fill($("events-note"), [many(shown.length, "event", "events"), eventSource === "memory" ? `, from this node's memory: ${store()} does not answer` : ""]);
  const groups = [];
  const today = new Date().toDateString();
  for (const e of shown) {
    const at = new Date(e.time);
    const day = at.toDateString() === today ? "" : `${at.toLocaleDateString("en-GB", { weekday: "short", day: "numeric", month: "short" })}, `;
    const name = `${day}${at.toLocaleTimeString("en-GB", { hour: "2-digit", minute: "2-digit" })}`;
    if (groups.at(-1)?.name !== name) groups.push({ name, of: [] });
    groups.at(-1).of.push([e, at]);
  }
  fill($("events"), groups.length ? groups.map((g) => el("section", { "data-key": g.name, "aria-label": g.name }, el("h3", {}, g.name),
    el("ol", {}, g.of.map(([e, at]) => {
      const [sym, cls, , says] = kindOf(e.type);
      const why = [e.type === "shards_rebalanced" ? "" : e.reason, e.type === "node_removed" && e.peer ? `found by ${nameFor(e.peer)}` : "", e.token && e.type.startsWith("leader") ? `token ${num(e.token)}` : "", e.data === undefined ? "" : JSON.stringify(e.data)].filter(Boolean).join(", ");
      return el("li", { class: "event", "data-key": e.id }, el("time", { datetime: e.time }, withMillis(at)), icon(sym, cls),
        el("div", {}, says(e), why ? el("span", { class: "why" }, why) : ""));
    })))) : [empty(events.length ? "No event of this kind." : "Nothing has happened yet.")]);
}

function fillTypes() {
  const groups = Map.groupBy ? Map.groupBy(Object.entries(kinds), ([, k]) => k[2]) : new Map();
  fill($("event-type"), [el("option", { value: "" }, "all events"),
    ["Leaders", "Nodes", "Shards", "Processors", "Programs"].map((g) => el("option", { value: g }, `all of ${g.toLowerCase()}`)),
    [...groups].map(([g, of]) => el("optgroup", { label: g }, of.map(([t]) => el("option", { value: t }, t.replaceAll("_", " ")))))]);
}

// ---- Administration ----------------------------------------------------------------------------------------------

const stored = {
  // area is a function: where the browser keeps nothing for this site, asking for it throws.
  get(area, key) { try { return area().getItem(key) ?? ""; } catch { return ""; } },
  set(area, key, value) { try { value ? area().setItem(key, value) : area().removeItem(key); } catch { /* It lasts as long as the page. */ } },
};
let token = stored.get(() => sessionStorage, "goverse-admin-token");
let caller = "";

/** addressable: a browser takes these two names out of a path, in any spelling. */
const addressable = (name) => name !== "." && name !== "..";

/** act is a button that an operator with a token has. */
const act = (action, label, data = {}) => el("button", { type: "button", class: "small", "data-act": action,
  ...Object.fromEntries(Object.entries(data).map(([k, v]) => [`data-${k}`, v])) }, label);

/** admin makes an admin call, and returns {ok, body} or {ok: false, says, off}. */
async function admin(path, say, with_ = token) {
  try {
    const r = await fetch(`cluster/admin/${path}`, { method: "POST", cache: "no-store", credentials: "same-origin",
      headers: { "Authorization": `Bearer ${with_}`, "Content-Type": "application/json" }, body: JSON.stringify(say),
      signal: AbortSignal.timeout(30000) });
    const b = await r.json().catch(() => ({}));
    if (r.ok) return { ok: true, status: r.status, body: b };
    return { ok: false, status: r.status, says: b.detail || b.title || `the node answered ${r.status}`, off: (b.type ?? "").endsWith("#admin-off") };
  } catch (e) {
    return { ok: false, says: e.name === "TimeoutError" ? "the node has not answered in time: look at the page for what became of it"
      : "the node does not answer" };
  }
}

function paintAdmin() {
  const st = $("admin-state");
  const off = got.status?.body?.admin_calls === false;
  $("token-form").hidden = Boolean(token) || off;
  fill(st, [token ? el("div", { class: "buttons" }, el("p", {}, icon("key"), caller ? ` Admin calls are made as ${caller}.` : " Admin calls are made with the token of this tab."),
    el("button", { type: "button", class: "small", "data-do": "forget" }, "Forget the token"))
    : off ? el("p", {}, "Admin calls are off on this node. To switch them on: give goversed --admin-token-file or --http-client-ca, or a program Options.Admin.")
    : el("p", {}, "With an admin token, buttons to resign, transfer, drain, resolve, pause and more appear where they belong.")]);
  fill($("to-admin"), [icon("key"), el("span", {}, token ? "Admin on" : "Admin")]);
  $("to-admin").setAttribute("aria-label", token ? "Admin on: to the administration" : "Admin: to the administration");
}
function outcome(id, cls, text) {
  const e = $(id);
  e.className = `outcome ${cls}`;
  e.textContent = text;
}

$("token-form").addEventListener("submit", async (e) => {
  e.preventDefault();
  const input = $("token"), given = input.value.trim();
  if (!given) return;
  if (/[^\x21-\x7e]/.test(given)) return outcome("token-outcome", "bad", "A token has no spaces and no letters but those of ASCII.");
  outcome("token-outcome", "", "asking the node…");
  const a = await admin("check", {}, given);
  input.value = "";
  if (!a.ok) {
    return outcome("token-outcome", "bad", a.off ? `Admin calls are off on this node. To switch them on: ${a.says.replace(/^.*?: /, "")}`
      : `The node refused it: ${a.says}`);
  }
  outcome("token-outcome", "good", "The node accepts it.");
  caller = a.body.caller ?? "";
  setToken(given);
  document.querySelector("[data-do=forget]")?.focus();
});
function setToken(given) {
  token = given;
  stored.set(() => sessionStorage, "goverse-admin-token", given);
  paintAdmin();
  paintAll();
}

const ledBy = (a) => a.leader_id ? `${a.leader_id} leads, with token ${num(a.token)}.` : "No node leads yet: the page shows the next leader.";
const movedBy = (a) => a.moved ? ledBy(a) : `The leader is the same: ${ledBy(a)}`;
function choice(label, values, chosen) {
  const s = el("select", { id: "choice" }, values.map((v) => el("option", { value: v, selected: v === chosen }, v)));
  return el("label", { class: "field" }, el("span", {}, label), s);
}

/** actions: what the dialog says, asks for, and sends. Each is made anew from the state when its button is pressed. */
const actions = {
  resign() {
    const st = got.status.body, next = st.queue.find((a) => a !== st.leader_id);
    return { title: "Resign the leadership", words: [`${st.leader_id} gives the leadership up. ` + (next
      ? `The next in the queue, ${next}, leads within milliseconds, and ${st.leader_id} queues again behind all others.`
      : "No other node waits, so it will lead again.")], confirm: "Resign", path: "resign", say: () => ({}), done: movedBy };
  },
  transfer({ to }) {
    const st = got.status.body, others = st.queue.filter((a) => a !== st.leader_id);
    return { title: "Transfer the leadership", words: [`${st.leader_id || "The leader"} hands the leadership to the node that you choose, whatever its ` +
      "place in the queue, and queues again behind all others."], fields: [choice("Next leader", others, to)], confirm: "Transfer",
    path: "transfer", say: () => ({ to: $("choice").value }), done: movedBy };
  },
  drain({ node }) {
    return { title: `Drain ${node}`, words: [`All shards of ${node} move to other nodes, and it gets no further ones. It runs on, and if it leads, it leads on.`],
      confirm: "Drain", path: "drain", say: () => ({ node }), done: (a) => a.shards_left
        ? `It is draining: ${many(a.shards_left, "shard", "shards")} left of ${num(a.shards_before)}. The page shows how far it has come.`
        : `It is drained: others have all of its ${many(a.shards_before, "shard", "shards")}.` };
  },
  undrain({ node }) {
    return { title: `End the drain of ${node}`, words: [`${node} may have shards again, and gets its share when the leader plans next.`],
      confirm: "Undrain", path: "undrain", say: () => ({ node }), done: (a) => a.changed ? "It may have shards again." : "It was not draining." };
  },
  resignElection({ name }) {
    const e = body("elections")?.elections.find((x) => x.name === name);
    return { title: `Resign in the election ${name}`, words: [`${e?.leader_id ?? "Its leader"} gives up the leadership of ${name}, and the next candidate has it.`],
      confirm: "Resign", path: `elections/${encodeURIComponent(name)}/resign`, say: () => ({}), done: movedBy };
  },
  transferElection({ name }) {
    const e = body("elections")?.elections.find((x) => x.name === name);
    return { title: `Transfer the election ${name}`, words: [`${e?.leader_id ?? "Its leader"} hands the leadership of ${name} to the candidate that you choose.`],
      fields: [choice("Next leader", (e?.candidates ?? []).map((c) => c.address).filter((a) => a !== e.leader_id))], confirm: "Transfer",
      path: `elections/${encodeURIComponent(name)}/transfer`, say: () => ({ to: $("choice").value }), done: movedBy };
  },
  resolve({ name, token: attempt }) {
    const radio = (value, text) => el("label", {}, el("input", { type: "radio", name: "outcome", value, required: true }), el("span", {}, text));
    return { title: `Resolve the effect ${name}`, words: ["The process that ran it died between the effect and its mark. Look whether it took place, and say so here. " +
      "What you say stands: a wrong answer runs it twice, or never."], fields: [el("fieldset", {}, el("legend", {}, "It"),
      radio("done", "took place: it is not run again"), radio("failed", "did not take place: the next one to try runs it again"))],
    confirm: "Resolve", path: `effects/${encodeURIComponent(name)}/resolve`,
    say: () => ({ token: Number(attempt), outcome: document.querySelector("#dialog [name=outcome]:checked").value }),
    done: (a) => `It is recorded as ${a.state}.` };
  },
  ...processorActions,
};

let asked = null, opener = null;
function ask(action, data, from) {
  asked = actions[action](data);
  opener = { action, data, from };
  $("dialog-title").textContent = asked.title;
  fill($("dialog-words"), asked.words.map((w) => el("p", {}, w)));
  $("dialog-fields").replaceChildren(...(asked.fields ?? []));
  outcome("dialog-outcome", "", "");
  const why = old();
  if (why) outcome("dialog-outcome", "bad", "What this page shows is not current, so nothing is asked for: try again when it is live.");
  Object.assign($("dialog-confirm"), { textContent: asked.confirm, hidden: false, disabled: why !== "" });
  $("dialog-cancel").textContent = "Cancel";
  $("dialog").showModal();
  asked.load?.();
  (why ? $("dialog-cancel") : $("dialog-fields").querySelector("select, input") ?? $("dialog-confirm")).focus();
}
$("dialog-form").addEventListener("submit", async (e) => {
  e.preventDefault();
  if ($("dialog-confirm").hidden || $("dialog-confirm").disabled) return $("dialog").close();
  const it = asked;
  $("dialog-confirm").disabled = true;
  outcome("dialog-outcome", "", "asking the node…");
  const a = await admin(typeof it.path === "function" ? it.path() : it.path, it.say());
  if (it !== asked) return;
  if (a.ok) {
    outcome("dialog-outcome", "good", it.done(a.body));
    $("dialog-confirm").hidden = true;
    $("dialog-cancel").textContent = "Close";
    $("dialog-cancel").focus();
  } else {
    outcome("dialog-outcome", "bad", a.says);
    $("dialog-confirm").disabled = false;
  }
});
$("dialog-cancel").addEventListener("click", () => $("dialog").close());
$("dialog").addEventListener("close", () => {
  if ($("dialog").open) return; // for another call already: the event comes later than the end
  asked = null;
  // The button may have been drawn anew meanwhile, or be gone.
  if (opener?.from.isConnected) opener.from.focus(); else $("main").focus();
  opener = null;
});

// ---- What people press -------------------------------------------------------------------------------------------

document.addEventListener("click", (e) => {
  const b = e.target.closest("button");
  if (!b) return;
  if (b.dataset.act) return ask(b.dataset.act, { ...b.dataset }, b);
  switch (b.dataset.do) {
    case "chips": allChips = !allChips; paintQueue(); break;
    case "sort": order.down = order.name === b.dataset.name && !order.down; order.name = b.dataset.name; paintNodes(); writeAddress(); break;
    case "tab": tab = b.dataset.tab; paintWork(); writeAddress(); break;
    case "copy": copyText(b); break;
    case "only": {
      const s = sign(b.dataset.node);
      map.only = map.only === s ? null : s;
      if (map.only !== null) $("zoom").open = true;
      paintShards();
      writeAddress();
      break;
    }
    case "forget": caller = ""; setToken(""); outcome("token-outcome", "good", "It is forgotten."); $("token").focus(); break;
  }
});
$("filter").addEventListener("input", (e) => { wanted = e.target.value; paintNodes(); writeAddress(); });
$("event-type").addEventListener("change", (e) => { show = e.target.value; paintEvents(); writeAddress(); });
$("span").addEventListener("change", (e) => { span = Number(e.target.value); paintLanes(); writeAddress(); });
$("zoom").addEventListener("toggle", () => { if ($("zoom").open) layout(); writeAddress(); });
addEventListener("hashchange", () => {
  if (!location.hash.includes("=")) return writeAddress(); // an anchor of the page: what is shown stays
  readAddress();
  paintAll();
});
new ResizeObserver(() => paintLanes()).observe($("lanes"));

const themes = { "": ["auto", "Theme: auto, as the system has it"], light: ["sun", "Theme: light"], dark: ["moon", "Theme: dark"] };
let theme = stored.get(() => localStorage, "goverse-theme");
if (!(theme in themes)) theme = "";
function paintTheme() {
  const [sym, label] = themes[theme];
  if (theme) document.documentElement.dataset.theme = theme; else delete document.documentElement.dataset.theme;
  const b = $("theme");
  fill(b, [icon(sym), el("span", {}, theme || "auto")]);
  b.setAttribute("aria-label", `${label}. Press for the next.`);
  b.title = label;
  readPalette();
  if (map.count) drawBase();
}
$("theme").addEventListener("click", () => {
  const names = Object.keys(themes);
  theme = names[(names.indexOf(theme) + 1) % names.length];
  stored.set(() => localStorage, "goverse-theme", theme);
  paintTheme();
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", paintTheme);

paintTheme();
fillTypes();
readAddress();
paintAdmin();
paintWork();
paintServices();
paintSparks();
paintLive();
paintSays();
connect();
askFigures();
setInterval(tick, 250);
})();
