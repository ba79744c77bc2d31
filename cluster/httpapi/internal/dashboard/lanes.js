// ---- The recent past: who led, and what happened to the nodes -------------------------------------------------------

function svg(tag, props, ...children) {
  const e = document.createElementNS(svgNS, tag);
  for (const [name, value] of Object.entries(props ?? {})) {
    if (value !== undefined && value !== null && value !== false) e.setAttribute(name, String(value));
  }
  e.append(...children.flat(3).filter((c) => c !== null && c !== undefined && c !== false && c !== ""));
  return e;
}

const spans = { 15: "15 minutes", 60: "hour", 1440: "24 hours" };
let span = 60;

/**
 * readTerms reads from events, in any order, which node led when, from a time on: terms {node, token, from, to,
 * fallback}, gaps {from, to} in which no node led, and since when this is known. current is {node, token, since} or null.
 * A term that is not over has no end.
 */
function readTerms(log, from, now, current) {
  const of = log.filter((e) => ["leader_elected", "leader_lost", "fallback_entered", "fallback_left"].includes(e.type))
    .map((e) => ({ ...e, at: Date.parse(e.time) })).sort((a, b) => a.at - b.at || (a.seq ?? 0) - (b.seq ?? 0));
  const terms = [], gaps = [];
  const known = log.length < mostEvents ? 0 : Math.min(...log.map((e) => Date.parse(e.time))); // a longer log is cut
  let open = null, lost = 0;
  const end = (at) => { if (open) { open.to = Math.max(open.from, at); terms.push(open); open = null; } };
  for (const e of of) {
    if (e.type === "leader_elected" || e.type === "fallback_entered") {
      const silent = e.at - (e.seconds ?? 0) * 1000; // since when no node led
      if (open) { end(e.seconds ? silent : e.at); lost = e.seconds ? silent : 0; }
      const began = e.seconds ? silent : lost;
      if (began && e.at > began) gaps.push({ from: began, to: e.at });
      for (const t of terms) if (e.seconds && t.to > silent) t.to = Math.max(t.from, silent);
      open = { node: e.node, token: e.token ?? 0, from: e.at, to: now, fallback: e.type === "fallback_entered" };
      lost = 0;
    } else {
      if (!open && !terms.length && !gaps.length) open = { node: e.node, token: e.token ?? 0, from: known, to: now };
      if (open && open.node === e.node && (!e.token || !open.token || open.token === e.token)) { end(e.at); lost = e.at; }
    }
  }
  if (current?.node) {
    if (open?.node !== current.node) {
      const began = current.since || (open ? now : terms.at(-1)?.to ?? 0);
      end(began);
      open = { node: current.node, token: current.token, from: began, to: now };
    }
    terms.push(open);
  } else {
    end(now);
    if (!current && lost) gaps.push({ from: lost, to: now });
  }
  const clip = (x) => ({ ...x, from: Math.max(x.from, from), to: Math.min(x.to, now) });
  const inside = (x) => x.to > from && x.from < now;
  return { terms: terms.filter(inside).map(clip), gaps: gaps.filter(inside).map(clip) };
}

/** moments are the events of a node that have a mark: symbol, class, and what is said. */
const moments = {
  node_joined: ["+", "good", "joined"], node_left: ["−", "soft", "stopped"], node_lost: ["✕", "bad", "lost, its lease ended"],
  node_removed: ["✕", "bad", "removed"], session_lost: ["!", "warn", "lost its session"],
  node_silent: ["…", "bad", "does not answer"], drain_started: ["↓", "warn", "drains"], drain_ended: ["↑", "good", "drains no more"],
};
const mostLanes = 8;

