"""How torch's operations change what is known of a tensor: dtype family, dimensions, device."""

from __future__ import annotations

from tpulint.knowledge.torch_api import ATTRIBUTES, FUNCTIONS, METHODS


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


#: Methods and functions that read a tensor's value into Python; under jit they need a concrete value.
READS = _names("item tolist numpy equal allclose is_nonzero")

#: Functions of NumPy that look at their argument's elements.
NUMPY_OF_VALUES = _names(
    "array asarray ascontiguousarray sqrt exp log log2 log10 sum mean std var median max min amax amin abs"
    " absolute clip where concatenate stack round rint floor ceil sin cos tan arctan2 argmax argmin argsort"
    " sort unique prod cumsum isnan isinf isfinite allclose array_equal maximum minimum norm dot matmul"
    " einsum isin any all nonzero interp percentile quantile power square sign unravel_index digitize"
    " searchsorted bincount pad transpose outer cross diff nanmin nanmax nansum nanmean nanstd nanmedian"
)

#: Results with boolean elements.
BOOLEAN = _names(
    "eq ne lt le gt ge greater greater_equal less less_equal not_equal isnan isinf isfinite isclose"
    " isin logical_and logical_or logical_not logical_xor any all bool isposinf isneginf signbit"
)
#: Results with integer elements.
INTEGER = _names(
    "argmax argmin argsort nonzero argwhere long int short bincount searchsorted bucketize"
    " count_nonzero char byte"
)
#: Results with floating elements.
FLOATING = _names(
    "float double half bfloat16 softmax log_softmax sigmoid tanh exp log sqrt rsqrt sin cos mean std"
    " var norm rand randn linspace logspace reciprocal div true_divide"
)
#: Reductions that give a tensor without dimensions when they get no dimension.
REDUCTIONS = _names(
    "sum mean max min amax amin any all prod std var norm count_nonzero median argmax argmin nansum"
    " nanmean logsumexp aminmax"
)
#: Reductions that give (values, indices) when they get a dimension.
PAIRED = _names("max min median mode kthvalue cummax cummin sort topk")

#: Operations that keep the shape of their first operand, element by element.
ELEMENTWISE = BOOLEAN - _names("any all") | _names(
    "abs absolute neg negative exp log sqrt rsqrt sin cos tan tanh sigmoid relu gelu silu clamp clip"
    " clone detach contiguous float double half bfloat16 long int to type type_as cpu cuda round floor"
    " ceil trunc sign square pow masked_fill add sub mul div softmax log_softmax dropout nan_to_num"
    " exp_ clamp_ mul_ add_ sub_ div_ masked_fill_ zero_ fill_ requires_grad_ zeros_like ones_like"
    " full_like rand_like randn_like empty_like"
)
#: Methods that change the shape of their own tensor.
RESHAPES_IN_PLACE = _names("unsqueeze_ squeeze_ resize_ t_ transpose_ swapaxes_ swapdims_ set_ resize_as_")

#: Functions of `torch` that make a tensor from Python values; on the host unless `device=` says otherwise.
FACTORIES = _names(
    "arange linspace logspace zeros ones full eye tensor as_tensor from_numpy randn rand randint"
    " randperm empty tril_indices triu_indices hann_window hamming_window bartlett_window"
    " blackman_window scalar_tensor range empty_strided asarray normal Tensor FloatTensor DoubleTensor"
    " HalfTensor LongTensor IntTensor BoolTensor frombuffer"
)
#: Those of them that are types, which make a host tensor of a list or an array, and of sizes torchax's own.
CONSTRUCTORS = _names("Tensor FloatTensor DoubleTensor HalfTensor LongTensor IntTensor BoolTensor")
#: Those of them that take no `device=`, or none of torchax.
NO_DEVICE_KEYWORD = _names("from_numpy frombuffer asarray") | CONSTRUCTORS
#: Those of them whose result is torchax's own wherever it is asked for, even with `device="cpu"`.
NEVER_ON_HOST = _names("randperm tril_indices triu_indices scalar_tensor")
#: Factories that take sizes one by one or as a sequence, all of it before any keyword.
SIZED = _names("zeros ones empty rand randn")
#: Factories of torch, with how many leading arguments are sizes (None for all).
SIZED_FACTORIES = {
    "arange": None,
    "zeros": None,
    "ones": None,
    "empty": None,
    "rand": None,
    "randn": None,
    "full": 1,
    "eye": 2,
    "linspace": 3,
    "randperm": 1,
}

#: Modules of `torch.nn` whose call gives more than one tensor.
SEVERAL_OUTPUTS = frozenset(
    {"torch.nn.LSTM", "torch.nn.GRU", "torch.nn.RNN", "torch.nn.MultiheadAttention", "torch.nn.LSTMCell"}
)

#: Attributes that objects other than tensors have as well, so that taking them proves nothing.
_SHARED = _names(
    "new split sort index count copy apply_ type data to half float double cuda cpu device dtype"
    " register_hook requires_grad_ values indices size all any sum min max mean clone share_memory_"
    " round real imag grad requires_grad name names stride dim equal record_stream numpy item tolist"
    " map_ xpu is_shared normal_ retain_grad is_cuda int bool bfloat16 long add pin_memory detach"
)
#: Attributes that only a tensor has, among what models handle.
TENSOR_ONLY = (frozenset(METHODS) | frozenset(ATTRIBUTES)) - _SHARED

