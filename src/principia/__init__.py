"""Principia: deep learning you can check.

A whole deep-learning course as running code. It starts with the tools that every chapter computes
with (`mathematics`) and the threshold units that began it all (`connectionism`), fits one linear
layer (`regression`), stacks layers (`networks`), differentiates them (`gradients`), trains them
(`optimization`) and keeps them from memorizing (`regularization`). Then come the architectures:
images (`convolution`), sequences (`recurrence`, `attention`), words (`embeddings`) and graphs
(`geometry`); the theory: `kernels` and `generalization`; probability as a tool: `inference`,
`latent` variables, `generative` models and `energy` functions; and learning without labels
(`selfsupervised`) or against an adversary (`robustness`).

Importing this package loads nothing else; a component is imported from its chapter, as in
`from principia.connectionism import Perceptron`.
"""

__version__ = "0.1.0"
