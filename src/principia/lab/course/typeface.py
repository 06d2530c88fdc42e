r"""The font of formulas, which comes with Principia.

MathML is drawn by rules that stand in the MATH table of a font. Where a machine has no such font, a
browser leaves out the radical of every root, and formulas become false. So pages and reports bring
STIX Two Math (SIL Open Font License; `fonts/OFL.txt`), with the characters of `RANGES`. Its file is
that of the npm package @fontsource/stix-two-math, made smaller by fontTools: `pyftsubset FILE
--flavor=woff2 --no-hinting --layout-features='*'`, with these ranges as `--unicodes`.
"""

from __future__ import annotations

import base64
import functools
from pathlib import Path

__all__ = ["FONT", "RANGES", "font_css"]

FONT = Path(__file__).with_name("fonts") / "stix-two-math.woff2"
RANGES = (
    "U+0020-024F,U+02B0-036F,U+0370-03FF,U+2000-206F,U+2070-209F,U+20D0-20FF,U+2100-214F,"
    "U+2190-21FF,U+2200-22FF,U+2300-23FF,U+25A0-25FF,U+27C0-27FF,U+2900-297F,U+2980-29FF,"
    "U+2A00-2AFF,U+2B00-2BFF,U+1D400-1D7FF"
)


@functools.cache
def font_css() -> str:
    """Write a style sheet that gives formulas their font, with the font itself inside.

    A font in a file of its own comes after the first paint, and moves what was drawn without it.
    """
    font = base64.b64encode(FONT.read_bytes()).decode()
    return (
        '@font-face { font-family: "Principia Math"; '
        f'src: url("data:font/woff2;base64,{font}") format("woff2"); }}\n'
        'math { font-family: "Principia Math", math; }\n'
    )
