r"""Relations: how evidence is made. Measured against expected, with a reason for the tolerance.

Each relation takes numbers, arrays or tensors, reports the entry that speaks loudest against the
statement, and demands the reason (`why=`) of its tolerance.
"""

import math
from collections.abc import Mapping
from typing import Any, Literal

import numpy as np

from principia.lab.evidence.evidence import Evidence, Plot, Series, Verdict, short
from principia.lab.params import UsageError

__all__ = [
    "at_least", "at_most", "equal", "within_errors", "every", "follows", "equal_to_rounding",
    "mean_is", "never", "slope", "standard_error", "tends_to",
]

ROUNDING = 1e-10  # relative to 1 + the largest value: float64 after a few thousand operations
DRAWN_POINTS = 400  # enough for any scatter plot; more would only make the JSON heavy


def equal(measured: Any, expected: Any, *, tol: Any, why: str, detail: str = "") -> Evidence:
    """State that every entry of `measured` is within `tol` of the matching entry of `expected`.

    Args:
        measured: Number, array or tensor.
        expected: The same, or one number for all.
        tol: Allowed absolute difference, one for all or one for each; 0 for exact equality.
        why: The reason of the tolerance.
        detail: What was compared; by default how many values.

    Example:
        >>> equal([1.0, 2.5], [1.0, 2.0], tol=0.1, why="for show").summary
        '2.5 ≠ 2 ± 0.1 (worst of 2)'
    """
    _need_reason(why)
    got, want, slack = _aligned(measured, expected, tol)
    gap = np.abs(_difference(got, want))
    verdict, worst = _compare(gap, slack)
    plot = None
    if got.size > 1:
        seen = _thinned(np.argsort(want, kind="stable"))
        ends = [float(want.min()), float(want.max())]
        plot = Plot(
            (
                Series("measured", want[seen].tolist(), got[seen].tolist()),
                Series("predicted", ends, ends, role="predicted"),
            ),
            x="predicted", y="measured", generic=True,
        )
    return Evidence(
        relation="=",
        measured=float(got[worst]),
        expected=float(want[worst]),
        tolerance=float(slack[worst]),
        why=why,
        verdict=verdict,
        detail=detail or _worst_of(got),
        plot=plot,
    )


def equal_to_rounding(
    measured: Any, expected: Any, *, why: str = "an identity: float64 rounding"
) -> Evidence:
    """State that two computations agree up to float64 rounding, 1e-10 of 1 + the largest value."""
    largest = float(np.max(np.abs(_numbers(expected)), initial=0.0))
    tol = ROUNDING * (1 + largest) if math.isfinite(largest) else ROUNDING
    return equal(measured, expected, tol=tol, why=why)


def within_errors(
    measured: Any, expected: Any, *, error: Any, why: str, k: float = 5.0, bias: Any = 0.0
) -> Evidence:
    """State that estimates lie within `k` standard errors, plus a stated bias, of the truth.

    Args:
        measured: The estimates.
        expected: What they estimate.
        error: Their standard errors.
        why: Which estimator it is, and where a bias comes from.
        k: How many standard errors; 5 lets chance fail once in two million.
        bias: Allowed difference beside the noise.
    """
    tol = k * _numbers(error) + _numbers(bias)
    return equal(measured, expected, tol=tol, why=f"{k:g} standard errors: {why}")


def mean_is(
    samples: Any, expected: Any, *, why: str, axis: int = 0, k: float = 5.0, bias: Any = 0.0
) -> Evidence:
    """State that independent samples have a given mean, within `k` of its standard errors.

    Args:
        samples: Tensor or array of independent samples.
        expected: The mean, one number or one for each column.
        why: What was averaged, and where a bias comes from.
        axis: Along which axis the samples lie.
        k: How many standard errors.
        bias: Allowed difference beside the noise.

    Example:
        >>> mean_is(np.array([1.0, 2.0, 3.0]), 2.1, why="three draws").summary
        '2 = 2.1 ± 2.8868'
    """
    mean, error = samples.mean(axis), standard_error(samples, axis)
    return within_errors(mean, expected, error=error, why=why, k=k, bias=bias)


