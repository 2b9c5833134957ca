"""What every test may ask for."""

pytest_plugins = ["firearrow.testing.apache.pytest_plugin"]
