r"""Matrix calculus: what is true of it, and what would refute it.

Knobs:
    inputs: Inputs of the map whose Jacobian is high; of the one that is wide, outputs.
    more: How many more outputs than inputs the first has, and inputs than outputs the other.
    shape: How the numerator layout is printed, for n inputs and m outputs; n x m is its transpose.
    dim: Size of the vectors, and of the matrices; where more sizes are needed, they lie near it.
    maps: How many maps are composed.
    order: Of the chain rule, in which order Jacobians are multiplied; of a contraction, in which
        order the second tensor has the axes. Reversed, both are wrong.
    draws: Random inputs at which a derivative is compared.
    rule: The rule that is tried, or all; the last one is a misreading that fits in shape.
    second: The other factor of the second term; without the transpose it needs a symmetric A.
    skew: How far X is from symmetric; if it is not, the short forms of the rules are wrong.
    formula: The derivative that is printed; the other one does not even have the right axes.
    factor: What the Jacobian is multiplied by; the other one fits in shape and is wrong.
    rank: The most axes of a tensor, factors and product alike.
    size: The most entries along an axis.
    active: How many entries share the maximum.
    slope: Slope of a line through the kink of |x|; beyond 1 it rises above the function.
    lr: Length of the first step, as a factor of the subgradient.
    steps: How many steps are taken.
    schedule: How steps shrink; where they do not, the best value stays above the minimum.
"""

import functools
import itertools
import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Any, Literal

import numpy as np
import torch
from torch import Tensor
from torch.func import jacrev

from principia.lab.draws import randn
from principia.lab.evidence import (
    Evidence,
    Series,
    at_most,
    claim,
    equal,
    equal_to_rounding,
    every,
    never,
)
from principia.lab.params import Choice, Range
from principia.lab.pictures import side_by_side
from principia.lab.seeds import Seed
from principia.mathematics.matrix_calculus import (
    MATRIX_RULES,
    RULES,
    SCALAR_RULES,
    VECTOR_RULES,
    Function,
    Rule,
    contract,
    in_subdifferential,
    jacobian,
    subgradient_method,
    tensor_chain,
)

Dim = Annotated[int, Range(2, 15)]
Draws = Annotated[int, Range(1, 20)]
ROUNDING = 1e-12  # of a difference of a few numbers of size 1
GRID = 5e-4  # between two slopes that are tried
SHARE = "float64 rounding, relative to 1 + the largest value; the worst rule:"
MISREAD: Mapping[str, Rule] = {  # in none of them a shape betrays the error
    "quadratic as 2Ax": replace(RULES["quadratic"], derivative=lambda x, A: 2 * A @ x),
    "row_vector as A": replace(
        RULES["row_vector"], shapes="x: n; A: n n", derivative=lambda x, A: A),
    "gram as X(ba'+ba')": replace(
        RULES["gram"], derivative=lambda X, a, b: 2 * X @ torch.outer(b, a)),
}


