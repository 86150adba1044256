"""What tracing reaches, in small projects of several files, and by which chain."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from tpulint.engine.run import analyse_units, as_units
from tpulint.model.module import Module
from tpulint.model.project.project import ProjectFacts
from tpulint.model.project.trace_path import Certainty
from tpulint.model.tracing.reach import link
from tpulint.settings import Settings
from tpulint.source import Source

NET = """
class Net(nn.Module):
    def forward(self, x): return self.part(x)
    def part(self, x): return x
"""
HEAD = "import torch\nimport torchax\nfrom torch import nn\nfrom torchax.interop import jax_jit\n"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Packages are known by their `__init__.py` on disk."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def written(files: dict[str, str]) -> dict[str, bytes]:
    contents = {str(Path.cwd() / name): textwrap.dedent(text).encode() for name, text in files.items()}
    for name, data in contents.items():
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_bytes(data)
    return contents


def project(
    files: dict[str, str],
    trace_roots: tuple[str, ...] = (),
    certainty: Certainty = Certainty.INTERFACE,
) -> ProjectFacts:
    contents = written(files)
    modules = [
        Module(Source.decode(path, unit.data), unit.module_path) for path, unit in as_units(contents).items()
    ]
    return link([module.facts() for module in modules], trace_roots, certainty)


def chain(facts: ProjectFacts, function: str) -> list[str] | None:
    """The functions on the way to a function, the root first; None for host code."""
    path = facts.trace_path(function)
    return None if path is None else [step.label.split("`")[1] for step in path.steps]


def one(text: str) -> ProjectFacts:
    return project({"m.py": HEAD + textwrap.dedent(text)})


@pytest.mark.parametrize(
    "root",
    [
        "@torch.compile\ndef root(x): return leaf(x)",
        "@torch.compile(fullgraph=True)\ndef root(x): return leaf(x)",
        "@jax_jit\ndef root(x): return leaf(x)",
        "@torchax.interop.jax_jit\ndef root(x): return leaf(x)",
        "def root(x): return leaf(x)\nfast = jax_jit(root)",
        "def root(x): return leaf(x)\nfast = torch.compile(root, dynamic=False)",
        "def root(x): return leaf(x)\nfast = jax_jit(functools.partial(root, x=1))",
        "import functools\ndef root(x): return leaf(x)\nfast = jax_jit(functools.partial(root, x=1))",
        "import functools\n@functools.partial(jax_jit, kwargs_for_jax_jit={})\ndef root(x): return leaf(x)",
        "def root(x): return leaf(x)\ndef main():\n    f = root\n    return jax_jit(f)",
    ],
)
def test_a_function_that_is_jitted_reaches_what_it_calls(root: str) -> None:
    facts = one(f"def leaf(x): return x.item()\ndef host(x): return leaf(x)\n{root}")
    if "functools.partial(root" in root and "import functools" not in root:
        assert chain(facts, "m.leaf") is None  # an undefined name is no functools
        return
    assert ["root", "leaf"] == chain(facts, "m.leaf")
    assert chain(facts, "m.host") is None


def test_a_lambda_that_is_jitted_reaches_what_it_calls() -> None:
    facts = one("def leaf(x): return x\nfast = jax_jit(lambda x: leaf(x))")
    assert chain(facts, "m.leaf") is not None


def test_a_function_passed_as_an_argument_is_reached() -> None:
    facts = one("def leaf(x): return x\n@jax_jit\ndef root(x): return list(map(leaf, x))")
    assert ["root", "leaf"] == chain(facts, "m.leaf")


def test_a_nested_function_is_reached_where_it_is_called() -> None:
    facts = one(
        """
        def leaf(x): return x
        @jax_jit
        def root(x):
            def inner(y):
                return leaf(y)
            return inner(x)
        """
    )
    assert ["root", "inner", "leaf"] == chain(facts, "m.leaf")


def test_nothing_is_reached_without_a_root() -> None:
    facts = one("def leaf(x): return x\ndef root(x): return leaf(x)\nroot(torch.zeros(2))")
    assert {} == facts.reach


def test_forward_is_an_implicit_root_and_a_jitted_one_an_explicit() -> None:
    facts = one(
        """
        def leaf(x): return x
        class Net(nn.Module):
            def forward(self, x): return leaf(x)
            def predict(self, x): return leaf(x)
        """
    )
    path = facts.trace_path("m.leaf")
    assert path is not None
    assert (Certainty.FORWARD, ["Net.forward", "leaf"]) == (path.certainty, chain(facts, "m.leaf"))
    assert chain(facts, "m.Net.predict") is None


HOSTED = """
from PIL import Image
class Results(nn.Module):
    @torch.no_grad()
    def forward(self, x): return leaf(x)
