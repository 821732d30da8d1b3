const SPAN_NS = 60e9, FEW = 100, EXPLAIN_MS = 2000;
let snapshot = null, all = false, opened = null;

// Who sent when: a digit for each job and slot of the last minute, in rings.
const history_ = { newest: 0, first: 0, size: 0, jobs: new Map() };
const move = (slot, length) => {
  const h = history_, size = Math.max(1, Math.ceil(SPAN_NS / length));
  if (size !== h.size || slot < h.newest - size || slot > h.newest + size) {
    h.size = size; h.newest = slot; h.first = slot; h.jobs.clear();
  }
  for (; h.newest < slot; h.newest++) for (const ring of h.jobs.values()) ring[(h.newest + 1) % size] = 0;
};
const lanes = said => {
  if (said.newest == null) return;
  if (!history_.size) move(said.newest, said.slot_length_ns);
  const h = history_;
  if (said.newest > h.newest) move(said.newest, said.slot_length_ns);
  for (const { job, levels } of said.jobs) {
    let ring = h.jobs.get(job);
    if (!ring) h.jobs.set(job, ring = new Uint8Array(h.size));
    const from = said.newest - levels.length + 1;
    h.first = Math.max(Math.min(h.first, from), h.newest - h.size + 1);
    for (let i = 0; i < levels.length; i++) {
      const slot = from + i;
      if (slot > h.newest - h.size) ring[slot % h.size] = Math.max(ring[slot % h.size], +levels[i]);
    }
  }
};
const WIDE = 1000, HIGH = 36;
const draw = ring => {
  const { newest, size } = history_;
  let path = 'M0 ' + HIGH, was = 0;
  for (let x = 0; x < WIDE; x++) {
    const from = newest - size + 1 + Math.floor(x * size / WIDE), to = Math.max(from + 1, newest - size + 1 + Math.floor((x + 1) * size / WIDE));
    let level = 0;
    for (let s = from; s < to; s++) level = Math.max(level, ring[(s + size) % size]);
    if (level !== was) { path += 'H' + x + 'V' + (level ? HIGH - 8 - Math.round(level * 26 / 9) : HIGH); was = level; }
  }
  return path + 'H' + WIDE + 'V' + HIGH + 'Z';
};
const colours = new Map();
const colour = job => {
  if (!colours.has(job)) colours.set(job, 'var(--m' + colours.size % 6 + ')');
  return colours.get(job);
};
const role = j => word([j.role || (j.rank == null ? '' : 'rank'), j.rank == null ? '' : j.rank + (j.nranks ? '/' + j.nranks : '')].filter(Boolean).join(' '));
const benefit = j => ({ without: 'trying without Sluice', released: 'released: ' + percent(j.slower_ratio) + ' slower with Sluice', spared: 'given back' })[j.benefit] || '';
const drawJobs = s => {
  const h = history_, known = Math.max(1, h.newest - h.first + 1), here = new Set(s.jobs.filter(j => j.ended_unix_ns == null).map(j => j.id));
  const list = s.jobs.filter(j => j.ended_unix_ns == null).concat([...h.jobs.keys()].filter(id => !here.has(id) && h.jobs.get(id).some(Boolean)).map(id => ({ id, ended: true })));
  for (const id of h.jobs.keys()) if (!here.has(id) && !h.jobs.get(id).some(Boolean)) h.jobs.delete(id);
  keep($('lanes'), list, j => 'j' + j.id, j => {
    const e = make('li'), left = make('div'), right = make('div'), button = make('button', 'name', j.id);
    button.onclick = () => { choose(j.id); $('h-flows').scrollIntoView(); $('job').focus(); };
    mark(button, 'title', 'show the flows of this job');
    left.append(button, make('div', 'soft'));
    right.append(make('b'), make('div', 'soft'));
    e.append(left, $('lane').content.cloneNode(true), right);
    return e;
  }, (e, j) => {
    const [left, svg, right] = e.children, ring = h.jobs.get(j.id);
    name(e, j.ended ? 'ended' : '');
    const round = 'round ' + grouped(j.round || 0) + (j.demand_bytes ? ', ' + percent(j.progress_ratio) + ' of ' + bytes(j.demand_bytes) : '');
    say(left.lastChild, j.ended ? 'ended' : [j.pattern, role(j), round].filter(t => t !== '-').join(', '));
    const busy = ring ? ring.reduce((n, v) => n + (v > 0), 0) : 0;
    say(right.firstChild, j.ended || j.delivered_bps == null ? '' : j.ordered_bps == null ? rate(j.delivered_bps) : rate(j.delivered_bps) + ' of ' + rate(j.ordered_bps));
    const sent = 'sent ' + percent(busy / known) + ' of the time';
    say(right.lastChild, [sent, j.stalled_on && 'waits: ' + j.stalled_on, j.promoted && 'goes first', benefit(j)].filter(Boolean).join('; '));
    mark(svg, 'aria-label', j.id + ' ' + sent);
    mark(svg.firstElementChild, 'fill', colour(j.id));
    mark(svg.firstElementChild, 'd', ring ? draw(ring) : '');
  });
  $('no-jobs').hidden = list.length > 0;
  $('scale').hidden = !list.length;
  if (!list.length) return;
  let one = 0, more = 0;
  for (let i = 0; i < h.size; i++) {
    let n = 0;
    for (const ring of h.jobs.values()) n += ring[i] > 0;
    one += n > 0; more += n > 1;
  }
  const span = Math.round(known * s.clock.slot_length_ns / 1e9);
  say($('overlap'), 'One lane for each job; the height is what it delivered of what the host’s links carry. In the last ' + span
    + ' s some job sent ' + percent(one / known) + ' of the time, and several at once ' + percent(one ? more / one : 0) + ' of that.');
};

