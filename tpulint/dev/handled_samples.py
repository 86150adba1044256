"""Samples of what the runtime handles: bodies of `forward`, by the names of `tpulint.knowledge.handled`.

`test_handled.py` of the runtime's tests runs each with the runtime, and compares the result with torch's.
`tests/rules/test_handled.py` checks that rules report each without the runtime.
"""

from __future__ import annotations

import textwrap

from tpulint.knowledge.cuda_api import TENSOR_DTYPES
from tpulint.knowledge.handled import HANDLED
from tpulint.knowledge.runtime import PACKAGE
from tpulint.knowledge.views import LOST_ON_SLICES, NO_LOWERING

_PROGRAM = """\
import copy
import functools
import logging
import math
import random

import numpy as np
import torch
import torch.nn.functional as F
import torchax
from torch import nn
{runtime}
STORE = {{}}
STEPS = []
TOTAL = 0


@functools.lru_cache(None)
def table(size: int, device):
    return torch.arange(float(size), device=device) * 2


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)
        self.count = 0
        self.seen = []
        self.kept = {{}}
        self.register_buffer("average", torch.zeros(4))

{decorator}\
    def forward(self, x: torch.Tensor, y: torch.Tensor, mask: torch.BoolTensor, index: torch.LongTensor):
{body}


def main():
    torchax.enable_globally()
    model = Model().to("jax")
    one = torch.randn(3, 4, device="jax")
    result = model(one, one, one > 0, torch.ones(3, dtype=torch.int32, device="jax"))
    {end}


if __name__ == "__main__":
    main()
"""


def program(body: str, *, runtime: bool, gradients: bool = False, jitted: bool = False) -> str:
    """A program whose model has a sample as its `forward`, with or without the runtime and gradients."""
    return _PROGRAM.format(
        body=textwrap.indent(body, " " * 8),
        runtime=f"\nimport {PACKAGE}\n" if runtime else "",
        decorator="    @torchax.interop.jax_jit\n" if jitted else "",
        end="result.sum().backward()\n    model.zero_grad()" if gradients else "print(result)",
    )


_NUMBER = "index[0].clamp(1, 1)"
_INTEGER_ARGUMENTS = {
    "adaptive_avg_pool1d": "F.adaptive_avg_pool1d(x[None], {n})",
    "adaptive_avg_pool2d": "F.adaptive_avg_pool2d(x[None], ({n}, {n}))",
    "broadcast_to": "torch.broadcast_to(x, ({n}, 3, 4))",
    "chunk": "x.chunk({n} + 1, 1)",
    "cumsum": "x.cumsum({n})",
    "diagonal": "x.diagonal({n})",
    "dropout": "F.dropout(x, {n} * 0.0)",
    "expand": "x[None].expand({n} + 1, -1, -1)",
    "full_like": "torch.full_like(x, x.sum())",
    "interpolate": "F.interpolate(x[None], size={n} + 5)",
    "kthvalue": "x.kthvalue({n} + 1, 1)[0]",
    "layer_norm": "F.layer_norm(x, (4,), eps=x.abs().sum())",
    "leaky_relu": "F.leaky_relu(x, y.sum())",
    "multinomial": "torch.multinomial(y, {n} + 1).shape",
    "narrow": "x.narrow(1, {n}, 2)",
    "new_empty": "x.new_empty({n} + 1).shape",
    "new_full": "x.new_full((2, 2), x.sum())",
    "new_ones": "x.new_ones({n} + 1)",
    "new_zeros": "x.new_zeros({n} + 1, 2)",
    "one_hot": "F.one_hot(index, {n} + 5)",
    "pad": "F.pad(x, ({n}, 0))",
    "permute": "x.permute({n}, 0)",
    "repeat": "x.repeat({n} + 1, 1)",
    "reshape": "x.reshape({n} + 1, 6)",
    "roll": "x.roll({n}, 1)",
    "rot90": "x.rot90({n})",
    "select": "x.select(1, {n})",
    "split": "x.split({n} + 1, 1)",
    "split_with_sizes": "x.split_with_sizes(({n}, 3), 1)",
    "tile": "x.tile({n} + 1)",
    "topk": "x.topk({n} + 1)[0]",
    "tril": "x.tril({n})",
    "triu": "x.triu({n})",
    "unflatten": "x.unflatten(1, ({n} + 1, 2))",
    "unfold": "x.unfold(1, {n} + 1, 1)",
    "unsqueeze": "x.unsqueeze({n})",
    "view": "x.view({n} + 1, 6)",
}
#: The arguments of in-place methods that have any.
_ARGUMENTS = {
    "addcdiv_": "y, y",
    "addcmul_": "y, y",
    "addmm_": "torch.ones(3, 5, device=x.device), torch.ones(5, 4, device=x.device)",
    "addr_": "y[:, 0], y[0]",
    "clamp_max_": "0.5",
    "cumprod_": "0",
    "cumsum_": "0",
    "fill_": "2.0",
    "fmod_": "2.0",
    "index_add_": "0, torch.arange(3, device=x.device), y",
    "index_copy_": "0, torch.arange(3, device=x.device), y",
    "index_fill_": "0, torch.arange(2, device=x.device), 2.0",
    "lerp_": "y, 0.5",
    "masked_fill_": "mask, 2.0",
    "put_": "index, y[0, :3].clone()",
    "renorm_": "2, 0, 1.0",
    **dict.fromkeys(
        (
            *("arctan2_", "atan2_", "copysign_", "heaviside_", "hypot_", "logical_and_", "logical_or_"),
            *("logical_xor_", "nextafter_", "xlogy_"),
        ),
        "y",
    ),
}


