"""Suites that every implementation of a door must pass: real, simulated, or yours.

Each suite is a tuple of checks, coroutines that take the door and raise ``AssertionError`` when it breaks a
promise::

    @pytest.mark.parametrize("check", DISK_CHECKS, ids=lambda check: check.__name__)
    def test_disk(check, tmp_path):
        asyncio.run(check(RealDisk(str(tmp_path))))
"""