const drawLinks = s => {
  $('no-links').hidden = s.links.length > 0;
  keep($('links'), s.links, l => 'l' + l.name, l => {
    const e = make('li'), left = make('div'), now = make('div'), part = make('div', 'part');
    left.append(make('b', '', l.name), make('div', 'soft'));
    part.append(make('i'), make('i'));
    now.append(make('div', 'soft'), part);
    e.append(left, now, make('ol', 'slots'));
    return e;
  }, (e, l) => {
    const [left, now, strip] = e.children, of = v => l.capacity_bps > 0 && v != null ? v / l.capacity_bps : null;
    say(left.lastChild, rate(l.capacity_bps) + (l.own ? ', own link' : l.holder ? ', kept by ' + l.holder : ''));
    say(now.firstChild, 'managed ' + percent(of(l.managed_bps)) + ', other ' + percent(of(l.other_bps)));
    const [managed, other] = now.lastChild.children;
    managed.style.width = Math.min(100, 100 * (of(l.managed_bps) || 0)) + '%';
    other.style.width = Math.min(100, 100 * (of(l.other_bps) || 0)) + '%';
    other.hidden = !l.other_bps;
    slots(strip, l.next_bps, l.capacity_bps, l.name);
  });
};

const shortId = id => '0x' + (id.replace(/^0+/, '') || '0');
// What `sluice explain` says, word for word.
const explain = (x, j) => {
  const source = { only: '', switch: ' (as switches say)', signature: ' (as its announcements were marked on the way)', probe: ' (as probes found)', file: ' (as a file of routes says)', unknown: ' (and by one of several equal paths, nobody knows which)' };
  let out = 'flow ' + shortId(x.flow) + ', job ' + x.job + (j ? ' (' + j.pattern + ', round ' + grouped(j.round) + ')' : '') + ', slot ' + grouped(x.slot)
    + (x.decided_ago_ns == null ? '' : ', decided ' + time(x.decided_ago_ns) + ' ago') + '\n'
    + '  still to send ' + bytes(x.remaining_bytes) + ' of ' + bytes(x.demand_bytes) + ' in this round' + (x.cap_bps == null ? '' : '; at most ' + rate(x.cap_bps)) + '\n';
  if (x.path && x.path.length) out += '  path  ' + x.path.join(', ') + (source[x.path_source] || '') + '\n';
  out += '  rank  ' + (x.promoted ? 'its round is old: it goes before younger ones' : x.key_ns == null ? 'rank not known'
    : 'its job needs ' + time(x.key_ns) + ' more on its tightest link; shorter ones go first') + '\n';
  if (x.surplus) out += '  rate  order ' + rate(x.surplus.ordered_bps) + ' + surplus ' + rate(x.surplus.extra_bps) + ': the order is a floor, and it takes what is '
    + (x.surplus.yields ? 'idle' : 'left') + ', up to ' + rate(x.surplus.up_to_bps) + ' in all\n';
  const gbps = v => v === 0 ? '0' : (v / 1e9).toFixed(2);
  const rows = [['slot', ...x.slots.map((_, i) => '+' + i)], ['load', ...x.slots.map(s => percent(s.load_ratio))],
    ['headroom Gbit/s', ...x.slots.map(s => gbps(s.headroom_bps))], ['ordered Gbit/s', ...x.slots.map(s => gbps(s.ordered_bps))]];
  const widths = rows[0].map((_, i) => Math.max(...rows.map(r => r[i].length)));
  for (const row of rows) out += '  ' + row.map((c, i) => i ? c.padStart(widths[i]) : c.padEnd(widths[i])).join('  ').trimEnd() + '\n';
  if (x.link) out += '  load is that of other jobs on the tightest link: ' + x.link + '\n';
  return out + '  not more because: ' + x.why + (x.sentence ? ' (' + x.sentence + ')' : '') + '\n';
};
const ask = async () => {
  const mine = opened;
  if (!mine) return;
  let text;
  try {
    const answer = await fetch('api/v1/explain/' + mine.id), said = await answer.json();
    text = answer.ok ? explain(said, snapshot.jobs.find(j => j.id === said.job)) : said.message;
  } catch (_) { text = 'The daemon does not answer.'; }
  if (mine === opened) say(mine.pre, text);
};
setInterval(() => { if (opened && !document.hidden && asked.get('hz') !== '0') ask(); }, EXPLAIN_MS);
const toggle = row => {
  const again = opened && opened.row === row;
  if (opened) {
    opened.row.more = null; opened.line.remove();
    mark(opened.button, 'aria-expanded', 'false'); opened.button.removeAttribute('aria-controls');
    opened = null;
  }
  if (again) return;
  const line = make('tr', 'more'), cell = line.appendChild(make('td')), pre = cell.appendChild(make('pre', '', 'asking …'));
  cell.colSpan = 10; line.id = 'why'; mark(pre, 'role', 'status');
  opened = { row, line, pre, id: row.flow, button: row.cells[0].firstChild };
  row.more = line; row.after(line);
  mark(opened.button, 'aria-expanded', 'true'); mark(opened.button, 'aria-controls', 'why');
  ask();
};
const drawFlows = s => {
  const shown = all ? s.flows : s.flows.slice(0, FEW), body = $('flows');
  keep(body, shown, f => f.id, f => {
    const row = make('tr'), cell = make('td'), button = make('button', 'id', shortId(f.id));
    row.flow = f.id; button.type = 'button';
    mark(button, 'aria-expanded', 'false'); mark(button, 'aria-label', 'flow ' + shortId(f.id) + ': why this rate');
    button.onclick = () => toggle(row);
    cell.append(button); row.append(cell);
    return row;
  }, (row, f) => {
    const texts = [f.job === '_' ? '-' : f.job, f.to, f.state, [rate(f.ordered_bps) + (f.surplus_bps ? ' + ' + rate(f.surplus_bps) : ''), 'n'], [rate(f.delivered_bps), 'n'],
      [percent(f.error_ratio), 'n'], [time(f.srtt_ns), 'n'], [grouped(f.retransmitted), 'n'], (f.loss_guard ? 'loss-guard' : f.why) || '-'];
    texts.forEach((text, i) => {
      const [of, kind] = Array.isArray(text) ? text : [text, ''], cell = row.cells[i + 1] || row.appendChild(make('td'));
      name(cell, kind); say(cell, of);
    });
  });
  if (opened && !opened.row.isConnected) opened = null;
  const { flows, flows_asked } = s.totals, job = asked.get('job');
  $('flow-table').hidden = !s.flows.length;
  say($('flows-note'), flows_asked === 0 ? (job ? 'None of ' + job + ' now.' : 'None now.')
    : (shown.length < flows_asked ? shown.length + ' of ' : '') + grouped(flows_asked) + (flows_asked === 1 ? ' flow' : ' flows') + (job ? ' of ' + job + '; ' + grouped(flows) + ' of all jobs' : '')
    + '. The id of a flow opens why it has its rate.' + (s.flows.length < flows_asked ? ' Choose a job to see its flows, or ask sluice flows for all.' : ''));
  $('all').hidden = s.flows.length <= FEW;
  say($('all'), all ? 'Show the first ' + FEW : 'Show all ' + s.flows.length);
};
$('all').onclick = () => { all = !all; if (snapshot) drawFlows(snapshot); };

