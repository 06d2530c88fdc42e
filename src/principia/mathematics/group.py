r"""Groups: symmetries, which can be composed and undone.

Turning a square, renaming points, adding on a clock face: doing one after the other is again of the
kind, brackets do not matter, one element does nothing, and everything can be undone. These four
axioms make a group, and a finite one is its table of products. They force a lot: there is one
identity and one inverse, every row and column of the table is a rearrangement of all elements, the
order of a subgroup divides that of the group, and the elements multiply like permutation matrices.
A group need not commute, so that left and right must be kept apart. Layers that respect a symmetry
are built on these tables.

$$ (ab)c = a(bc), \quad ea = ae = a, \quad a^{-1}a = aa^{-1} = e $$

$$ G = \bigcup_{a\in G} aH, \quad |G| = |H|\,[G:H], \quad P_g\delta_h = \delta_{gh}, \quad
P_gP_h = P_{gh} $$

Symbols:
    $G$: group, `FiniteGroup`, of $|G|$ elements $0,\dots,|G|-1$
    $ab$: product, `compose`; of permutations, first $b$, then $a$
    $e, a^{-1}$: `identity` and `inverse`
    $H$: a `subgroup`; it has $[G:H]$ different `cosets` $aH$
    $P_g$: permutation matrix of the element $g$, from `regular_matrices`
    $\delta_h$: unit vector that is 1 at the element $h$
    $\mathbb Z_n, D_n, S_n$: `cyclic`, `dihedral`, `symmetric` group of n numbers, sides, points

References:
    Cayley (1854), On the theory of groups, as depending on the symbolic equation $\theta^n=1$.
        Philosophical Magazine 7(42). doi:10.1080/14786445408647421
    Clifford and Preston (1961), The algebraic theory of semigroups, sec. 1.2 (Light's test of
        associativity). American Mathematical Society. doi:10.1090/surv/007.1
    Gustafson (1973), What is the probability that two group elements commute? American Mathematical
        Monthly 80(9). doi:10.1080/00029890.1973.11993437
    Serre (1977), Linear representations of finite groups, sec. 1.2. Springer.
        doi:10.1007/978-1-4684-9458-7
    Holton and Sheehan (1993), The Petersen graph. Cambridge University Press.
        doi:10.1017/CBO9780511662058
    Roth (2001), A history of Lagrange's theorem on groups. Mathematics Magazine 74(2).
        doi:10.1080/0025570X.2001.11953045
"""

__all__ = ["FiniteGroup", "group_axioms"]

import itertools
from collections.abc import Sequence
from typing import Annotated, Any, Literal, final

import torch
from jaxtyping import Float, Int
from plotly import graph_objects as go
from torch import Tensor
from torch.nn import functional

from principia.lab import figures
from principia.lab.claims import claim
from principia.lab.domains import Count, Range
from principia.lab.errors import UsageError, refuse
from principia.lab.evidence import Evidence, Picture, Series
from principia.lab.experiments import Run, experiment
from principia.lab.knobs import checked
from principia.lab.relations import equal, every, identical, never
from principia.lab.seeds import Seed

Elements = int | Sequence[int] | Int[Tensor, "..."]
Numbers = Annotated[int, Range(3, 40)]  # two numbers are too few: there a - b is a + b
Sides = Annotated[int, Range(3, 12)]
EXACT = "a theorem about whole numbers: no slack"
MOST = 2000  # elements of a group of permutations: its table has the square of it
WRITTEN = 12  # elements up to which the cells of a table have room for names
DEMANDS = {  # what an axiom demands, and how elements break it
    "closure": "be closed, with products in 0..n-1; got another for {}·{}.",
    "associativity": "be associative; got ({0}·{1})·{2} other than {0}·({1}·{2}).",
    "identity": "have an identity; got no e with e·a = a·e = a for every a.",
    "inverse": "have inverses; got no b with a·b = b·a = e for a = {}.",
}


