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
from typing import Annotated, Any, final

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional

from principia.lab.params import PositiveInt, Range, UsageError, checked, usage_error

Elements = int | Sequence[int] | Int[Tensor, "..."]
MOST = 2000  # elements of a group of permutations: its table has the square of it
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


def _first(broken: Tensor) -> tuple[int, ...] | None:
    """Find the first true entry of all."""
    return tuple(broken.nonzero()[0].tolist()) if broken.any() else None


def _unassociated(table: Tensor) -> tuple[int, ...] | None:
    """Find a, b, c with (ab)c other than a(bc), for b out of a set that generates all others.

    With any a and c, if b and d do, then bd does: (a(bd))c = ((ab)d)c = (ab)(dc) = a(b(dc)) =
    a((bd)c).
    """
    reached, missing = torch.empty(0, dtype=torch.long), torch.ones(len(table), dtype=torch.bool)
    while missing.any():
        b = first_of(missing)
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


def first_of(true: Tensor) -> Tensor:
    """Find the first true entry of each row."""
    return true.to(torch.uint8).argmax(dim=-1)


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
        self._inverses = first_of(self.table == self.identity)
        self.permutations: Int[Tensor, "n points"] = self.table

    @classmethod
    @checked
    def cyclic(cls, n: PositiveInt) -> "FiniteGroup":
        r"""Make $\mathbb Z_n$: numbers under addition modulo $n$."""
        numbers = torch.arange(n)
        return cls((numbers[:, None] + numbers) % n)

    @classmethod
    @checked
    def dihedral(cls, n: PositiveInt) -> "FiniteGroup":
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
            raise usage_error("FiniteGroup", "perms", domain, perms.tolist())
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
        raise usage_error("FiniteGroup", "perms", domain, perms.tolist())

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
            raise usage_error("FiniteGroup", "H", "a subgroup", H, "subgroup(H) makes it one.")
        return translates(self.table, members)

    def regular_matrices(self) -> Float[Tensor, "n n n"]:
        r"""Give the permutation matrices $P_g$ in float64, with $P_g\delta_h=\delta_{gh}$."""
        return functional.one_hot(self.table).mT.double()

    def _elements(self, values: Elements) -> Tensor:
        chosen = torch.as_tensor(values)
        chosen = chosen if chosen.numel() else chosen.long()  # an empty list has no type
        if not _whole(chosen) or not bool(((chosen >= 0) & (chosen < len(self))).all()):
            raise usage_error("FiniteGroup", "elements", f"integers in 0..{len(self) - 1}", values)
        return chosen.long()


def translates(table: Tensor, members: Tensor) -> Tensor:
    """List the different sets that multiplication from the left makes of one."""
    return torch.unique(table[:, members].sort(dim=1).values, dim=0)
