// ---- Work: elections, locks, effects, processors and automations, what is in trouble first -------------------------

const kindsOfWork = ["all", "elections", "locks", "effects", "processors", "automations"];
let tab = "all";

/** workItems returns all of it as rows: {kind, name, trouble, state, cls, sym, by, detail, at, command, buttons}. */
function workItems() {
  const items = [];
  for (const e of body("elections")?.elections ?? []) {
    items.push({ kind: "elections", name: e.name, trouble: e.leader_id ? 0 : 2, state: e.leader_id ? "led" : "no leader", cls: e.leader_id ? "tag main" : "tag bad", sym: "crown",
      by: e.leader_id ? [e.leader_id] : [], detail: many(e.length, "candidate", "candidates"), token: e.token,
      command: e.leader_id && inEtcd() ? ["goversed", "elections", "resign", e.name] : null,
      buttons: () => !inEtcd() ? [] : [act("resignElection", "Resign…", { name: e.name }), e.candidates?.some((c) => c.address !== e.leader_id) ? act("transferElection", "Transfer…", { name: e.name }) : ""] });
  }
  for (const l of body("locks")?.locks ?? []) {
    const holders = l.holders ?? [], waiting = Math.max(0, l.length - holders.length);
    items.push({ kind: "locks", name: l.name, trouble: holders.length ? 0 : 1, state: holders.length ? l.mode === "shared" ? "shared" : "held" : "waited for", cls: holders.length ? "tag main" : "tag warn", sym: "key",
      by: holders.map((h) => h.owner), detail: waiting ? many(waiting, "waits", "wait") : "none waits", token: holders[0]?.token });
  }
  const unknown = body("unknown")?.effects ?? [], names = new Set(unknown.map((e) => e.name));
  for (const e of [...unknown, ...(body("effects")?.effects ?? []).filter((x) => !names.has(x.name))]) {
    const tags = { unknown: ["tag bad", "warn", 3], failed: ["tag warn", "x", 1], done: ["tag", "ok", -1], running: ["tag main", "clock", 0] };
    const [cls, sym, trouble] = tags[e.state] ?? ["tag bad", "warn", 3];
    items.push({ kind: "effects", name: e.name, trouble, state: e.state, cls, sym, by: e.by ? [e.by] : [], at: e.at, token: e.token,
      detail: e.state === "unknown" ? "look whether it took place, then resolve it" : e.error || (e.resolved_by ? `resolved by ${e.resolved_by}`
        : e.result_bytes ? many(e.result_bytes, "byte of result", "bytes of result") : `attempt ${num(e.attempt)}`),
      command: e.state === "unknown" ? ["goversed", "effects", "resolve", e.name, String(e.token), "--done"] : null,
      buttons: () => e.state === "unknown" ? [act("resolve", "Resolve…", { name: e.name, token: e.token })] : [] });
  }
  items.push(...processorItems(), ...automationItems());
  return items.sort((a, b) => b.trouble - a.trouble || kindsOfWork.indexOf(a.kind) - kindsOfWork.indexOf(b.kind) || (a.name < b.name ? -1 : a.name > b.name ? 1 : 0));
}
const oneOf = { elections: "election", locks: "lock", effects: "effect", processors: "processor", automations: "automation" };