def group_axioms(table: Int[Tensor, "n n"]) -> dict[str, tuple[int, ...] | None]:
    r"""Tests closure, associativity, identity and inverse, and names elements that break them.

    An axiom that holds gets None. Else it gets $(a,b)$ whose product is no element, $(a,b,c)$ with
    $(ab)c\ne a(bc)$, or $(a,)$ without inverse; that there is no identity is nobody's fault: $()$.
    Of a group it takes $O(n^2\log n)$ to know associativity for all $n^3$ triples: if it holds for
    every middle element of some set, it holds for their products as well.

    Args:
        table: Products, that of $a$ and $b$ in row $a$ and column $b$.

    Example:
        >>> a, b = torch.arange(3)[:, None], torch.arange(3)
        >>> group_axioms((a + b) % 3)
        {'closure': None, 'associativity': None, 'identity': None, 'inverse': None}
        >>> group_axioms((a - b) % 3)
        {'closure': None, 'associativity': (0, 0, 1), 'identity': (), 'inverse': (0,)}
    """
    table, n = _square("group_axioms", table), len(table)
    outside = (table < 0) | (table >= n)
    neutral = _neutral(table)
    undone = torch.isin(table, neutral)
    if outside.any():  # it becomes an element more, and every product with it is outside
        table = functional.pad(table.masked_fill(outside, n), (0, 1, 0, 1), value=n)
    return {
        "closure": _first(outside), "associativity": _unassociated(table),
        "identity": None if len(neutral) else (),
        "inverse": _first(~(undone & undone.mT).any(dim=1)),
    }


@final
class FiniteGroup:
    r"""Holds a group as the table of its products, checked once.

    Elements are the numbers $0,\dots,n-1$, alone or in tensors of any shape; `len` counts them.

    Args:
        table: Products, that of $a$ and $b$ in row $a$ and column $b$.

    Attributes:
        table: The same, as int64.
        identity: The element $e$.
        permutations: What each element does to the points it was made from, (n, points); where
            there are none, to the elements, by multiplication from the left.

    Example:
        >>> square = FiniteGroup.dihedral(4)  # a quarter turn is element 1, a reflection 4
        >>> square.compose(1, 4).item(), square.compose(4, 1).item(), square.is_abelian
        (5, 7, False)
        >>> square.cosets(square.subgroup([4])).tolist()
        [[0, 4], [1, 5], [2, 6], [3, 7]]
    """

    def __init__(self, table: Int[Tensor, "n n"]) -> None:
        self.table = _square("FiniteGroup", table)
        for axiom, elements in group_axioms(self.table).items():
            if elements is not None:
                raise UsageError(f"FiniteGroup: table must {DEMANDS[axiom].format(*elements)}")
        self.identity = int(_neutral(self.table))
        self._inverses = _place(self.table == self.identity)
        self.permutations: Int[Tensor, "n points"] = self.table

    @classmethod
    @checked
    def cyclic(cls, n: Count) -> "FiniteGroup":
        r"""Make $\mathbb Z_n$: numbers under addition modulo $n$."""
        numbers = torch.arange(n)
        return cls((numbers[:, None] + numbers) % n)

    @classmethod
    @checked
    def dihedral(cls, n: Count) -> "FiniteGroup":
        r"""Make $D_n$: turns $r^i$ of a polygon are $i$, turned reflections $r^is$ are $n+i$."""
        i, j = torch.arange(n).repeat(2), torch.arange(2).repeat_interleave(n)
        turn = (i[:, None] + (1 - 2 * j[:, None]) * i) % n  # s r = r^-1 s
        return cls(turn + n * (j[:, None] ^ j))

    @classmethod
    @checked
    def symmetric(cls, n: Annotated[int, Range(1, 6)]) -> "FiniteGroup":
        r"""Make $S_n$: all permutations of $n$ points, in lexicographic order."""
        return cls.from_permutations(torch.tensor(list(itertools.permutations(range(n)))))

    @classmethod
    def product(cls, g: "FiniteGroup", h: "FiniteGroup") -> "FiniteGroup":
        r"""Make $G\times H$, whose pairs multiply apart: $(a,b)$ is $a|H|+b$."""
        pairs = g.table[:, None, :, None] * len(h) + h.table[:, None, :]
        return cls(pairs.reshape(len(g) * len(h), -1))

    @classmethod
    def from_permutations(cls, perms: Int[Tensor, "m points"]) -> "FiniteGroup":
        r"""Make the group that permutations generate, in lexicographic order.

        Args:
            perms: One a row: where it sends the points $0, 1, \dots$
        """
        points = torch.arange(perms.shape[1])
        if not torch.equal(perms.sort(dim=1).values, points.expand_as(perms)):
            domain = f"one permutation of 0..{len(points) - 1} a row"
            raise refuse("FiniteGroup", "perms", domain, perms.tolist())
        found = torch.unique(torch.cat([points[None], perms]), dim=0)
        while len(found) <= MOST:
            products = found[:, found].flatten(0, 1)  # a[b[i]] for all pairs, (n * n, points)
            grown, table = torch.unique(products, dim=0, return_inverse=True)
            if len(grown) == len(found):
                group = cls(table.view(len(found), -1))
                group.permutations = found
                return group
            found = grown
        domain = f"generators of a group of at most {MOST} elements"
        raise refuse("FiniteGroup", "perms", domain, perms.tolist())

    def __len__(self) -> int:
        return len(self.table)

    @property
    def is_abelian(self) -> bool:
        """Whether $ab=ba$ for all elements."""
        return torch.equal(self.table, self.table.mT)

    def compose(self, a: Elements, b: Elements) -> Int[Tensor, "..."]:
        """Multiply elements; the shapes are broadcast."""
        return self.table[self._elements(a), self._elements(b)]

    def inverse(self, a: Elements) -> Int[Tensor, "..."]:
        """Give the elements that undo these."""
        return self._inverses[self._elements(a)]

    def order(self, a: Elements) -> Int[Tensor, "..."]:
        """Count how often an element is multiplied with itself until it is the identity."""
        a = self._elements(a)
        power, order = a, torch.ones_like(a)
        while (more := power != self.identity).any():
            power = torch.where(more, self.table[power, a], power)
            order += more
        return order

    def subgroup(self, generators: Elements) -> Int[Tensor, " m"]:
        """List, in order, the elements that can be made of these; of none, the identity alone."""
        chosen = self._elements(generators).reshape(-1)
        return _made_of(self.table, torch.cat([chosen, torch.tensor([self.identity])]))

    def cosets(self, H: Elements) -> Int[Tensor, "index m"]:
        """Split the group into the left cosets $aH$ of a subgroup, one a row."""
        members = self._elements(H).reshape(-1).unique()
        if len(self.subgroup(members)) > len(members):
            raise refuse("FiniteGroup", "H", "a subgroup", H, "subgroup(H) makes it one.")
        return _translates(self.table, members)

    def regular_matrices(self) -> Float[Tensor, "n n n"]:
        r"""Give the permutation matrices $P_g$ in float64, with $P_g\delta_h=\delta_{gh}$."""
        return functional.one_hot(self.table).mT.double()

    def _elements(self, values: Elements) -> Tensor:
        chosen = torch.as_tensor(values)
        chosen = chosen if chosen.numel() else chosen.long()  # an empty list has no type
        if not _whole(chosen) or not bool(((chosen >= 0) & (chosen < len(self))).all()):
            raise refuse("FiniteGroup", "elements", f"integers in 0..{len(self) - 1}", values)
        return chosen.long()


