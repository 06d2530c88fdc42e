r"""Groups: what it reaches on data."""

import itertools
from typing import Any

import torch
from plotly import graph_objects as go

from principia.lab import figures
from principia.lab.evidence import Plot
from principia.lab.params import Range
from principia.lab.runs import Run, experiment
from principia.mathematics.group import FiniteGroup, first_of, group_axioms

WRITTEN = 12  # elements up to which the cells of a table have room for names


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
        table = torch.where(same.any(dim=2), first_of(same), len(found))  # one not found is outside
        group = FiniteGroup.from_permutations(found)
        passed = not any(one is not None for one in group_axioms(table).values())
        named += passed and _isomorphic(group, expected)
        run.record(**{name: len(found)})
        run.figure(name, _colored(group))
    run.record(as_named=named)


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
    figure = figures.draw(Plot((), "b, first: where it sends 0, 1, ...", "a, then"))
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
