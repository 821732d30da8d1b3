//! The page's style sheet. Colours are variables, so that the dark mode and the printer get their own.

pub(super) const CSS: &str = r#"
:root{color-scheme:light dark;--bg:#fff;--fg:#1b1f24;--soft:#5b6570;--line:#d5dbe1;--card:#f5f7f9;--warn:#8a5200;--warnbg:#fff3dc;--good:#176f3c;--bad:#a3262a;
--c0:#7a8794;--c1:#b06a00;--c2:#7a4fb5;--c3:#0b66c2;--c4:#14805a;--c5:#b8336a;--c6:#0f7f8c;--c7:#8a6d3b;
--m0:#0b66c2;--m1:#c96f00;--m2:#14805a;--m3:#8b3fb0;--m4:#b8336a;--m5:#0f7f8c}
@media (prefers-color-scheme:dark){:root{--bg:#14181d;--fg:#e4e8ec;--soft:#9aa5b0;--line:#343c45;--card:#1c2229;--warn:#ffcf85;--warnbg:#3a2c10;--good:#6fd39a;--bad:#ff8f8f;
--c0:#93a1ae;--c1:#f0a63c;--c2:#b592ea;--c3:#5fb0ff;--c4:#4fcf9d;--c5:#ff86b4;--c6:#4fd0dd;--c7:#d6b374;
--m0:#5fb0ff;--m1:#f5a340;--m2:#4fcf9d;--m3:#d08ff0;--m4:#ff86b4;--m5:#4fd0dd}}
@media print{:root{--bg:#fff;--fg:#000;--soft:#444;--line:#bbb;--card:#fff;--c0:#666;--c1:#b06a00;--c2:#7a4fb5;--c3:#0b66c2}section{break-inside:avoid}}
*{box-sizing:border-box}body{margin:0;background:var(--bg);color:var(--fg);font:16px/1.5 system-ui,sans-serif}
main{max-width:1060px;margin:0 auto;padding:24px 20px 60px}h1{font-size:1.7rem;margin:.2em 0}h2{font-size:1.15rem;margin:2.2em 0 .4em;border-top:1px solid var(--line);padding-top:1.1em}
h3{font-size:.95rem;margin:1.1em 0 .2em}p{margin:.4em 0;max-width:75ch}.soft{color:var(--soft)}.answer{font-size:1.25rem;line-height:1.4;margin:.6em 0}
.warn{background:var(--warnbg);color:var(--warn);border-left:4px solid currentColor;padding:.5em .9em;margin:1em 0}.warn ul{margin:.2em 0;padding-left:1.2em}
table{border-collapse:collapse;font-size:.85rem;font-variant-numeric:tabular-nums;margin:.5em 0}th,td{padding:.32em .55em;text-align:right;border-bottom:1px solid var(--line);white-space:nowrap}
th{font-weight:600;color:var(--soft)}th:first-child,td:first-child{text-align:left}.scroll{overflow-x:auto}.good{color:var(--good);font-weight:600}.bad{color:var(--bad);font-weight:600}
svg{display:block;width:100%;height:auto;margin:.3em 0}svg text{fill:var(--soft);font:12px system-ui,sans-serif}svg .axis{stroke:var(--line);fill:none}
.key{display:flex;flex-wrap:wrap;gap:.3em 1.2em;font-size:.88rem;color:var(--soft)}.key i{display:inline-block;width:.9em;height:.9em;border-radius:2px;margin-right:.4em;vertical-align:-.1em}
details summary{cursor:pointer;color:var(--soft)}dl{display:grid;grid-template-columns:max-content 1fr;gap:.15em 1em;font-size:.92rem;margin:.5em 0}dt{color:var(--soft)}dd{margin:0;overflow-wrap:anywhere}code{font-size:.92em}
"#;