function paintWork() {
  const all = workItems(), count = (k) => all.filter((w) => k === "all" || w.kind === k).length;
  const unknown = body("unknown")?.effects.length ?? 0, trouble = all.filter((w) => w.trouble > 1).length;
  fill($("tabs"), kindsOfWork.map((name) => {
    const n = count(name), more = name !== "all" && body(name)?.truncated ? "+" : "";
    return el("button", { type: "button", role: "tab", id: `tab-${name}`, "data-key": name, "data-do": "tab", "data-tab": name,
      "aria-selected": String(tab === name), "aria-controls": "panel", tabindex: tab === name ? 0 : -1 },
    name[0].toUpperCase() + name.slice(1), n ? el("span", { class: "count" }, `${num(n)}${more}`) : "",
    name === "effects" && unknown ? el("span", { class: "count bad" }, `${num(unknown)} unknown`) : "",
    name === "all" && trouble ? el("span", { class: "count bad" }, `${num(trouble)} in trouble`) : "");
  }));
  $("panel").setAttribute("aria-labelledby", `tab-${tab}`);
  const shown = all.filter((w) => tab === "all" || w.kind === tab).slice(0, 300);
  const bad = (tab === "all" ? kindsOfWork.slice(1) : [tab]).filter((k) => got[k] && got[k].status !== 200);
  const notes = bad.map((k) => el("p", { class: "empty" }, `${k[0].toUpperCase() + k.slice(1)}: ${detail(k)}`));
  if (!shown.length) {
    if (Object.keys(got).length) fill($("panel"), [notes, bad.length && tab !== "all" ? "" : empty(tab === "all" ? "No election, lock, effect, processor or automation is in use." : `There are no ${tab}.`)]);
    return;
  }
  const columns = [{ name: "Name" }, { name: "State" }, { name: "Node" }, { name: "Details", wide: true }, { name: "Token", num: true }, { name: "Since", num: true }, { name: "Do" }];
  const truncated = (tab === "all" ? kindsOfWork.slice(1) : [tab]).some((k) => body(k)?.truncated);
  fill($("panel"), [notes, scrolled("Table of work", table("Elections, locks, effects, processors and automations, those in trouble first", columns, shown.map((w) => ({
    key: `${w.kind} ${w.key ?? w.name}`, marked: w.trouble > 1, cells: [
      [named(w.name), el("small", { class: "kind" }, oneOf[w.kind])], el("span", { class: w.cls }, icon(w.sym), w.state),
      w.by.length ? el("span", { class: "tags" }, w.by.slice(0, 2).map(party), w.by.length > 2 ? `and ${num(w.by.length - 2)} more` : "") : el("span", { class: "soft" }, "–"),
      w.detail, w.token ? num(w.token) : "–", w.at ? since(w.at) : "–",
      el("div", { class: "buttons" }, token && addressable(w.name) && w.buttons ? w.buttons() : "", w.command ? copies(w.command) : "")] })))),
  truncated || all.length > 300 ? el("p", { class: "note more" }, "There are more: goversed, or the API with ?after=, lists them.") : ""]);
}

/** processorItems has the processors of the whole cluster, and those of its nodes that have their checkpoints elsewhere. */
function processorItems() {
  const own = body("own"), managed = body("processors")?.processors ?? [], known = new Set(managed.map((p) => p.name));
  const views = [...(own?.processors ?? []).map((p) => ({ ...p, node: own.node_id })), ...(figures.body?.processors ?? []).filter((p) => p.node !== own?.node_id)];
  const leaders = new Map(views.filter((p) => p.leading).map((p) => [p.name, p]));
  const items = managed.map((p) => managedItem(p, leaders.get(p.name)));
  const shown = new Set((own?.processors ?? []).map((p) => p.name));
  for (const p of views) {
    if (known.has(p.name) || !p.leading && p.node !== own?.node_id && shown.has(p.name)) continue; // those that wait elsewhere, too
    items.push({ key: `${p.name} ${p.node}`, ...processorRow(p.name, { ...p, stored: p.position }), by: [p.node], token: p.token });
  }
  return items;
}

/** processorRow has what all processors show. p is a view of its leader, and has stored, replay, gone (why none leads), pausing, and by (which operator paused it). */
function processorRow(name, p) {
  const failing = p.attempts > 0;
  const [state, cls, trouble] = p.pausing ? ["pausing", "tag warn", 2] : p.paused ? ["paused", "tag warn", 2] : failing ? ["failing", "tag bad", 3]
    : p.parked > 0 ? ["events parked", "tag bad", 3] : p.gone ? [p.gone, p.gone === "ended" ? "tag" : "tag warn", p.gone === "ended" ? 1 : 2] : p.replay ? ["replaying", "tag main", 0]
    : p.leading ? ["processing", "tag main", 0] : ["waiting", "tag", -1];
  return { kind: "processors", name, trouble, state, cls, sym: p.leading ? "bolt" : "clock", at: p.handled_at,
    detail: [p.by ?? "", p.stored ? `at ${p.stored}` : "at the beginning", p.lag === undefined ? "" : `lag ${num(p.lag)}`, p.leading ? `${rate(p.per_second)}/s` : "",
      p.parked ? `${num(p.parked)} parked` : "", failing ? many(p.attempts, "failed attempt", "failed attempts") : "", p.last_error ?? ""].filter(Boolean).join(", ") };
}

