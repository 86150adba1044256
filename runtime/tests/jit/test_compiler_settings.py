"""How the runtime compiles, and that `disable()` restores the settings."""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from torchax_compat.jit import compiler_settings, jax_logging, xla_flags


def test_functions_are_optimized_after_some_calls() -> None:
    function = compiler_settings.Jitted(lambda x: x * 2)
    quick = function._used
    for _ in range(3):
        assert [2.0] == function(jnp.ones(1)).tolist()
        assert function._used is quick
    function(jnp.ones(1))
    assert function._used is function._optimized
    assert [2.0] == function(jnp.ones(1)).tolist()


def test_functions_of_many_numbers_are_optimized_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiler_settings, "_MANY_NUMBERS", 2)
    function = compiler_settings.Jitted(lambda x: x * 2)
    function(jnp.ones(3))
    assert function._used is function._optimized


def test_functions_may_be_called_by_one_that_is_compiled() -> None:
    function = compiler_settings.Jitted(lambda x: x * 2)
    assert [3.0] == jax.jit(lambda x: function(x) + 1)(jnp.ones(1)).tolist()


def test_errors_of_functions_are_raised() -> None:
    def fails(_: Any) -> Any:
        raise ValueError("their own")

    with pytest.raises(ValueError, match="their own"):
        compiler_settings.Jitted(fails)(jnp.ones(1))


def test_accelerators_compile_as_jax_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jax, "default_backend", lambda: "tpu")
    function = compiler_settings.Jitted(lambda x: x * 2)
    assert function._used is function._within
    assert [2.0] == function(jnp.ones(1)).tolist()


def test_options_that_xla_does_not_know_are_left_out() -> None:
    assert not compiler_settings._is_known("xla_no_such_option", value=True)
    assert compiler_settings._options(1)[compiler_settings._LEVEL] == 1


def test_the_cache_is_removed_by_the_process_that_made_it(tmp_path: Path) -> None:
    folder = tmp_path / "cache"
    folder.mkdir()
    compiler_settings._remove(folder, os.getpid() + 1)
    assert folder.exists()
    compiler_settings._remove(folder, os.getpid())
    assert not folder.exists()
    assert Path(jax.config.jax_compilation_cache_dir).exists()


def test_xla_flag_is_set_before_a_backend_is_initialized(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(xla_flags, "backends_are_initialized", lambda: False)
    for before in (None, "--xla_dump_to=folder"):
        if before is None:
            monkeypatch.delenv("XLA_FLAGS", raising=False)
        else:
            monkeypatch.setenv("XLA_FLAGS", before)
        undo = xla_flags.set_flags()
        flags = os.environ["XLA_FLAGS"]
        assert flags.startswith(before or " --") and flags.endswith("=LIBRARY_FUSION_TYPE_DOT")
        xla_flags.set_flags()()
        assert flags == os.environ["XLA_FLAGS"]
        undo()
        assert before == os.environ.get("XLA_FLAGS")


def test_xla_flag_is_left_as_it_is_once_a_backend_is_initialized(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XLA_FLAGS", raising=False)
    xla_flags.set_flags()
    assert "XLA_FLAGS" not in os.environ


def test_cache_and_level_of_messages_are_restored(caplog: pytest.LogCaptureFixture) -> None:
    names = "jax_compilation_cache_dir", "jax_persistent_cache_min_compile_time_secs"
    before = {name: getattr(jax.config, name) for name in names}
    caplog.set_level(logging.INFO, "jax")
    jax.config.update(names[0], None)
    jax.config.update(names[1], 7)
    try:
        undo, restore_level = compiler_settings._use_cache(), jax_logging.set_level()
        folder = Path(jax.config.jax_compilation_cache_dir)
        assert folder.exists()
        assert logging.WARNING == logging.getLogger("jax").level
        restore_level()
        undo()
        assert not folder.exists()
        assert [None, 7] == [getattr(jax.config, name) for name in names]
        assert logging.INFO == logging.getLogger("jax").level
    finally:
        for name, value in before.items():
            jax.config.update(name, value)


def test_cache_of_the_program_is_kept() -> None:
    folder = jax.config.jax_compilation_cache_dir
    compiler_settings._use_cache()()
    assert folder == jax.config.jax_compilation_cache_dir