@claim(
    control={"shape": "n x m"}, refutes=["shapes"],
    source="Magnus and Neudecker 2019, ch. 5; Parr and Howard 2018",
    misprint=r"numerator layout with $\partial f/\partial g\in\mathbb R^{n\times m}$",
)
def layouts(
    seed: Seed, *, inputs: Annotated[int, Range(1, 40)] = 3,
    more: Annotated[int, Range(1, 40)] = 2, shape: Literal["m x n", "n x m"] = "m x n",
) -> Evidence:
    r"""From $n$ to $m$ numbers, numerator layout is $m\times n$, denominator its transpose."""
    rng, words, found, claimed, gaps, seen, modes = seed.torch(), [], [], [], [], [], []
    for m, n in ((inputs + more, inputs), (inputs, inputs + more)):  # forward and reverse mode
        f, x = _smooth(rng, (n,), (m,)), randn(rng, n)
        numerator = jacobian(lambda x, f=f: (seen.append(x.requires_grad), f(x))[1], x)
        denominator = jacobian(f, x, layout="denominator")
        modes.append(seen[-1])  # in reverse mode f meets an x that asks for gradients
        printed = [m, n] if shape == "m x n" else [n, m]
        gaps += [numerator - jacrev(f)(x), denominator.mT - numerator]
        words += [f"{n} to {m}: {axis}" for axis in ("rows", "columns", "or rows", "or columns")]
        found += [*numerator.shape, *denominator.shape]
        claimed += [*printed, *printed[::-1]]
    f, X = _smooth(rng, (2, 3), (4, 5, 6)), randn(rng, 2, 3)  # of tensors
    whole, turned = jacobian(f, X), jacobian(f, X, layout="denominator")
    gaps += [whole - jacrev(f)(X), turned - whole.permute(3, 4, 0, 1, 2)]
    return every({
        "shapes": equal(found, claimed, tol=0, why="a count of rows and of columns").drawn(
            Series("found", words, found, style="bars"),
            Series("printed", words, claimed, "predicted", "points"),
            x="numerator layout, or denominator",
            y="size of the Jacobian",
        ),
        "values": equal_to_rounding(torch.cat([one.flatten() for one in gaps]), 0.0),
        "in reverse": equal(modes, [False, True], tol=0, why="a pass an output, not an input"),
    })


def _smooth(rng: torch.Generator, inputs: tuple[int, ...], outputs: tuple[int, ...]) -> Function:
    """Draw a curved map between tensors of these shapes."""
    n, m = math.prod(inputs), math.prod(outputs)
    W, b = 2 * randn(rng, m, n) / n**0.5, randn(rng, m)
    return lambda x: (W @ x.flatten() + b).sin().reshape(outputs)


@claim(control={"order": "reversed"}, source="Magnus and Neudecker 2019, ch. 5")
def chain_rule(
    seed: Seed, *, dim: Annotated[int, Range(2, 40)] = 6, maps: Annotated[int, Range(2, 8)] = 3,
    order: Literal["of the maps", "reversed"] = "of the maps",
) -> Evidence:
    r"""The Jacobian of a composition is the product: $J_{f\circ g\circ h}=J_fJ_gJ_h$."""
    rng = seed.torch()
    chain, x = [_smooth(rng, (dim,), (dim,)) for _ in range(maps)], randn(rng, dim)
    places = itertools.accumulate(chain[:-1], lambda at, f: f(at), initial=x)
    factors = [jacobian(f, at) for f, at in zip(chain, places, strict=True)]  # the innermost first
    ordered = factors if order == "reversed" else factors[::-1]
    product = functools.reduce(functools.partial(contract, axes=1), ordered)
    whole = jacobian(lambda x: functools.reduce(lambda at, f: f(at), chain, x), x)
    same = _compared(product, whole, "the product", "of the composition")
    return same.named("entry of the Jacobian of the composition")


def _compared(
    claimed: Tensor, measured: Tensor, x: str = "closed form", y: str = "differentiated"
) -> Evidence:
    """State that two tensors are one, and draw both and how they differ, in the same colors."""
    shown = {x: claimed, y: measured, "missed": measured - claimed}
    return equal_to_rounding(measured, claimed).pictured(side_by_side(shown))


@claim(control={"rule": "quadratic as 2Ax"}, source="Magnus and Neudecker 2019, ch. 9")
def scalar_rules(
    seed: Seed, *, dim: Dim = 4, draws: Draws = 5,
    rule: Annotated[str, Choice(("all", *SCALAR_RULES, "quadratic as 2Ax"))] = "all",
) -> Evidence:
    r"""The rules for a scalar by a vector hold, as $\partial\,x^\top Ax=(A+A^\top)x$."""
    return _rules_hold(seed, SCALAR_RULES, rule, dim, draws)


