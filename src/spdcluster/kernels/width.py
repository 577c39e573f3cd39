"""The `gamma` argument of a kernel: a number, or a multiple of the width that the data suggest."""

import re
from math import isfinite
from typing import Any

from spdcluster.arguments import check_real

_MULTIPLE = re.compile(r"((?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?) *\* *scale", re.ASCII)


def multiple_of_scale(gamma: Any) -> float | None:
    """The c of "scale" (1.0) and of "c*scale"; None where gamma is a number. Anything else is refused."""
    if not isinstance(gamma, str):
        check_real(gamma, "gamma", low=0.0, low_open=True)
        return None
    text = gamma.strip()
    if text == "scale":
        return 1.0
    found = _MULTIPLE.fullmatch(text)
    multiple = float(found[1]) if found else 0.0
    if multiple > 0.0 and isfinite(multiple):
        return multiple
    raise ValueError(
        'gamma must be "scale", a multiple of it such as "0.1*scale", or a real number greater '
        f"than 0; got {gamma!r}"
    )