def standard_error(samples: Any, axis: int = 0) -> Any:
    """Estimate the standard error of the mean of independent samples, a tensor or an array."""
    spread = samples.std(axis, ddof=1) if isinstance(samples, np.ndarray) else samples.std(axis)
    return spread / samples.shape[axis] ** 0.5


def at_most(measured: Any, bound: Any, *, why: str, slack: Any = 0.0, detail: str = "") -> Evidence:
    """State that no entry of `measured` exceeds its bound by more than `slack`."""
    return _bounded("<=", measured, bound, slack, why, detail)


def at_least(
    measured: Any, bound: Any, *, why: str, slack: Any = 0.0, detail: str = ""
) -> Evidence:
    """State that no entry of `measured` falls below its bound by more than `slack`."""
    return _bounded(">=", measured, bound, slack, why, detail)


def never(violations: Any, *, of: int | None = None, why: str) -> Evidence:
    """State that something happened in no case.

    Args:
        violations: A Boolean array, one entry a case, or the number of violations.
        of: How many cases there were; needed with a number.
        why: Why not even one violation is allowed.

    Example:
        >>> never(np.array([False, True, False]), why="a theorem").summary
        '1 ≠ 0 (1 of 3 cases)'
    """
    cases = _numbers(violations)
    if of is None and cases.size < 2:
        raise UsageError("never: of must be the number of cases; got none. Pass of=.")
    total = int(of if of is not None else cases.size)
    count = float(np.sum(cases))
    verdict: Verdict = "holds" if count == 0 else "refuted"
    if total < 1 or math.isnan(count):
        verdict = "undecided"  # nothing was looked at
    _need_reason(why)
    return Evidence("=", count, 0.0, 0.0, why, verdict, f"{count:g} of {total} cases")


def slope(
    x: Any,
    y: Any,
    expected: float,
    *,
    tol: float,
    why: str,
    log: Literal["xy", "x", "y", ""] = "xy",
    level: float = 0.99,
    labels: tuple[str, str] = ("x", "y"),
) -> Evidence:
    """State that y grows with x at a given slope, by default on log-log axes (a rate, an order).

    The slope is fitted by least squares with its confidence interval at `level`. It holds when the
    estimate is within `tol` and the interval is no wider than that; it is refuted when the whole
    interval lies outside; else the points are too noisy to tell.

    Args:
        x: Where the quantity was measured.
        y: The quantity.
        expected: The slope that the theory gives.
        tol: Allowed difference.
        why: The reason of the tolerance.
        log: Which axes are logarithmic.
        level: Level of the confidence interval.
        labels: Axis titles.
    """
    from scipy import stats

    _need_reason(why)
    xs, ys = _numbers(x), _numbers(y)
    if xs.shape != ys.shape or xs.size < 3:
        raise UsageError(f"slope: x and y must have one length >= 3; got {xs.size} and {ys.size}.")
    with np.errstate(invalid="ignore", divide="ignore"):
        u = np.log(xs) if "x" in log else xs
        v = np.log(ys) if "y" in log else ys
    usable = bool(np.isfinite(u).all() and np.isfinite(v).all())
    value = half = math.nan
    curve: tuple[Series, ...] = ()
    if usable:
        fit = stats.linregress(u, v)
        value, intercept = float(fit.slope), float(fit.intercept)  # type: ignore[attr-defined]
        error = float(fit.stderr) if np.ptp(v) else 0.0  # type: ignore[attr-defined]  # SciPy: NaN
        half = float(stats.t.ppf((1 + level) / 2, xs.size - 2)) * error
        line = float(v.mean()) + expected * (u - float(u.mean()))
        fitted = intercept + value * u
        curve = (
            Series(f"slope {short(value)} (fitted)", xs, _unlogged(fitted, log), "other"),
            Series(f"slope {short(expected)} (predicted)", xs, _unlogged(line, log), "predicted"),
        )
    gap = abs(value - expected)
    verdict: Verdict = "undecided"
    if gap <= tol and half <= tol:
        verdict = "holds"
    elif gap > tol + half:
        verdict = "refuted"
    return Evidence(
        relation="slope",
        measured=value,
        expected=float(expected),
        tolerance=float(tol),
        why=why,
        verdict=verdict,
        detail=f"{level:.0%} interval ± {short(half)}, {xs.size} points",
        interval=(value - half, value + half),
        plot=Plot(
            (Series("measured", xs.tolist(), ys.tolist()), *curve), *labels, log=log
        ),
    )


