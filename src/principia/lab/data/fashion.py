"""Fashion-MNIST: 70,000 pictures of clothes in ten classes, in the format of MNIST."""

from pathlib import Path

from torch import Tensor

from principia.lab.data.files import Remote
from principia.lab.data.idx import Split, read_pictures

__all__ = ["CLOTHES", "fashion"]

CLOTHES = (
    "T-shirt", "trouser", "pullover", "dress", "coat", "sandal", "shirt", "sneaker", "bag", "boot",
)
# the authors' repository; the bucket that their page names has no https
HOME = "https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion"
FILES = {
    name: Remote(f"{HOME}/{name}", size, sha256)
    for name, size, sha256 in (
        ("train-images-idx3-ubyte.gz", 26421880,
         "3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84"),
        ("train-labels-idx1-ubyte.gz", 29515,
         "a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845"),
        ("t10k-images-idx3-ubyte.gz", 4422102,
         "346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073"),
        ("t10k-labels-idx1-ubyte.gz", 5148,
         "67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5"),
    )
}


def fashion(split: Split, *, data_dir: Path | None = None) -> tuple[Tensor, Tensor]:
    """Load Fashion-MNIST: pictures (N, 28, 28) in [0, 1] and labels (N,)."""
    return read_pictures("fashion-mnist", split, FILES, data_dir)
