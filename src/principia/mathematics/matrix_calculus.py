r"""Matrix calculus: derivatives of vectors, matrices and tensors, and what replaces them at kinks.

Every derivative is a table of partial derivatives; what differs from book to book is where its axes
stand. Here the axes of the result come first, the numerator layout, so that Jacobians multiply in
the order of the maps, and the gradient of a scalar has the shape of its variable. A formula of the
other layout is the transpose, and one that mixes the two is wrong even where all shapes fit: hence
the rules stand in one table, with the shapes that they need, and each is measured against automatic
differentiation. Tensors add nothing but indices: a contraction is a product of matrices after
reshaping, and the chain rule is a contraction. A convex function with a kink has no gradient there
but a set of them, and going against any member leads to the minimum if the steps shrink slowly.

$$ \Big(\frac{\partial f}{\partial x}\Big)_{ij} = \frac{\partial f_i}{\partial x_j}, \quad
J_{f\circ g\circ h} = J_fJ_gJ_h, \quad
\frac{\partial L}{\partial W_{kl}} = \sum_{ij}\frac{\partial L}{\partial y_{ij}}
\frac{\partial y_{ij}}{\partial W_{kl}}, \quad T_{ik} = \sum_jP_{ij}Q_{jk} $$

$$ \partial\,x^\top Ax = (A+A^\top)x, \quad \partial(uf) = uJ_f+f\,\nabla u^\top, \quad
\partial(f^\top Ag) = J_f^\top Ag+J_g^\top A^\top f $$

$$ \partial\,a^\top X^\top Xb = X(ab^\top+ba^\top), \quad
\partial\,\mathrm{Tr}(SX^{-1}) = -X^{-\top}S^\top X^{-\top}, \quad
\partial\log|\det X| = X^{-\top}, \quad
\frac{\partial(A_1BA_2)}{\partial X} = (A_1\otimes A_2^\top)\frac{\partial B}{\partial X} $$

$$ \partial f(x) = \{g: f(y)\ge f(x)+g^\top(y-x)\ \mathrm{for\ all}\ y\}, \quad
x_{t+1} = x_t-\eta_tg_t, \quad
\min_{t\le T}f(x_t)-f^* \le \frac{\Vert x_1-x^*\Vert^2+G^2\sum\eta_t^2}{2\sum\eta_t} $$

Symbols:
    $J_f$: `jacobian` of $f$ in numerator layout, (m, n) for $n$ inputs and $m$ outputs
    $\partial$: in the rules, derivative by the vector $x$ or by the matrix $X$, as in `RULES`
    $a, b, A, A_1, A_2, S; u, f, g, B$: constants; functions of the variable
    $L, y, W$: scalar, tensor between, and variable of `tensor_chain`; $i, j, k, l$ are indices
    $T, P, Q$: result and factors of `contract`, where $i, j, k$ stand for several axes each
    $\otimes$: Kronecker product, for matrices laid out row after row (row-major)
    $\partial f(x), g$: subdifferential and a subgradient, for `in_subdifferential`
    $\eta_t, g_t, f^*, x^*$: `step`, subgradient, minimum and minimizer for `subgradient_method`
    $G$: largest norm of a subgradient

References:
    Armijo (1966), Minimization of functions having Lipschitz continuous first partial derivatives.
        Pacific Journal of Mathematics 16(1). doi:10.2140/pjm.1966.16.1
    Rockafellar (1970), Convex analysis. Princeton University Press. doi:10.1515/9781400873173
    Dempster (1972), Covariance selection. Biometrics 28(1). doi:10.2307/2528966
    Shor (1985), Minimization methods for non-differentiable functions. Springer.
        doi:10.1007/978-3-642-82118-9
    Petersen and Pedersen (2012), The matrix cookbook. Technical University of Denmark.
    Parr and Howard (2018), The matrix calculus you need for deep learning. arXiv:1802.01528
    Magnus and Neudecker (2019), Matrix differential calculus with applications in statistics and
        econometrics. Wiley. doi:10.1002/9781119541219
"""

__all__ = [
    "jacobian", "Rule", "contract", "tensor_chain", "in_subdifferential", "subgradient_method",
]

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, final

import torch
from jaxtyping import Float, Shaped
from torch import Tensor
from torch.func import jacfwd, jacrev, vmap

from principia.lab.forward_mode import warm_up
from principia.lab.params import NonNegativeInt, PositiveInt, checked, knobs_of, usage_error

Function = Callable[[Tensor], Tensor]
Layout = Literal["numerator", "denominator"]