def _square(owner: str, table: Any) -> Tensor:
    table = torch.as_tensor(table)
    if not _whole(table) or table.ndim != 2 or len(table) != table.shape[1] or not len(table):
        got = f"{table.dtype} of shape {tuple(table.shape)}"
        raise UsageError(f"{owner}: table must be a square of integers, not empty; got {got}.")
    return table.long()


def _whole(values: Tensor) -> bool:
    return not values.is_floating_point() and values.dtype != torch.bool


def _neutral(table: Tensor) -> Tensor:
    """List the elements that change nothing from either side: one or none."""
    same = torch.arange(len(table))
    return ((table == same).all(dim=1) & (table.mT == same).all(dim=1)).nonzero()[:, 0]


def _unassociated(table: Tensor) -> tuple[int, ...] | None:
    """Find a, b, c with (ab)c other than a(bc), for b out of a set that generates all others.

    With any a and c, if b and d do, then bd does: (a(bd))c = ((ab)d)c = (ab)(dc) = a(b(dc)) =
    a((bd)c).
    """
    reached, missing = torch.empty(0, dtype=torch.long), torch.ones(len(table), dtype=torch.bool)
    while missing.any():
        b = _place(missing)
        if found := _first(table[table[:, b]] != table[:, table[b]]):
            return found[0], int(b), found[1]
        reached = _made_of(table, torch.cat([reached, b[None]]))
        missing[reached] = False
    return None


def _made_of(table: Tensor, members: Tensor) -> Tensor:
    """Add products until there are no new ones."""
    inside = torch.zeros(len(table), dtype=torch.bool)
    inside[members] = True
    while True:
        members = inside.nonzero()[:, 0]
        inside[table[members][:, members].flatten()] = True
        if int(inside.sum()) == len(members):
            return members


