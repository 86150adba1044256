"""Runs all programs, as one process of several or as one for all devices, and prints what each printed."""

from __future__ import annotations

import contextlib
import importlib
import io
import json
import os
import sys

if os.environ["PROGRAM_DEVICE"] == "jax":
    import torchax_compat

    torchax_compat.enable()
    torchax_compat.distributed.one_rank_per_device()

printed = {}
for name in sys.argv[1:]:
    with contextlib.redirect_stdout(io.StringIO()) as out:
        importlib.import_module(name).main()
    printed[name] = out.getvalue()
print(json.dumps(printed), flush=True)
os._exit(0)  # gloo's threads may abort the interpreter at its end