@checked
def jacobian(
    f: Function, x: Shaped[Tensor, "..."], layout: Layout = "numerator"
) -> Float[Tensor, "..."]:
    r"""Differentiates a function from one tensor to one, entry by entry.

    Forward or reverse mode is chosen by which takes fewer passes.

    Args:
        f: A function without state.
        x: Where.
        layout: Numerator gives the axes of the result, then those of `x`: (m, n) for vectors, and
            the gradient, of the shape of `x`, for a scalar. Denominator gives those of `x` first.

    Example:
        >>> A, x = torch.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]), torch.ones(3)
        >>> jacobian(lambda x: A @ x, x)
        tensor([[1., 2., 3.],
                [4., 5., 6.]])
        >>> jacobian(lambda x: A @ x, x, layout="denominator").shape
        torch.Size([3, 2])
    """
    if not x.is_floating_point():
        raise usage_error(
            "jacobian", "x", "a tensor of floats", x.dtype, "Convert it with x.double()."
        )
    y = f(x)
    warm_up()
    J: Any = (jacfwd if x.numel() < y.numel() else jacrev)(f)(x)
    if layout == "denominator":
        J = J.permute(*range(y.ndim, J.ndim), *range(y.ndim))
    return J


@final
@dataclass(frozen=True)
class Rule:
    r"""Describes a rule of differentiation: a row of the table `RULES`.

    Args:
        formula: The rule in LaTeX.
        shapes: What each argument is, the variable first: its axes, such as "A: m n"; "X: n*n" for
            an invertible matrix; "f: n -> m" for a function.
        function: What is differentiated, as a function of these arguments.
        derivative: Its derivative in closed form, of the same arguments, in numerator layout.

    Example:
        >>> rule = RULES["quadratic"]
        >>> x, A = torch.tensor([1.0, 2.0]), torch.tensor([[1.0, 1.0], [0.0, 1.0]])
        >>> rule.derivative(x, A), rule.autograd(x, A)
        (tensor([4., 5.]), tensor([4., 5.]))
        >>> [name for name, rule in RULES.items() if "det" in rule.formula]
        ['log_determinant']
    """

    formula: str
    shapes: str
    function: Callable[..., Tensor]
    derivative: Callable[..., Tensor]

    def __post_init__(self) -> None:
        for knob in knobs_of(type(self).__init__).values():
            knob.accept("Rule", getattr(self, knob.name))

    def autograd(self, variable: Tensor, *constants: Any) -> Tensor:
        """Differentiate the function automatically instead."""
        return jacobian(lambda at: self.function(at, *constants), variable)


