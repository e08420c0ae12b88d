"""Debian packages: finds what is missing, installs only that, records the versions.

Without the right to install, the exact command is printed instead and set-up fails.
"""

import os
import platform
import shutil
import subprocess

from common import DEPS, SetupError, Step, run


def installed_versions(packages):
    """{package: version} of those that dpkg has fully installed."""
    command = ["dpkg-query", "-W", "-f", "${Package}\t${Version}\t${db:Status-Status}\n", *packages]
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
        )
    except OSError as error:
        raise SetupError(
            "This set-up installs Debian packages, but dpkg-query did not start "
            f"({error}). Nonstop is built on Debian 12; install the like of: {' '.join(packages)}."
        ) from error
    rows = (line.split("\t") for line in done.stdout.splitlines())
    return {name: version for name, version, status in rows if status == "installed"}


def privilege():
    """The words before apt-get, or None where nobody may install."""
    if os.geteuid() == 0:
        return []
    try:
        done = subprocess.run(["sudo", "-n", "true"], capture_output=True, check=False)
    except OSError:
        return None
    return ["sudo", "-n"] if done.returncode == 0 else None


def install(packages):
    """`packages` maps each package to a file that it brings."""
    missing = sorted(set(packages) - set(installed_versions(packages)))
    if missing:
        words = privilege()
        if words is None:
            # The same sentence as in `ensure`.
            who, sudo = ("", "sudo ") if shutil.which("sudo") else (" as root", "")
            raise SetupError(
                "System packages are missing and this user may not install them; run this line"
                f"{who}, then try again: {sudo}apt-get update && {sudo}apt-get install -y "
                f"--no-install-recommends {' '.join(missing)}"
            )
        apt = [*words, "env", "DEBIAN_FRONTEND=noninteractive", "apt-get"]
        apt += ["-o", "DPkg::Lock::Timeout=300", "-o", "Acquire::Retries=3"]
        with Step(f"installing {' '.join(missing)}"):
            run([*apt, "update"], "Refreshing the list of system packages", downloads=True)
            run(
                [*apt, "install", "-y", "--no-install-recommends", *missing],
                "Installing system packages",
                downloads=True,
                whole=True,
            )
    for package, path in packages.items():
        if not os.path.exists(path):
            raise SetupError(
                f'Package "{package}" is installed, but its file ({path}) is missing. '
                f"Run: apt-get install --reinstall {package}"
            )


def record(packages):
    """Writes the versions of all system packages that the project uses."""
    versions = installed_versions(packages)
    lines = [f"# {platform.platform()}"]
    lines += [f"{name} {versions[name]}" for name in sorted(versions)]
    (DEPS / "system-packages.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