def _rules_hold(
    seed: Seed, rules: Mapping[str, Rule], chosen: str, dim: int, draws: int
) -> Evidence:
    """Compare closed forms with automatic differentiation, for one rule or for all."""
    rules = rules if chosen == "all" else {chosen: {**RULES, **MISREAD}[chosen]}
    sizes, gaps = {"n": dim, "m": dim + 1, "k": dim + 2}, {}
    for name, rule in rules.items():
        rng = seed.child(name).torch()
        cases = [_drawn(rule, sizes, rng) for _ in range(draws)]
        closed = torch.stack([rule.derivative(*case) for case in cases])
        found = torch.stack([rule.autograd(*case) for case in cases])
        gaps[name] = (closed - found).abs().max() / (1 + found.abs().max())
    worst = max(gaps, key=lambda name: gaps[name])
    same = equal_to_rounding(torch.stack(list(gaps.values())), 0.0, why=f"{SHARE} {worst}")
    same = same.named("relative error of the rule that errs most")
    return same.drawn(
        Series("closed form", list(gaps), torch.stack(list(gaps.values())) + 1e-17),
        Series("rounding", list(gaps), [1e-10] * len(gaps), "bound", "points"),
        x="rule", y="relative error", log="y",
    )


def _drawn(rule: Rule, sizes: Mapping[str, int], rng: torch.Generator) -> list[Any]:
    """Draw the arguments of a rule, with a size for each letter."""
    found: list[Any] = []
    for what in (one.split(":")[1] for one in rule.shapes.split(";")):
        if "*" in what:  # random bases, singular values between 1/2 and 2
            n = sizes[what.strip()[0]]
            U, V = torch.linalg.qr(randn(rng, 2, n, n)).Q
            found.append((U * (0.5 + 1.5 * torch.rand(n, generator=rng).to(U))) @ V)
            continue
        *inputs, outputs = (tuple(sizes[one] for one in part.split()) for part in what.split("->"))
        found.append(_smooth(rng, inputs[0], outputs) if inputs else randn(rng, *outputs))
    return found


@claim(
    control={"second": "A f"}, source="Magnus and Neudecker 2019, ch. 5",
    misprint=r"$J_f^\top Ag+J_g^\top Af$, which in every layout needs a symmetric $A$",
)
def inner_product_rule(
    seed: Seed, *, dim: Annotated[int, Range(2, 30)] = 4,
    second: Literal["A' f", "A f"] = "A' f",
) -> Evidence:
    r"""$\partial(f^\top Ag)=J_f^\top Ag+J_g^\top A^\top f$, the Jacobians in numerator layout."""
    rule, more = RULES["inner_product"], 2 * (second == "A' f")  # else the shapes would tell
    sizes = {"n": dim + 1, "m": dim + more, "k": dim}
    x, A, f, g = arguments = _drawn(rule, sizes, seed.torch())
    gradient, Af = rule.autograd(*arguments), (A.mT if second == "A' f" else A) @ f(x)
    of_f, of_g = (jacobian(one, x, "denominator") for one in (f, g))
    closed = rule.derivative(*arguments)
    if second == "A f":
        closed = jacobian(f, x).mT @ A @ g(x) + jacobian(g, x).mT @ Af
    return every({
        "numerator layout": _compared(closed, gradient),
        "denominator layout": equal_to_rounding(of_f @ A @ g(x) + of_g @ Af, gradient),
    })


@claim(control={"rule": "row_vector as A"}, source="Magnus and Neudecker 2019, ch. 9")
def vector_rules(
    seed: Seed, *, dim: Dim = 4, draws: Draws = 5,
    rule: Annotated[str, Choice(("all", *VECTOR_RULES, "row_vector as A"))] = "all",
) -> Evidence:
    r"""The rules for a vector by a vector hold, as $\partial(uf)=uJ_f+f\,\nabla u^\top$."""
    return _rules_hold(seed, VECTOR_RULES, rule, dim, draws)


