"""Convolution: maps that commute with shifts, and the networks built from them.

First the operation, its Fourier form and its matrix (`convolve`), then the layer with channels,
strides and pooling (`layer`) and how far one of its units sees (`receptive_field`). Then the
networks in the order of history: one that read checks (`lenet`), one that won by its width
(`alexnet`), stacks of small kernels (`vgg`), kernels of all sizes side by side (`inception`), sums
that let gradients pass (`resnet`), concatenations that keep every feature (`densenet`), and a way
down and up again for an answer at every pixel (`unet`). In one dimension they hear (`wavenet`) and
read (`text_cnn`).
"""

from principia.lab.course.catalog import lazy_exports

__getattr__, __dir__ = lazy_exports(__name__)