SCALAR_RULES: Mapping[str, Rule] = {  # a scalar by a vector
    "linear": Rule(
        r"\partial\,a^\top x=a", "x: n; a: n", lambda x, a: a @ x, lambda x, a: a),
    "square": Rule(r"\partial\,x^\top x=2x", "x: n", lambda x: x @ x, lambda x: 2 * x),
    "bilinear": Rule(r"\partial\,b^\top Ax=A^\top b", "x: n; A: m n; b: m",
        lambda x, A, b: b @ A @ x, lambda x, A, b: A.mT @ b),
    "quadratic": Rule(r"\partial\,x^\top Ax=(A+A^\top)x", "x: n; A: n n",
        lambda x, A: x @ A @ x, lambda x, A: (A + A.mT) @ x),
    "affine": Rule(r"\partial(Ax+b)^\top C(Dx+e)=D^\top C^\top(Ax+b)+A^\top C(Dx+e)",
        "x: n; A: m n; b: m; C: m k; D: k n; e: k",
        lambda x, A, b, C, D, e: (A @ x + b) @ C @ (D @ x + e),
        lambda x, A, b, C, D, e: D.mT @ C.mT @ (A @ x + b) + A.mT @ C @ (D @ x + e)),
    "distance": Rule(r"\partial\Vert x-b\Vert=\frac{x-b}{\Vert x-b\Vert}", "x: n; b: n",
        lambda x, b: (x - b).norm(), lambda x, b: (x - b) / (x - b).norm()),
    "squared_norm": Rule(r"\partial\Vert f\Vert^2=2J_f^\top f", "x: n; f: n -> m",
        lambda x, f: f(x) @ f(x), lambda x, f: 2 * jacobian(f, x).mT @ f(x)),
    "inner_product": Rule(r"\partial(f^\top Ag)=J_f^\top Ag+J_g^\top A^\top f",
        "x: n; A: m k; f: n -> m; g: n -> k", lambda x, A, f, g: f(x) @ A @ g(x),
        lambda x, A, f, g: jacobian(f, x).mT @ A @ g(x) + jacobian(g, x).mT @ A.mT @ f(x)),
    "relu": Rule(r"\partial(b^\top x)_+=1\{b^\top x>0\}\,b", "x: n; b: n",
        lambda x, b: (b @ x).relu(), lambda x, b: (b @ x > 0) * b),
    "max": Rule(r"\partial\max(x)=e_{\mathrm{argmax}}", "x: n",
        lambda x: x.max(), lambda x: (torch.arange(len(x)) == x.argmax()).to(x)),
}
VECTOR_RULES: Mapping[str, Rule] = {  # a vector by a vector
    "product": Rule(r"\partial(uf)=uJ_f+f\,\nabla u^\top", "x: n; u: n ->; f: n -> m",
        lambda x, u, f: u(x) * f(x),
        lambda x, u, f: u(x) * jacobian(f, x) + torch.outer(f(x), jacobian(u, x))),
    "entrywise": Rule(r"\partial(x\odot a)=\mathrm{diag}\,a", "x: n; a: n",
        lambda x, a: x * a, lambda x, a: a.diag()),
    "matrix": Rule(r"\partial Ax=A", "x: n; A: m n", lambda x, A: A @ x, lambda x, A: A),
    "row_vector": Rule(r"\partial\,x^\top A=A^\top", "x: n; A: n m",
        lambda x, A: x @ A, lambda x, A: A.mT),
    "matrix_of_function": Rule(r"\partial(Af)=AJ_f", "x: n; A: k m; f: n -> m",
        lambda x, A, f: A @ f(x), lambda x, A, f: A @ jacobian(f, x)),
}
MATRIX_RULES: Mapping[str, Rule] = {  # a scalar by a matrix
    "matrix_bilinear": Rule(r"\partial\,a^\top Xb=ab^\top", "X: m n; a: m; b: n",
        lambda X, a, b: a @ X @ b, lambda X, a, b: torch.outer(a, b)),
    "transposed": Rule(r"\partial\,a^\top X^\top b=ba^\top", "X: m n; a: n; b: m",
        lambda X, a, b: a @ X.mT @ b, lambda X, a, b: torch.outer(b, a)),
    "gram": Rule(r"\partial\,a^\top X^\top Xb=X(ab^\top+ba^\top)", "X: m n; a: n; b: n",
        lambda X, a, b: (X @ a) @ (X @ b),
        lambda X, a, b: X @ (torch.outer(a, b) + torch.outer(b, a))),
    "quadratic_by_matrix": Rule(r"\partial\,x^\top Ax/\partial A=xx^\top", "A: n n; x: n",
        lambda A, x: x @ A @ x, lambda A, x: torch.outer(x, x)),
    "trace_product": Rule(
        r"\partial\,\mathrm{Tr}(AXB)=A^\top B^\top", "X: m n; A: k m; B: n k",
        lambda X, A, B: (A @ X @ B).trace(), lambda X, A, B: A.mT @ B.mT),
    "trace_transposed": Rule(r"\partial\,\mathrm{Tr}(AX^\top B)=BA", "X: m n; A: k n; B: m k",
        lambda X, A, B: (A @ X.mT @ B).trace(), lambda X, A, B: B @ A),
    "trace_inner": Rule(r"\partial\,\mathrm{Tr}(X^\top A)=A", "X: m n; A: m n",
        lambda X, A: (X.mT @ A).trace(), lambda X, A: A),
    "trace_square": Rule(r"\partial\,\mathrm{Tr}(XX^\top)=2X", "X: m n",
        lambda X: (X @ X.mT).trace(), lambda X: 2 * X),
    "trace_inverse": Rule(r"\partial\,\mathrm{Tr}(SX^{-1})=-X^{-\top}S^\top X^{-\top}",
        "X: n*n; S: n n", lambda X, S: torch.linalg.solve(X, S, left=False).trace(),
        lambda X, S: -X.inverse().mT @ S.mT @ X.inverse().mT),
    "log_determinant": Rule(r"\partial\log|\det X|=X^{-\top}", "X: n*n",
        lambda X: torch.linalg.slogdet(X).logabsdet, lambda X: X.inverse().mT),
    "weights": Rule(r"\partial\,w^\top Vx/\partial V=w\,x^\top", "V: m n; w: m; x: n",
        lambda V, w, x: w @ (V @ x), lambda V, w, x: torch.kron(w, x).reshape(V.shape)),
}
RULES: Mapping[str, Rule] = {
    **SCALAR_RULES, **VECTOR_RULES, **MATRIX_RULES,
    "vector_by_matrix": Rule(
        r"\partial(Xa)_i/\partial X_{kl}=\delta_{ik}a_l", "X: m n; a: n", lambda X, a: X @ a,
        lambda X, a: torch.einsum("ik,l->ikl", torch.eye(len(X)).to(X), a)),
    "sandwich": Rule(
        r"\partial(A_1BA_2)/\partial X=(A_1\otimes A_2^\top)\,\partial B/\partial X",
        "X: p q; A1: k m; A2: n k; B: p q -> m n", lambda X, A1, A2, B: A1 @ B(X) @ A2,
        lambda X, A1, A2, B: (
            torch.kron(A1, A2.mT.contiguous()) @ jacobian(B, X).flatten(2).flatten(0, 1)
        ).reshape(len(A1), A2.shape[1], *X.shape)),  # rows of matrices, one after the other
}


