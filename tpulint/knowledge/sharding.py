"""Names of layers whose parameters are sharded over devices: by their first dimension, or by their second.

Each pair of layers needs one sum over the devices: the first one, sharded by its outputs, computes parts that
the second one, sharded by its inputs, adds up.
The names are those of transformers, diffusers, timm, Llama, GPT-2 and `torch.nn`.
"""

from __future__ import annotations

import re

#: The name of the dimension of the mesh.
MODEL = "model"

#: Projections of queries, keys and values, and the first layers of feed-forward networks.
BY_OUTPUTS = re.compile(
    r"(?:(?:add_)?[qkv]_proj|qkv(?:_proj)?|to_(?:qkv|q|k|v)|(?:add|img|txt)_(?:attn_)?(?:qkv|q|k|v)(?:_proj)?"
    r"|w[qkv]|query|key|value|c_attn|query_key_value"
    r"|fc1|w1|w3|up_proj|gate_proj|gate_up_proj|linear1|wi|wi_0|wi_1|c_fc|dense_h_to_4h|lin1|ff1)"
)
#: Projections of the output of an attention, and the last layers of feed-forward networks.
BY_INPUTS = re.compile(
    r"(?:o_proj|out_proj|to_out|wo|c_proj|(?:img|txt)_attn_proj"
    r"|fc2|w2|down_proj|linear2|dense_4h_to_h|lin2|ff2)"
)


def dimensions(name: str) -> tuple[tuple[str, ...], tuple[str, ...]] | None:
    """For the name of a linear layer, the dimensions of the mesh for its weight and for its bias.

    None for a layer that is not sharded; no dimensions for a bias that is not.
    """
    if BY_OUTPUTS.fullmatch(name):
        return (MODEL, ""), (MODEL,)
    if BY_INPUTS.fullmatch(name):
        return ("", MODEL), ()
    return None