#: Attributes of a tensor that no string, list, dictionary or module has.
TENSOR_LIKELY = TENSOR_ONLY | _names(
    "max min sum mean any all abs clamp std var norm exp log sqrt clone detach round real imag numpy"
    " tolist item size dim stride add long bool int indices is_cuda"
)

#: Attributes of tensors that arrays of NumPy, tables of pandas or distributions have as well.
_OF_OTHER_DATA = _names(
    "T mT H argmax argmin argsort clip conj cumprod cumsum diagonal dot flatten itemsize nbytes ndim nonzero"
    " prod put ravel repeat reshape shape squeeze swapaxes take trace transpose view abs corr cov cummax"
    " cummin diff div divide eq ge gt le lt ne isin median mode mul multiply pow quantile sub subtract"
    " unique where expand variance std var resize tile"
)
#: Attributes that, among all that programs compute with, only tensors have.
PROVE_TENSOR = TENSOR_ONLY - _OF_OTHER_DATA
#: Functions of `torch`, by name without it, that compute with numbers as well as with tensors.
_TAKE_NUMBERS = _names("pow float_power remainder fmod where add sub mul div true_divide bitwise_and clamp")
#: Functions of `torch` and of `torch.nn.functional`, by name without it, whose first argument is a tensor.
TAKE_TENSOR = frozenset(
    name
    for name, word in FUNCTIONS.items()
    if word.startswith("tensor")
    and (name in METHODS or name.startswith("nn.functional."))
    and name not in FACTORIES | _TAKE_NUMBERS
) | _names("zeros_like ones_like full_like empty_like rand_like randn_like randint_like")
#: Those of them, and of the same kind, of which the first two arguments are tensors, or the first three.
TAKE_TENSORS = {
    **dict.fromkeys(
        _names(
            "matmul mm bmm mv dot outer cdist cross logical_and logical_or maximum minimum searchsorted"
            " nn.functional.linear nn.functional.bilinear nn.functional.embedding nn.functional.grid_sample"
            " nn.functional.conv1d nn.functional.conv2d nn.functional.conv3d"
            " nn.functional.cosine_similarity nn.functional.pairwise_distance"
            " nn.functional.cross_entropy nn.functional.nll_loss nn.functional.kl_div"
            " nn.functional.mse_loss nn.functional.l1_loss nn.functional.smooth_l1_loss"
            " nn.functional.binary_cross_entropy nn.functional.binary_cross_entropy_with_logits"
        ),
        2,
    ),
    **dict.fromkeys(_names("baddbmm addmm nn.functional.scaled_dot_product_attention"), 3),
    "where": 1,
}
#: Functions of `torch`, by name without it, that take a list of tensors, and those that take them one by one.
TAKE_LIST = _names("cat concat concatenate stack hstack vstack dstack")
TAKE_EACH = _names("broadcast_tensors meshgrid")
#: Methods that only tensors have, of which an argument is a tensor, by its position.
METHOD_TAKES = {
    **dict.fromkeys(
        _names("masked_fill masked_fill_ masked_select expand_as view_as reshape_as type_as bmm baddbmm"), 0
    ),
    **dict.fromkeys(
        _names("gather index_select scatter scatter_ scatter_add scatter_add_ index_add index_add_"), 1
    ),
}

#: All attributes that a tensor has.
TENSOR_ATTRIBUTES = frozenset(METHODS) | frozenset(ATTRIBUTES)

#: Annotations that say tensor.
TENSOR_TYPES = frozenset(
    {
        "torch.Tensor",
        "torch.FloatTensor",
        "torch.LongTensor",
        "torch.BoolTensor",
        "torch.IntTensor",
        "torch.HalfTensor",
        "torch.DoubleTensor",
        "torch.BFloat16Tensor",
        "torch.ByteTensor",
        "torch.nn.Parameter",
        "torch.nn.parameter.Parameter",
        "torch._C.TensorBase",
        "torch.autograd.Variable",
        "torch.nn.Buffer",
    }
)
TENSOR_TYPE_DTYPES = {
    "torch.BoolTensor": "bool",
    "torch.LongTensor": "int",
    "torch.IntTensor": "int",
    "torch.FloatTensor": "float",
}
#: Annotations that say a Python value which does not change while tracing.
STATIC_TYPES = frozenset(
    {
        "builtins.int",
        "builtins.float",
        "builtins.bool",
        "builtins.str",
        "builtins.bytes",
        "torch.dtype",
        "torch.Size",
        "torch.memory_format",
        "torch.layout",
        "builtins.complex",
        "builtins.slice",
    }
)
#: Subscripted annotations of the kind `Float[Tensor, "b n"]` (jaxtyping).
JAXTYPING_DTYPES = {"Bool": "bool", "Int": "int", "Integer": "int", "Float": "float", "Num": "", "Shaped": ""}

#: Dtypes by family.
DTYPES = {
    "bool": "bool",
    **dict.fromkeys(("int8", "uint8", "int16", "short", "int32", "int", "int64", "long"), "int"),
    **dict.fromkeys(("float16", "half", "bfloat16", "float32", "float", "float64", "double"), "float"),
}