class Pictures(nn.Module):
    def forward(self, x): return Image.fromarray(leaf(x).numpy())
class Average(nn.Module):
    def forward(self, model): return leaf(dict(model.named_parameters()))
def leaf(x): return x
made = {"results": Results()}
"""


def test_forward_that_is_no_grad_makes_images_or_takes_modules_is_host_code() -> None:
    facts = one(HOSTED)
    assert [None] * 3 == [chain(facts, f"m.{name}.forward") for name in ("Results", "Pictures", "Average")]


@pytest.mark.parametrize(
    "use",
    [
        "loss = Loss(Results())",
        "class Loss(nn.Module):\n    def __init__(self):\n        self.results = Results()",
        "net = torch.compile(Results())",
        "Results.forward = lambda self, x: self.net(x)\nResults()",
    ],
)
def test_forward_of_a_host_module_is_traced_if_it_is_passed_on_or_jitted(use: str) -> None:
    facts = one(f"{HOSTED}{use}")
    assert chain(facts, "m.Results.forward") is not None


def test_forward_of_a_module_with_parameters_or_submodules_is_traced() -> None:
    facts = one(
        """
        class Scaled(nn.Module):
            def __init__(self): self.scale = nn.Parameter(torch.ones(1))
            @torch.no_grad()
            def forward(self, x): return x * self.scale
        class Around(nn.Module):
            def __init__(self, net): self.net = net
            @torch.no_grad()
            def forward(self, x): return self.net(x)
        made = {"scaled": Scaled(), "around": Around(torch.nn.Linear(2, 2))}
        """
    )
    assert None not in [chain(facts, f"m.{name}.forward") for name in ("Scaled", "Around")]


@pytest.mark.parametrize(
    "use",
    [
        "torch.compile(Net())",
        "net = Net()\nfast = torch.compile(net)",
        "torchax.interop.JittableModule(Net())",
    ],
)
def test_a_compiled_module_makes_its_forward_an_explicit_root(use: str) -> None:
    facts = one(f"{NET}{use}")
    path = facts.trace_path("m.Net.part")
    assert path is not None
    assert (Certainty.JIT, ["Net.forward", "Net.part"]) == (path.certainty, chain(facts, "m.Net.part"))


def test_submodules_are_reached_through_attributes_lists_and_sequences() -> None:
    facts = one(
        """
        class One(nn.Module):
            def go(self, x): return x
        class Two(nn.Module):
            def go(self, x): return x
        class Three(nn.Module):
            def forward(self, x): return self.helper(x)
            def helper(self, x): return x
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.one = One()
                self.twos = nn.ModuleList([Two() for _ in range(3)])
                self.threes = nn.Sequential(Three(), Three())
            def forward(self, x):
                x = self.one.go(x)
                for two in self.twos:
                    x = two.go(x)
                return self.threes(x)
        """
    )
    assert ["Net.forward", "One.go"] == chain(facts, "m.One.go")
    assert ["Net.forward", "Two.go"] == chain(facts, "m.Two.go")
    assert "Three.helper" in (chain(facts, "m.Three.helper") or [])


def test_inherited_and_overridden_methods_are_reached() -> None:
    facts = one(
        """
        class Base(nn.Module):
            def forward(self, x): return self.step(x)
            def step(self, x): return self.finish(x)
            def finish(self, x): return x
            def unused(self, x): return x
        class Child(Base):
            def step(self, x): return super().step(x) + self.extra(x)
            def extra(self, x): return x
        """
    )
    assert ["Base.forward", "Base.step"] == chain(facts, "m.Base.step")
    assert ["Base.forward", "Child.step"] == chain(facts, "m.Child.step")
    assert ["Base.forward", "Child.step", "Child.extra"] == chain(facts, "m.Child.extra")
    assert chain(facts, "m.Base.unused") is None


def test_constructors_of_modules_are_host_code_and_those_of_values_are_traced() -> None:
    facts = one(
        """
        def leaf(x): return x
        def made(x): return x
        class Layer(nn.Module):
            def __init__(self, x): made(x)
        class Boxes:
            def __init__(self, x): leaf(x)
        @jax_jit
        def root(x): return Boxes(x), Layer(x), isinstance(x, Other)
        class Other:
            def __init__(self, x): made(x)
        """
    )
    assert ["root", "Boxes.__init__", "leaf"] == chain(facts, "m.leaf")
    assert chain(facts, "m.made") is None


@pytest.mark.parametrize(
    "body",
    [
        "@property\n    def part(self): return leaf(self.w)\n    def forward(self, x): return x + self.part",
        "def part(self, x): return leaf(x)\n    def forward(self, x): return {'a': self.part}['a'](x)",
        "def __init__(self): self.table = {'a': leaf}\n    def forward(self, x): return self.table['a'](x)",
        "def forward(self, x, act=leaf): return act(x)",
        "def forward(self, x):\n        act = leaf if self.training else None\n        return act(x)",
        "def forward(self, x: 'Value | None'): return x.part()",
        "def forward(self, x):\n        @around\n        def inner(y): return y\n        return inner(x)",
        "def forward(self, x): return Power.apply(x)",
        "def __init__(self):\n        v = Value()\n        self.v = v\n    def forward(self): self.v.part(1)",
    ],
)
def test_functions_are_reached_through_each_form_of_use(body: str) -> None:
    facts = one(
        f"""
