"""Which language a file is written in, told from its name."""

from posixpath import basename

_SUFFIXES = {
    "python": "py pyi pyw pyx pxd bzl star gyp",
    "javascript": "js mjs cjs jsx",
    "typescript": "ts mts cts",
    "tsx": "tsx",
    "go": "go",
    "rust": "rs",
    "java": "java",
    "c": "c h",
    "cpp": "cc cpp cxx hpp hh hxx",
    "bash": "sh bash zsh ksh",
    "json": "json jsonc json5 ipynb geojson webmanifest",
    "yaml": "yaml yml",
    "toml": "toml",
    "ini": "ini cfg conf properties env",
    "makefile": "mk mak",
    "css": "css",
    "scss": "scss less",
    "ruby": "rb rake",
    "php": "php",
    "kotlin": "kt kts",
    "swift": "swift",
    "scala": "scala",
    "csharp": "cs",
    "text": "md markdown txt rst text log adoc csv tsv diff patch lock snap po out",
    "indented": "hs nim coffee pug jade sass haml slim fs elm",
}
_BY_SUFFIX = {suffix: language for language, suffixes in _SUFFIXES.items() for suffix in suffixes.split()}
_BY_NAME = {
    "makefile": "makefile",
    "gnumakefile": "makefile",
    "dockerfile": "dockerfile",
    "rakefile": "ruby",
    "gemfile": "ruby",
    ".env": "ini",
    ".gitignore": "text",
    ".dockerignore": "text",
    ".gitattributes": "text",
    "license": "text",
    "readme": "text",
    "changelog": "text",
}


def language_of(path: str) -> str | None:
    """The language's name as `source.compare` knows it; None where the name does not tell.

    A `.h` file is read as C; one that only C++ can read falls back to its tokens, as does all that does not parse.
    """
    name = basename(path.strip().rstrip("/")).lower()[-256:]
    if name in _BY_NAME:
        return _BY_NAME[name]
    return _BY_SUFFIX.get(name.rpartition(".")[2]) if "." in name else None
