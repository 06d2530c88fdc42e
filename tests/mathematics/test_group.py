import itertools

import networkx as nx
import pytest
import torch
from jaxtyping import config

from planting import assert_caught
from principia.lab.course.catalog import page
from principia.lab.params import UsageError
from principia.lab.runs import Run
from principia.lab.seeds import Seed
from principia.mathematics import FiniteGroup, group_axioms

KEY = "mathematics/group"
AXIOMS = ["closure", "associativity", "identity", "inverse"]


def brute_force(table):
    """Decide the axioms by loops over all elements; a product outside is None."""
    elements = range(len(table))

    def times(a, b):
        product = None if a is None or b is None else table[a][b]
        return product if product in elements else None

    neutral = [
        e for e in elements if all(times(e, a) == a and times(a, e) == a for a in elements)
    ]
    return [
        all(times(a, b) is not None for a in elements for b in elements),
        all(
            times(times(a, b), c) == times(a, times(b, c))
            for a, b, c in itertools.product(elements, repeat=3)
        ),
        bool(neutral),
        bool(neutral) and all(
            any(times(a, b) == neutral[0] == times(b, a) for b in elements) for a in elements
        ),
    ]


def holding(table):
    return [one is None for one in group_axioms(table).values()]


@pytest.mark.parametrize(
    ("old", "new", "claim"),
    [
        ("outside = (table < 0) | (table >= n)", "outside = (table < 0) | (table > n)", "axioms"),
        ("table[table[:, b]] != table[:, table[b]]", "table != table.mT", "axioms"),
        ("~(undone & undone.mT).any(dim=1)),", "undone.any(dim=1)),", "axioms"),
        ("int(_neutral(self.table))", "0", "unique_identity_and_inverse"),
        ("(1 - 2 * j[:, None]) * i", "i", "abelian"),
        ("torch.equal(self.table, self.table.mT)", "len(self) < 9", "abelian"),
        ("(numbers[:, None] + numbers) % n", "(numbers[:, None] * numbers) % n", "latin_square"),
        ("* len(h) + h.table[:, None, :]", "* len(h) + g.table[:, None, :1]", "latin_square"),
        ("torch.cat([chosen, torch.tensor([self.identity])]))", "chosen[:2])[:3]", "lagrange"),
        ("order += more", "order += 1", "lagrange"),
        ("table[:, members].sort(dim=1).values", "table[:, members]", "lagrange"),
    ],
)
def test_claims_catch_planted_bugs(old, new, claim):
    assert_caught(KEY, old, new, claim)


@pytest.mark.parametrize(
    ("old", "new", "claim", "parts"),
    [
        ("inside[table[members][:, members].flatten()]", "inside[table[members][:, 0]]",
         "lagrange", ["elements"]),
        ("(table == same).all(dim=1) & (table.mT == same)", "(table.mT == same)", "axioms",
         ["group_axioms, also of wrong tables"]),
        ("first_of(self.table == self.identity)", "torch.arange(len(table))",
         "unique_identity_and_inverse", ["component"]),
        ("first_of(self.table == self.identity)", "torch.arange(len(table))",
         "regular_representation", ["inverses"]),
        (".mT.double()", ".double()", "regular_representation", ["columns"]),
        ("i[:, None] + (1 - 2 * j[:, None]) * i", "(1 - 2 * j) * i[:, None] + i",
         "regular_representation", ["turns and reflections"]),
        ("g.table[:, None, :, None] * len(h) + h.table[:, None, :]",
         "h.table[:, None, :, None] * len(g) + g.table[:, None, :]", "regular_representation",
         ["pairs"]),
        ("products = found[:, found].flatten",
         "products = found[:, found].transpose(0, 1).flatten", "regular_representation",
         ["permutations"]),
    ],
)
def test_parts_catch_planted_bugs(old, new, claim, parts):
    assert_caught(KEY, old, new, claim, parts=parts)


def test_axioms_are_those_of_loops_over_all_triples():
    rng = torch.Generator().manual_seed(0)
    sizes = [n for n in (1, 2, 2, 2, 3, 3) for _ in range(30)]
    tables = [torch.randint(n, (n, n), generator=rng) for n in sizes]
    tables += [torch.randint(-1, n + 1, (n, n), generator=rng) for n in (2, 3) for _ in range(30)]
    a = torch.arange(5)
    tables += [a.expand(5, 5), a[:, None].expand(5, 5), torch.maximum(a, a[:, None]),
               a * a[:, None] % 5, (a - a[:, None]) % 5, torch.zeros(5, 5).long()]
    verdicts = [holding(table) for table in tables]
    assert verdicts == [brute_force(table.tolist()) for table in tables]
    assert {any(one[k] for one in verdicts) for k in range(4)} == {True}  # each held somewhere
    assert {all(one[k] for one in verdicts) for k in range(4)} == {False}


