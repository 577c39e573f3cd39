"""Seconds of each step; what the first run compiles is kept apart."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

COMPILE = "compile, once"


@dataclass
class Clock:
    """Measures the steps of a job.

    Attributes
    ----------
    seconds : dict of str to float
        By step. Compiled code is kept on disk: only the first run after installation has the step
        `COMPILE`, and no other step counts it.
    on_compile : callable or None
        Called when compiling begins, for the first time.
    """

    seconds: dict[str, float] = field(default_factory=dict)
    on_compile: Callable[[], Any] | None = None

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        """Time the block and keep it under `name`."""
        from numba.core.event import TimingListener, install_listener

        clock = self

        class Listener(TimingListener):
            def on_start(self, event: Any) -> None:
                if clock.on_compile is not None:
                    tell, clock.on_compile = clock.on_compile, None
                    tell()
                super().on_start(event)

        start = time.perf_counter()
        with install_listener("numba:compile", Listener()) as compiling:
            yield
        elapsed = time.perf_counter() - start
        if compiling.done:
            elapsed -= compiling.duration
            self.seconds[COMPILE] = self.seconds.get(COMPILE, 0.0) + compiling.duration
        self.seconds[name] = elapsed
