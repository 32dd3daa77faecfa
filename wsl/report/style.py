"""How the page looks."""

COLORS = (
    "#1f77b4",
    "#d9730d",
    "#2e9c47",
    "#c8313a",
    "#8a5fbf",
    "#8c564b",
    "#d0579f",
    "#6f7780",
    "#a3a01f",
    "#17a2b5",
)
"""Of runs, in turn; each is told from white and from black."""

STYLE = """
:root{color-scheme:light dark;--ink:#1c2126;--soft:#667079;--line:#dde1e5;--page:#fff;--card:#f7f8f9}
@media(prefers-color-scheme:dark){
:root{--ink:#e6e9ec;--soft:#9aa4ad;--line:#343b42;--page:#15181b;--card:#1d2125}}
*{box-sizing:border-box}
body{margin:0 auto;max-width:1500px;padding:0 20px 40px;background:var(--page);color:var(--ink);
font:14px/1.45 system-ui,sans-serif}
h1{font-size:22px;margin:22px 0 6px}h2{font-size:17px;margin:28px 0 10px}
nav a{color:var(--soft);margin-right:14px}
.wide{overflow-x:auto}
table{border-collapse:collapse;font-variant-numeric:tabular-nums}
.wide th,.wide td{padding:5px 12px 5px 0;border-bottom:1px solid var(--line);text-align:left;
vertical-align:bottom;white-space:nowrap;font-weight:normal}
.wide thead th{color:var(--soft)}.wide thead small{display:block}
.wide tbody th{font-weight:600}
.wide td{max-width:420px;white-space:normal;overflow-wrap:break-word}
.wide th.n,.wide td.n{text-align:right;white-space:nowrap}
i{display:inline-block;width:10px;height:10px;border-radius:50%;margin-right:7px}
.cards{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(100%,420px),1fr));gap:14px}
figure{margin:0;padding:12px;background:var(--card);border-radius:8px;overflow-x:auto}
figcaption{font-weight:600;overflow-wrap:anywhere}
figure p,.legend{margin:2px 0 8px;color:var(--soft)}
.legend span{margin-right:16px;white-space:nowrap}
svg,img{display:block;width:100%;height:auto}
img{image-rendering:pixelated;max-width:720px}
svg text{font-size:12px;fill:var(--soft)}
.grid{stroke:var(--line);fill:none}.axis{stroke:var(--soft);fill:none}
.means{stroke:var(--ink);stroke-width:1.5;fill:none}
.confusion{font-size:12px}
.confusion td{width:34px;height:26px;text-align:center;border:1px solid var(--line)}
.confusion th{font-weight:normal;color:var(--soft);padding:0 6px}
.w{color:#fff}
"""
