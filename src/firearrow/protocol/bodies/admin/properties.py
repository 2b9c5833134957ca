"""Settings as a body: Java properties text."""

import msgspec

from firearrow.errors import BadBody, SettingsError
from firearrow.settings.properties import format_properties, parse_properties


class PropertiesText(msgspec.Struct, frozen=True):
    """A body of settings."""

    values: dict[str, str]

    def encode(self) -> bytes:
        """Return the body's bytes."""
        return format_properties(self.values).encode()

    @classmethod
    def decode(cls, data: bytes) -> "PropertiesText":
        """Read a body, or raise ``BadBody``."""
        try:
            return cls(parse_properties(bytes(data).decode()))
        except UnicodeDecodeError as error:
            raise BadBody("settings are not UTF-8 text") from error
        except SettingsError as error:
            raise BadBody(str(error)) from error