@claim(control={"rule": "gram as X(ba'+ba')"}, source="Petersen and Pedersen 2012, sec. 2.4, 2.5")
def matrix_rules(
    seed: Seed, *, dim: Dim = 4, draws: Draws = 5,
    rule: Annotated[str, Choice(("all", *MATRIX_RULES, "gram as X(ba'+ba')"))] = "all",
) -> Evidence:
    r"""The rules for a scalar by a matrix hold, as $\partial\,\mathrm{Tr}(AXB)=A^\top B^\top$."""
    return _rules_hold(seed, MATRIX_RULES, rule, dim, draws)


@claim(
    control={"skew": 0.5}, refutes=["trace, symmetric X and S", "log determinant, symmetric X"],
    source="Petersen and Pedersen 2012, sec. 2.1 and 2.2",
)
def inverse_and_logdet(
    seed: Seed, *, dim: Annotated[int, Range(2, 30)] = 4,
    skew: Annotated[float, Range(0, 1)] = 0.0,
) -> Evidence:
    r"""$\partial\log|\det X|=X^{-\top}$, $\partial\,\mathrm{Tr}(SX^{-1})=-(X^{-1}SX^{-1})^\top$."""
    rng, trace, logdet = seed.torch(), RULES["trace_inverse"], RULES["log_determinant"]
    X, S = _drawn(trace, {"n": dim}, rng)
    Q, B = torch.linalg.qr(X).Q, randn(rng, dim, dim) / dim**0.5
    values = torch.linspace(0.5, 2, dim).to(X)
    symmetric, T = (Q * values) @ Q.mT + skew * (B - B.mT), S + S.mT
    inverse = symmetric.inverse()
    return every({
        "trace, symmetric X and S": _compared(-inverse @ T @ inverse, trace.autograd(symmetric, T)),
        "log determinant, symmetric X": equal_to_rounding(inverse, logdet.autograd(symmetric)),
        "trace, any X": equal_to_rounding(trace.derivative(X, S), trace.autograd(X, S)),
        "log determinant, any X": equal_to_rounding(logdet.derivative(X), logdet.autograd(X)),
    })


@claim(
    control={"formula": "X'"}, source="by definition",
    misprint=r"$\partial(Xa)/\partial X=X^\top$, with two indices",
)
def vector_by_matrix(
    seed: Seed, *, dim: Annotated[int, Range(2, 20)] = 3,
    formula: Literal["delta a", "X'"] = "delta a",
) -> Evidence:
    r"""$\partial(Xa)_i/\partial X_{kl}=\delta_{ik}a_l$ has three indices."""
    rule = RULES["vector_by_matrix"]
    X, a = _drawn(rule, {"m": dim, "n": dim}, seed.torch())
    claimed = rule.derivative(X, a) if formula == "delta a" else X.mT.expand(dim, dim, dim)
    return _compared(claimed, rule.autograd(X, a)).named("partial derivative of an entry of Xa")


@claim(
    control={"formula": "diag(e)"}, refutes=["rows", "entries"], source="by definition",
    misprint=r"$\nabla\max(x)=\mathrm{diag}(e_i)$, a matrix",
)
def max_gradient(
    seed: Seed, *, dim: Annotated[int, Range(2, 50)] = 6, draws: Draws = 5,
    formula: Literal["e", "diag(e)"] = "e",
) -> Evidence:
    r"""The gradient of a maximum is a vector, $\nabla\max(x)=e_{\mathrm{argmax}}$."""
    x = randn(seed.torch(), draws, dim)
    gradient = torch.stack([jacobian(torch.amax, point) for point in x])
    claimed = torch.stack([RULES["max"].derivative(point) for point in x])[:, None]
    if formula == "diag(e)":
        claimed = claimed[:, 0].diag_embed()  # each row of a matrix would have to be the gradient
    entries = range(1, dim + 1)
    return every({
        "rows": equal(claimed.shape[1], 1, tol=0, why="a scalar has one gradient"),
        "0 at a kink": equal_to_rounding(RULES["relu"].derivative(0 * x[0], x[0]), 0.0),
        "entries": equal_to_rounding(claimed, gradient[:, None].expand_as(claimed)),
    }).drawn(
        Series("x", entries, x[0], "other", "line"),
        Series("gradient", entries, gradient[0], style="bars"),
        *(Series(f"formula, row {k}", entries, row, "predicted", "points")
          for k, row in enumerate(claimed[0], start=1)),
        x="entry", y="x, and its gradient",
    )


