# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: percent
#   kernelspec:
#     display_name: Python 3
#     name: python3
# ---

# %% [markdown]
# # Where do two models disagree?
#
# A notebook as text: `pip install jupytext jupyterlab`, then open this file as a notebook, or
# `jupytext --to ipynb notebook.py`. It needs `models/` and `val/`, as onnx_pair.py makes them.

# %%
import matplotlib.pyplot as plt

import diffgen

result = diffgen.compare(
    "models/float.onnx", "models/int8.onnx", data="val/", budget="10000q", output="run", force=True
)
print(result.valid_triggers, "valid triggers,", result.behaviours, "behaviours:", result.run)

# %% [markdown]
# One picture of each of the first behaviours, what A and B say, and how it was made.

# %%
finds = diffgen.browse(result.run)
behaviours = finds.behaviours(finds.numbers(diffgen.TriggerQuery()))
figure, axes = plt.subplots(1, 6, figsize=(12, 2.5))
for axis in axes:
    axis.axis("off")
for axis, behaviour in zip(axes, behaviours, strict=False):
    picture = finds.find(behaviour.leading[0]).picture
    axis.imshow(picture.image[0], cmap="gray")
    axis.set_title("A {}, B {}".format(*(finds.class_names[label] for label in behaviour.labels)))
    print(picture.origin)
plt.show()
