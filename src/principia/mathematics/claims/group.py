r"""Groups: what is true of it, and what would refute it.

Knobs:
    n: Numbers on the clock face, which are added modulo n.
    sides: Sides of the polygon whose turns and reflections make a group.
    points: Points that are permuted.
    operation: What is done with two numbers; only addition modulo n makes a group of them.
    claimed: What is said of $S_3$; that it commutes is wrong.
    subsets: What is moved through the group; sets that are no subgroups do not split it.
    action: From which side an element multiplies; from the right, products come in reverse.
"""

import itertools
from typing import Annotated, Literal

import torch
from torch import Tensor
from torch.nn import functional as F

from principia.lab.evidence import (
    Control,
    Evidence,
    Series,
    claim,
    equal,
    equal_to_rounding,
    every,
    never,
)
from principia.lab.params import Range
from principia.lab.pictures import Matrix, side_by_side
from principia.lab.seeds import Seed
from principia.mathematics.group import FiniteGroup, first_of, group_axioms, translates

Numbers = Annotated[int, Range(3, 40)]  # two numbers are too few: there a - b is a + b
Sides = Annotated[int, Range(3, 12)]
MOST_WRITTEN = 12  # rows of a table whose numbers can be read
EXACT = "a theorem about whole numbers: no slack"


@claim(
    control=[
        Control(
            {"operation": "subtraction"}, ["associativity", "identity", "inverse"], "subtraction"
        ),
        Control({"operation": "sums up to n - 1"}, ["closure"], "sums that leave the clock face"),
    ],
    source="Cayley 1854",
)
def axioms(
    seed: Seed, *, n: Numbers = 12, sides: Sides = 4,
    operation: Literal["addition", "subtraction", "sums up to n - 1"] = "addition",
) -> Evidence:
    r"""$\mathbb Z_n$, $D_4$, $S_3$, $S_4$ and $\mathbb Z_2\times S_3$ satisfy all four axioms."""
    tables = _tables(seed, n, sides, operation)
    cases = [_all_cases(table) for table in tables.values()]
    parts = {
        axiom: never(torch.cat([one[axiom].flatten() for one in cases]), why=EXACT)
        for axiom in cases[0]
    }
    # what the component says, of these tables and of copies with one wrong product
    rng, judged = seed.child("mistakes").torch(), [*tables.values(), *_half_groups()]
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
    broken = cases[0]["associativity"].sum(dim=2)
    shown = {f"ab, by {operation}": tables["numbers"], "how often (ab)c is not a(bc)": broken}
    return every(parts).pictured(side_by_side(shown, signed=False))