@checked
def contract(
    P: Shaped[Tensor, "..."], Q: Shaped[Tensor, "..."], axes: NonNegativeInt
) -> Shaped[Tensor, "..."]:
    r"""Sums the product of two tensors over the last axes of one and the first of the other.

    $T_{i,k}=\sum_jP_{i,j}Q_{j,k}$, each index standing for several axes: a product of matrices
    after reshaping, by `torch.tensordot`.

    Args:
        P: Axes i, then j.
        Q: Axes j, then k.
        axes: How many axes j has; 0 gives the outer product.

    Example:
        >>> contract(torch.ones(2, 3, 4), torch.ones(3, 4, 5), axes=2).shape
        torch.Size([2, 5])
    """
    if axes > min(P.ndim, Q.ndim):
        raise usage_error("contract", "axes", f"at most {min(P.ndim, Q.ndim)}, as both have", axes)
    left, right = tuple(P.shape[P.ndim - axes:]), tuple(Q.shape[:axes])
    if left != right:
        domain = f"{right}, like the first of Q"
        hint = "Bring the axes into one order with permute."
        raise usage_error("contract", f"the last {axes} axes of P", domain, left, hint)
    return torch.tensordot(P, Q, dims=axes)


def tensor_chain(
    dL_dy: Float[Tensor, "..."], dy_dW: Float[Tensor, "..."]
) -> Float[Tensor, "..."]:
    r"""Pulls the gradient of a scalar back through a map of tensors, $W\mapsto y\mapsto L$.

    Args:
        dL_dy: Gradient by y, of the shape of y.
        dy_dW: Jacobian in numerator layout: the axes of y, then those of W.

    Example:
        >>> W, X = torch.ones(2, 3), torch.ones(3, 4)
        >>> tensor_chain(torch.ones(2, 4), jacobian(lambda W: W @ X, W))
        tensor([[4., 4., 4.],
                [4., 4., 4.]])
    """
    y = tuple(dL_dy.shape)
    if tuple(dy_dW.shape[: len(y)]) != y:
        hint = 'In denominator layout they come last; pass jacobian(..., layout="numerator").'
        domain = f"in numerator layout, with the axes {y} of y first"
        raise usage_error("tensor_chain", "dy_dW", domain, tuple(dy_dW.shape), hint)
    return contract(dL_dy, dy_dW, axes=len(y))


def in_subdifferential(
    f: Function, x: Float[Tensor, " n"], g: Float[Tensor, "*G n"], points: Float[Tensor, "P n"]
) -> Float[Tensor, "*G"]:
    r"""Measures by how much the plane through $(x,f(x))$ with slope g rises above f at any point.

    At most 0 says that no point refutes g as a subgradient at x.

    Args:
        f: A function of one vector, convex or not.
        x: Where the plane touches.
        g: One slope, or several.
        points: Where to compare, near x and far; rows.

    Example:
        >>> slopes, points = torch.tensor([[-1.0], [0.5], [1.5]]), torch.tensor([[-2.0], [2.0]])
        >>> in_subdifferential(lambda x: x.abs().sum(), torch.zeros(1), slopes, points)
        tensor([ 0., -1.,  1.])
    """
    planes = f(x) + g @ (points - x).mT  # (*G, P)
    return (planes - vmap(f)(points)).amax(dim=-1)


@checked
def subgradient_method(
    f: Function, x0: Float[Tensor, "*B n"], step: Callable[[int], float], steps: PositiveInt
) -> Float[Tensor, " T *B"]:
    r"""Minimizes a convex function by steps against subgradients; gives the best value so far.

    A step may lead up, so that the last value says little. Subgradients are autograd's.

    Args:
        f: A function of the last axis, for all starts at once.
        x0: One start or several.
        step: Size of step 1, 2, ...; where it shrinks like $1/\sqrt t$ the minimum is reached.
        steps: How many.

    Returns:
        The lowest value after 0, 1, ..., `steps` steps, for each start.

    Example:
        >>> subgradient_method(lambda x: x.abs().sum(-1), torch.tensor([2.0]), lambda t: 1 / t, 3)
        tensor([2.0000, 1.0000, 0.5000, 0.1667])
    """
    x, values = x0.detach(), []
    for t in range(1, steps + 1):
        x.requires_grad_()
        values.append(f(x))
        (g,) = torch.autograd.grad(values[-1].sum(), x)
        x = x.detach() - step(t) * g
    return torch.stack([*values, f(x)]).detach().cummin(dim=0).values
