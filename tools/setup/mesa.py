"""Mesa's software Vulkan driver (lavapipe 25) for tests, from Debian's backports.

Debian 12's own lavapipe cuts every shader loop at 65,535 iterations and Dawn refuses it. The newer
package is only unpacked under .deps/mesa, with a driver manifest that points there: use it by
VK_DRIVER_FILES=.deps/mesa/lvp_icd.json. apt reads backports from a private list, so that the
system's own sources stay as they are.
"""

import json
import shutil
import subprocess

from common import DEPS, DOWNLOADS, SetupError, Step, check_file, run

HOME = DEPS / "mesa"
KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"


def mirror():
    """The mirror that this machine's apt already uses for Debian 12."""
    command = ["apt-get", "indextargets", "--format", "$(SITE)", "Identifier: Packages"]
    for release in ("bookworm", "stable"):
        done = subprocess.run(
            [*command, f"Release: {release}"], capture_output=True, text=True, check=False
        )
        sites = done.stdout.split()
        if sites:
            return sites[0]
    raise SetupError("apt's sources name no mirror for Debian 12 (bookworm), from which Mesa comes.")


def fetch(pin):
    path = DOWNLOADS / f"{pin['package']}_{pin['version'].replace('~', '-')}.deb"
    if path.exists():
        try:
            check_file(path, pin, f'The downloaded file "{path.name}"')
            return path
        except SetupError:
            path.unlink()
    folder = DOWNLOADS / "apt"
    shutil.rmtree(folder, ignore_errors=True)
    for name in ("lists/partial", "cache/archives/partial"):
        (folder / name).mkdir(parents=True)
    (folder / "sources.list").write_text(
        f"deb [signed-by={KEYRING}] {mirror()} {pin['suite']} main\n", encoding="utf-8"
    )
    options = {
        "Dir::Etc::sourcelist": folder / "sources.list",
        "Dir::Etc::sourceparts": "-",
        "Dir::State::lists": folder / "lists",
        "Dir::Cache": folder / "cache",
        "APT::Sandbox::User": "",
        "Acquire::Retries": "3",
    }
    apt = ["apt-get", *(word for key, value in options.items() for word in ("-o", f"{key}={value}"))]
    run([*apt, "update"], f"Reading the list of {pin['suite']}", downloads=True)
    wanted = f"{pin['package']}={pin['version']}"
    run([*apt, "download", wanted], f'Downloading "{wanted}"', cwd=folder, downloads=True)
    found = list(folder.glob("*.deb"))
    if len(found) != 1:
        raise SetupError(f'Downloading "{wanted}" gave ({len(found)}) files, not one.')
    check_file(found[0], pin, f'The package "{wanted}"')
    found[0].rename(path)
    shutil.rmtree(folder)
    return path


def install(pins):
    pin = pins["debs"]["mesa"]
    part = DEPS / "mesa.part"
    with Step(f"fetching {pin['package']} {pin['version']}"):
        DOWNLOADS.mkdir(parents=True, exist_ok=True)
        deb = fetch(pin)
        shutil.rmtree(part, ignore_errors=True)
        shutil.rmtree(HOME, ignore_errors=True)
        run(["dpkg", "-x", deb, part], "Unpacking Mesa")
    drivers = list(part.rglob("libvulkan_lvp.so"))
    manifests = list(part.rglob("lvp_icd*.json"))
    if len(drivers) != 1 or len(manifests) != 1:
        raise SetupError(f"The package {deb.name} holds no lavapipe driver with its manifest.")
    manifest = json.loads(manifests[0].read_text(encoding="utf-8"))
    manifest["ICD"]["library_path"] = str(HOME / drivers[0].relative_to(part))
    (part / "lvp_icd.json").write_text(json.dumps(manifest, indent=2) + "\n", encoding="utf-8")
    part.rename(HOME)