/** silentReport is the age in milliseconds of a report whose leader may have been killed. */
const silentReport = 60000;

/** managedItem is the row of a processor with a checkpoint that can be managed. view is what its leader says at present, if a node does. */
function managedItem(p, view) {
  const report = p.report, fresh = report && now() - Date.parse(report.reported_at) < silentReport;
  const leader = view?.token === p.token ? view : report?.current && report.leading && fresh ? report : undefined;
  const gone = leader ? "" : report?.current && !report.leading ? "ended" : "no report";
  const by = !p.paused ? "" : `${p.pause_acknowledged ? "paused" : "to be paused"}${p.pause_by ? ` by ${p.pause_by}` : ""}${p.pause_reason ? `: ${p.pause_reason}` : ""}`;
  const says = leader ?? { last_error: report?.last_error, handled_at: report?.handled_at };
  return { ...processorRow(p.name, { ...says, attempts: leader?.attempts ?? 0, leading: Boolean(leader), paused: p.paused, pausing: p.paused && !p.pause_acknowledged, by,
    stored: p.position, parked: p.parked, replay: p.replay, gone }), by: leader ? [leader.node] : [], token: p.token,
  command: p.paused ? ["goversed", "processors", "resume", p.name] : null,
  buttons: () => [p.paused ? act("resume", "Resume…", { name: p.name }) : act("pause", "Pause…", { name: p.name }), act("rewind", "Rewind…", { name: p.name }),
    p.parked ? act("parked", "Parked…", { name: p.name }) : "", act("unfence", "Unfence…", { name: p.name })] };
}

/** automationItems has the automations of this node. */
function automationItems() {
  const own = body("automations");
  return (own?.automations ?? []).map((a) => ({ kind: "automations", name: a.name, trouble: a.parked > 0 ? 2 : a.active ? 0 : -1, sym: a.active ? "bolt" : "clock",
    state: a.parked > 0 ? "items parked" : a.active ? a.running ? "executing" : "idle" : "waiting", cls: a.parked > 0 ? "tag bad" : a.active ? "tag main" : "tag",
    by: [own.node_id], at: a.done_at, token: a.token, detail: [a.leader_only ? "leader only" : "shared", `${num(a.running)} of ${many(a.workers, "worker", "workers")} busy`,
      `${num(a.done)} done`, a.per_second ? `${rate(a.per_second)}/s` : "", a.due === undefined ? "" : `${num(a.due)} due`, a.waiting ? `${num(a.waiting)} to be tried again` : "",
      a.parked ? `${num(a.parked)} parked` : "", a.last_error ? `${a.last_item ? `${a.last_item}: ` : ""}${a.last_error}` : ""].filter(Boolean).join(", ") }));
}

// ---- What an operator requests of processors -----------------------------------------------------------------------

const reasonField = () => el("label", { class: "field" }, el("span", {}, "Reason"), el("input", { id: "reason", maxlength: 500, autocomplete: "off",
  placeholder: "for the event log" }));
const reasonGiven = () => $("reason").value.trim();
const radioField = (name, value, text, checked) => el("label", {}, el("input", { type: "radio", name, value, checked, required: true }), el("span", {}, text));
const radioGiven = (name) => document.querySelector(`#dialog [name=${name}]:checked`)?.value ?? "";
const processorCall = (name, verb) => `processors/${encodeURIComponent(name)}/${verb}`;
const processorNow = (name) => body("processors")?.processors.find((p) => p.name === name);

