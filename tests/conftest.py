"""What every test may ask for."""

pytest_plugins = ["firearrow.testing.pytest_plugin"]
