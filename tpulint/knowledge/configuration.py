"""How programs are configured: what reads a configuration, and what holds the default of an option."""

import re

#: Functions that read a configuration from a file or a text.
TEXT_READERS = frozenset(
    {
        "hydra.compose",
        "hydra.main",
        "json.load",
        "json.loads",
        "omegaconf.OmegaConf.load",
        "toml.load",
        "toml.loads",
        "tomli.load",
        "tomllib.load",
        "tomllib.loads",
        "yaml.full_load",
        "yaml.load",
        "yaml.safe_load",
        "yaml.unsafe_load",
    }
)

#: The last names of what stands for a default where a field or a parameter is declared: those of dataclasses,
#: attrs, pydantic and typer.
DEFAULT_GIVEN_TO = frozenset({"field", "Field", "ib", "attrib", "Option", "Argument"})

#: What makes an object of a mapping.
NAMESPACE = re.compile(
    r"(.*\.)?(\w*namespace|easydict|edict|munch|munchify|box|\w*attr\w*dict|dotdict)\Z", re.IGNORECASE
)