def leaf(x): return x
class Value:
    def part(self): return leaf(self)
class Power(torch.autograd.Function):
    def forward(ctx, x): return leaf(x)
def around(f):
    def wrapper(x): return leaf(f(x))
    return wrapper
class Net(nn.Module):
    {body}
"""
    )
    assert chain(facts, "m.leaf") is not None


def test_functions_in_a_dictionary_are_followed_across_files() -> None:
    files = {
        "pkg/__init__.py": "",
        "pkg/losses.py": """
            def near(x): return helper(x)
            def far(x): return x
            def helper(x): return x
            class Other: pass
            LOSSES = {"near": near, "far": far, "other": Other}
        """,
        "pkg/net.py": """
            import torch
            from .losses import LOSSES
            class Net(torch.nn.Module):
                @property
                def loss(self): return LOSSES[self.name]
                @loss.setter
                def loss(self, name): self.name = name
                def forward(self, x): return self.loss(x)
        """,
    }
    facts = project(files)
    assert ["Net.forward", "Net.loss", "near", "helper"] == chain(facts, "pkg.losses.helper")
    assert ["Net.forward", "Net.loss", "far"] == chain(facts, "pkg.losses.far")


def test_public_functions_of_a_package_that_take_tensors_are_trace_roots() -> None:
    ops = """
        import torch
        def offered(x: torch.Tensor, k=3): return helper(x)
        def helper(x): return x
        def called(x: torch.Tensor): return x
        def plain(x): return x
        def _private(x: torch.Tensor): return x
        def show(x: torch.Tensor) -> None: return None
        def decode(x: "torch.Tensor | list[str]"): return x
        def text(x: torch.Tensor) -> str: return x
        def accuracy(x: torch.Tensor) -> float: return x
        def spread(x: torch.Tensor) -> "dict[str, float]": return x
        def parts(x: torch.Tensor) -> dict: return x
        def named(name: str, x: torch.Tensor): return x
        def numbered(k: int, x: torch.Tensor): return x
        def grid(height: int, device: torch.device | None = None) -> torch.Tensor: return made(height)
        def made(size): return size
        def loaded(path: str, device: torch.device) -> torch.Tensor: return path
        def sized(height: int, width: int) -> torch.Tensor: return height
        @torch.no_grad()
        def drawn(x: torch.Tensor): return x
        @torch.no_grad()
        def generate(model, x: torch.Tensor): return x
        @torch.inference_mode()
        def _counts(x: torch.Tensor): return x
        @torch.no_grad()
        def _sampled(model, x: torch.Tensor): return x
        def scored(x: torch.Tensor): return _counts(x), _sampled(None, x)
        def main(): called(load())
    """
    files = {"pkg/__init__.py": "", "pkg/ops.py": ops, "script.py": ops}
    facts = project(files)
    path = facts.trace_path("pkg.ops.offered")
    assert path is not None
    assert Certainty.INTERFACE == path.certainty
    assert ["offered", "helper"] == chain(facts, "pkg.ops.helper")
    assert ["scored", "_counts"] == chain(facts, "pkg.ops._counts")
    assert ["grid", "made"] == chain(facts, "pkg.ops.made")
    assert ["numbered"] == chain(facts, "pkg.ops.numbered")
    assert ["drawn"] == chain(facts, "pkg.ops.drawn")
    assert ["parts"] == chain(facts, "pkg.ops.parts")
    for name in (
        "pkg.ops.text",
        "pkg.ops.accuracy",
        "pkg.ops.spread",
        "pkg.ops.called",
        "pkg.ops.plain",
        "pkg.ops._private",
        "pkg.ops.show",
        "pkg.ops.decode",
        "pkg.ops.named",
        "pkg.ops.loaded",
        "pkg.ops.sized",
        "pkg.ops.generate",
        "pkg.ops._sampled",
        "script.offered",
    ):
        assert chain(facts, name) is None
    assert {} == project(files, certainty=Certainty.FORWARD).reach


FILES = {
    "pkg/__init__.py": "from .api import leaf as renamed\nfrom .star import *\n",
    "pkg/api.py": "def leaf(x): return x\n",
    "pkg/star.py": "def shining(x): return x\n",
    "pkg/deep/__init__.py": "",
    "pkg/deep/user.py": "from ..api import leaf\nfrom .. import api as tools\n"
    "def one(x): return leaf(x)\ndef two(x): return tools.leaf(x)\n",
}


@pytest.mark.parametrize(
    ("call", "way"),
    [
        ("import pkg\ndef root(x): return pkg.renamed(x)", ["root", "leaf"]),
        ("from pkg import renamed\ndef root(x): return renamed(x)", ["root", "leaf"]),
        ("import pkg.api as a\ndef root(x): return a.leaf(x)", ["root", "leaf"]),
        ("from pkg import api\ndef root(x): return api.leaf(x)", ["root", "leaf"]),
        ("from pkg.deep.user import one\ndef root(x): return one(x)", ["root", "one", "leaf"]),
        ("from pkg.deep import user\ndef root(x): return user.two(x)", ["root", "two", "leaf"]),
        ("def root(x):\n    from pkg import renamed as local\n    return local(x)", ["root", "leaf"]),
        ("from pkg import api\nf = api.leaf\ndef root(x): return f(x)", ["root", "leaf"]),
    ],
)
def test_names_are_followed_through_files_aliases_and_re_exports(call: str, way: list[str]) -> None:
    facts = project(FILES | {"main.py": f"{HEAD}{call}\nfast = jax_jit(root)\n"})
    assert way == chain(facts, "pkg.api.leaf")


def test_a_star_import_is_followed() -> None:
    facts = project(
        FILES | {"main.py": f"{HEAD}from pkg import *\n@jax_jit\ndef root(x): return shining(x)\n"}
    )
    assert ["root", "shining"] == chain(facts, "pkg.star.shining")


def test_a_name_that_something_local_shadows_is_not_followed() -> None:
    facts = project(
        FILES | {"main.py": f"{HEAD}from pkg.api import leaf\n@jax_jit\ndef root(x, leaf): return leaf(x)\n"}
    )
    assert chain(facts, "pkg.api.leaf") is None


def test_a_function_is_jitted_from_another_file() -> None:
    facts = project(FILES | {"main.py": f"{HEAD}import pkg.api\nfast = jax_jit(pkg.api.leaf)\n"})
    assert ["leaf"] == chain(facts, "pkg.api.leaf")


def test_a_module_of_another_file_is_compiled() -> None:
    net = HEAD + NET
    facts = project({"net.py": net, "main.py": f"{HEAD}from net import Net\nfast = torch.compile(Net())\n"})
    path = facts.trace_path("net.Net.part")
    assert path is not None
    assert Certainty.JIT == path.certainty


def test_circular_imports_and_calls_terminate() -> None:
    facts = project(
        {
            "a.py": "from b import f, g\ndef h(x): return f(x)\nfrom b import *\n",
            "b.py": f"{HEAD}from a import *\nimport a\n@jax_jit\ndef f(x): return g(x)\n"
            "def g(x): return a.h(f(x))\n",
        }
    )
    assert ["f", "g", "h"] == chain(facts, "a.h")


def test_circular_inheritance_terminates() -> None:
    facts = one(
        "class A(B):\n    def f(self, x): return self.g(x)\n"
        "class B(A):\n    def g(self, x): return self.f(x)\n"
    )
    assert {} == facts.reach


def test_settings_name_trace_roots() -> None:
    facts = project(FILES, trace_roots=("pkg.renamed", "pkg.nowhere"))
    assert ["leaf"] == chain(facts, "pkg.api.leaf")


def test_a_finding_carries_the_chain_across_files() -> None:
    files = FILES | {
        "pkg/api.py": "def leaf(x):\n    return x.sum().item()\n",
        "main.py": f"{HEAD}from pkg.deep.user import one\n\n\n@jax_jit\n"
        "def root(x: torch.Tensor):\n    return one(x)\n",
    }
    found = analyse_units(as_units(written(files)), Settings(root=Path.cwd()), jobs=1).findings
    (item,) = [finding for finding in found if finding.code == "TPU301"]
    assert ("api.py", 2) == (Path(item.path).name, item.location.row)
    assert [("main.py", 8), ("main.py", 10), ("user.py", 3)] == [
        (Path(step.path).name, step.location.row) for step in item.related
    ]


def test_circular_star_imports_and_missing_modules_terminate() -> None:
    around = {
        f"pkg/m{i}.py": "".join(f"from pkg.m{j} import *\n" for j in range(15) if i != j) for i in range(15)
    }
    lost = "".join(f"from .lost{i} import *\nfrom .m{i} import *\n" for i in range(15))
    last = {"pkg/m14.py": "from pkg.m3 import *\ndef f(): ...\n"}
    found = project({"pkg/__init__.py": lost, **around, **last})
    assert found.resolve("pkg.f") == "pkg.m14.f"
    assert found.resolve("pkg.gone") == "pkg.gone"


def test_annotation_aliases_are_resolved_across_modules() -> None:
    files = {
        "pkg/__init__.py": "",
        "pkg/typing.py": """
            from typing import Optional, Union
            import torch
            from torch_sparse import SparseTensor
            Adj = Union[torch.Tensor, SparseTensor]
            Text = Optional[str]
            Knot = Union["Tangle", None]
            Tangle = Union[Knot, torch.Tensor]
        """,
        "pkg/ops.py": """
            from pkg.typing import Adj, Knot, Text
            def spread(edges: Adj): return edges
            def name(text: Text): return text
            def tie(knot: Knot): return knot
        """,
    }
    facts = project(files)
    assert chain(facts, "pkg.ops.spread") == ["spread"]
    assert chain(facts, "pkg.ops.name") is None
    assert chain(facts, "pkg.ops.tie") is None


def test_runtime_compiled_code_may_read_values_and_jitted_code_may_not() -> None:
    text = HEAD + textwrap.dedent("""
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.register_buffer("begun", torch.tensor(0))
            def forward(self, x):
                if self.begun == 0:
                    self.begin(x)
                return x
            def begin(self, x):
                self.begun += 1

        @jax_jit
        def jitted(x):
            if (x > 0).all():
                print("positive")
            return x
    """)
    training = "from torchax_compat import differentiable\n"

    def told(source: str) -> list[str]:
        found = analyse_units(as_units(written({"m.py": source})), Settings(), jobs=1).findings
        return [one.message.partition(" ")[0] for one in found if one.code == "TPU303"]

    assert [2, 1] == [len(told(source)) for source in (text, training + text)]