@claim(control={"factor": "A2' ⊗ A1"}, source="Magnus and Neudecker 2019, ch. 2, row by row")
def kronecker_derivative(
    seed: Seed, *, dim: Annotated[int, Range(2, 8)] = 3,
    factor: Literal["A1 ⊗ A2'", "A2' ⊗ A1"] = "A1 ⊗ A2'",
) -> Evidence:
    r"""Row-major, $\partial(A_1BA_2)/\partial X=(A_1\otimes A_2^\top)\,\partial B/\partial X$."""
    rule, right = RULES["sandwich"], factor == "A1 ⊗ A2'"
    sizes = {"m": dim, "n": dim + 1, "k": dim + 2, "p": dim - 1, "q": dim + 3}
    X, A1, A2, B = arguments = _drawn(rule, sizes, seed.torch())
    closed, found, inner = rule.derivative(*arguments), rule.autograd(*arguments), jacobian(B, X)
    factors = A1, A2.mT.contiguous()
    by_rows, by_columns = (torch.kron(*pair) for pair in (factors, factors[::-1]))
    w, x, V = randn(seed.child("V").torch(), 3, dim)
    outer, V = [w[None], x[None]], torch.outer(x, V) + w  # of wVx' = (w ⊗ x) vec V
    if not right:
        by_rows, by_columns, outer = by_columns, by_rows, outer[::-1]
        closed = (by_rows @ inner.flatten(2).flatten(0, 1)).reshape(closed.shape)
    columns, found_columns = (
        one.transpose(0, 1).flatten(2).flatten(0, 1) for one in (inner, found)
    )
    return every({
        "row-major": _compared(closed, found),
        "column-major, the other product": equal_to_rounding(by_columns @ columns, found_columns),
        "w'Vx": equal_to_rounding(
            torch.kron(*outer), jacobian(lambda V: w @ V @ x, V).reshape(1, -1)
        ),
    })


@claim(
    control={"order": "reversed"}, refutes=["reshaped"],
    source="Kolda and Bader 2009, Tensor decompositions, sec. 2",
)
def contraction_is_matmul(
    seed: Seed, *, rank: Annotated[int, Range(3, 5)] = 5, size: Annotated[int, Range(2, 6)] = 3,
    order: Literal["the same", "reversed"] = "the same",
) -> Evidence:
    r"""A contraction over several axes is reshape, product of matrices, and reshape back."""
    rng, ranks, products, contracted = seed.torch(), range(1, rank + 1), [], []
    for p, q, axes in itertools.product(ranks, ranks, ranks):
        if axes > min(p, q) or p + q - 2 * axes > rank:
            continue
        shape = torch.randint(2, size + 1, (p + q - axes,), generator=rng).tolist()
        i, j, k = shape[: p - axes], shape[p - axes : p], shape[p:]
        P, Q = randn(rng, *i, *j), randn(rng, *j, *k)
        turned = Q.permute(*range(axes)[::-1], *range(axes, q)) if order == "reversed" else Q
        product = P.reshape(math.prod(i), -1) @ turned.reshape(math.prod(j), -1)
        products.append(product.reshape([*i, *k]).flatten())
        contracted.append(contract(P, Q, axes=axes).flatten())
    P, Q = randn(rng, 2, 2, 3, 4), randn(rng, 2, 3, 4, 5)
    flat = (Q if order == "the same" else Q.permute(2, 1, 0, 3)).reshape(24, 5)
    shown = {"P, 2 × 24": P.flatten(1), "Q, 24 × 5": flat, "product": P.flatten(1) @ flat,
             "contraction": contract(P, Q, axes=3)}
    return every({
        "reshaped": equal_to_rounding(torch.cat(contracted), torch.cat(products)),
        "sum by indices": equal_to_rounding(
            contract(P, Q, axes=3), torch.einsum("abcd,bcde->ae", P, Q)
        ),
    }).pictured(side_by_side(shown))


