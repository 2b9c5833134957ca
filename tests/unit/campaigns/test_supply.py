"""Reports on builds and audits: a difference is named, and no data is not green."""

import io
import tarfile
import zipfile

import pytest

from campaigns.supply.audit import NO_DATA, Audit, judged, read_report
from campaigns.supply.builds import differences


def wheel(year: int = 2020, text: bytes = b"x") -> bytes:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as archive:
        archive.writestr(zipfile.ZipInfo("package/module.py", (year, 2, 2, 0, 0, 0)), text)
        archive.writestr(zipfile.ZipInfo("package/other.py", (2020, 2, 2, 0, 0, 0)), b"y")
    return data.getvalue()


def sdist(mode: int = 0o644, owner: str = "") -> bytes:
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w") as archive:
        member = tarfile.TarInfo("package/module.py")
        member.mode, member.uname = mode, owner
        archive.addfile(member)
    return data.getvalue()


@pytest.mark.parametrize(
    ("first", "second", "said"),
    [
        ({"a.whl": wheel()}, {"a.whl": wheel(2021)}, "a.whl: differs in package/module.py"),
        ({"a.whl": wheel()}, {"a.whl": wheel(text=b"z")}, "a.whl: differs in package/module.py"),
        ({"a.tar.gz": sdist()}, {"a.tar.gz": sdist(0o600)}, "a.tar.gz: differs in package/module.py"),
        ({"a.tar.gz": sdist()}, {"a.tar.gz": sdist(owner="me")}, "a.tar.gz: differs in package/module.py"),
        ({"a.whl": wheel()}, {"a.whl": wheel() + b"\0"}, "a.whl: differs in how it is packed"),
        ({"a.whl": wheel()}, {}, "a.whl: built once alone"),
    ],
)
def test_a_difference_is_named(first: dict[str, bytes], second: dict[str, bytes], said: str) -> None:
    assert differences(first, second) == [said]
    assert differences(first, first) == []


SOUND = {"name": "sound", "version": "1", "vulns": []}
FAULTY = {"name": "faulty", "version": "2", "vulns": [{"id": "PYSEC-1", "fix_versions": ["3"]}]}
SKIPPED = {"name": "unknown", "skip_reason": "not found"}


def audit(*dependencies: object) -> Audit:
    return read_report("pypi", {"dependencies": list(dependencies)})


def test_no_data_is_not_green() -> None:
    for audits in ([], [audit()], [audit(SKIPPED), audit(SKIPPED, SKIPPED)]):
        status, lines = judged(audits)
        assert status == NO_DATA
        assert "NO DATA" in lines[0]


def test_what_was_not_looked_up_is_named() -> None:
    assert judged([audit(SOUND)]) == (0, ["pypi: 1 looked up, 0 not, 0 faults"])
    status, lines = judged([audit(SOUND, SKIPPED), audit(SKIPPED)])
    assert status == 0
    assert lines[-1] == "  NOT AUDITED: unknown"
    assert judged([audit(SOUND, SKIPPED), audit({**SOUND, "name": "unknown"})])[1][-1].endswith("0 faults")


def test_a_fault_is_red() -> None:
    status, lines = judged([audit(SOUND, FAULTY), audit(SKIPPED)])
    assert status == 1
    assert lines[1] == "  FAULT faulty 2: PYSEC-1, mended in 3"
