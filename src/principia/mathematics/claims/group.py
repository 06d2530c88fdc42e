r"""Groups: what is true of it, and what would refute it."""

import itertools
from typing import Annotated, Literal

import torch
from torch import Tensor
from torch.nn import functional

from principia.lab.evidence import Evidence, Series, claim, equal, equal_to_rounding, every, never
from principia.lab.params import Range
from principia.lab.seeds import Seed
from principia.mathematics.group import FiniteGroup, first_of, group_axioms, translates

Numbers = Annotated[int, Range(3, 40)]  # two numbers are too few: there a - b is a + b
Sides = Annotated[int, Range(3, 12)]
EXACT = "a theorem about whole numbers: no slack"


@claim(
    control={"operation": "subtraction"},
    refutes=["numbers: associativity", "numbers: identity", "numbers: inverse"],
    source="Cayley 1854",
)
def axioms(
    seed: Seed, *, n: Numbers = 12, sides: Sides = 4,
    operation: Literal["addition", "subtraction"] = "addition",
) -> Evidence:
    r"""$\mathbb Z_n$, $D_4$, $S_3$, $S_4$ and $\mathbb Z_2\times S_3$ satisfy all four axioms."""
    tables = _tables(seed, n, sides, operation)
    parts = {
        f"{name}: {axiom}": never(broken.sum(), of=broken.numel(), why=EXACT)
        for name, table in tables.items() for axiom, broken in _all_cases(table).items()
    }
    # what the component says, of these tables and of copies with one wrong product
    rng, judged = seed.child("mistakes").torch(), list(tables.values())
    for table in judged * 4:
        a, b, product = (int(torch.randint(len(table) + k, (), generator=rng)) for k in (0, 0, 1))
        judged.append(table.clone())
        judged[-1][a, b] = product
    mistaken = [
        bool(broken.any()) if named is None else not bool(broken[named])
        for table in judged for broken, named in zip(
            _all_cases(table).values(), group_axioms(table).values(), strict=True
        )
    ]
    parts["group_axioms, also of wrong tables"] = never(torch.tensor(mistaken), why=EXACT)
    table = tables["numbers"]
    x, y = torch.unique(torch.stack([table[:, table].flatten(), table[table].flatten()]), dim=1)
    return every(parts).drawn(
        Series("all a, b, c", x, y), Series("equal", [0, n - 1], [0, n - 1], "predicted"),
        x="element a(bc)", y="element (ab)c",
    )


def _tables(seed: Seed, n: int, sides: int, operation: str) -> dict[str, Tensor]:
    """Make tables of groups, their elements named by chance; the first may be no group's."""
    a, S_3 = torch.arange(n), FiniteGroup.symmetric(3)
    numbers = {
        "addition": FiniteGroup.cyclic(n).table, "subtraction": (a[:, None] - a) % n,
        "multiplication": a[:, None] * a % n, "the second": a.expand(n, n),
    }
    tables = {
        "numbers": numbers[operation], "D": FiniteGroup.dihedral(sides).table, "S_3": S_3.table,
        "S_4": FiniteGroup.symmetric(4).table,
        "Z_2 x S_3": FiniteGroup.product(FiniteGroup.cyclic(2), S_3).table,
    }
    rng = seed.torch()
    for name, table in tables.items():
        chance = torch.randperm(len(table), generator=rng)
        back = chance.argsort()
        tables[name] = chance[table][back][:, back]
    return tables


def _all_cases(table: Tensor) -> dict[str, Tensor]:
    """Try the axioms on all elements, pairs and triples: true where one is broken."""
    n = len(table)
    wide = functional.pad(table, (0, 1, 0, 1), value=n)  # n is what lies outside
    neutral = torch.zeros(n + 1, dtype=torch.bool)
    neutral[:n] = (table == torch.arange(n)).all(dim=1) & (table.mT == torch.arange(n)).all(dim=1)
    undone = neutral[table]
    return {
        "closure": table == n, "associativity": wide[table][..., :n] != wide[:n, table],
        "identity": ~neutral.any(), "inverse": ~(undone & undone.mT).any(dim=1),
    }


@claim(
    control={"operation": "the second"},
    refutes=["numbers: identities", "numbers: inverses"],
    source="Cayley 1854",
)
def unique_identity_and_inverse(
    seed: Seed, *, n: Numbers = 12, sides: Sides = 4,
    operation: Literal["addition", "the second"] = "addition",
) -> Evidence:
    r"""One $e$ alone has $ea=a$ for all $a$, and one $b$ alone $ba=e$; the same from the right."""
    parts, drawn = {}, ()
    for name, table in _tables(seed, n, sides, operation).items():
        same = torch.arange(len(table))
        neutral = torch.stack([(one == same).all(dim=1) for one in (table, table.mT)])
        identity = first_of(neutral[0])
        undone = torch.stack([table.mT == identity, table == identity])  # [side, a, b]
        parts[f"{name}: identities"] = equal(neutral.sum(dim=1), 1, tol=0, why=EXACT)
        parts[f"{name}: inverses"] = equal(undone.sum(dim=2), 1, tol=0, why=EXACT)
        drawn = drawn or _by_element(("ba = e", "ab = e"), undone.sum(dim=2), 1)
        if name != "numbers" or operation == "addition":  # the component refuses what is no group
            group = FiniteGroup(table)
            found = torch.stack([group.inverse(same), group.compose(group.identity, same)])
            expected = torch.stack([first_of(undone[0]), same])
            parts[f"{name}: component"] = equal(found, expected, tol=0, why=EXACT)
    return every(parts).drawn(*drawn, x="element a", y="number of solutions b")