def _domain(method: str) -> str:
    return "x = x.abs() + 1.1" if method in ("acosh_", "arccosh_") else "x = x.sigmoid() * 0.8 + 0.1"


_BOTH = "both = torch.stack([x, x])"
_METHODS = {
    **{name: f"{_domain(name)}\nreturn x.{name}({_ARGUMENTS.get(name, '')})" for name in NO_LOWERING},
    **{
        name: f"{_domain(name)}\n{_BOTH}\npart = both[0].{name}({_ARGUMENTS.get(name, '')})\n"
        "return both, part"
        for name in LOST_ON_SLICES
    },
    "copy_": "z = torch.zeros(4, device=x.device)\nw = z.copy_(x[0])\nreturn z, w",
    "resize_": "z = x * 1\nz.resize_(2, 2)\nreturn z",
    "type_as": "return (x * 1).type_as(index[1:])",
}
_KEYWORDS = {
    "torch.corrcoef": "torch.corrcoef(input=x)",
    "torch.linalg.det": "torch.linalg.det(A=x[:3, :3])",
    "torch.linalg.slogdet": "torch.linalg.slogdet(A=x[:3, :3])",
    "torch.linalg.solve": "torch.linalg.solve(B=y, A=x[:3, :3])",
    "torch.linalg.svd": "torch.linalg.svd(A=x)[1]",
    "torch.nn.functional.linear": "F.linear(weight=y, input=x)",
    "torch.svd": "torch.svd(input=x)[1]",
}
#: Draws that go on where those of the same generator ended.
_GENERATOR = "g = torch.Generator().manual_seed(3)\n"
_TWICE = {
    **{
        name: f"torch.{name}({sizes}, generator=g, device=x.device)"
        for name, sizes in (
            ("rand", "3, 9"),
            ("randint", "99, (3, 9)"),
            ("randn", "3, 9"),
            ("randperm", "30"),
        )
    },
    "bernoulli": "torch.bernoulli(torch.full_like(x.repeat(9, 9), 0.5), generator=g)",
    "bernoulli_": "x.repeat(9, 9).bernoulli_(0.5, generator=g)",
    "multinomial": "torch.multinomial(y.repeat(1, 9), 9, generator=g)",
    "normal": "torch.normal(x, y, generator=g)",
    "normal_": "torch.empty_like(x).normal_(generator=g)",
    "uniform_": "torch.empty_like(x).uniform_(generator=g)",
}
_CONVOLUTION = (
    "z = x.sum() * torch.ones({ones}, device=x.device).cumsum(-1)\n"
    "weight = torch.ones({weight}, device=x.device).cumsum(0).cumsum(1).cumsum(-1)\n"
    "return F.conv_transpose{n}d(z, weight, groups=2, stride=2, padding=1)"
)
_LAYER = (
    "torch.manual_seed(1)\n"
    "layer = nn.ConvTranspose{n}d(4, 6, 3, groups=2).to(x.device)\n"
    "return layer(x.sum() * torch.ones({ones}, device=x.device).cumsum(1))"
)
_SIZES = {n: ", ".join(["5"] * n) for n in (1, 2, 3)}
_VIEWS = (
    *("view(-1)", "reshape(2, 6)", "flatten()", "ravel()", "unflatten(1, (2, 2))", "t()", "transpose(0, 1)"),
    *("permute(1, 0)", "movedim(0, 1)", "unsqueeze(0)", "squeeze()", "adjoint()", "detach()", "diagonal()"),
    *("narrow(0, 0, 2)", "select(0, 1)", "unfold(0, 2, 2)", "as_strided((2, 2), (4, 1))", "chunk(3)[0]"),
    *("split(1)[1]", "split_with_sizes((1, 2))[1]", "tensor_split(3)[1]", "unbind()[0]", "hsplit(2)[0]"),
    *("vsplit(3)[0]", "T", "mT", "H", "mH", "real", "view_as(torch.zeros(2, 6, device=x.device))"),
    *("reshape_as(torch.zeros(2, 6, device=x.device))", "swapaxes(0, 1)", "swapdims(0, 1)", "moveaxis(0, 1)"),
)
_WRITES = ("v.mul_(2)", "v[...] = 3.0", "v += 1", "v.exp_()", "v.zero_()")

