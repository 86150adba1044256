"""Each rule with fixes as a LibCST codemod, and `Migrate`, which applies the fixes of all rules.

`python -m libcst.tool codemod -x --no-format tpulint_rules.codemods.CudaMethod PATH` runs one.
"""


def __getattr__(name: str) -> object:
    if name[:1].isupper():  # as no name is that is asked of every module
        from tpulint.codemod import codemods  # only where one is run, since it takes LibCST

        if name in codemods(__name__):
            return codemods(__name__)[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    from tpulint.codemod import codemods

    return sorted(codemods(__name__))