def _by_element(names: tuple[str, str], values: Tensor, expected: int) -> tuple[Series, ...]:
    x = range(values.shape[1])
    return (
        Series(names[0], x, values[0]), Series(names[1], x, values[1], "other", "points"),
        Series("predicted", x, [expected] * len(x), "predicted"),
    )


@claim(control={"claimed": "Abelian"}, source="Gustafson 1973")
def abelian(
    seed: Seed, *, n: Annotated[int, Range(1, 200)] = 12, sides: Annotated[int, Range(3, 100)] = 4,
    claimed: Literal["not Abelian", "Abelian"] = "not Abelian",
) -> Evidence:
    r"""$\mathbb Z_n$ commutes, $S_3$ and $D_4$ do not: a share $k/|G|$ does, in $k$ classes."""
    names = [f"Z_{n}", "S_3", f"D_{sides}"]
    groups = [FiniteGroup.cyclic(n), FiniteGroup.symmetric(3), FiniteGroup.dihedral(sides)]
    # classes of conjugates: one for each partition of 3 in S_3; in D_n one for each pair of inverse
    # turns, for each turn that is its own inverse, and for the reflections, two if n is even
    classes = [n, 6 if claimed == "Abelian" else 3, (sides + 3) // 2 + 2 * (sides % 2 == 0)]
    sizes = torch.tensor([len(one) for one in groups])
    commuting = torch.tensor([int((one.table == one.table.mT).sum()) for one in groups])
    share = torch.tensor(classes) / sizes
    return every({
        "pairs that commute": equal(commuting, torch.tensor(classes) * sizes, tol=0, why=EXACT),
        "is_abelian": equal([one.is_abelian for one in groups], share == 1, tol=0, why=EXACT),
    }).drawn(
        Series("of all pairs", names, commuting / sizes**2, style="bars"),
        Series("predicted", names, share, "predicted", "points"),
        x="group", y="share of pairs with ab = ba",
    )


@claim(control={"operation": "multiplication"}, refutes=["numbers"], source="Cayley 1854")
def latin_square(
    seed: Seed, *, n: Numbers = 6, sides: Sides = 4,
    operation: Literal["addition", "multiplication"] = "addition",
) -> Evidence:
    r"""Every row and column of the table has every element once: $ab=ac$ only if $b=c$."""
    parts, drawn = {}, ()
    for name, table in _tables(seed, n, sides, operation).items():
        seen = functional.one_hot(torch.stack([table, table.mT]), len(table)).amax(dim=2)
        different = seen.sum(dim=2)  # (2, n)
        parts[name] = equal(different, len(table), tol=0, why=EXACT)
        drawn = drawn or _by_element(("ab", "ba"), different, len(table))
    return every(parts).drawn(*drawn, x="element a", y="different products")


@claim(
    control={"subsets": "random"},
    refutes=["remainder", "order times index"],
    source="Lagrange 1771, in Roth 2001",
)
def lagrange(
    seed: Seed, *, points: Annotated[int, Range(3, 5)] = 4,
    subsets: Literal["subgroups", "random"] = "subgroups",
) -> Evidence:
    r"""The order of a subgroup divides the order of the group, which its cosets split evenly."""
    group = FiniteGroup.symmetric(points)
    whole = len(group)
    found = [torch.randperm(whole, generator=seed.torch())[:5].tolist()]
    if subsets == "subgroups":
        pairs = itertools.combinations_with_replacement(range(whole), 2)
        found = sorted({tuple(group.subgroup(pair).tolist()) for pair in pairs}, key=len)
    orders = torch.tensor([len(one) for one in found])
    index = torch.tensor([len(translates(group.table, torch.tensor(one))) for one in found])
    generated, ticks = [len(group.subgroup(a)) for a in range(whole)], torch.arange(1, whole + 1)
    return every({
        "remainder": equal(whole % orders, 0, tol=0, why=EXACT),
        "order times index": equal(orders * index, whole, tol=0, why=EXACT),
        "elements": equal(group.order(torch.arange(whole)), generated, tol=0, why=EXACT),
    }).drawn(
        Series("subsets H", orders, index), Series("|G| / |H|", ticks, whole / ticks, "predicted"),
        x="order of H", y="number of different aH", log="xy",
    )


@claim(
    control={"action": "right"},
    refutes=["D: products", "S: products"],
    source="Serre 1977, sec. 1.2",
)
def regular_representation(
    seed: Seed, *, sides: Sides = 4, points: Annotated[int, Range(3, 4)] = 3,
    action: Literal["left", "right"] = "left",
) -> Evidence:
    r"""Matrices multiply like elements: $P_gP_h=P_{gh}$ and $P_{g^{-1}}=P_g^\top$."""
    parts, drawn = {}, ()
    for group in (FiniteGroup.dihedral(sides), FiniteGroup.symmetric(points)):
        acting = group if action == "left" else FiniteGroup(group.table.mT)  # it sends h to hg
        P, ways, g = acting.regular_matrices(), group.permutations, torch.arange(len(group))
        products = P[:, None] @ P  # (n, n, n, n)
        name = "S" if drawn else "D"
        parts |= {
            f"{name}: products": equal_to_rounding(products, P[group.table]),
            f"{name}: inverses": equal_to_rounding(P[group.inverse(g)], P.mT),
            f"{name}: columns": equal_to_rounding(P.argmax(dim=1), acting.table),
            f"{name}: permutations": equal_to_rounding(ways[:, ways], ways[group.table]),
        }
        drawn = drawn or (
            Series("all g, h", group.table.flatten(), first_of(products[..., group.identity] > 0)),
            Series("gh", g, g, "predicted"),
        )
    return every(parts).drawn(*drawn, x="element gh", y="element to which P_g P_h sends e")
