const $ = id => document.getElementById(id);
const make = (tag, name, text) => {
  const e = document.createElement(tag);
  if (name) e.className = name;
  if (text != null) e.textContent = text;
  return e;
};
// Only what differs is written: a reader's selection, and a screen reader's place, stay.
const say = (e, text) => { if (e.textContent !== text) e.textContent = text; };
const name = (e, of) => { if (e.className !== of) e.className = of; };
const mark = (e, key, value) => { if (e.getAttribute(key) !== value) e.setAttribute(key, value); };

// Numbers as the command line writes them.
const three = v => v === 0 ? '0' : v < 9.995 ? v.toFixed(2) : v < 99.95 ? v.toFixed(1) : v.toFixed(0);
const si = v => {
  for (const [least, unit] of [[1e12, 'T'], [1e9, 'G'], [1e6, 'M'], [1e3, 'k']]) if (v >= least) return three(v / least) + ' ' + unit;
  return three(v) + ' ';
};
const rate = v => v == null ? '-' : v >= 1.8e19 ? 'unlimited' : si(v) + 'bit/s';
const bytes = v => v == null ? '-' : si(v) + 'B';
const time = v => {
  if (v == null) return '-';
  for (const [least, unit] of [[1e9, 's'], [1e6, 'ms'], [1e3, 'µs']]) if (v >= least) return three(v / least) + ' ' + unit;
  return three(v) + ' ns';
};
const percent = v => {
  if (v == null || !isFinite(v)) return '-';
  const p = v * 100;
  return (p > 99 && p < 100 ? p.toFixed(2) : p !== 0 && Math.abs(p) < 10 ? p.toFixed(1) : p.toFixed(0)) + ' %';
};
const grouped = v => String(v).replace(/\B(?=(\d{3})+$)/g, ' ');
const age = ns => {
  const s = Math.floor(ns / 1e9);
  if (s >= 86400) return Math.floor(s / 86400) + ' d ' + Math.floor(s % 86400 / 3600) + ' h';
  if (s >= 3600) return Math.floor(s / 3600) + ' h ' + Math.floor(s % 3600 / 60) + ' min';
  return s >= 60 ? Math.floor(s / 60) + ' min' : s + ' s';
};
const word = v => v || '-';
const signed = ns => ns == null ? '-' : (ns < 0 ? '-' : '+') + (Math.abs(ns) / 1e6).toFixed(2) + ' ms';

// One child of a list for each item, found again by its key, in the order of the items. What stays is not moved: it may have
// the focus.
const keep = (list, items, key, fresh, update) => {
  const old = list.kept || (list.kept = new Map()), now = new Map();
  for (const item of items) {
    let k = key(item);
    while (now.has(k)) k += "'";
    now.set(k, item);
  }
  for (const [k, e] of old) if (!now.has(k)) { if (e.more) e.more.remove(); e.remove(); old.delete(k); }
  let at = list.firstElementChild;
  const put = e => { if (e === at) at = at.nextElementSibling; else list.insertBefore(e, at); };
  for (const [k, item] of now) {
    let e = old.get(k);
    if (!e) old.set(k, e = fresh(item));
    update(e, item);
    put(e);
    if (e.more) put(e.more);
  }
};
// A row of a table; a cell is a text, or a text and a class.
const cells = (row, texts) => texts.forEach((text, i) => {
  const [of, kind] = Array.isArray(text) ? text : [text, ''];
  const cell = row.cells[i] || row.appendChild(make('td'));
  name(cell, kind); say(cell, of);
});
// Load of the next slots: a number in each, and how full it is behind it.
const slots = (list, next, whole, of) => {
  keep(list, next.map((v, i) => [i, whole > 0 ? v / whole : 0]), s => 's' + s[0], () => make('li'), (e, [i, part]) => {
    const p = Math.round(part * 100);
    if (e.shown === p) return;
    e.shown = p;
    name(e, p > 100 ? 'over' : p > 0 ? '' : 'none');
    e.style.setProperty('--v', Math.min(p, 100) + '%');
    say(e, p > 100 ? p + '!' : String(p));
  });
  mark(list, 'aria-label', of + ': load of the next ' + next.length + ' slots in per cent, the present one first');
};
const facts = (list, pairs) => keep(list, pairs, p => p[0], p => {
  const e = make('div');
  e.append(make('dt', '', p[0]), make('dd'));
  e.lastChild.append(make('span'), make('small'));
  return e;
}, (e, [, big, small]) => { say(e.lastChild.firstChild, big); say(e.lastChild.lastChild, small || ''); });
const pairs = (list, all) => {
  const flat = all.flatMap(([k, v]) => [['dt', k, k], ['dd', k, v]]);
  keep(list, flat, f => f[0] + f[1], f => make(f[0]), (e, f) => say(e, f[2]));
};
const sentence = (lead, text) => lead + text.replace(/\.*$/, '') + '.';
const conditions = (all, now) => {
  $('fine').hidden = all.length > 0;
  keep($('conditions'), all, c => c.code + ' ' + c.subject, c => {
    const e = make('li');
    e.append(make('h3'), make('p'), make('p'), make('p'));
    e.firstChild.append(make('span', 'tag'), make('code'), make('span'));
    return e;
  }, (e, c) => {
    name(e, c.severity);
    const [tag, code, who] = e.firstChild.children;
    say(tag, c.severity); say(code, c.code); say(who, (c.subject ? ': ' + c.subject : '') + (c.since_unix_ns ? ', for ' + age(Math.max(0, now - c.since_unix_ns)) : ''));
    say(e.children[1], sentence('', c.sentence));
    say(e.children[2], c.cost ? sentence('Costs: ', c.cost) : '');
    say(e.children[3], c.next ? sentence('Do: ', c.next) : '');
  });
  const all_ = all.map(c => c.severity + ' ' + c.code + ' ' + c.subject).join(', ');
  if (conditions.told !== undefined && conditions.told !== all_) say($('told'), 'conditions: ' + (all_ || 'none'));
  conditions.told = all_;
};

