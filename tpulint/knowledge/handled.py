"""What the runtime torchax-compat handles, each with the tests that show it.

A rule leaves out a finding in a program with the runtime only by `Program.runtime_handles`, which takes a
name of this table. `tests/rules/test_handled.py` checks that the table, its tests and the rules agree.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tpulint.knowledge.cuda_api import TENSOR_DTYPES
from tpulint.knowledge.implemented import IMPLEMENTED, JITTED
from tpulint.knowledge.numbers import NUMBERS
from tpulint.knowledge.transforms import AT_INPUTS, JACOBIANS
from tpulint.knowledge.views import LOST_ON_SLICES, NO_LOWERING, WITHOUT_EFFECT

#: The folder of the runtime's tests.
TESTS = "runtime/tests"
#: The test that runs the samples of `tpulint/dev/handled_samples.py`.
SAMPLED = "test_handled.py::test_sample_has_the_result_of_torch"
_CUSTOM = "autograd/test_custom_functions.py"
_F = "torch.nn.functional"


@dataclass(frozen=True, slots=True)
class Handled:
    """A pattern, or a set of operators, that the runtime handles.

    Attributes:
        tests: where it is shown, below `TESTS`.
        operators: the functions and methods that the tests call; empty for a pattern of Python.
        in_jit: that it is shown in code that the program jits itself as well, not only in code that the
            runtime traces; for operators, which of them.
        with_gradients: whether a program that computes gradients counts as one with the runtime, since the
            fix of TPU611 adds the runtime to it.
        in_program: whether the program itself has to import the runtime, not only another one of the project.
    """

    tests: tuple[str, ...]
    operators: frozenset[str] = frozenset()
    in_jit: bool | frozenset[str] = False
    with_gradients: bool = False
    in_program: bool = False

    @property
    def paths(self) -> tuple[str, ...]:
        """The tests, as pytest names them."""
        return tuple(f"{TESTS}/{test}" for test in self.tests)


def _by_samples(*operators: str, in_jit: bool = False, with_gradients: bool = False) -> Handled:
    return Handled((SAMPLED,), frozenset(operators), in_jit=in_jit, with_gradients=with_gradients)


HANDLED: Mapping[str, Handled] = {
    "values of tensors in Python code": _by_samples(),
    "tensors as integer arguments": _by_samples(*(NUMBERS.keys() - {"tensor_split"})),
    "checks by `torch._assert`": _by_samples("torch._assert"),
    "output shapes that depend on values": _by_samples(),
    "CPU tensors in traced code": _by_samples(),
    "printed and logged tensors": Handled(
        ("jit/test_captured_output.py::test_numbers_are_logged_by_arguments_and_in_texts", SAMPLED),
        frozenset({"print", "logging.info"}),
    ),
    "state that traced code writes": _by_samples(with_gradients=True),
    "in-place methods": _by_samples(
        *(NO_LOWERING - {"addbmm_"}), *(LOST_ON_SLICES - {"fill_diagonal_"}), "resize_", "type_as", "copy_"
    ),
    "views with another dtype": _by_samples(
        *("torch.int8", "torch.int16", "torch.int32", "torch.int", "torch.short"),
        *("torch.uint8", "torch.uint16", "torch.uint32", "torch.bfloat16", "torch.half"),
    ),
    "keyword arguments as in PyTorch": _by_samples(
        *("torch.corrcoef", "torch.linalg.det", "torch.linalg.slogdet", "torch.linalg.solve"),
        *("torch.linalg.svd", f"{_F}.linear", "torch.svd"),
    ),
    "operators": Handled(
        (
            "ops/test_probed.py::test_operator_is_in_the_table_of_the_runtime_if_it_runs_there",
            "test_handled.py::test_operator_runs_in_jitted_code",
        ),
        IMPLEMENTED,
        in_jit=JITTED,
    ),
    "transposed convolutions": Handled(
        ("ops/test_convolutions.py::test_transposed_convolution", SAMPLED),
        frozenset(f"{_F}.conv_transpose{n}d" for n in (1, 2, 3))
        | frozenset(f"torch.nn.ConvTranspose{n}d" for n in (1, 2, 3)),
        in_jit=True,
    ),
    "automatic mixed precision": Handled(
        ("ops/test_autocast.py::test_operators_have_the_dtypes_of_cuda", SAMPLED),
        frozenset({"torch.autocast"}),
        in_jit=True,
    ),
    "CUDA tensor types": _by_samples(*(f"torch.cuda.{name}" for name in TENSOR_DTYPES), in_jit=True),
    "integers beyond 32 bits beside floats": _by_samples(in_jit=True, with_gradients=True),
    "writes through views": _by_samples(in_jit=True),
    "writes through `detach()`": _by_samples("detach", in_jit=True, with_gradients=True),
    "writes to values of `state_dict()`": Handled(
        ("tensor/test_views.py::test_state_dict_shares_its_tensors_with_the_module",),
        frozenset({"state_dict"}),
    ),
    "addresses of tensors": Handled(
        (
            "tensor/test_data_pointers.py::test_tensors_that_share_nothing_have_addresses_of_their_own",
            "tensor/test_data_pointers.py::test_addresses_of_views_are_those_of_their_first_elements",
            SAMPLED,
        ),
        frozenset({"data_ptr", "untyped_storage"}),
        in_jit=True,
        with_gradients=True,
    ),
    "random numbers of Python and NumPy": _by_samples("random.random", "numpy.random", with_gradients=True),
    "random numbers with a generator": _by_samples(
        *("rand", "randint", "randn", "randperm", "bernoulli", "bernoulli_", "multinomial", "normal"),
        *("normal_", "uniform_"),
        with_gradients=True,
    ),
    "samples of normal distributions": _by_samples(
        *("torch.distributions.Normal", "torch.distributions.LogNormal", "torch.distributions.HalfNormal"),
        with_gradients=True,
    ),
    "random numbers on the device": _by_samples(
        *("random_", "normal", "normal_", "gumbel_softmax", *WITHOUT_EFFECT), in_jit=True, with_gradients=True
    ),
    "operations on CPU tensors": Handled(
        ("tensor/test_dispatch.py::test_what_is_computed_of_tensors_of_the_host_stays_there", SAMPLED),
        frozenset(
            {
                *("torch.where", "torch.quantile", "torch.nanquantile", "torch.cov", "torch.corrcoef"),
                *("torch.combinations", f"{_F}.one_hot", f"{_F}.cosine_similarity"),
                *("torch.cosine_similarity", "torch.nn.utils.rnn.pad_sequence"),
            }
        ),
        with_gradients=True,
    ),
    "derivatives of `torch.func`": Handled(
        ("autograd/test_func_transforms.py::test_jacobians_and_hessians_of_torch_func",), frozenset(JACOBIANS)
    ),
    "derivatives of `torch.autograd.functional`": Handled(
        (
            "autograd/test_func_transforms.py::test_functional_jacobian",
            "autograd/test_func_transforms.py::test_functional_hessian",
            "autograd/test_func_transforms.py::test_functional_vjp_and_jvp",
            "autograd/test_func_transforms.py::test_functional_hvp_and_vhp",
        ),
        frozenset(AT_INPUTS),
    ),
    "custom `backward` under transforms of JAX": Handled(
        ("autograd/test_custom_functions.py::test_transform_of_jax_alone_takes_the_gradient_from_backward",),
        frozenset({"apply"}),
        in_jit=True,
    ),
    "`new_tensor`": Handled(
        ("tensor/test_representation.py::test_new_tensor_has_the_type_and_the_device_of_the_tensor", SAMPLED),
        frozenset({"new_tensor"}),
        in_jit=True,
    ),
    "deep copies of tensors and modules": Handled(
        ("tensor/test_assignment.py::test_deep_copies_are_tensors_of_their_own", SAMPLED),
        frozenset({"copy.deepcopy"}),
    ),
    "worker processes of a `DataLoader`": Handled(
        (
            "data/test_loader.py::test_loaders_give_all_batches_without_worker_processes",
            "data/test_loader.py::test_loaders_with_persistent_workers_give_all_batches_again",
        ),
        frozenset({"torch.utils.data.DataLoader"}),
        with_gradients=True,
    ),
    "imports of torchvision": Handled(
        (
            "vision/test_imports.py::test_libraries_with_operators_of_their_own_are_imported_outside_of_torchax",
        ),
        frozenset({"torchvision"}),
    ),
    "inference mode": Handled(
        ("autograd/test_no_grad.py::test_inference_mode_is_no_grad", SAMPLED),
        frozenset({"torch.inference_mode"}),
        in_jit=True,
    ),
    "models called without gradients": Handled(
        ("jit/test_evaluation.py::test_module_without_gradients_is_compiled_and_leaves_what_it_would",),
        with_gradients=True,
    ),
    "`flex_attention`": Handled(
        (
            "ops/test_flex_attention.py::test_fewer_heads_of_keys_and_other_lengths",
            "ops/test_flex_attention.py::test_statistics",
        ),
        frozenset({"flex_attention"}),
        in_jit=True,
        in_program=True,
    ),
    "device meshes of one process": Handled(
        (
            "distributed/test_device_mesh.py::test_mesh_of_one_process",
            "distributed/test_device_mesh.py::test_mesh_by_its_class_and_of_a_group_that_is_started",
        ),
        frozenset({"init_device_mesh", "DeviceMesh"}),
        in_program=True,
    ),
}