const processorActions = {
  pause({ name }) {
    return { title: `Pause the processor ${name}`, words: [`${name} handles no further event, on any node, until it is resumed. Its leader keeps its lead.`],
      fields: [reasonField()], confirm: "Pause", path: processorCall(name, "pause"), say: () => ({ reason: reasonGiven() }), done: () => "It is paused." };
  },
  resume({ name }) {
    const p = processorNow(name);
    return { title: `Resume the processor ${name}`, words: [`${name} handles events again, from where it stands` + (p?.report?.current && p.report.leading ? "."
      : ": no node leads it at present, so the next leader does."), p?.pause_reason ? `It was paused${p.pause_by ? ` by ${p.pause_by}` : ""}: ${p.pause_reason}` : ""].filter(Boolean),
    fields: [reasonField()], confirm: "Resume", path: processorCall(name, "resume"), say: () => ({ reason: reasonGiven() }), done: () => "It goes on." };
  },
  rewind({ name }) {
    const at = processorNow(name)?.position ?? "";
    const position = el("input", { id: "position", value: at, maxlength: 2048, autocomplete: "off", spellcheck: "false", required: true });
    const where = el("fieldset", {}, el("legend", {}, "It continues"), radioField("where", "after", "after the position", true),
      radioField("where", "reset", "at the beginning: all events are handled again"));
    where.addEventListener("change", () => { position.disabled = radioGiven("where") === "reset"; });
    return { title: `Rewind the processor ${name}`, words: [`Events after the new position are handled again, or skipped if it is later than the present one, ${at || "the beginning"}.`],
      fields: [where, el("label", { class: "field" }, el("span", {}, "Position"), position), reasonField()], confirm: "Rewind", path: processorCall(name, "rewind"),
      say: () => ({ to: position.disabled ? "" : position.value, reason: reasonGiven() }), done: (a) => a.position ? `It continues after ${a.position}.` : "It begins anew." };
  },
  parked({ name }) {
    const list = el("div", { id: "parked-list" }, "Reading the parked events…");
    return { title: `Parked events of ${name}`, words: ["These events failed too often. A retry has the leader handle one again, after events that follow it."],
      fields: [list, el("fieldset", {}, el("legend", {}, "The chosen event"), radioField("what", "retry", "is handled again", true),
        radioField("what", "drop", "is dropped: it is never handled")), reasonField()], confirm: "Do it", load: () => loadParked(name, list),
      path: () => processorCall(name, radioGiven("what")), say: () => ({ position: radioGiven("event"), reason: reasonGiven() }),
      done: (a) => `It is done: ${many(a.parked, "event is", "events are")} parked now.` };
  },
  unfence({ name }) {
    return { title: `Unfence the processor ${name}`, words: ["Any token may claim its checkpoint, also a smaller one than before. This is for tokens that have started again: with another lock, " +
      "or with an etcd without its data.", "First make sure that no process with an old token is still running: two could handle events at once."],
    fields: [el("fieldset", {}, el("label", {}, el("input", { type: "checkbox", id: "sure", required: true }), el("span", {}, "No such process is running"))), reasonField()],
    confirm: "Unfence", path: processorCall(name, "unfence"), say: () => ({ reason: reasonGiven() }), done: () => "Any token may claim its checkpoint." };
  },
};

const mostParked = 100;
/** loadParked shows the parked events of a processor, to choose one. */
async function loadParked(name, list) {
  let says = "The node does not answer.", events = [], more = false;
  $("dialog-confirm").disabled = true;
  try {
    const r = await fetch(`cluster/processors/${encodeURIComponent(name)}/parked`, { cache: "no-store", signal: AbortSignal.timeout(10000) });
    const b = await r.json();
    says = r.ok ? "No event is parked." : b.detail || b.title;
    if (r.ok) { events = b.parked; more = b.truncated || events.length > mostParked; }
  } catch { /* says why */ }
  if (!list.isConnected) return; // the dialog is for something else by now
  fill(list, events.length ? [el("fieldset", { class: "choices" }, el("legend", {}, "Event"), events.slice(0, mostParked).map((p, i) =>
    radioField("event", p.position, [p.position, el("small", {}, ` ${many(p.attempts, "attempt", "attempts")}, ${p.error.slice(0, 200)}${p.retry ? ", retry requested" : ""}`)], i === 0))),
  more ? el("p", { class: "note" }, "There are more: goversed processors parked lists them.") : ""] : [el("p", {}, says)]);
  $("dialog-confirm").disabled = !events.length || old() !== "";
}
