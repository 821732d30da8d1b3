const FEW = 64, MINUTE_MS = 60000;
let snapshot = null;
// Buckets of exchange times as they were, with when: what came in the last minute is the difference.
let past = [];
const quantile = (counts, bounds, part) => {
  const all = counts.reduce((a, b) => a + b, 0);
  if (!all) return null;
  let seen = 0;
  const at = counts.findIndex(n => (seen += n) >= Math.max(1, Math.ceil(all * part)));
  return at < bounds.length ? '≤ ' + time(bounds[at] * 1e9) : '> ' + time(bounds[bounds.length - 1] * 1e9);
};
const drawExchange = s => {
  const { bounds, counts } = s.exchange_s, now = performance.now();
  if (past.length && past[past.length - 1].boot !== s.process.boot) past = [];
  past.push({ at: now, boot: s.process.boot, counts });
  while (past.length > 2 && past[1].at < now - MINUTE_MS) past.shift();
  const lately = counts.map((n, i) => n - (past[0].counts[i] || 0)), sum = lately.reduce((a, b) => a + b, 0);
  keep($('exchange'), counts.map((n, i) => [i, n]).filter(([i, n]) => n > 0 || i < bounds.length), b => 'b' + b[0], () => make('tr'), (row, [i, n]) => cells(row, [
    [i < bounds.length ? time(bounds[i] * 1e9) : 'more', 'n'], [grouped(lately[i]), 'n'], [sum ? percent(lately[i] / sum) : '-', 'n'], [grouped(n), 'n'],
  ]));
  const span = Math.round((now - past[0].at) / 1000);
  say($('exchange-note'), 'From a host’s message read to its answer queued. '
    + (sum ? 'In the last ' + span + ' s: ' + grouped(sum) + ' messages, p50 ' + quantile(lately, bounds, .5) + ', p99 ' + quantile(lately, bounds, .99) + '.' : 'None since this page was opened.'));
};
const slotsAgo = n => n === 0 ? 'this slot' : n === 1 ? '1 slot ago' : n < 0 ? 'for ' + -n + ' ahead' : n + ' slots ago';
const drawLinks = s => {
  const of = $('of').value, all = s.links.filter(l => !of || l.switch === of), shown = all.slice(0, FEW);
  keep($('links'), shown, l => 'l' + l.switch + ':' + l.port, l => {
    const e = make('li'), left = make('div'), now = make('div'), part = make('div', 'part');
    left.append(make('b', '', l.switch + ':' + l.port), make('div', 'soft'));
    part.append(make('i'), make('i'));
    now.append(make('div', 'soft'), part);
    e.append(left, now, make('ol', 'slots'));
    return e;
  }, (e, l) => {
    const [left, now, strip] = e.children, other = l.capacity_bps > 0 ? l.other_bps / l.capacity_bps : 0;
    const present = l.capacity_bps > 0 ? (l.next_bps[0] || 0) / l.capacity_bps : 0;
    say(left.lastChild, 'to ' + l.to + ', ' + rate(l.capacity_bps));
    say(now.firstChild, 'peak ' + percent(l.peak_ratio) + (l.other_bps ? ', other ' + percent(other) : '') + ', ' + grouped(l.flows) + (l.flows === 1 ? ' flow' : ' flows'));
    now.lastChild.children[0].style.width = Math.min(100, 100 * present) + '%';
    now.lastChild.children[1].style.width = Math.min(100, 100 * other) + '%';
    now.lastChild.children[1].hidden = !l.other_bps;
    slots(strip, l.next_bps, l.capacity_bps, l.switch + ':' + l.port);
  });
  $('more-links').hidden = shown.length === (of ? all.length : s.links_in_all);
  say($('more-links'), 'Shown are ' + shown.length + ' of ' + grouped(of ? (s.switches.find(w => w.name === of) || { links: all.length }).links : s.links_in_all) + ', those with load first.');
};
const take = s => {
  snapshot = s;
  const p = s.process, c = s.clock;
  say($('about'), 'version ' + p.version + ', cluster ' + p.cluster + ', up ' + age(p.uptime_ns));
  say($('state'), p.state); name($('state'), 'tag ' + p.state);
  heading = p.state + ': sluice-switch';
  conditions(s.conditions, s.taken_unix_ns);
  const warm = s.switches.filter(w => w.warm).length, peak = s.links.reduce((m, l) => Math.max(m, l.peak_ratio), 0);
  facts($('facts'), [
    ['Switches', grouped(s.switches.length), warm === s.switches.length ? 'all tables complete' : warm + ' with complete tables'],
    ['Hosts', grouped(p.sessions), 'sessions; ' + grouped(s.hosts_in_all) + ' leases'],
    ['Highest peak', percent(s.links.length ? peak : null), 'of a link, in the next ' + c.horizon + ' slots'],
    ['Promises', grouped(s.switches.reduce((n, w) => n + w.promises, 0)), 'a flow on a link each; ' + p.table + ' tables'],
    ['Cost', percent(s.cost.cpu_ratio), 'of a core; ' + bytes(s.cost.rss_bytes)],
  ]);
  keep($('switches'), s.switches, w => 'w' + w.name, () => make('tr'), (row, w) => cells(row, [
    w.name, w.warm ? 'complete' : ['filling', 'warming'], [grouped(w.links), 'n'], [percent(w.peak_ratio), 'n'], [grouped(w.hosts), 'n'], [grouped(w.promises), 'n'],
    [grouped(w.applied), 'n'], [grouped(w.refused), 'n'], [grouped(w.refused_slot), 'n'], [grouped(w.refused_quota), 'n'], [grouped(w.expired), 'n'],
  ]));
  keep($('of'), ['', ...s.switches.map(w => w.name)], n => 'o' + n, n => { const o = make('option', '', n || 'all switches'); o.value = n; return o; }, () => {});
  drawLinks(s);
  $('host-table').hidden = !s.hosts.length;
  say($('hosts-note'), s.hosts.length ? (s.hosts.length < s.hosts_in_all ? 'The first ' + s.hosts.length + ' of ' + grouped(s.hosts_in_all) + ' leases. ' : '')
    + 'A lease ends unless its host repeats what it promised.' : 'No host holds a lease now. A host is heard while one of its flows crosses a link of these switches.');
  s.hosts.sort((a, b) => a.switch.localeCompare(b.switch) || a.host.localeCompare(b.host, 'en', { numeric: true }));
  keep($('hosts'), s.hosts, h => 'h' + h.switch + ' ' + h.host, () => make('tr'), (row, h) => cells(row, [
    h.host, h.switch, h.session ? 'session' : 'calls or datagrams', slotsAgo(h.age_slots), h.lease_slots > 0 ? 'ends in ' + h.lease_slots + (h.lease_slots === 1 ? ' slot' : ' slots') : ['ended', 'silent'],
    [grouped(h.promises), 'n'], h.boot,
  ]));
  drawExchange(s);
  pairs($('clock'), [
    ['source', c.source + (c.synchronised ? ', synchronised' : ', not synchronised')],
    ['error', '≤ ' + time(c.max_error_ns) + ' of ' + time(c.allowed_error_ns) + ' allowed'],
    ['slot', grouped(c.slot) + ', ' + time(c.slot_length_ns) + ' long'],
    ['last edge', time(c.edge_ago_ns) + ' ago'],
    ['serving thread', p.realtime ? 'a real-time thread' : 'an ordinary thread'],
    ['packets', p.data_plane ? 'forwarded here' : 'not forwarded here'],
    ['sent unasked', grouped(p.pushes)],
    ['hellos refused', grouped(p.refused_hellos)],
    ['boot', p.boot],
  ]);
};
$('of').onchange = () => { if (snapshot) drawLinks(snapshot); };
stream('sluice-switch', { snapshot: take });