SAMPLES: dict[str, dict[str, str]] = {
    "values of tensors in Python code": {
        "if": "if x.sum() > 0:\n    return self.layer(x)\nreturn x",
        "while": "while x.abs().max() > 1:\n    x = x / 2\nreturn x",
        "conditional expression": "return self.layer(x) if x.sum() > 0 else x",
        "comprehension": "return torch.stack([row for row in x if row.sum() > -99])",
        "and": "z = x.sum() > 0 and x.max() > 1\nreturn x * 2 if z else x",
        "or": "z = x.sum() > 0 or x.max()\nreturn z",
        "item": "return x * x.sum().item()",
        "item that is returned": "return x.sum().item()",
        "tolist": "return [2 * number for number in index.tolist()]",
        "float": "return x * float(x.sum())",
        "int": "return x[:, : int(index[0])]",
        "bool": "return x * bool(mask[0, 0])",
        "math": "return x * math.exp(y[0, 0]), math.floor(y[0, 0]), math.isnan(y[0, 0])",
        "max": "return max(x[0, 0], x[0, 1]), min(x[0, 0], x[0, 1])",
        "sorted": "return sorted(index)",
        "any": "return x * 2 if any(mask[0]) else x",
        "all": "return x * 2 if all(mask[0]) else x",
        "equal": "return x * 2 if torch.equal(x, y) else x",
        "is_nonzero": "return x * 2 if mask[0, 0].is_nonzero() else x",
        "allclose": "return x * 2 if torch.allclose(x, y) else x",
        "assert": "if self.count == 0:\n    assert y.sum() > 0\nreturn x",
        "cpu": "return x.cpu() * 2",
        "numpy": "return x * float(np.sqrt(y.detach().cpu().numpy()).sum())",
        "array": "return torch.from_numpy(np.abs(x.detach().cpu().numpy())).to(x.device)",
        "function of NumPy": "return torch.as_tensor(np.sqrt(y.detach().cpu())).to(x.device) + x",
        "to": "return x.to('cpu') + 1",
        "type": "return x.type(torch.FloatTensor) + 1",
        "range": "for number in range(index[0]):\n    x = x + number\nreturn x",
        "slice": "return x[:, : index[0]]",
        "list": "rows = [x[0], x[1], x[2], y[0]]\nreturn rows[index[0]]",
        "size": "return torch.zeros(index[0], 2, device=x.device)",
        "range of a tensor": "return torch.arange(index.max(), device=x.device)",
    },
    "tensors as integer arguments": {
        name: f"return {code.format(n=_NUMBER)}" for name, code in _INTEGER_ARGUMENTS.items()
    },
    "checks by `torch._assert`": {"torch._assert": "_ = torch._assert(y.sum() > 0, 'negative')\nreturn x"},
    "output shapes that depend on values": {
        "mask": "return x[mask]",
        "sum of a mask": "return x[mask].sum(), x[mask].exp()",
        "nonzero": "return mask.nonzero()",
        "masked_select": "return torch.masked_select(x, mask)",
        "unique": "return torch.unique(index)",
        "unique_consecutive": "return torch.unique_consecutive(index)",
        "where": "return torch.where(mask)[0]",
        "argwhere": "return torch.argwhere(mask)",
        "bincount": "return torch.bincount(index)",
        "repeat_interleave": "return x.repeat_interleave(index, dim=0)",
        "one_hot": "return F.one_hot(index)",
        "combinations": "return torch.combinations(x[0])",
    },
    "CPU tensors in traced code": {
        "zeros": "z = torch.zeros(3, 4)\nreturn x + z",
        "arange": "z = torch.arange(4)\nreturn x * z",
        "tensor": "z = torch.tensor([1.0, 2.0, 3.0, 4.0])\nreturn x * z",
        "written": "z = torch.zeros(3, 4)\nz[:, 0] = x[:, 0]\nreturn z",
        "one of two": "z = torch.zeros(4) if self.training else torch.ones(4)\nz[0] = x[0, 0]\nreturn z",
    },
    "printed and logged tensors": {
        "print": "print(x.sum())\nreturn x",
        "text": "print(f'{x.sum()}')\nreturn x",
        "logging.info": "logging.info('%s', x.sum())\nreturn x",
    },
    "state that traced code writes": {
        "attribute that is set once": (
            "if getattr(self, 'last', None) is None:\n    self.last = x * 2\nreturn self.last + x"
        ),
        "counter": "self.count += 1\nreturn x * self.count",
        "global": "global TOTAL\nTOTAL += 1\nreturn x * TOTAL",
        "list": "self.seen.append(x.mean(0))\nreturn torch.stack(self.seen).sum(0)",
        "global list": "STEPS.append(x.mean(0))\nreturn torch.stack(STEPS).sum(0)",
        "dictionary": "self.kept['x'] = x * 2\nreturn self.kept['x'] + 1",
        "global dictionary": "if 'y' not in STORE:\n    STORE['y'] = x * 2\nreturn STORE['y'] + x",
        "cache": "return x * table(4, x.device)",
        "buffer": "self.average = self.average * 0.9 + x.mean(0)\nreturn x + self.average",
        "sum in a buffer": "self.average += x.mean(0)\nreturn x + self.average",
        "item of a buffer": "self.average[0] = x[0, 0]\nreturn x + self.average",
        "method of a buffer": "self.average.mul_(0.9).add_(x.mean(0))\nreturn x + self.average",
        "buffer that is registered": (
            "self.register_buffer('average', self.average * 0.9 + x.mean(0))\nreturn x + self.average"
        ),
    },
    "in-place methods": {name: _METHODS[name] for name in sorted(HANDLED["in-place methods"].operators)},
    "views with another dtype": {
        name: f"return x.view({name}).view(torch.float32)"
        for name in sorted(HANDLED["views with another dtype"].operators)
    },
    "keyword arguments as in PyTorch": {name: f"return {code}" for name, code in _KEYWORDS.items()},
    "transposed convolutions": {
        **{
            f"torch.nn.functional.conv_transpose{n}d": _CONVOLUTION.format(
                n=n, ones=f"1, 4, {sizes}", weight=f"4, 3, {sizes.replace('5', '3')}"
            )
            for n, sizes in _SIZES.items()
        },
        **{
            f"torch.nn.ConvTranspose{n}d": _LAYER.format(n=n, ones=f"1, 4, {sizes}")
            for n, sizes in _SIZES.items()
        },
    },
    "automatic mixed precision": {
        "torch.autocast": (
            "with torch.autocast(x.device.type, dtype=torch.bfloat16):\n    z = self.layer(x)\n"
            "return z.dtype == torch.bfloat16"
        )
    },
    "inference mode": {
        "torch.inference_mode": (
            "with torch.inference_mode():\n    z = F.layer_norm(self.layer(x), (4,)).square()\n"
            "return z, torch.is_grad_enabled()"
        )
    },
    "CUDA tensor types": {
        f"torch.cuda.{name}": (
            f"kind = 'torch.cuda.{name}'\n"
            f"return y.type(kind) if y.device.type == 'jax' else y.to(torch.{dtype})"
        )
        for name, dtype in TENSOR_DTYPES.items()
    },
    "integers beyond 32 bits beside floats": {
        "masked_fill": "return x.float().masked_fill(mask, -10000000000)",
        "sum": "return x.float() + 3000000000",
    },
    "writes through views": {
        **{view: f"z = x * 1\nv = z.{view}\n{write}\nreturn z" for view in _VIEWS for write in _WRITES[:1]},
        **{write: f"z = x * 1\nv = z.view(-1)\n{write}\nreturn z" for write in _WRITES[1:]},
        "loop": "z = x * 1\nfor row in z:\n    row.mul_(2)\nreturn z",
    },
    "writes through `detach()`": {"detach": "z = x * 1\nz.detach().mul_(2)\nreturn z"},
    "addresses of tensors": {
        "data_ptr": "return x.data_ptr() == y.data_ptr(), x[:1].data_ptr() == x.data_ptr()",
        "untyped_storage": (
            "return x[1].untyped_storage().data_ptr() == x.untyped_storage().data_ptr(), "
            "y.untyped_storage().data_ptr() == x.untyped_storage().data_ptr()"
        ),
    },
    "random numbers of Python and NumPy": {
        "random.random": "return x * random.random() + random.choice([1.0, 2.0])",
        "numpy.random": "return x * np.random.uniform(0, 1)",
    },
    "random numbers with a generator": {
        name: f"{_GENERATOR}one = {code}\nreturn (one != {code}).any()" for name, code in _TWICE.items()
    },
    "samples of normal distributions": {
        "torch.distributions.Normal": (
            "law = torch.distributions.Normal(x * 0 + 50, y * 0 + 0.1)\nreturn (law.sample() > 40).all()"
        ),
        "torch.distributions.LogNormal": (
            "law = torch.distributions.LogNormal(x * 0 + 3, y * 0 + 0.1)\nreturn (law.sample() > 10).all()"
        ),
        "torch.distributions.HalfNormal": (
            "law = torch.distributions.HalfNormal(y.repeat(9, 9) * 0 + 50)\nreturn law.sample().max() > 20"
        ),
    },
    "random numbers on the device": {
        "random_": "z = torch.zeros_like(x).random_(5, 10)\nreturn z.min() >= 5, (z == z.round()).all()",
        "normal": "return (torch.normal(x * 0 + 50, y * 0 + 0.1) > 40).all(), torch.normal(9.0, y * 0) == 9",
        "normal_": "return (torch.zeros_like(x).normal_(50.0, 0.1) > 40).all()",
        "gumbel_softmax": "return F.gumbel_softmax(x, hard=True).sum(-1)",
        "exponential_": "z = torch.zeros_like(x.repeat(9, 9))\nz.exponential_()\nreturn z.max() > 0.5",
        "cauchy_": "z = torch.zeros_like(x.repeat(9, 9))\nz.cauchy_()\nreturn z.abs().max() > 0.5",
    },
    "operations on CPU tensors": {
        "torch.where": "z = torch.zeros(3)\nreturn torch.where(z > 0, z, 1.0), z.where(z > 0, 1.0)",
        "torch.quantile": "z = torch.arange(4.0)\nreturn torch.quantile(z, 0.5), z.quantile(0.3)",
        "torch.nanquantile": "z = torch.arange(4.0)\nreturn torch.nanquantile(z, 0.5), z.nanquantile(0.3)",
        "torch.cov": "z = torch.ones(2, 3).cumsum(1) ** 2\nreturn torch.cov(z), z.cov()",
        "torch.corrcoef": "z = torch.ones(2, 3).cumsum(1) ** 2\nreturn torch.corrcoef(z), z.corrcoef()",
        "torch.combinations": "return torch.combinations(torch.arange(3.0))",
        "torch.nn.functional.one_hot": "return F.one_hot(torch.tensor([0, 2]))",
        "torch.nn.functional.cosine_similarity": "z = torch.ones(2, 3)\nreturn F.cosine_similarity(z, z)",
        "torch.cosine_similarity": "z = torch.ones(2, 3)\nreturn torch.cosine_similarity(z, z)",
    },
    "`new_tensor`": {"new_tensor": "values = [1.0, 2.0, 3.0, 4.0]\nreturn x + (x * 1).new_tensor(values)"},
    "deep copies of tensors and modules": {
        "copy.deepcopy": (
            "return copy.deepcopy(x * 1) + 1, copy.deepcopy(self.layer)(x), "
            "copy.deepcopy(self.layer.state_dict())"
        )
    },
}

