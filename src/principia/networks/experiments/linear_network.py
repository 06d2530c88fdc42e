r"""Linear networks: what it reaches on data."""

from typing import Annotated

import torch
from torch.nn import functional

from principia.lab import figures
from principia.lab.data.handwriting import handwriting
from principia.lab.evidence import Plot, Series
from principia.lab.params import Range
from principia.lab.runs import Run, at_most_goal, experiment
from principia.lab.training import OneCycle, Reconstruction, fit, outputs_of
from principia.networks.claims.linear_network import weights_of
from principia.networks.linear_network import LinearNetwork, autoencoder_from_svd, principal_angles


@experiment(
    reaches={"test_error_over_pca": at_most_goal(1.02), "error_over_pca": at_most_goal(1.02)},
    floor={"test_error_over_pca": at_most_goal(1.03), "error_over_pca": at_most_goal(1.03)},
    source="Bourlard and Kamp 1988: the optimum is that of principal component analysis",
)
def pca_by_gradient(run: Run, *, epochs: Annotated[int, Range(1, 200)] = 10) -> None:
    """Learns principal components by gradient steps: MNIST, or 8 x 8 digits when quick."""
    parts = handwriting(run)
    side, hidden = parts[0].shape[1], 32 if run.full else 8
    mean = parts[0].flatten(1).mean(dim=0)
    x, x_test = (part.flatten(1) - mean for part in parts[::2])
    net = LinearNetwork((side**2, hidden, side**2), rng=run.seed.child("init").torch())
    trained = fit(
        net, (x,), Reconstruction(functional.mse_loss),
        torch.optim.Adam(net.parameters(), lr=1e-3), epochs=epochs if run.full else 12 * epochs,
        batch_size=256 if run.full else 64, callbacks=[OneCycle(1e-2)], validation=(x_test,),
        seed=run.seed.child("fit"), run=run, name="autoencoder",
    )
    run.keep(net.cpu())
    best = autoencoder_from_svd(x, hidden)
    errors = (functional.mse_loss(outputs_of(model, one), one)
              for one in (x, x_test) for model in (net, best))
    error, pca, test_error, test_pca = map(float, errors)
    run.record(error_over_pca=error / pca, test_error_over_pca=test_error / test_pca)
    run.record(test_error=test_error, test_error_of_pca=test_pca)
    learned, components = weights_of(net)[1], weights_of(best)[1]
    run.record(largest_angle=float(principal_angles(learned, components)[0]))
    curve = [row["validation_loss"] for row in trained.history]
    falling = Series("autoencoder", range(1, len(curve) + 1), curve, style="line")
    line = Series("principal components", [1, len(curve)], [test_pca] * 2, "bound")
    run.figure("loss", figures.draw(Plot((falling, line), "epoch", "test error", "y")))
    inside = torch.linalg.qr(learned).Q
    rows = {"learned": learned, "component": components, "in span": inside @ inside.mT @ components}
    shown = [one[:, k].reshape(side, side) for one in rows.values() for k in range(8)]
    titles = [f"{name} {k}" for name in rows for k in range(1, 9)]
    run.figure("directions", figures.images(shown, titles, columns=8, signed=True))