def _tables(seed: Seed, n: int, sides: int, operation: str) -> dict[str, Tensor]:
    """Make tables of groups, their elements named by chance; the first may be no group's."""
    a, S_3 = torch.arange(n), FiniteGroup.symmetric(3)
    numbers = {
        "addition": FiniteGroup.cyclic(n).table, "subtraction": (a[:, None] - a) % n,
        "multiplication": a[:, None] * a % n, "the second": a.expand(n, n),
        "sums up to n - 1": (a[:, None] + a).clamp(max=n),  # n is what lies outside
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
        tables[name] = F.pad(chance, (0, 1), value=len(table))[table][back][:, back]
    return tables


def _half_groups() -> list[Tensor]:
    """Make tables that lack one thing: maps of two points to themselves, and functions of one."""
    maps = list(itertools.product(range(2), repeat=2))  # 00, 01 (the identity), 10, 11
    composed = torch.tensor([[maps.index((f[g[0]], f[g[1]])) for g in maps] for f in maps])
    a = torch.arange(5)
    # no inverses; an identity from one side alone; a maximum; one element; an inverse from one side
    # alone; products outside, above and below
    return [composed, composed.mT, a.expand(5, 5), torch.maximum(a[:, None], a), a[:1, None],
            torch.tensor([[0, 1, 2], [1, 2, 0], [2, 1, 0]]), a[:2, None] * 4 - a[:2]]


def _all_cases(table: Tensor) -> dict[str, Tensor]:
    """Try the axioms on all elements, pairs and triples: true where one is broken."""
    n = len(table)
    table = torch.where((table >= 0) & (table < n), table, n)  # n is what lies outside
    wide = F.pad(table, (0, 1, 0, 1), value=n)
    neutral = torch.zeros(n + 1, dtype=torch.bool)
    neutral[:n] = (table == torch.arange(n)).all(dim=1) & (table.mT == torch.arange(n)).all(dim=1)
    undone = neutral[table]
    return {
        "closure": table == n, "associativity": wide[table][..., :n] != wide[:n, table],
        "identity": ~neutral.any(), "inverse": ~(undone & undone.mT).any(dim=1),
    }


@claim(
    control={"operation": "the second"}, refutes=["identities", "inverses"], source="Cayley 1854"
)
def unique_identity_and_inverse(
    seed: Seed, *, n: Numbers = 12, sides: Sides = 4,
    operation: Literal["addition", "the second"] = "addition",
) -> Evidence:
    r"""One $e$ alone has $ea=a$ for all $a$, and one $b$ alone $ba=e$; the same from the right."""
    neutral, undone, found, expected = [], [], [], []
    for name, table in _tables(seed, n, sides, operation).items():
        same = torch.arange(len(table))
        neutral.append(torch.stack([(one == same).all(dim=1) for one in (table, table.mT)]))
        identity = first_of(neutral[-1][0])
        undone.append(torch.stack([table.mT == identity, table == identity]))  # [side, a, b]
        if name != "numbers" or operation == "addition":  # the component refuses what is no group
            group = FiniteGroup(table)
            found += [group.inverse(same), group.compose(group.identity, same)]
            expected += [first_of(undone[-1][0]), same]
    inverses = [one.sum(dim=2) for one in undone]
    identities = torch.stack([one.sum(dim=1) for one in neutral])
    return every({
        "identities": equal(identities, 1, tol=0, why=EXACT),
        "inverses": equal(torch.cat(inverses, dim=1), 1, tol=0, why=EXACT),
        "component": equal(torch.cat(found), torch.cat(expected), tol=0, why=EXACT),
    }).pictured(side_by_side(
        {"where ba = e": undone[0][0] * 1, "where ab = e": undone[0][1] * 1}, signed=False
    ))


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


@claim(control={"operation": "multiplication"}, source="Cayley 1854")
def latin_square(
    seed: Seed, *, n: Numbers = 6, sides: Sides = 4,
    operation: Literal["addition", "multiplication"] = "addition",
) -> Evidence:
    r"""Every row and column of the table has every element once: $ab=ac$ only if $b=c$."""
    tables = list(_tables(seed, n, sides, operation).values())
    seen = [F.one_hot(torch.stack([one, one.mT]), len(one)).amax(dim=2) for one in tables]
    different = [one.sum(dim=2) for one in seen]  # (2, n)
    shares = torch.cat([one / len(table) for one, table in zip(different, tables, strict=True)], 1)
    shown = equal(shares, 1, tol=0, why=EXACT).named("share of all elements in a row or column")
    names = [str(one) for one in range(n)]
    table = Matrix(tables[0], names, names, name="ab", written=n <= MOST_WRITTEN)
    return shown.drawn(table, x="b", y="a")


@claim(
    control={"subsets": "random"},
    refutes=["remainder", "order times index", "each element in one", "left cosets"],
    source="Lagrange 1771, in Roth 2001",
)
def lagrange(
    seed: Seed, *, points: Annotated[int, Range(3, 5)] = 4,
    subsets: Literal["subgroups", "random"] = "subgroups",
) -> Evidence:
    r"""The order of a subgroup divides the order of the group, which its cosets split evenly."""
    group = FiniteGroup.symmetric(points)
    whole = len(group)
    found, split = [torch.randperm(whole, generator=seed.torch())[:5].sort().values], translates
    if subsets == "subgroups":
        pairs = [(), *itertools.combinations_with_replacement(range(whole), 2)]
        found = [torch.tensor(one) for one in sorted(
            {tuple(group.subgroup(pair).tolist()) for pair in pairs}, key=len
        )]
    orders = torch.tensor([len(one) for one in found])
    cosets = [
        group.cosets(one.flip(0)) if subsets == "subgroups" else split(group.table, one)
        for one in found
    ]
    index = torch.tensor([len(one) for one in cosets])
    times = torch.stack([torch.bincount(one.flatten(), minlength=whole) for one in cosets])
    # a and b are in one left coset if a^-1 b is in H
    from_first = [group.compose(group.inverse(one[:, :1]), one) for one in cosets]
    left = [one.sort(dim=1).values - H for one, H in zip(from_first, found, strict=True)]
    generated, ticks = [len(group.subgroup(a)) for a in range(whole)], torch.arange(1, whole + 1)
    return every({
        "remainder": equal(whole % orders, 0, tol=0, why=EXACT),
        "order times index": equal(orders * index, whole, tol=0, why=EXACT),
        "each element in one": equal(times, 1, tol=0, why=EXACT),
        "left cosets": equal(torch.cat([one.flatten() for one in left]), 0, tol=0, why=EXACT),
        "elements": equal(group.order(torch.arange(whole)), generated, tol=0, why=EXACT),
    }).drawn(
        Series("subsets H", orders, index), Series("|G| / |H|", ticks, whole / ticks, "predicted"),
        x="order of H", y="number of different aH", log="xy",
    )


@claim(control={"action": "right"}, refutes=["products"], source="Serre 1977, sec. 1.2")
def regular_representation(
    seed: Seed, *, sides: Sides = 4, points: Annotated[int, Range(3, 4)] = 3,
    action: Literal["left", "right"] = "left",
) -> Evidence:
    r"""Matrices multiply like elements: $P_gP_h=P_{gh}$ and $P_{g^{-1}}=P_g^\top$."""
    D, S, Z = FiniteGroup.dihedral(sides), FiniteGroup.symmetric(points), FiniteGroup.cyclic(5)
    groups = [D, S, FiniteGroup.product(Z, S)]
    # it may send h to hg
    acting = [one if action == "left" else FiniteGroup(one.table.mT) for one in groups]
    found: dict[str, list[Tensor]] = {"products": [], "inverses": [], "columns": []}
    for group, other in zip(groups, acting, strict=True):
        P, elements = other.regular_matrices(), torch.arange(len(group))
        a, b = torch.randint(len(group), (2, 100), generator=seed.torch())
        a, b = (torch.cat([one, elements]) for one in (a, b))
        found["products"].append((P[a] @ P[b] - P[group.compose(a, b)]).flatten())
        found["inverses"].append((P[group.inverse(elements)] - P.mT).flatten())
        found["columns"].append((first_of(P.mT > 0) - other.table).flatten())
    ways, P = S.permutations, acting[0].regular_matrices()
    listed = torch.tensor(list(itertools.permutations(range(points))))
    known = _known_matrices(sides)
    shifts, others = Z.regular_matrices(), S.regular_matrices()
    pairs = torch.stack([torch.kron(p, q) for p in shifts for q in others])
    turn, mirror = 1, sides  # two elements of the dihedral group that do not commute
    both = int(D.compose(torch.tensor(turn), torch.tensor(mirror)))
    first, second = P[turn], P[mirror]
    shown = {"turn g": first, "mirror h": second, "product": first @ second, "gh": P[both]}
    return every({
        **{name: equal_to_rounding(torch.cat(gaps), 0.0) for name, gaps in found.items()},
        "permutations": equal_to_rounding(
            torch.cat([ways[:, ways].flatten(), ways.flatten()]),
            torch.cat([ways[S.table].flatten(), listed.flatten()]),
        ),
        "turns and reflections": equal_to_rounding(known[:, None] @ known, known[D.table]),
        "pairs": equal_to_rounding(pairs, groups[2].regular_matrices()),
    }).pictured(side_by_side(shown, signed=False))


def _known_matrices(sides: int) -> Tensor:
    """Turn a polygon: first without, then behind a reflection."""
    angle = 2 * torch.pi * torch.arange(sides, dtype=torch.float64) / sides
    c, s = angle.cos(), angle.sin()
    turns = torch.stack([torch.stack([c, -s]), torch.stack([s, c])]).permute(2, 0, 1)
    return torch.cat([turns, turns @ torch.diag(torch.tensor([1.0, -1.0]).to(turns))])
