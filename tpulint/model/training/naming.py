"""What people call modules, and what goes with them, where nothing else tells what something is."""

from __future__ import annotations

import ast
import re

from tpulint.model.names.qualified import dotted

#: What people call a module that is handed to a function.
_NAMED = re.compile(
    r"(^|_)(model|net|network|module|[a-z]*encoder|decoder|generator|discriminator|critic|actor|policy|backbone"
    r"|unet|vae|gan|transformer|classifier|student|teacher|extractor|predictor|projector|denoiser|detector"
    r"|cnn|rnn|lstm|gru|mlp|vgg|bert|gpt|vit|seq2seq|siamese|[a-z]*net_?[a-z]?|(?-i:[GD]))\d*(_|$)",
    re.IGNORECASE,
)
#: Endings of names that contain the name of a module, for values that are not modules: `model_path`,
#: `net_type`, `encoder_output`.
_ABOUT_ONE = re.compile(
    r"_(path|name|dir|file|filename|type|url|cfg|config|kwargs|args|opts?|ckpt|input|output|logit)s?$",
    re.IGNORECASE,
)
#: How people write the names of classes.
_CLASS = re.compile(r"[A-Z]+[a-z]+[A-Za-z]*$")
#: What people call an object that keeps what it is given.
_KEEPER = re.compile(r"buffer|pool|queue|memory|replay|history|(?<!para)meter|bank", re.IGNORECASE)
#: What people call what they read of a command line or a file.
_OPTIONS = re.compile(r"(^|[._])(args?|opts?|options|cfg|conf|config|flags|hparams|hps)$", re.IGNORECASE)
#: How methods of modules are called that make ready, rather than compute.
_MAKES_READY = (
    "init",
    "reset",
    "get_num",
    "set_",
    "configure",
    "load",
    "save",
    "freeze",
    "unfreeze",
    "print",
    "log",
)
#: Those among them that compute all the same: the logarithm of a probability, not an entry of a log.
_LOGARITHMS = ("log_p", "logp", "log_lik", "logit", "log_softmax", "log_weight")


def sounds_like_module(path: str) -> bool:
    """Whether something is called as modules are that functions are given: `netG`, `self.actor_target`."""
    last = path.rpartition(".")[2]
    return _NAMED.search(last) is not None and _ABOUT_ONE.search(last) is None


def sounds_like_modules(path: str, *, is_one: bool) -> bool:
    """Whether something is called as what holds modules is: `self.models`, `nets`; not `encoder_outputs`.

    Such a thing may have the name of a single one if `is_one`: `model["encoder"]`, but not `D[0]`.
    """
    last = path.rpartition(".")[2].rpartition("_")[2]
    one = last.removesuffix("s")
    return _NAMED.search(one) is not None and (is_one or one != last)


def is_option(path: str) -> bool:
    """Whether something is called as one of a program's options is: `args.model`, `self.cfg.net`."""
    return _OPTIONS.search(path.rpartition(".")[0]) is not None


def sounds_like_class(name: str) -> bool:
    """Whether a plain name is written as those of classes are."""
    return _CLASS.match(name) is not None


def sounds_like_keeper(path: str) -> bool:
    """Whether something is called as an object that keeps what it is given."""
    return _KEEPER.search(path) is not None


def sounds_like_upkeep(method: str) -> bool:
    """Whether a method is called as those that make a module ready, or tell of it."""
    return method.startswith(_MAKES_READY) and not method.startswith(_LOGARITHMS)


def asked_path(node: ast.expr) -> str | None:
    """What something that is asked is called: `self.net`, `nets["G"]`."""
    is_known = dotted(node.value if isinstance(node, ast.Subscript) else node) is not None
    return ast.unparse(node) if is_known else None
