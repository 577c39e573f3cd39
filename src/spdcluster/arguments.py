"""Checks of scalar arguments: one clear error that names the argument, what came, what is accepted."""

import numbers
from collections.abc import Sequence
from difflib import get_close_matches
from typing import Any

import numpy as np


def check_real(
    value: Any,
    name: str,
    *,
    low: float | None = None,
    high: float | None = None,
    low_open: bool = False,
    high_open: bool = False,
) -> float:
    """Return `value` as a finite float within the interval, or raise."""
    accepted = f"a finite real number{_interval(low, high, low_open, high_open)}"
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, numbers.Real):
        raise TypeError(f"{name} must be {accepted}; got {_shown(value)}")
    number = float(value)
    too_low = low is not None and (number < low or (low_open and number == low))
    too_high = high is not None and (number > high or (high_open and number == high))
    if not np.isfinite(number) or too_low or too_high:
        raise ValueError(f"{name} must be {accepted}; got {_shown(value)}")
    return number


def check_int(value: Any, name: str, *, low: int | None = None, high: int | None = None) -> int:
    """Return `value` as an int within the interval, or raise."""
    accepted = f"an integer{_interval(low, high, False, False)}"
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, np.integer)):
        raise TypeError(f"{name} must be {accepted}; got {_shown(value)}")
    if (low is not None and value < low) or (high is not None and value > high):
        raise ValueError(f"{name} must be {accepted}; got {_shown(value)}")
    return int(value)


def check_bool(value: Any, name: str) -> bool:
    """Return `value` as a bool, or raise."""
    if not isinstance(value, (bool, np.bool_)):
        raise TypeError(f"{name} must be True or False; got {_shown(value)}")
    return bool(value)


def check_choice(value: Any, name: str, choices: Sequence[str]) -> str:
    """Return `value` if it is one of `choices`; otherwise name the nearest valid one."""
    accepted = ", ".join(repr(choice) for choice in choices)
    if not isinstance(value, str):
        raise TypeError(f"{name} must be one of {accepted}; got {_shown(value)}")
    if value in choices:
        return value
    near = get_close_matches(value.lower().replace("_", "-"), choices, n=1, cutoff=0.4)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    raise ValueError(f"{name} must be one of {accepted}; got {value!r}.{hint}")


def check_n_jobs(n_jobs: Any) -> int:
    """Return the number of threads: None or -1 for all that this process may use, -2 for one less, ..."""
    from joblib import cpu_count

    if n_jobs is None:
        return int(cpu_count())
    jobs = check_int(n_jobs, "n_jobs")
    if jobs == 0:
        raise ValueError("n_jobs must be None or a non-zero integer; got 0")
    return jobs if jobs > 0 else max(1, int(cpu_count()) + 1 + jobs)


def check_seed(random_state: Any) -> None:
    """Raise if `random_state` seeds no generator."""
    from sklearn.utils import check_random_state

    try:
        check_random_state(random_state)
    except (ValueError, TypeError):
        raise ValueError(
            "random_state must be None, an integer from 0 to 2**32 - 1 or a RandomState; "
            f"got {_shown(random_state)}"
        ) from None


def _interval(low: float | None, high: float | None, low_open: bool, high_open: bool) -> str:
    if low is not None and high is not None:
        return f" in {'(' if low_open else '['}{low:g}, {high:g}{')' if high_open else ']'}"
    if low is not None:
        return f" {'greater than' if low_open else 'of at least'} {low:g}"
    if high is not None:
        return f" {'less than' if high_open else 'of at most'} {high:g}"
    return ""


def _shown(value: Any) -> str:
    text = repr(value)
    return f"{text if len(text) <= 60 else text[:57] + '...'} ({type(value).__name__})"