/** findLanes returns the lanes of nodes with something to show, the current leader's first, then the newest ones. */
function findLanes(log, terms, from, now, leader) {
  const lanes = new Map();
  const lane = (node) => {
    if (!lanes.has(node)) lanes.set(node, { node, newest: 0, marks: [], drains: [] });
    return lanes.get(node);
  };
  for (const t of terms) { const l = lane(t.node); l.newest = Math.max(l.newest, t.to); }
  for (const e of [...log].sort((a, b) => Date.parse(a.time) - Date.parse(b.time))) {
    const at = Date.parse(e.time);
    if (!moments[e.type] || !e.node || at > now) continue;
    const drains = lanes.get(e.node)?.drains.at(-1);
    if (e.type === "drain_started") lane(e.node).drains.push({ from: at, to: now, open: true });
    else if (drains?.open && ["drain_ended", "node_left", "node_lost", "node_removed"].includes(e.type)) Object.assign(drains, { to: at, open: false });
    if (at < from) continue;
    const l = lane(e.node);
    l.newest = Math.max(l.newest, at);
    l.marks.push({ at, type: e.type });
  }
  return [...lanes.values()].filter((l) => l.newest >= from || l.drains.some((d) => d.to > from)).sort((a, b) =>
    (b.node === leader) - (a.node === leader) || b.newest - a.newest || (a.node < b.node ? -1 : 1));
}

/** sumUp sums a past up in words, for all that cannot see it. */
function sumUp(past, from, now) {
  const led = new Map();
  for (const t of past.terms) led.set(t.node, (led.get(t.node) ?? 0) + t.to - t.from);
  const without = past.gaps.reduce((n, g) => n + g.to - g.from, 0), longest = Math.max(0, ...past.gaps.map((g) => g.to - g.from));
  return { led: [...led].sort((a, b) => b[1] - a[1]), without, longest, gaps: past.gaps.length, known: now - from };
}

