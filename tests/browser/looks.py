"""How a page looks on a phone and on a desk, in light and in dark: axe-core's faults, and what doesn't fit."""

from itertools import product
from pathlib import Path
from typing import Literal

from playwright.sync_api import Page

AXE = (Path(__file__).parent / "vendor" / "axe.min.js").read_text(encoding="utf-8")
HEIGHT = 900
WIDTHS = (390, 1440)
SCHEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")
#: Fading colours are nobody's fault.
STILL = "*, *::before, *::after { transition: none !important; animation: none !important; }"
PREPARE = """(still) => {
  const sheet = new CSSStyleSheet();
  sheet.replaceSync(still);
  document.adoptedStyleSheets.push(sheet);
}"""
RUN = """async (scheme) => {
  // The admin looks at the system's theme when it loads, and only then.
  if (window.Alpine) document.documentElement.classList.toggle("dark", scheme === "dark");
  await new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(drawn)));
  const isGrave = (one) => ["serious", "critical"].includes(one.impact);
  const slight = axe._audit.rules.filter((rule) => !isGrave(rule)).map((rule) => [rule.id, { enabled: false }]);
  const found = await axe.run(document, { resultTypes: ["violations"], rules: Object.fromEntries(slight) });
  const faults = found.violations.filter(isGrave).flatMap((fault) => fault.nodes.map((node) => `${fault.id}: ${node.target} ${node.html.slice(0, 160)}`));
  const width = document.documentElement.scrollWidth;
  return width > window.innerWidth ? [...faults, `it is ${width} pixels wide`] : faults;
}"""


def faults_of(page: Page) -> list[str]:
    """Return what is wrong with the page that is open, in all its looks: what axe finds serious or worse, and more width
    than the screen has."""
    page.evaluate(PREPARE, STILL)
    page.evaluate(AXE)
    found = []
    for width, scheme in product(WIDTHS, SCHEMES):
        page.set_viewport_size({"width": width, "height": HEIGHT})
        page.emulate_media(color_scheme=scheme)
        found += [f"{page.url} at {width}, {scheme}: {fault}" for fault in page.evaluate(RUN, scheme)]
    return found
