"""Trials: runs of one configuration of a tuned kernel on a call's own arguments."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Any, Protocol

from tile.runtime.arguments.snapshot import Snapshot, fill_zero
from tile.runtime.autotuning.configs import Call, Config, user_code


class Tuner(Protocol):
    """The part of an autotuner that a trial uses."""

    __name__: str
    reset_to_zero: list[str]
    pre_hook: Callable[..., object]
    post_hook: Callable[..., object]
    user_defined_pre_hook: bool
    user_defined_post_hook: bool

    def launch(self, call: Call, config: Config) -> Any:
        """Run the wrapped kernel, without hooks."""


class Trial:
    """One configuration on a call's arguments; `before`, `launch` and `after` make up one run."""

    def __init__(self, tuner: Tuner, config: Config, call: Call, snapshot: Snapshot) -> None:
        self.tuner = tuner
        self.config = config
        self.call = call
        self.snapshot = snapshot
        self.failures: list[Exception] = []  # raised by its runs; `do_bench` propagates them

    def before(self) -> None:
        self.snapshot.restore()
        for name in self.tuner.reset_to_zero:
            if self.call.named.get(name) is not None:
                fill_zero(name, self.call.named[name])
        prepare(self.config, self.call.named, self.tuner.__name__)
        if self.tuner.user_defined_pre_hook:
            with self._hook("pre_hook"):
                self.tuner.pre_hook(self.call.arguments(self.config))

    def launch(self) -> None:
        try:
            self.tuner.launch(self.call, self.config)
        except Exception as error:
            self._post(error)
            raise

    def after(self) -> None:
        self._post(None)

    def _post(self, error: Exception | None) -> None:
        if not self.tuner.user_defined_post_hook:
            return
        with self._hook("post_hook"):
            try:
                arguments = self.call.arguments(self.config)
                self.tuner.post_hook(arguments, exception=error)
            except Exception as raised:
                if raised is not error:  # re-raising its argument is not an error of the hook
                    raise

    def _hook(self, hook: str) -> AbstractContextManager[None]:
        return user_code(f"the {hook} of {self.tuner.__name__}, on configuration {self.config},")

    def __call__(self) -> None:
        try:
            self.before()
            self.launch()
            self.after()
        except Exception as error:
            self.failures.append(error)
            raise


def prepare(config: Config, named: Mapping[str, Any], kernel: str) -> None:
    """Call the hook of a configuration with the arguments of a launch, which are by name."""
    if config.pre_hook is not None:
        try:
            config.pre_hook({**named, **config.all_kwargs()})
        except Exception as error:
            with user_code(f"the pre_hook of configuration {config} of {kernel}"):
                raise error