def latin_squares(n, *rows):
    """Complete rows to Latin squares whose element 0 is an identity."""
    rows = rows or (range(n),)
    if len(rows) == n:
        yield torch.tensor([list(row) for row in rows])
        return
    for row in itertools.permutations(range(n)):
        columns = zip(row, *rows, strict=True)
        if row[0] == len(rows) and all(a not in above for a, *above in columns):
            yield from latin_squares(n, *rows, row)


@pytest.mark.parametrize(("n", "squares", "groups"), [(3, 1, 1), (4, 4, 4), (5, 56, 6)])
def test_most_latin_squares_are_no_groups(n, squares, groups):
    # of order 5 there is one group, and it has (n - 1)! / |Aut| = 24 / 4 namings with identity 0
    verdicts = [all(holding(one)) for one in latin_squares(n)]
    assert (len(verdicts), sum(verdicts)) == (squares, groups)


def test_orders_and_abelian_groups():
    groups = [*map(FiniteGroup.cyclic, (1, 7)), *map(FiniteGroup.dihedral, (1, 2, 5)),
              *map(FiniteGroup.symmetric, range(1, 7))]
    assert [len(one) for one in groups] == [1, 7, 2, 4, 10, 1, 2, 6, 24, 120, 720]
    assert [one.is_abelian for one in groups] == [True] * 4 + [False] + [True] * 2 + [False] * 4


def test_permutations_compose_like_functions():
    group = FiniteGroup.symmetric(4)
    perms = [tuple(one) for one in group.permutations.tolist()]
    assert perms == sorted(itertools.permutations(range(4)))
    for a, b in itertools.product(range(24), repeat=2):
        assert perms[group.compose(a, b)] == tuple(perms[a][perms[b][i]] for i in range(4))
    even = FiniteGroup.from_permutations(torch.tensor([[1, 2, 0, 3, 4], [0, 1, 3, 4, 2]]))
    assert len(even) == 60
    assert sorted(even.order(torch.arange(60)).tolist()) == [1] + [2] * 15 + [3] * 20 + [5] * 24


def test_dihedral_group_is_that_of_matrices():
    n, group = 7, FiniteGroup.dihedral(7)
    angle = 2 * torch.pi * torch.arange(n, dtype=torch.float64) / n
    c, s = angle.cos(), angle.sin()
    turns = torch.stack([torch.stack([c, -s]), torch.stack([s, c])]).permute(2, 0, 1)
    matrices = torch.cat([turns, turns @ torch.diag(torch.tensor([1.0, -1.0]).double())])
    torch.testing.assert_close(matrices[:, None] @ matrices, matrices[group.table])
    torch.testing.assert_close(matrices[group.inverse(torch.arange(14))], matrices.inverse())


