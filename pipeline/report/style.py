"""The style of the page: one font, one set of colours for light, dark and paper, that plots use as well."""

FONT = "system-ui, sans-serif"
"""The font, which each drawing names again: only so does Vega know how wide words are."""
STYLE = """
:root { color-scheme: light dark; --paper: #fff; --ink: #1c2024; --muted: #60646c; --grid: #d9dbe0; --card: #f6f7f9;
  --leader: #0b68cb; --follower: #b4530a; --limit: #8e1f6b; --leader-band: #0b68cb33; --follower-band: #b4530a33;
  --bar: #7d8590; --share: #0b68cb; --lag: #b4530a; --good: #18794e; --bad: #c62a2f; --unknown: #60646c; }
@media (prefers-color-scheme: dark) { :root { --paper: #111315; --ink: #edeef0; --muted: #a3a8ae; --grid: #34383d;
  --card: #181b1e; --leader: #6cb1ff; --follower: #ffa057; --limit: #f09ad0; --leader-band: #6cb1ff33;
  --follower-band: #ffa05733; --bar: #8b949e; --share: #6cb1ff; --lag: #ffa057; --good: #4cc38a; --bad: #ff8589;
  --unknown: #a3a8ae; } }
* { box-sizing: border-box; } body { margin: 0 auto; max-width: 62rem; padding: 1.2rem; background: var(--paper);
  color: var(--ink); font: 16px/1.5 FONT; }
h1 { font-size: 1.5rem; margin: 0 0 .2rem; } h2 { font-size: 1.15rem; margin: 2.2rem 0 .3rem; }
h3 { font-size: .95rem; margin: 1.4rem 0 .2rem; } p { margin: .2rem 0 .7rem; } .quiet { color: var(--muted); }
.answer { background: var(--card); border-left: .3rem solid var(--unknown); border-radius: .3rem; margin: .7rem 0;
  padding: .6rem .9rem; } .answer b { font-weight: 600; } .answer.good { border-color: var(--good); }
.answer.bad { border-color: var(--bad); } details { color: var(--muted); font-size: .88rem; margin-top: .2rem; }
summary { cursor: pointer; } ul { margin: .2rem 0; padding-left: 1.2rem; } li, code { overflow-wrap: anywhere; }
code { font-size: .85rem; }
svg { display: block; width: 100%; height: auto; max-width: 56rem; font-family: inherit; }
.plot { max-width: 56rem; } .live svg { width: auto; max-width: none; } .moved { font-weight: 600; }
#vg-tooltip-element { position: fixed; visibility: hidden; z-index: 1; pointer-events: none;
  background: var(--card); border: 1px solid var(--grid); border-radius: .3rem; padding: .3rem .5rem; font-size: .8rem;
  max-width: 90vw; }
#vg-tooltip-element.visible { visibility: visible; } #vg-tooltip-element table { width: auto; }
#vg-tooltip-element td { border: 0; padding: 0 .5rem 0 0; } #vg-tooltip-element .key { color: var(--muted); }
.wide { overflow-x: auto; }
.legend { color: var(--muted); font-size: .85rem; display: flex; flex-wrap: wrap; gap: .1rem 1.1rem; }
.swatch { display: inline-block; width: .8rem; height: .8rem; margin-right: .4rem; vertical-align: -.1rem;
  background: var(--of); } .swatch.line, .swatch.dashes, .swatch.dots { width: 1.4rem; height: 0; background: none;
  border-top: .15rem solid var(--of); vertical-align: .25rem; } .swatch.dashes { border-top-style: dashed; }
.swatch.dots { border-top-style: dotted; } .swatch.dot { border-radius: 50%; } .swatch.frame { background: none;
  border: .15rem solid var(--of); }
table { border-collapse: collapse; width: 100%; font-size: .85rem; }
th, td { text-align: left; padding: .3rem .7rem .3rem 0; border-bottom: 1px solid var(--grid); white-space: nowrap; }
th { color: var(--muted); font-weight: 500; } figure { margin: 0; break-inside: avoid; }
@media print { :root { --paper: #fff; --ink: #000; --muted: #444; --grid: #bbb; --card: #f3f3f3; --leader: #0b68cb;
  --follower: #b4530a; --limit: #8e1f6b; --leader-band: #0b68cb33; --follower-band: #b4530a33; --bar: #7d8590;
  --share: #0b68cb; --lag: #b4530a; --good: #18794e; --bad: #c62a2f; --unknown: #444; } body { max-width: none;
  padding: 0; font-size: 11px; } .wide { overflow: visible; } .live svg { width: 100%; }
  th, td { white-space: normal; } }
""".replace("FONT", FONT)