function paintLanes() {
  const st = got.status?.body, box = $("lanes");
  if (!st || !box.clientWidth) return;
  const to = now(), from = to - span * 60000, info = body("leader");
  const current = st.leader_id ? { node: st.leader_id, token: st.token,
    since: info?.leader_id === st.leader_id && info.acquired_at ? Date.parse(info.acquired_at) : 0 } : st.ready ? null : { node: "" };
  const past = readTerms(events, from, to, current), lanes = findLanes(events, past.terms, from, to, st.leader_id);
  const shown = lanes.slice(0, mostLanes), more = lanes.slice(mostLanes);
  if (more.length) shown.push({ node: "", name: `${num(more.length)} more nodes`, marks: more.flatMap((l) => l.marks), drains: [] });
  const width = box.clientWidth, left = width < 560 ? 86 : 190, right = 8, high = 24, top = 30;
  const x = (at) => left + (width - left - right) * Math.max(0, Math.min(1, (at - from) / (to - from)));
  const wide = (a, b, least) => Math.max(least, x(b) - x(a));
  const height = top + 12 + shown.length * high + 20;
  const parts = [];
  const label = (text, y, cls) => {
    const most = Math.floor((left - (cls ? 8 : 30)) / 6.6);
    return svg("text", { x: cls ? 0 : 26, y: y + 4, class: `lane-name ${cls ?? ""}` }, svg("title", {}, text), text.length > most ? `${text.slice(0, most - 1)}…` : text);
  };
  const base = top + 12 + shown.length * high + 4;
  const ticks = width < 560 ? 3 : 6;
  for (let i = 0; i <= ticks; i++) {
    const at = from + (to - from) * i / ticks;
    parts.push(svg("line", { class: "tick", x1: x(at), x2: x(at), y1: 28, y2: base }),
      svg("text", { class: "tick-name", x: x(at), y: base + 13, "text-anchor": i === 0 ? "start" : i === ticks ? "end" : "middle" },
        i === ticks ? "now" : new Date(at - skew).toLocaleTimeString("en-GB", { hour: "2-digit", minute: "2-digit" })));
  }
  // The band on top: all terms, one after the other, with gaps in red.
  parts.push(label("Leader", 14, "first"), svg("rect", { class: "lane-base", x: left, y: 4, width: width - left - right, height: 20, rx: 3 }));
  for (const t of past.terms) {
    const w = wide(t.from, t.to, 2), s = sign(t.node);
    parts.push(svg("g", { class: "term", "data-node": t.node, "data-from": Math.round(t.from), "data-to": Math.round(t.to) },
      svg("title", {}, `${nameFor(t.node)} led for ${lasting(t.to - t.from)}${t.token ? `, token ${num(t.token)}` : ""}${t.fallback ? ", by its address" : ""}`),
      svg("rect", { class: `f${s % colours}`, x: x(t.from), y: 4, width: w, height: 20 }),
      t.fallback ? svg("rect", { class: "fallback", x: x(t.from), y: 20, width: w, height: 4 }) : "",
      w > 18 ? svg("text", { class: `lane-sign i${s % colours}`, x: x(t.from) + w / 2, y: 18 }, letters(s)) : ""));
  }
  for (const g of past.gaps) {
    parts.push(svg("g", { class: "gap-mark", "data-from": Math.round(g.from), "data-to": Math.round(g.to) },
      svg("title", {}, `No node led for ${lasting(g.to - g.from)}, until ${clock(new Date(g.to))}`),
      svg("rect", { x: x(g.from) - (wide(g.from, g.to, 3) - (x(g.to) - x(g.from))) / 2, y: 0, width: wide(g.from, g.to, 3), height: 28 })));
  }
  shown.forEach((l, i) => {
    const y = top + 12 + i * high + high / 2;
    if (l.node) {
      const s = sign(l.node);
      parts.push(svg("rect", { class: `f${s % colours}`, x: 0, y: y - 8, width: 21, height: 16, rx: 4 }), svg("text", { class: `lane-sign i${s % colours}`, x: 10.5, y: y + 4 }, letters(s)));
    }
    parts.push(label(l.node ? nameFor(l.node) : l.name, y), svg("line", { class: "lane-line", x1: left, x2: width - right, y1: y, y2: y }));
    for (const d of l.drains) if (d.to > from) parts.push(svg("g", { class: "drain" }, svg("title", {}, `${nameFor(l.node)} drained for ${lasting(d.to - d.from)}`),
      svg("rect", { x: x(d.from), y: y - 4, width: wide(d.from, d.to, 2), height: 8 })));
    for (const t of past.terms) if (t.node === l.node) parts.push(svg("rect", { class: `f${sign(l.node) % colours}`, x: x(t.from), y: y - 3, width: wide(t.from, t.to, 2), height: 6, rx: 2 }));
    const drawn = {}; // where the last mark of each type is: those that would cover each other are one
    for (const m of l.marks) {
      if (x(m.at) - (drawn[m.type] ?? -99) < 12) continue;
      drawn[m.type] = x(m.at);
      const [sym, cls, says] = moments[m.type];
      parts.push(svg("g", { class: `moment ${cls}`, "data-type": m.type }, svg("title", {}, `${l.node ? nameFor(l.node) : "A node"} ${says}, ${clock(new Date(m.at))}`),
        svg("circle", { cx: x(m.at), cy: y, r: 7 }), svg("text", { x: x(m.at), y: y + 4 }, sym)));
    }
  });
  const t = sumUp(past, from, to), words = [];
  const long = (ms) => ms < 60000 ? lasting(ms) : lasting(Math.round(ms / 1000) * 1000);
  if (t.led.length && eventsAsked) words.push(`${t.led.length === 1 ? "One node" : `${num(t.led.length)} nodes`} led: `, t.led.slice(0, 4).map(([n, ms], i) => [i ? ", " : "", nameFor(n), " ", long(ms)]),
    t.led.length > 4 ? ", and others" : "", ". ");
  words.push(t.gaps ? el("b", { class: "bad" }, `No node led for ${lasting(t.without)}${t.gaps > 1 ? ` in ${num(t.gaps)} gaps, the longest ${lasting(t.longest)}` : ""}.`)
    : !eventsAsked ? "Reading the events…" : t.led.length ? "No gap is recorded." : "Nothing is recorded of this time.");
  fill($("lanes-words"), words);
  const picture = svg("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `Leadership of the last ${spans[span]}. ${$("lanes-words").textContent}` }, parts);
  fill(box, [picture]);
}

// ---- Figures of the whole cluster -----------------------------------------------------------------------------------

const figures = { body: null, samples: new Map(), asking: false, failed: "", every: 5000, timer: 0 };

/** askFigures asks for what is new, as long as the page is looked at and current. */
async function askFigures() {
  clearTimeout(figures.timer);
  if (!figures.asking && connection.live && !document.hidden && old() === "" && got.status && inEtcd()) {
    figures.asking = true;
    const last = Math.max(0, ...figures.samples.keys());
    const since = last && last > now() - 3600000 ? new Date(last).toISOString() : "1h";
    try {
      const r = await fetch(`cluster/figures?since=${encodeURIComponent(since)}`, { cache: "no-store", signal: AbortSignal.timeout(10000) });
      if (r.ok) takeFigures(await r.json());
      else figures.failed = "This node does not report figures.";
    } catch { figures.failed = "The figures could not be read."; } finally { figures.asking = false; }
  }
  figures.timer = setTimeout(askFigures, figures.body || figures.failed ? figures.every : 500);
}
function takeFigures(b) {
  figures.body = b;
  figures.failed = "";
  for (const s of b.samples ?? []) figures.samples.set(Date.parse(s.time), s);
  for (const at of [...figures.samples.keys()].sort((a, b) => a - b).slice(0, -200)) figures.samples.delete(at);
  paintSparks();
  paintServices();
  paintShards();
  paintWork();
}

/** sparks: name, what a sample's figure is (null: none), how it is said, and which of them the page names. */
const rate = (n) => n >= 100 ? num(Math.round(n)) : n >= 10 ? n.toFixed(0) : n.toFixed(1);
const sparks = [
  { id: "renewal", name: "Renewal", note: "of the slowest node", of: (s) => s.renewal_seconds ? s.renewal_seconds * 1000 : null, say: (v) => millis(v), sum: "most" },
  { id: "failovers", name: "Failovers", note: "in the last hour", of: (s) => s.failovers, say: (v) => num(v), bars: true, sum: "total" },
  { id: "calls", name: "Calls per second", of: (s) => s.seconds ? s.calls / s.seconds : null, red: (s) => s.seconds ? s.failed / s.seconds : 0, say: rate, sum: "most" },
  { id: "queue", name: "Wait in queues", note: "mean", of: (s) => s.queued ? s.queued_seconds * 1000 / s.queued : 0, say: (v) => millis(v), sum: "most" },
  { id: "lag", name: "Processor lag", of: (s) => s.lag < 0 ? null : s.lag, say: (v) => num(Math.round(v)), unit: "events", sum: "most" },
];
/** millis says a duration of figures: milliseconds, with a figure after the point if there are few. */
function millis(ms) { return ms === 0 ? "0 ms" : ms < 10 ? `${ms.toFixed(ms < 0.1 ? 2 : 1)} ms` : ms < 10000 ? `${num(Math.round(ms))} ms` : lasting(ms); }

function paintSparks() {
  const every = (figures.body?.sample_seconds ?? 20) * 1000, to = now(), from = to - 3600000;
  const all = [...figures.samples].sort((a, b) => a[0] - b[0]).filter(([at]) => at > from);
  $("sparks-note").textContent = figures.failed || (all.length ? "" : "The first figures come in a moment.");
  const w = 200, h = 40, x = (at) => w * (at - from) / (to - from);
  fill($("sparks"), sparks.map((k) => {
    const points = all.map(([at, s]) => [at, k.of(s), k.red ? k.red(s) : 0]).filter(([, v]) => v !== null);
    const most = Math.max(0, ...points.map(([, v]) => v)), last = points.at(-1)?.[1], y = (v) => h - 2 - (h - 6) * (most ? v / most : 0);
    const total = points.reduce((n, [, v]) => n + v, 0);
    const lines = [];
    for (const [i, [at, v]] of points.entries()) {
      if (!i || at - points[i - 1][0] > 1.5 * every) lines.push([]);
      lines.at(-1).push([x(at), y(v)]);
    }
    const xy = (p) => `${p[0].toFixed(1)},${p[1].toFixed(1)}`;
    const drawn = k.bars ? points.filter(([, v]) => v > 0).map(([at, v]) => svg("rect", { class: "bar-mark", x: (x(at) - 1.5).toFixed(1), y: y(v).toFixed(1), width: 3, height: (h - y(v)).toFixed(1) }))
      : lines.map((l) => [svg("path", { class: "area", d: `M${l[0][0].toFixed(1)},${h} L${l.map(xy).join(" L")} L${l.at(-1)[0].toFixed(1)},${h}Z` }),
        svg("polyline", { class: "spark-line", points: (l.length > 1 ? l : [[l[0][0] - 1, l[0][1]], l[0]]).map(xy).join(" ") })]);
    const reds = points.filter(([, , r]) => r > 0).map(([at, , r]) => svg("rect", { class: "red-mark", x: (x(at) - 1).toFixed(1), y: Math.min(y(r), h - 4).toFixed(1), width: 2, height: (h - Math.min(y(r), h - 4)).toFixed(1) }));
    const value = !points.length ? "–" : k.sum === "total" ? k.say(total) : k.say(last);
    const peak = points.length && k.sum === "most" ? `highest ${k.say(most)}` : "";
    const failing = reds.length ? points.at(-1)[2] : 0;
    return el("li", { class: "spark", "data-key": k.id }, el("p", { class: "soft" }, k.name), el("p", { class: "spark-of" }, el("span", { class: "spark-now" }, value),
      el("small", {}, [peak, k.note].filter(Boolean).join(", "), failing ? el("span", { class: "bad" }, `${peak ? ", " : ""}${rate(failing)} fail`) : "")),
    svg("svg", { class: "spark-svg", viewBox: `0 0 ${w} ${h}`, preserveAspectRatio: "none", role: "img",
      "aria-label": points.length ? `${k.name}, last hour: ${value}${peak ? `, ${peak}` : ""}${reds.length ? ", with failed calls" : ""}` : `${k.name}: no figures yet` },
    svg("line", { class: "spark-base", x1: 0, x2: w, y1: h - 1, y2: h - 1 }), drawn, reds));
  }));
}

/** missingNodes says which nodes did not report. */
function missingNodes() {
  const b = figures.body;
  if (!b?.missing_count) return "";
  return el("p", { class: "warn note" }, icon("warn"), ` ${num(b.missing_count)} of ${many(b.nodes, "node", "nodes")} did not report: `,
    b.missing.slice(0, 3).map((m, i) => [i ? "; " : "", nameFor(m.address), ", ", m.error]), b.missing_count > 3 ? "; and others." : ".");
}

function paintServices() {
  const b = figures.body, box = $("services");
  if (!b) { fill(box, [empty(figures.failed || "Asking the nodes…")]); return; }
  const at = (t, q) => t[q] === undefined ? t.count ? "> 30 s" : "–" : `≤ ${millis(t[q] * 1000)}`;
  const services = [...b.services].sort((x, y) => (y.failed_per_second > 0) - (x.failed_per_second > 0) || y.calls_per_second - x.calls_per_second || (x.name < y.name ? -1 : 1));
  const total = b.services.reduce((n, s) => n + s.active, 0), calls = b.services.reduce((n, s) => n + s.calls_per_second, 0);
  fill($("services-note"), [b.services.length ? `${many(total, "object", "objects")}, ${rate(calls)} calls per second on ${many(b.nodes - b.missing_count, "node", "nodes")}` : ""]);
  fill(box, [missingNodes(), services.length ? scrolled("Table of services", table("Services of objects in the whole cluster", [{ name: "Service" }, { name: "Nodes", num: true },
    { name: "Objects", num: true }, { name: "Calls/s", num: true }, { name: "Failed/s", num: true }, { name: "Half take", num: true }, { name: "99 % take", num: true },
    { name: "Waiting", num: true }, { name: "99 % wait", num: true }, { name: "Panics", num: true }],
  services.map((s) => ({ key: s.name, marked: s.failed_per_second > 0, cells: [named(s.name), num(s.nodes), num(s.active), rate(s.calls_per_second),
    s.failed_per_second > 0 ? el("span", { class: "bad" }, rate(s.failed_per_second)) : "0", at(s.latency, "p50_at_most_seconds"), at(s.latency, "p99_at_most_seconds"),
    num(s.waiting), at(s.queued, "p99_at_most_seconds"), s.panics ? el("span", { class: "bad" }, num(s.panics)) : "0"] }))))
    : empty("No node hosts a service of objects.")]);
}

// ---- Commands to copy -----------------------------------------------------------------------------------------------

/** quoted is a word as a shell takes it. */
const quoted = (word) => /^[A-Za-z0-9_.:\/@%+=,-]+$/.test(word) && !word.startsWith("-") || /^--[a-z-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
const shell = (words) => words.map(quoted).join(" ");
/** copies is a button that copies a command. A name that would be more than one line has none. */
function copies(words) {
  if (words.some((w) => /[\x00-\x1f\x7f]/.test(w))) return "";
  const text = shell(words);
  return el("button", { type: "button", class: "small copy", "data-do": "copy", "data-text": text, title: text, "aria-label": `Copy the command ${text}` }, icon("copy"));
}
async function copyText(b) {
  try {
    await navigator.clipboard.writeText(b.dataset.text);
    $("news").textContent = `Copied: ${b.dataset.text}`;
  } catch { // not permitted, as on a page without TLS from another host: the text is selected instead
    $("copy-text").value = b.dataset.text;
    $("copy-box").hidden = false;
    $("copy-text").focus();
    $("copy-text").select();
    $("news").textContent = "Press Ctrl+C to copy the command.";
    return;
  }
  b.classList.add("copied");
  setTimeout(() => b.classList.remove("copied"), 1500);
}
function paintCommands() {
  const st = got.status?.body;
  if (!st) return;
  const next = st.queue.find((a) => a !== st.leader_id);
  const all = [["The same as this page", ["goversed", "status"]], ["The last hour", ["goversed", "events", "--since", "1h"]], ["What is wrong", ["goversed", "doctor"]]];
  if (next) all.push(["Make the next one leader", ["goversed", "transfer", "--to", next]]);
  fill($("commands"), [el("ul", {}, all.map(([says, words]) => el("li", {}, el("span", { class: "soft" }, says), el("code", {}, shell(words)), copies(words))))]);
}

// ---- The address has what is shown ----------------------------------------------------------------------------------

/** shownState is the state that the address has: each as [name, value, default, how to set it]. */
const addressed = [
  ["span", () => String(span), "60", (v) => { if (spans[v]) span = Number(v); }],
  ["filter", () => wanted, "", (v) => { wanted = v; }],
  ["sort", () => order.name, "Node", (v) => { if (nodeColumns.some((c) => c.name === v && c.by)) order.name = v; }],
  ["down", () => order.down ? "1" : "", "", (v) => { order.down = v === "1"; }],
  ["owner", () => map.only === null ? "" : nameOf(map.only), "", (v) => { map.wanted = v; }],
  ["shards", () => $("zoom").open ? "all" : "", "", (v) => { $("zoom").open = v === "all"; }],
  ["work", () => tab, "all", (v) => { if (kindsOfWork.includes(v)) tab = v; }],
  ["events", () => show, "", (v) => { show = v; }],
];
function readAddress() {
  if (!location.hash.includes("=")) return;
  const q = new URLSearchParams(location.hash.slice(1));
  for (const [name, , usual, set] of addressed) set((q.get(name) ?? usual).slice(0, 500));
  $("filter").value = wanted;
  $("event-type").value = show;
  if ($("event-type").selectedIndex < 0) { show = ""; $("event-type").value = ""; }
  $("span").value = String(span);
}
let writing = 0;
/** writeAddress does so after a moment: browsers limit how often it may change. */
function writeAddress() {
  clearTimeout(writing);
  writing = setTimeout(() => {
    const q = new URLSearchParams();
    for (const [name, value, usual] of addressed) if (value() !== usual) q.set(name, value());
    const hash = q.size ? `#${q}` : "";
    if (hash !== location.hash) history.replaceState(null, "", hash || location.pathname + location.search);
  }, 150);
}
