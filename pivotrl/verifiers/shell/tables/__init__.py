"""What is known of the options of common commands: GNU's spelling, as their manuals give it."""

from pivotrl.verifiers.shell.options import Tool
from pivotrl.verifiers.shell.tables.files import FILES
from pivotrl.verifiers.shell.tables.git import GIT
from pivotrl.verifiers.shell.tables.network import NETWORK
from pivotrl.verifiers.shell.tables.packages import PACKAGES
from pivotrl.verifiers.shell.tables.programs import PROGRAMS
from pivotrl.verifiers.shell.tables.text import TEXT

TOOLS: dict[str, Tool] = {**FILES, **TEXT, **GIT, **PACKAGES, **NETWORK, **PROGRAMS}

OTHER_NAMES: dict[str, tuple[str, list[str]]] = {
    "egrep": ("grep", ["-E"]),
    "fgrep": ("grep", ["-F"]),
    "rgrep": ("grep", ["-r"]),
    "gunzip": ("gzip", ["-d"]),
    "zcat": ("gzip", ["-d", "-c"]),
    "source": (".", []),
}
"""A command that is another one with options."""
