"""npm packages: exactly those of package-lock.json, put in by the pinned Node's own npm.

No package's install script runs. The lock file names no registry: npm uses the configured one.
"""

import os

from common import DEPS, ROOT, SetupError, Step, run

NODE = DEPS / "node24"


FLAGS = ["--ignore-scripts", "--include=dev", "--no-audit", "--no-fund", "--no-progress"]


def install():
    if not (ROOT / "package-lock.json").exists():
        raise SetupError("The file package-lock.json is missing from the repository's root.")
    npm = [NODE / "bin/node", NODE / "lib/node_modules/npm/bin/npm-cli.js"]
    path = f"{NODE / 'bin'}{os.pathsep}{os.environ.get('PATH', '')}"
    env = {"PATH": path, "npm_config_update_notifier": "false"}
    try:
        with Step("installing npm packages"):
            command = [*npm, "ci", *FLAGS, "--loglevel=error"]
            run(command, "Installing npm packages", env=env, downloads=True)
    except SetupError as error:
        error.tail = explanation(error.tail)
        raise


def explanation(output):
    """npm's own account of a failure, without the manual page that it appends."""
    account = output.split("npm error Clean install a project")[0]
    lines = [line for line in account.splitlines() if line not in ("npm error", "")]
    return "\n".join(line for line in lines if "A complete log of this run" not in line)