const drawFilter = s => {
  const wanted = asked.get('job') || '', ids = [...new Set(s.jobs.map(j => j.id).concat(wanted || []))];
  keep($('job'), ['', ...ids], id => 'o' + id, id => { const o = make('option', '', id || 'all jobs'); o.value = id; return o; }, () => {});
  if (document.activeElement !== $('job')) $('job').value = wanted;
};
const take = s => {
  snapshot = s;
  const d = s.daemon, c = s.clock, e = s.enforcement, until = d.mode_until_unix_ns;
  say($('host'), d.host || 'sluiced');
  say($('about'), 'sluiced ' + d.version + (d.cluster ? ', cluster ' + d.cluster : '') + ', up ' + age(d.uptime_ns));
  say($('mode'), d.mode + (until == null ? '' : ', returns in ' + age(Math.max(0, until - s.taken_unix_ns))));
  name($('mode'), 'tag ' + (d.mode === 'active' ? 'active' : 'plain'));
  say($('state'), d.state); name($('state'), 'tag ' + d.state);
  heading = d.mode + ', ' + d.state + ': ' + d.host;
  conditions(s.conditions, s.taken_unix_ns);
  const t = s.totals;
  facts($('facts'), [
    ['Delivered', rate(s.jobs.reduce((sum, j) => sum + (j.delivered_bps || 0), 0)), d.mode === 'active' ? 'ordered ' + rate(t.ordered_bps) : 'nothing is ordered in ' + d.mode],
    ['Jobs', grouped(t.jobs), grouped(t.flows) + ' flows'],
    ['Slots on time', percent(t.on_time_ratio), 'late at p99: ' + time(c.lateness_p99_ns)],
    ['Enforced by', e.backend, grouped(e.rows_used) + ' of ' + grouped(e.rows) + ' flow slots'],
    ['Cost', percent(s.cost.cpu_ratio), 'of a core; ' + bytes(s.cost.rss_bytes)],
  ]);
  drawLinks(s);
  move(c.slot, c.slot_length_ns);
  lanes(s.lanes);
  drawJobs(s);
  drawFilter(s);
  drawFlows(s);
  pairs($('clock'), [
    ['trusted', c.trusted ? 'yes' : 'no: this host schedules by its own links only'],
    ['source', c.source + (c.synchronised ? ', synchronised' : ', not synchronised')],
    ['error', '≤ ' + time(c.max_error_ns) + ' of ' + time(c.allowed_error_ns) + ' allowed'],
    ['slot', grouped(c.slot) + ', ' + time(c.slot_length_ns) + ' long, ' + c.horizon + ' planned ahead'],
    ['to switches', signed(c.offset_ns)],
    ['steps', c.steps + ' since start'],
    ['last refusal', word(c.last_refusal)],
  ]);
  pairs($('enforce'), [
    ['congestion control', word(e.cc)],
    ['kernel', word(d.kernel)],
    ['orders', e.renewed_ago_ns == null ? 'none yet' : 'renewed ' + time(e.renewed_ago_ns) + ' ago, last ' + time(e.deadline_ns)],
    ['policy', d.policy + ', surplus ' + word(d.surplus)],
    ['deciding loop', d.realtime ? 'a real-time thread' : 'an ordinary thread'],
    ['configuration', d.reload_ok ? 'as in the files' : 'the last reload was refused'],
  ]);
  $('no-switches').hidden = s.switches.length > 0;
  $('switch-table').hidden = !s.switches.length;
  keep($('switches'), s.switches, w => 'w' + w.name, () => make('tr'), (row, w) => cells(row, [
    w.name + (w.peer ? ' (peer)' : ''), word(w.address), w.transport, [w.state, w.state === 'up' ? '' : w.state], w.view, [grouped(w.links), 'n'],
    [w.exchange_p50_ns == null ? '-' : time(w.exchange_p50_ns) + ' / ' + time(w.exchange_p99_ns), 'n'],
    [w.age_ns == null ? 'never' : time(w.age_ns) + ' ago', 'n'], [signed(w.offset_ns), 'n'], [grouped(w.rejects), 'n'], [word(w.last_error), 'wrap'],
  ]));
};
const set = stream('sluiced', { history: lanes, snapshot: take });
const choose = job => { set('job', job); $('job').value = job; if (snapshot) drawFilter(snapshot); };
$('job').onchange = () => choose($('job').value);