_EXCEPT = "try:\n    number = x.sum().item()\nexcept Exception:\n    number = 0.0\nreturn x * number"
#: What the runtime does not handle: the rule that reports it, the way in which it fails, and the sample.
UNHANDLED: dict[str, tuple[str, str, str]] = {
    "addbmm_": (
        "TPU603",
        "compiled",
        "z = torch.ones(2, 3, 4, device=x.device)\nv = x.addbmm_(z, z[:, :1].expand(2, 4, 4))\nreturn v",
    ),
    "fill_diagonal_ of a part": (
        "TPU603",
        "eager",
        f"{_BOTH}\npart = both[0].fill_diagonal_(2.0)\nreturn both, part",
    ),
    "set_": ("TPU603", "eager", "z = torch.zeros(2, device=x.device)\nz.set_(x)\nreturn z"),
    "tensor_split": ("TPU404", "eager", f"return x.tensor_split({_NUMBER} + 1, 1)"),
    "torch._assert_async": ("TPU304", "eager", "_ = torch._assert_async(y.sum() > 0)\nreturn x"),
    "view of 64 bits": ("TPU631", "eager", "return x.view(torch.int64)"),
    "storage": ("TPU620", "eager", "return x.storage().data_ptr() == y.storage().data_ptr()"),
    "values in a broad `except`": ("TPU307", "compiled", _EXCEPT),
    "output_size": (
        "TPU403",
        "compiled",
        "return torch.repeat_interleave(index, output_size=int(index.sum()))",
    ),
    "integers beyond 32 bits beside integers": ("TPU622", "eager", "return index + 10000000000"),
    "random numbers of Python": ("TPU619", "jitted", "return x * random.random()"),
    "random numbers with a generator": (
        "TPU614",
        "jitted",
        SAMPLES["random numbers with a generator"]["randn"],
    ),
    "operations on CPU tensors": ("TPU904", "jitted", SAMPLES["operations on CPU tensors"]["torch.where"]),
    "values": ("TPU303", "jitted", SAMPLES["values of tensors in Python code"]["if"]),
}