def tends_to(
    x: Any,
    y: Any,
    limit: float,
    *,
    tol: float,
    why: str,
    labels: tuple[str, str] = ("x", "y"),
    log: Literal["", "x", "y", "xy"] = "x",
) -> Evidence:
    """State that y approaches a limit along x: it ends within `tol`, nearer than it began.

    Args:
        x: The index of the sequence, in its order.
        y: The sequence.
        limit: What it should approach.
        tol: Allowed distance of the last value.
        why: The reason of the tolerance.
        labels: Axis titles.
        log: Which axes the figure draws logarithmically.
    """
    _need_reason(why)
    xs, ys = _numbers(x), _numbers(y)
    if xs.shape != ys.shape or xs.size < 3:
        raise UsageError(
            f"tends_to: x and y must have one length >= 3; got {xs.size} and {ys.size}."
        )
    gaps = np.abs(ys - limit)
    approaches = gaps[-1] <= tol and (gaps[-1] < gaps[0] or gaps.max() <= tol)
    verdict: Verdict = "holds" if approaches else "refuted"
    if np.isnan(gaps).any():
        verdict = "undecided"
    plot = Plot(
        (
            Series("measured", xs.tolist(), ys.tolist()),
            Series("limit", [float(xs[0]), float(xs[-1])], [float(limit)] * 2, role="predicted"),
        ),
        *labels,
        log=log,
    )
    detail = f"from {short(float(ys[0]))}, {xs.size} values"
    return Evidence(
        "->", float(ys[-1]), float(limit), float(tol), why, verdict, detail, plot=plot
    )


def follows(samples: Any, law: Any, *, why: str, level: float = 1e-6) -> Evidence:
    """State that samples follow a law: a Kolmogorov-Smirnov test does not reject it.

    Args:
        samples: Independent draws.
        law: A scipy distribution (frozen), or an array of draws from the reference.
        why: What law it is, and why the draws are independent.
        level: Chance of rejecting a true law; small, so that a correct claim never flakes.
    """
    from scipy import stats

    _need_reason(why)
    draws = np.sort(_numbers(samples).ravel())
    if hasattr(law, "cdf"):
        result = stats.kstest(draws, law.cdf)
        predicted = law.cdf(draws)
    else:
        reference = np.sort(_numbers(law).ravel())
        result = stats.ks_2samp(draws, reference)
        predicted = np.searchsorted(reference, draws, side="right") / reference.size
    p = float(result.pvalue)  # type: ignore[attr-defined]
    verdict: Verdict = "holds" if p >= level else "refuted"
    if math.isnan(p) or np.isnan(draws).any():
        verdict = "undecided"
    seen = _thinned(np.arange(draws.size))
    empirical = (np.arange(draws.size) + 1) / draws.size
    plot = Plot(
        (
            Series("measured", draws[seen].tolist(), empirical[seen].tolist(), style="steps"),
            Series("predicted", draws[seen].tolist(), predicted[seen].tolist(), role="predicted"),
        ),
        x="measured values",
        y="cumulative probability",
    )
    distance = float(result.statistic)  # type: ignore[attr-defined]
    detail = f"Kolmogorov-Smirnov distance {short(distance)}, {draws.size} draws"
    return Evidence("law", p, level, 0.0, why, verdict, detail, plot=plot)


