"""The settings in force, and the callbacks for their changes."""

from collections.abc import Callable

from firearrow.broker.settings.config import BrokerConfig, BrokerSettings


class LiveSettings:
    """Settings that an operator may change while the broker runs."""

    def __init__(self, value: BrokerSettings) -> None:
        self.value = value
        self.on_change: list[Callable[[], None]] = []
        """Callbacks that are called after every change."""

    @property
    def broker(self) -> BrokerConfig:
        """The broker's own settings."""
        return self.value.broker

    def replace(self, value: BrokerSettings) -> None:
        """Put other settings in force."""
        self.value = value
        for call in self.on_change:
            call()