def test_product_multiplies_pairs():
    g, h = FiniteGroup.dihedral(3), FiniteGroup.cyclic(4)
    both = FiniteGroup.product(g, h)
    for a, b in itertools.product(range(24), repeat=2):
        expected = 4 * g.compose(a // 4, b // 4) + h.compose(a % 4, b % 4)
        assert both.compose(a, b) == expected


@pytest.mark.parametrize(("points", "subgroups"), [(1, 1), (2, 2), (3, 6), (4, 30)])
def test_all_subgroups_of_a_symmetric_group_are_found(points, subgroups):
    group = FiniteGroup.symmetric(points)  # the numbers are OEIS A005432
    pairs = itertools.combinations_with_replacement(range(len(group)), 2)
    assert len({tuple(group.subgroup(pair).tolist()) for pair in pairs}) == subgroups


def test_cosets_split_the_group_from_the_left():
    group = FiniteGroup.symmetric(4)
    H = group.subgroup([1, 7])
    cosets = group.cosets(H)
    assert sorted(cosets.flatten().tolist()) == list(range(24))
    sets = {frozenset(int(group.compose(a, b)) for b in H) for a in range(24)}
    assert {frozenset(row) for row in cosets.tolist()} == sets
    assert sets != {frozenset(int(group.compose(b, a)) for b in H) for a in range(24)}


def test_elements_of_any_shape_and_groups_whose_identity_is_not_0():
    group = FiniteGroup((torch.arange(5)[:, None] + torch.arange(5) + 2) % 5)
    assert group.identity == 3
    assert group.compose(torch.tensor([[0], [1]]), [3, 4]).tolist() == [[0, 1], [1, 2]]
    assert group.compose(2, group.inverse(2)).item() == 3
    assert group.order([3, 0]).tolist() == [1, 5]
    assert group.subgroup([]).tolist() == [3]


def test_isomorphism_tells_groups_of_one_order_apart():
    isomorphic = page(KEY).load("experiments")._isomorphic
    z, d = FiniteGroup.cyclic, FiniteGroup.dihedral
    groups = [d(6), FiniteGroup.product(z(2), FiniteGroup.symmetric(3)), z(12),
              FiniteGroup.product(z(3), z(4)), FiniteGroup.product(z(2), z(6)),
              FiniteGroup.from_permutations(torch.tensor([[1, 2, 0, 3], [0, 2, 3, 1]]))]
    kinds = [0, 0, 2, 2, 4, 5]
    for (g, a), (h, b) in itertools.product(zip(groups, kinds, strict=True), repeat=2):
        assert isomorphic(g, h) == (a == b)


def test_symmetries_move_edges_to_edges():
    graph = nx.petersen_graph()
    outcome = page(KEY).experiments()["automorphisms"](Run(Seed(0), "full"))
    assert outcome.reached, outcome.missed
    table = outcome.figures["petersen"].data[0]
    assert len(table.x) == 120
    for name in table.x:
        assert all(graph.has_edge(int(name[a]), int(name[b])) for a, b in graph.edges)


def test_bad_input_is_told_in_one_sentence():
    a = torch.arange(3)
    words = {
        r"table must be closed, with products in 0\.\.n-1; got another for 1·2\.":
            (a[:, None] + a) % 3 + 9 * (a[:, None] * a == 2),
        r"table must be associative; got \(0·0\)·1 other than 0·\(0·1\)\.": (a[:, None] - a) % 3,
        r"table must have an identity; got no e": a.expand(3, 3),
        r"table must have inverses; got no b with a·b = b·a = e for a = 0\.": a[:, None] * a % 3,
        r"table must be a square of integers, not empty; got torch.int64 of shape \(2, 3\)\.":
            torch.zeros(2, 3).long(),
        r"not empty; got torch.float32 of shape \(2, 2\)\.": torch.zeros(2, 2),
        r"not empty; got torch.int64 of shape \(0, 0\)\.": torch.zeros(0, 0).long(),
    }
    for sentence, table in words.items():
        with pytest.raises(UsageError, match=f"FiniteGroup: .*{sentence}"):
            FiniteGroup(table.clone())
    group = FiniteGroup.cyclic(4)
    for bad in (4, -1, [0, 9]):
        with pytest.raises(UsageError, match=r"elements must be integers in 0\.\.3; got"):
            group.compose(0, bad)
    with pytest.raises(UsageError, match=r"H must be a subgroup; got \[0, 1\]\. subgroup\(H\)"):
        group.cosets([0, 1])
    with pytest.raises(UsageError, match=r"perms must be one permutation of 0\.\.2 a row; got"):
        FiniteGroup.from_permutations(torch.tensor([[0, 1, 1]]))
    swap, turn = [1, 0, 2, 3, 4, 5, 6, 7], [1, 2, 3, 4, 5, 6, 7, 0]
    with pytest.raises(UsageError, match="generators of a group of at most 2000 elements"):
        FiniteGroup.from_permutations(torch.tensor([swap, turn]))
    for make, bad, domain in (
        (FiniteGroup.cyclic, 0, r"\[1, inf\)"), (FiniteGroup.dihedral, 0, r"\[1, inf\)"),
        (FiniteGroup.symmetric, 7, r"\[1, 6\]"),
    ):
        with pytest.raises(UsageError, match=rf"n must be an integer in {domain}; got {bad}"):
            make(bad)


@pytest.fixture
def unchecked_types():
    """Let wrong types through to the component, as outside the tests."""
    config.update("jaxtyping_disable", True)
    yield
    config.update("jaxtyping_disable", False)


def test_numbers_that_are_not_whole_are_refused(unchecked_types):
    group = FiniteGroup.cyclic(4)
    for bad in (0.5, True, [0.0, 1.0], torch.tensor([True])):
        with pytest.raises(UsageError, match=r"elements must be integers in 0\.\.3; got"):
            group.compose(0, bad)
    for dtype in (torch.float64, torch.bool):
        with pytest.raises(UsageError, match="table must be a square of integers"):
            group_axioms(torch.zeros(2, 2, dtype=dtype))
