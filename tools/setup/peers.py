"""What ./run bench … --peers measures beside Nonstop, all under .deps/peers and never needed otherwise:
wllama and Transformers.js (npm), llama.cpp and the tools that make their model files (pip), the files.

llama.cpp is compiled here for this machine's processor (-march=native), which is what a user gets.
"""

import os
import shutil

from common import DEPS, ROOT, Step, run
from npm import FLAGS, NODE

HOME = DEPS / "peers"
SOURCES = ROOT / "bench" / "peers"
PYTHON = HOME / "python"
MODEL_NAME = "smollm2-135m-instruct"
MODEL = DEPS / "models" / f"{MODEL_NAME}.gguf"
COMPILED = "llama-cpp-python"

# llama.cpp's numbers of the formats (llama_ftype).
REQUANTIZED = {"Q8_0": 7, "Q4_0": 2}
ONNX_TYPES = ["q8", "fp32"]


def install_npm(_pins):
    home, part = HOME / "npm", HOME / "npm.part"
    shutil.rmtree(part, ignore_errors=True)
    shutil.rmtree(home, ignore_errors=True)
    part.mkdir(parents=True)
    for name in ("package.json", "package-lock.json"):
        shutil.copy(SOURCES / name, part / name)
    npm = [NODE / "bin/node", NODE / "lib/node_modules/npm/bin/npm-cli.js"]
    path = f"{NODE / 'bin'}{os.pathsep}{os.environ.get('PATH', '')}"
    env = {"PATH": path, "npm_config_update_notifier": "false"}
    with Step("installing the peers' npm packages (490 MB)"):
        run([*npm, "ci", *FLAGS, "--loglevel=error"], "Installing npm packages", part, env, True)
    part.rename(home)


def install_python(pins):
    """Wheels first, among them what the compiled package is built with; then that package."""
    shutil.rmtree(PYTHON, ignore_errors=True)
    HOME.mkdir(parents=True, exist_ok=True)
    run([DEPS / "python/bin/python", "-m", "venv", PYTHON], "Making the peers' environment")
    packages = pins["peers"]["python"]
    with Step("installing the peers' Python packages"):
        wheels = [pin for pin in packages if pin["project"] != COMPILED]
        pip_install(wheels, ["--only-binary=:all:"])
    with Step("compiling llama.cpp (about 6 minutes)"):
        # pip's build must find scikit-build-core's helpers, and use the project's compiler.
        env = {
            "PATH": f"{PYTHON / 'bin'}{os.pathsep}{os.environ.get('PATH', '')}",
            "CC": "clang-19",
            "CXX": "clang++-19",
            "CMAKE_GENERATOR": "Ninja",
            "CMAKE_ARGS": "-DGGML_NATIVE=ON -DLLAVA_BUILD=OFF",
        }
        compiled = [pin for pin in packages if pin["project"] == COMPILED]
        pip_install(compiled, ["--no-binary=:all:", "--no-build-isolation"], env)


def pip_install(packages, options, env=None):
    requirements = HOME / "requirements.txt"
    lines = [f"{pin['project']}=={pin['version']} --hash=sha256:{pin['sha256']}" for pin in packages]
    requirements.write_text("\n".join(lines) + "\n", encoding="utf-8")
    command = [PYTHON / "bin/python", "-m", "pip", "install", "--no-deps", "--require-hashes"]
    command += ["--progress-bar=off", "--disable-pip-version-check", "--no-input"]
    command += ["--no-warn-script-location", "--retries=3", "--timeout=60", *options]
    run([*command, "-r", requirements], "Installing the peers' Python packages", env=env)


def make_models(_pins):
    """The default model in the formats in which the peers are fastest."""
    models = HOME / "models"
    models.mkdir(parents=True, exist_ok=True)
    python = PYTHON / "bin/python"
    for name, number in REQUANTIZED.items():
        path = models / f"{MODEL_NAME}.{name}.gguf"
        part = models / f"{MODEL_NAME}.{name}.part"
        with Step(f"making {path.name}"):
            command = [python, SOURCES / "requantize.py", MODEL, part, number]
            run(command, f"Making the model as {name}")
            part.rename(path)
    folder = models / f"{MODEL_NAME}-onnx"
    with Step("making the ONNX files (850 MB)"):
        shutil.rmtree(folder, ignore_errors=True)
        command = [python, SOURCES / "gguf_to_onnx.py", MODEL, folder, "--dtypes", *ONNX_TYPES]
        run(command, "Making the ONNX files", env={"OMP_NUM_THREADS": "1"})