@claim(
    control={"factor": "dL/dW"}, source="Magnus and Neudecker 2019, ch. 5",
    misprint=r"$\partial L/\partial W=\partial L/\partial W\times\partial y/\partial W$",
)
def tensor_chain_rule(
    seed: Seed, *, dim: Annotated[int, Range(2, 15)] = 4,
    factor: Literal["dL/dy", "dL/dW"] = "dL/dy",
) -> Evidence:
    r"""$\partial L/\partial W=\sum_{ij}(\partial L/\partial y_{ij})\partial y_{ij}/\partial W$."""
    W, X, C = randn(seed.torch(), 3, dim, dim) / dim**0.25
    middle, loss = (lambda W: (W @ X).tanh()), (lambda y: (C * y).sin().sum())
    exact = jacrev(lambda W: loss(middle(W)))(W)
    outer = jacobian(loss, middle(W)) if factor == "dL/dy" else exact
    ours = tensor_chain(outer, jacobian(middle, W))
    return _compared(ours, exact, "contraction").named("entry of the gradient of L by W")


@claim(
    control={"slope": 1.2}, refutes=["the slope passes for |x|"],
    source="Rockafellar 1970, sec. 23",
)
def subdifferential(
    seed: Seed, *, active: Annotated[int, Range(2, 20)] = 3,
    slope: Annotated[float, Range(-2, 2)] = 1.0,
) -> Evidence:
    r"""At 0 $\partial|x|=[-1,1]$, $\partial(x)_+=[0,1]$; of a max, the hull of active gradients."""
    rng, grid = seed.torch(), torch.arange(-2, 2 + GRID / 2, GRID, dtype=torch.float64) + GRID / 2
    s, zero = grid[:, None], grid.new_zeros(1)
    line = torch.arange(-300, 301).to(grid)[:, None] / 100
    units = torch.eye(active + 3).to(grid)
    corner = units[:active].sum(dim=0)  # the first entries are the maximum
    near = torch.cat([units, -units, randn(rng, 200, active + 3)]) / 4 + corner
    edge, out = (units[0] + s * (units[k] - units[0]) for k in (1, -1))
    cases: dict[str, tuple[Any, ...]] = {  # function, where, slopes, points, ends of what passes
        "|x|": (lambda x: x.abs().sum(), zero, s, line, [-1, 1]),
        "ReLU": (lambda x: x.relu().sum(), zero, s, line, [0, 1]),
        "max, along an edge": (torch.amax, corner, edge, near, [0, 1]),
        "max, towards an inactive gradient": (torch.amax, corner, out, near, [0, 0]),
    }
    rises = {name: in_subdifferential(*case[:4]) for name, case in cases.items()}
    parts = {}
    for name, rise in rises.items():
        low, high = cases[name][4]
        parts[name] = never(
            (rise <= ROUNDING) != ((grid >= low) & (grid <= high)), why="slopes beside the ends"
        )
    hull = torch.softmax(randn(rng, 200, active), dim=1) @ units[:active]
    beyond = hull + 0.01 * (units[-1] - units[0])
    inner, outer = (in_subdifferential(torch.amax, corner, g, near) for g in (hull, beyond))
    claimed = in_subdifferential(cases["|x|"][0], zero, grid.new_tensor([slope]), line)
    # how far it rises: of slope g over |x|, by (|g| - 1) |x| at the farthest point; of the ReLU, by
    # -g |x| or (g - 1) |x|
    steep = 3 * torch.stack([grid.abs() - 1, torch.maximum(-grid, grid - 1)]).clamp(min=0)
    return every({
        "the slope passes for |x|": at_most(claimed, 0, slack=ROUNDING, why="rounding"),
        **parts,
        "largest rise": equal_to_rounding(torch.stack([rises["|x|"], rises["ReLU"]]), steep),
        "the hull passes": at_most(inner, 0, slack=ROUNDING, why="rounding"),
        "the rest fails": never(outer <= ROUNDING, why="a point shows each of them"),
    }).drawn(
        *(Series(name, grid[::40], rises[name][::40], "other") for name in ("|x|", "ReLU")),
        Series("the slope", [slope], claimed[None]),
        x="slope g of a line through 0", y="largest rise above the function",
    )