def _translates(table: Tensor, members: Tensor) -> Tensor:
    """List the different sets that multiplication from the left makes of one."""
    return torch.unique(table[:, members].sort(dim=1).values, dim=0)


def _place(true: Tensor) -> Tensor:
    """Find the first true entry of each row."""
    return true.to(torch.uint8).argmax(dim=-1)


def _first(broken: Tensor) -> tuple[int, ...] | None:
    """Find the first true entry of all."""
    return tuple(broken.nonzero()[0].tolist()) if broken.any() else None


@claim(control={"operation": "subtraction"}, source="Cayley 1854")
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


@claim(control={"operation": "the second"}, source="Cayley 1854")
def unique_identity_and_inverse(
    seed: Seed, *, n: Numbers = 12, sides: Sides = 4,
    operation: Literal["addition", "the second"] = "addition",
) -> Evidence:
    r"""One $e$ alone has $ea=a$ for all $a$, and one $b$ alone $ba=e$; the same from the right."""
    parts, drawn = {}, ()
    for name, table in _tables(seed, n, sides, operation).items():
        same = torch.arange(len(table))
        neutral = torch.stack([(one == same).all(dim=1) for one in (table, table.mT)])
        identity = _place(neutral[0])
        undone = torch.stack([table.mT == identity, table == identity])  # [side, a, b]
        parts[f"{name}: identities"] = equal(neutral.sum(dim=1), 1, tol=0, why=EXACT)
        parts[f"{name}: inverses"] = equal(undone.sum(dim=2), 1, tol=0, why=EXACT)
        drawn = drawn or _by_element(("ba = e", "ab = e"), undone.sum(dim=2), 1)
        if name != "numbers" or operation == "addition":  # the component refuses what is no group
            group = FiniteGroup(table)
            found = torch.stack([group.inverse(same), group.compose(group.identity, same)])
            expected = torch.stack([_place(undone[0]), same])
            parts[f"{name}: component"] = equal(found, expected, tol=0, why=EXACT)
    return every(parts).drawn(*drawn, x="element a", y="number of solutions b")


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
    parts, drawn = {}, ()
    for name, table in _tables(seed, n, sides, operation).items():
        seen = functional.one_hot(torch.stack([table, table.mT]), len(table)).amax(dim=2)
        different = seen.sum(dim=2)  # (2, n)
        parts[name] = equal(different, len(table), tol=0, why=EXACT)
        drawn = drawn or _by_element(("ab", "ba"), different, len(table))
    return every(parts).drawn(*drawn, x="element a", y="different products")


@claim(control={"subsets": "random"}, source="Lagrange 1771, in Roth 2001")
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
    index = torch.tensor([len(_translates(group.table, torch.tensor(one))) for one in found])
    generated, ticks = [len(group.subgroup(a)) for a in range(whole)], torch.arange(1, whole + 1)
    return every({
        "remainder": equal(whole % orders, 0, tol=0, why=EXACT),
        "order times index": equal(orders * index, whole, tol=0, why=EXACT),
        "elements": equal(group.order(torch.arange(whole)), generated, tol=0, why=EXACT),
    }).drawn(
        Series("subsets H", orders, index), Series("|G| / |H|", ticks, whole / ticks, "predicted"),
        x="order of H", y="number of different aH", log="xy",
    )


@claim(control={"action": "right"}, source="Serre 1977, sec. 1.2")
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
            f"{name}: products": identical(products, P[group.table]),
            f"{name}: inverses": identical(P[group.inverse(g)], P.mT),
            f"{name}: columns": identical(P.argmax(dim=1), acting.table),
            f"{name}: permutations": identical(ways[:, ways], ways[group.table]),
        }
        drawn = drawn or (
            Series("all g, h", group.table.flatten(), _place(products[..., group.identity] > 0)),
            Series("gh", g, g, "predicted"),
        )
    return every(parts).drawn(*drawn, x="element gh", y="element to which P_g P_h sends e")


