r"""Counting dichotomies: how many labelings of s points one threshold unit can realize.

Of the $2^s$ ways to label $s$ points of $\mathbb R^n$ a hyperplane through 0 realizes exactly
$C(s,n)$, wherever the points are, as long as they are in general position. Up to $s=n$ that is all
of them, at $s=2n$ half of them, and beyond, though the number keeps growing, a vanishing share: a
unit with $n$ weights has room for $2n$ random labels. Every labeling is a cell of the arrangement
of the hyperplanes $x_i\cdot w=0$ in the space of the weights, and a new point splits as many cells
as its own hyperplane has: the recursion is the proof, and here also the way to find them all.

$$ C(s,n) = 2\sum_{i=0}^{n-1}\binom{s-1}{i}, \quad C(s+1,n) = C(s,n) + C(s,n-1) $$

$$ \frac{C(s,n)}{2^s} = P\big(\mathrm{Bin}(s-1,\tfrac12)\le n-1\big) $$

$$ c(\alpha) = \alpha\,\mathrm{KL}\big(\tfrac1\alpha\,\Vert\,\tfrac12\big)
   = \ln\tfrac{\alpha}{2} + \ldots $$

Symbols:
    $s, n$: number of points and dimension, `X` of shape (s, n)
    $C(s,n)$: number of dichotomies, `cover_count`; a bias makes it $C(s,n+1)$
    $w$: weights; those of one labeling form a cell
    $c(\alpha)$: rate at which the smaller share decays with $n$ when $s=\alpha n$

References:
    Cover (1965), Geometrical and statistical properties of systems of linear inequalities with
        applications in pattern recognition. IEEE Transactions on Electronic Computers EC-14(3).
        doi:10.1109/PGEC.1965.264137
    Zaslavsky (1975), Facing up to arrangements: face-count formulas for partitions of space by
        hyperplanes. Memoirs of the AMS 154. doi:10.1090/memo/0154
    Gordan (1873), Über die Auflösung linearer Gleichungen mit reellen Coefficienten. Mathematische
        Annalen 6. doi:10.1007/BF01442864
"""
