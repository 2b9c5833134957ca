"""What every test may ask for."""

from hypothesis import settings

pytest_plugins = ["firearrow.testing.apache.pytest_plugin"]

# A machine that is busy elsewhere says nothing about an example: what must be fast has a benchmark of its own.
settings.register_profile("firearrow", deadline=None)
settings.load_profile("firearrow")