@experiment(
    reaches={"petersen": Range(120, 120), "cube": Range(48, 48), "as_named": Range(4, 4)},
    floor={"hexagon": Range(12, 12), "complete": Range(24, 24), "as_named": Range(2, 2)},
    source="Holton and Sheehan 1993, The Petersen graph (120); the others are classical",
)
def automorphisms(run: Run) -> None:
    r"""Finds the symmetries of graphs: $D_6$, $S_4$, in full $\mathbb Z_2\times S_4$ and $S_5$."""
    import networkx as nx

    S_4 = FiniteGroup.symmetric(4)
    graphs: dict[str, tuple[Any, FiniteGroup]] = {
        "hexagon": (nx.cycle_graph(6), FiniteGroup.dihedral(6)),
        "complete": (nx.complete_graph(4), S_4),
    }
    if run.full:  # turns of a cube permute its 4 long diagonals; the mirror at its center is Z_2
        cube = nx.convert_node_labels_to_integers(nx.hypercube_graph(3), ordering="sorted")
        graphs["cube"] = cube, FiniteGroup.product(FiniteGroup.cyclic(2), S_4)
        graphs["petersen"] = nx.petersen_graph(), FiniteGroup.symmetric(5)
    named = 0
    for name in run.steps(graphs, "graphs"):
        graph, expected = graphs[name]
        matches = nx.isomorphism.GraphMatcher(graph, graph).isomorphisms_iter()
        found = torch.tensor([[match[k] for k in range(len(graph))] for match in matches])
        same = (found[:, found][:, :, None] == found).all(dim=3)  # [a, b, c]: whether ab is c
        table = torch.where(same.any(dim=2), _place(same), len(found))  # one not found is outside
        group = FiniteGroup.from_permutations(found)
        passed = not any(one is not None for one in group_axioms(table).values())
        named += passed and _isomorphic(group, expected)
        run.record(**{name: len(found)})
        run.figure(name, _colored(group))
    run.record(as_named=named)


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


def _by_element(names: tuple[str, str], values: Tensor, expected: int) -> tuple[Series, ...]:
    x = range(values.shape[1])
    return (
        Series(names[0], x, values[0]), Series(names[1], x, values[1], "other", "points"),
        Series("predicted", x, [expected] * len(x), "predicted"),
    )


def _isomorphic(g: FiniteGroup, h: FiniteGroup) -> bool:
    """Tell whether a bijection keeps all products, by all images of two generators of g."""
    pairs = itertools.combinations(range(len(g)), 2)
    two = torch.tensor(next(pair for pair in pairs if len(g.subgroup(pair)) == len(g)))
    orders = h.order(torch.arange(len(h)))
    images = torch.cartesian_prod(*((orders == one).nonzero()[:, 0] for one in g.order(two)))
    maps, reached = torch.full((len(images), len(g)), h.identity), [g.identity]  # a map a row
    for a in reached:  # it grows while it is read
        for k, b in enumerate(g.table[a, two].tolist()):
            if b not in reached:
                maps[:, b] = h.table[maps[:, a], images[:, k]]
                reached.append(b)
    kept = maps[:, g.table[:, two]] == h.table[maps[..., None], images[:, None]]
    good = maps[kept.flatten(1).all(dim=1)].tolist()
    return len(g) == len(h) and any(len(set(one)) == len(h) for one in good)


def _colored(group: FiniteGroup) -> Any:
    """Draw the table in colors; two sliders choose a row and a column, which cross at ab."""
    names = ["".join(map(str, one)) for one in group.permutations.tolist()]
    figure = figures.draw(Picture((), "b, first: where it sends 0, 1, ...", "a, then"))
    figure.add_trace(go.Heatmap(
        x=names, y=names, z=group.table.numpy(), colorscale="Turbo", showscale=False, opacity=0.8,
        text=[[names[c] for c in row] for row in group.table.tolist()], textfont={"size": 9},
        texttemplate="%{text}" if len(names) <= WRITTEN else None,
        hovertemplate="first %{x}, then %{y}: %{text}<extra></extra>",
    ))
    sliders = []
    for place, (letter, along, across) in enumerate((("a", "y", "x"), ("b", "x", "y"))):
        ends = {f"{along}0": -0.5, f"{along}1": 0.5}
        long = {f"{across}0": -0.5, f"{across}1": len(names) - 0.5}
        figure.add_shape(type="rect", line={"width": 3, "color": "#111827"}, **ends, **long)
        moved = [
            {f"shapes[{place}].{end}": at + k for end, at in ends.items()}
            for k in range(len(names))
        ]
        sliders.append({
            "currentvalue": {"prefix": f"{letter} = "}, "pad": {"t": 70 + 75 * place},
            "steps": [
                {"label": name, "method": "relayout", "args": [where]}
                for name, where in zip(names, moved, strict=True)
            ],
        })
    square = {"type": "category", "constrain": "domain"}
    figure.update_xaxes(**square).update_yaxes(**square, autorange="reversed", scaleanchor="x")
    return figure.update_layout(sliders=sliders, height=800)
