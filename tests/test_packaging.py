"""What a user gets: a light import, the public names, and a wheel that works on its own."""

import zipfile
from pathlib import Path, PurePosixPath

import pytest

import nodegp
from packages import ROOT, VERSION, build, run_python

PACKAGES = [ROOT / "src" / name for name in ("nodegp", "nodegp_paper")]
HEAVY = ("torch", "scipy", "sklearn", "pyarrow")


# ---------------------------------------------------------------- a light import


def loaded_after(code, cwd):
    """Which of the heavy packages are loaded once `code` has run in a fresh process."""
    report = f"\nimport sys; print('loaded:', *[name for name in {HEAVY!r} if name in sys.modules])"
    last = run_python("-c", code + report, cwd=cwd).splitlines()[-1]
    assert last.startswith("loaded:")
    return last.removeprefix("loaded:").split()


def test_the_probe_sees_a_heavy_import(tmp_path):
    assert "scipy" in loaded_after("import scipy", tmp_path)


def test_import_loads_nothing_heavy(tmp_path):
    assert loaded_after("import nodegp; dir(nodegp); nodegp.__version__", tmp_path) == []


def test_help_loads_nothing_heavy(tmp_path):
    code = """
import sys
from nodegp.cli import main
sys.argv = ["nodegp", "--help"]
try:
    main()
except SystemExit as stop:
    assert not stop.code, stop.code
"""
    assert loaded_after(code, tmp_path) == []


# ---------------------------------------------------------------- the public names


@pytest.mark.parametrize("name", nodegp.__all__)
def test_public_name_resolves(name):
    assert getattr(nodegp, name) is not None
    assert name in dir(nodegp)


def test_public_names_are_sorted_and_unique():
    assert nodegp.__all__ == sorted(set(nodegp.__all__))


def test_every_lazy_name_is_public():
    assert set(nodegp._HOME) <= set(nodegp.__all__)


def test_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = nodegp.no_such_name


# ---------------------------------------------------------------- the wheel


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    (path,) = build(tmp_path_factory.mktemp("wheel"), "--wheel")
    return path


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory):
    """A folder with nothing but the wheel's contents, as pip installs them."""
    target = tmp_path_factory.mktemp("site")
    run_python(
        *("-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--no-compile"),
        *("--disable-pip-version-check", "--target", str(target), str(wheel)),
        cwd=target,
    )
    return target


def is_expected(path):
    """Code, the typing marker, the report's template, the labelling page, and the data sets with
    their notes."""
    if path.parts[0] not in {"nodegp", "nodegp_paper"}:
        return path.parts[0].endswith(".dist-info")
    if path.parts[:2] == ("nodegp", "datasets") and path.suffix in {".npz", ".json", ".md"}:
        return True
    if path.parts[:3] == ("nodegp", "web", "static"):
        return path.suffix in {".html", ".css", ".js", ".svg"}
    others = {"nodegp/py.typed", "nodegp_paper/py.typed", "nodegp/report.html.j2"}
    return path.suffix == ".py" or str(path) in others


def test_wheel_holds_the_package_and_nothing_else(wheel):
    with zipfile.ZipFile(wheel) as archive:
        packed = {PurePosixPath(name) for name in archive.namelist()}
    assert [str(path) for path in sorted(packed) if not is_expected(path)] == []

    source = {
        PurePosixPath(path.relative_to(package.parent).as_posix())
        for package in PACKAGES
        for path in package.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert {
        path
        for path in packed
        if path.parts[0].startswith("nodegp") and ".dist" not in path.parts[0]
    } == source


def test_wheel_holds_the_bundled_data_and_the_licence(wheel):
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    assert "nodegp/py.typed" in names
    assert any(name.startswith("nodegp/datasets/") and name.endswith(".npz") for name in names)
    assert any(name.endswith(".dist-info/licenses/LICENSE") for name in names)


def test_wheel_names_the_command(wheel):
    with zipfile.ZipFile(wheel) as archive:
        (entry,) = [name for name in archive.namelist() if name.endswith("entry_points.txt")]
        assert "nodegp = nodegp.cli:main" in archive.read(entry).decode()


def test_installed_wheel_fits_cora_outside_the_checkout(installed, tmp_path):
    code = """
import nodegp
data = nodegp.load_dataset("cora")
model = nodegp.GraphGPClassifier(preprocessing="tfidf", random_state=0)
model.fit(data.graph, data.labels("train"))
print(nodegp.__file__)
print(nodegp.__version__)
print(model.score(data.graph, data.labels("test")))
"""
    output = run_python("-c", code, cwd=tmp_path, PYTHONPATH=str(installed))
    file, version, score = output.splitlines()[-3:]
    assert Path(file).is_relative_to(installed)
    assert version == VERSION
    assert float(score) > 0.75


def test_installed_wheel_has_the_command_line(installed, tmp_path):
    output = run_python("-m", "nodegp", "--help", cwd=tmp_path, PYTHONPATH=str(installed))
    assert "demo" in output
    assert "reproduce" in output  # of the laboratory, by its entry point


def test_no_file_is_longer_than_can_be_read_at_a_sitting():
    source = Path(nodegp.__file__).parent.parent
    lengths = {
        str(path.relative_to(source)): len(path.read_text(encoding="utf-8").splitlines())
        for package in ("nodegp", "nodegp_paper")
        for path in (source / package).rglob("*.py")
    }
    assert {name: length for name, length in lengths.items() if length > 400} == {}
