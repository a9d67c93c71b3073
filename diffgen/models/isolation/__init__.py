"""The second wall: a model lives in a process of its own that can only compute (docs/explanation/security.md).

``server`` is a fresh Python process that loads the libraries once and makes a child for each model by forking itself;
it never sees a model. A child puts up the wall (``wall``: Landlock, ``seccomp``, limits) and only then opens its file,
``with_torch`` or, of ONNX and TensorFlow Lite, without.
Batches and answers go through shared memory, messages about them through a socket (``channel``). ``process`` is the
child as the rest of diffgen sees it, ``model`` the black box on top of it.
"""