@claim(
    control={"schedule": "constant"}, refutes=["log-log slopes from step 100"],
    source="Shor 1985, ch. 2",
)
def subgradient_method_claim(
    seed: Seed, *, dim: Annotated[int, Range(1, 50)] = 10,
    lr: Annotated[float, Range(0.1, 1)] = 0.5,
    steps: Annotated[int, Range(1000, 20_000)] = 4000,
    schedule: Literal["1 / sqrt(t)", "constant"] = "1 / sqrt(t)",
) -> Evidence:
    r"""With steps $\eta/\sqrt t$ the best $\Vert Ax\Vert_1$ so far falls about as $t^{-1/2}$."""
    rng, power = seed.torch(), 0.5 if schedule == "1 / sqrt(t)" else 0.0
    eye = torch.eye(dim).double()
    At = torch.stack([eye, eye + 0.5 * randn(rng, dim, dim) / dim**0.5])  # A = 1, and any other
    x0 = randn(rng, 2, 16, dim)  # from 16 starts each
    best = subgradient_method(
        lambda x: torch.linalg.vector_norm(x @ At, 1, dim=-1), x0, lambda t: lr / t**power, steps
    )[:-1]
    seen = torch.logspace(2, math.log10(steps), 30).long() - 1
    t = torch.arange(1, steps + 1).double()
    sizes, G2 = lr / t**power, dim * torch.linalg.matrix_norm(At, 2) ** 2  # G <= |A| sqrt(dim)
    total, squares = (one.cumsum(0)[seen, None, None] for one in (sizes, sizes**2))
    bound = (x0.square().sum(-1) + G2[:, None] * squares) / (2 * total)
    rises, best, t = best.diff(dim=0) > 0, best[seen], t[seen]
    mean = best.mean(dim=2).clamp(min=1e-16)  # a coordinate of x that meets 0 exactly stays there
    rates = np.polyfit(t.log().numpy(), mean.log().numpy(), 1)[0]
    names, starts = ("‖x‖₁", "‖Ax‖₁"), torch.tensor([10.0, 12.0], dtype=torch.float64)
    far = subgradient_method(  # too far to meet the minimum by steps of 1/t
        lambda x: x.abs().sum(-1), starts[:, None] * torch.tensor([[1], [-1]]), lambda t: 1 / t, 40
    )
    harmonic = np.cumsum([0.0, *(1 / np.arange(1, 41))])[:, None]
    return every({
        "log-log slopes from step 100": at_most(
            rates, -0.4, why="-1/2 or less; the first steps and chance bend the line"),
        "the best never rises": never(rises, why="by definition"),
        "a start is kept": never(x0.requires_grad, of=1, why="who asks may need it as it was"),
        "10 - (1 + 1/2 + ... + 1/t)": equal_to_rounding(far, starts.numpy() - harmonic),
        "bound": at_most(best, bound, slack=ROUNDING * bound, why="a theorem, up to rounding"),
    }).drawn(
        *(Series(name, t, mean[:, k], "other") for k, name in enumerate(names)),
        Series("1 / sqrt(t)", t, mean[0, 1] * (t[0] / t).sqrt(), "predicted"),
        Series("bound", t, bound.mean(dim=(1, 2)), "bound"),
        x="step t", y="best value, mean of 16 starts", log="xy",
    )