def every(parts: Mapping[str, Evidence]) -> Evidence:
    """State several things at once: it holds when all parts hold, and one refuted part refutes it.

    Example:
        >>> both = every({"start": at_most(1, 2, why="for show"), "end": never(3, of=9, why="so")})
        >>> both.verdict, both.summary
        ('refuted', 'end: 3 ≠ 0 (3 of 9 cases)')
    """
    if not parts:
        raise UsageError("every: parts must be one piece of evidence or more; got none.")
    verdicts = [part.verdict for part in parts.values()]
    verdict: Verdict = "undecided"
    if "refuted" in verdicts:
        verdict = "refuted"
    elif all(one == "holds" for one in verdicts):
        verdict = "holds"
    named = tuple(parts.items())
    leaf = Evidence("all", 0.0, 0.0, 0.0, "", verdict, parts=named).decisive[1]
    drawn = [part.plot for part in parts.values() if part.plot is not None]
    own = [plot for plot in drawn if not (isinstance(plot, Plot) and plot.generic)]
    plot = next(iter([*own, *drawn]), None)
    why = "; ".join(dict.fromkeys(part.why for part in parts.values()))
    return Evidence(
        "all", leaf.measured, leaf.expected, leaf.tolerance, why, verdict, parts=named,
        plot=plot,
    )


def _bounded(
    relation: Literal["<=", ">="], measured: Any, bound: Any, slack: Any, why: str, detail: str
) -> Evidence:
    _need_reason(why)
    got, limit, room = _aligned(measured, bound, slack)
    excess = _difference(got, limit) * (1 if relation == "<=" else -1)
    verdict, worst = _compare(excess, room)
    plot = None
    if got.size > 1:
        order = np.argsort(limit, kind="stable")
        seen = order[_thinned(np.arange(order.size))]
        index = np.linspace(1, got.size, seen.size).tolist()
        plot = Plot(
            (
                Series("measured", index, got[seen].tolist()),
                Series("bound", index, limit[seen].tolist(), role="bound"),
            ),
            x="case, sorted by its bound", y="measured", generic=True,
        )
    return Evidence(
        relation=relation,
        measured=float(got[worst]),
        expected=float(limit[worst]),
        tolerance=float(room[worst]),
        why=why,
        verdict=verdict,
        detail=detail or _worst_of(got),
        plot=plot,
    )


def _difference(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Subtract; two equal infinities differ by 0, not by NaN."""
    with np.errstate(invalid="ignore"):
        return np.where(a == b, 0.0, a - b)


def _compare(excess: np.ndarray, slack: np.ndarray) -> tuple[Verdict, int]:
    """Find the entry that is farthest beyond its slack, and the verdict that it forces."""
    if excess.size == 0:
        raise UsageError("Evidence: measured must have at least one entry; got none.")
    beyond = excess - slack
    if np.isnan(beyond).any():
        return "undecided", int(np.argmax(np.isnan(beyond)))
    worst = int(np.argmax(beyond))
    return ("holds" if beyond[worst] <= 0 else "refuted"), worst


def _aligned(measured: Any, expected: Any, tol: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    arrays = [np.asarray(one) for one in map(_numbers, (measured, expected, tol))]
    got, want, slack = arrays
    if want.ndim and got.shape != want.shape:
        raise UsageError(
            f"Evidence: measured and expected must have one shape; got {got.shape} and "
            f"{want.shape}. A silent broadcast would compare the wrong pairs."
        )
    if np.isnan(slack).any() or (slack < 0).any():
        raise UsageError("Evidence: a tolerance must be >= 0; got a negative one or NaN.")
    return tuple(np.broadcast_to(one, got.shape).ravel() for one in arrays)  # type: ignore[return-value]


def _numbers(value: Any) -> np.ndarray:
    """Take numbers, nested lists, arrays and tensors as a float64 array; exact integers round."""
    if hasattr(value, "detach"):
        value = value.detach().cpu().numpy()
    array = np.asarray(value)
    if np.iscomplexobj(array):
        array = np.stack([np.real(array), np.imag(array)], axis=-1)
    return array.astype(np.float64)


def _need_reason(why: str) -> None:
    if not why.strip():
        raise UsageError("Evidence: why must be the reason of the tolerance; got nothing.")


def _unlogged(values: np.ndarray, log: str) -> np.ndarray:
    return np.exp(values) if "y" in log else values


def _thinned(order: np.ndarray) -> np.ndarray:
    """Keep at most DRAWN_POINTS indices, evenly spaced, ends included."""
    if order.size <= DRAWN_POINTS:
        return order
    return order[np.linspace(0, order.size - 1, DRAWN_POINTS).astype(int)]


def _worst_of(got: np.ndarray) -> str:
    return f"worst of {got.size}" if got.size > 1 else ""