// The stream. A page that nobody sees has none.
const STALE_MS = 3000, AGAIN_MS = 2000;
let heading = document.title;
const asked = new URLSearchParams(location.search);
if (!['0', '4'].includes(asked.get('hz'))) asked.delete('hz');
const stream = (program, events) => {
  let source = null, heard = null, again = 0, trouble = '';
  const began = performance.now();
  const close = () => { if (source) source.close(); source = null; clearTimeout(again); };
  const address = () => {
    const job = asked.get('job');
    return 'api/v1/stream?hz=' + (asked.get('hz') === '4' ? 4 : 1) + (job ? '&job=' + encodeURIComponent(job) : '');
  };
  const open = () => {
    close();
    if (asked.get('hz') === '0' || document.hidden) return;
    const mine = source = new EventSource(address());
    for (const [kind, take] of Object.entries(events)) {
      mine.addEventListener(kind, e => {
        if (mine !== source) return;
        const value = JSON.parse(e.data);
        if (kind === 'snapshot') { heard = performance.now(); trouble = ''; }
        take(value);
        look();
      });
    }
    // A stream that only ended is taken up again by the browser. One that was refused is not: why, and again later.
    mine.onerror = () => {
      if (mine !== source || mine.readyState !== EventSource.CLOSED) return;
      close();
      again = setTimeout(open, AGAIN_MS);
      fetch(address(), { headers: { accept: 'application/json' } }).then(r => {
        if (r.ok) r.body.cancel(); else r.json().then(j => { trouble = j.message + '; ' + j.help; });
      }).catch(() => {});
    };
  };
  let was = '';
  const look = () => {
    const since = (performance.now() - (heard === null ? began : heard)) / 1000;
    const paused = asked.get('hz') === '0';
    const stale = !paused && !document.hidden && since * 1000 > STALE_MS;
    document.body.classList.toggle('stale', stale);
    const ago = (since < 10 ? since.toFixed(1) : Math.floor(since)) + ' s ago';
    const old = (heard === null ? 'Nothing heard yet' : 'Stale: last update ' + ago) + '. '
      + (trouble || 'Does ' + program + ' still run?');
    say($('age'), stale ? old : (heard === null ? 'waiting for the first update' : (paused ? 'paused, ' : '') + 'last update ' + ago));
    const now = stale ? 'What is shown is old' : was ? 'Updates are coming again' : '';
    if ((stale ? 'stale' : '') !== was) { say($('told'), now); was = stale ? 'stale' : ''; }
    const title = (stale ? 'STALE: ' : '') + heading;
    if (document.title !== title) document.title = title;
  };
  const set = (key, value) => {
    if (value) asked.set(key, value); else asked.delete(key);
    history.replaceState(null, '', asked.size ? '?' + asked : location.pathname);
    open(); look();
  };
  for (const radio of document.querySelectorAll('input[name=hz]')) {
    radio.checked = radio.value === (asked.get('hz') || '1');
    radio.onchange = () => set('hz', radio.value === '1' ? '' : radio.value);
  }
  document.addEventListener('visibilitychange', open);
  // A fraction that nobody can read is no news.
  setInterval(look, matchMedia('(prefers-reduced-motion:reduce)').matches ? 1000 : 250);
  open();
  return set;
};
