"""Commands about files and folders."""

from pivotrl.verifiers.shell.options import Tool, tool

_COPY = (
    "a/archive b backup? d f/force i/interactive H l/link L/dereference n/no-clobber P/no-dereference p preserve? "
    "no-preserve= parents R/r/recursive reflink? remove-destination s/symbolic-link S/suffix= t/target-directory= "
    "T/no-target-directory u/update v/verbose x/one-file-system strip-trailing-slashes debug sparse="
)

FILES: dict[str, Tool] = {
    "cd": tool("L P e", operands="paths"),
    "ls": tool(
        "a/all A/almost-all author b/escape block-size= B/ignore-backups c C color? d/directory f F/classify? "
        "file-type format= full-time g group-directories-first G/no-group h/human-readable si H hide= i/inode "
        "I/ignore= k/kibibytes l L/dereference m n/numeric-uid-gid N/literal o p q/hide-control-chars Q/quote-name "
        "quoting-style= r/reverse R/recursive s/size S sort= time= time-style= t T/tabsize= u U v w/width= x X Z 1",
        operands="paths",
        default=".",
        free=True,
        exclusive="S/t/U/v/X/sort/f/c/u l/1/C/x/m/g/o/n/format/full-time a/A",
    ),
    "tree": tool(
        "a d f L= P= I= i s h p u g D t r C n noreport dirsfirst F gitignore prune",
        operands="paths",
        default=".",
        free=True,
    ),
    "cp": tool(_COPY, operands="paths", keep_slash=True, free=True, paths="t", exclusive="i/n/f a/d/p/P/L/H"),
    "mv": tool(
        "b backup? f/force i/interactive n/no-clobber S/suffix= t/target-directory= T/no-target-directory u/update "
        "v/verbose strip-trailing-slashes",
        operands="paths",
        keep_slash=True,
        free=True,
        paths="t",
        exclusive="i/n/f",
    ),
    "rm": tool(
        "f/force i I interactive? r/R/recursive d/dir v/verbose one-file-system no-preserve-root preserve-root?",
        operands="paths",
        unordered=True,
        free=True,
        exclusive="f/i/I/interactive",
    ),
    "mkdir": tool("m/mode= p/parents v/verbose", operands="paths", unordered=True, free=True),
    "rmdir": tool("p/parents v/verbose ignore-fail-on-non-empty", operands="paths", unordered=True, free=True),
    "touch": tool(
        "a c/no-create d/date= f h/no-dereference m r/reference= t= time=",
        operands="paths",
        unordered=True,
        free=True,
        paths="r",
    ),
    "ln": tool(
        "b backup? d/F/directory f/force i/interactive L/logical n/no-dereference P/physical r/relative s/symbolic "
        "S/suffix= t/target-directory= T/no-target-directory v/verbose"
    ),
    "chmod": tool(
        "c/changes f/silent/quiet v/verbose R/recursive reference=",
        operands="mode paths",
        unordered=True,
        free=True,
    ),
    "chown": tool(
        "c/changes f/silent/quiet v/verbose h/no-dereference from= reference= R/recursive H L P",
        operands="mode paths",
        free=True,
        exclusive="H/L/P",
    ),
    "chgrp": tool("c/changes f/silent/quiet v/verbose R/recursive", operands="mode paths", free=True),
    "stat": tool("L/dereference f/file-system c/format= printf= t/terse", operands="paths", free=True),
    "file": tool("b/brief i/mime mime-type L/dereference z f= k", operands="paths", free=True),
    "du": tool(
        "0/null a/all apparent-size B/block-size= b/bytes c/total d/max-depth= h/human-readable si k m s/summarize "
        "S/separate-dirs L/dereference x/one-file-system X/exclude-from= exclude= t/threshold= time?",
        operands="paths",
        default=".",
        free=True,
        exclusive="h/k/m/b/B/si",
    ),
    "df": tool(
        "a/all B/block-size= h/human-readable H/si i/inodes k l/local P/portability t/type= T/print-type total "
        "x/exclude-type= output?",
        operands="paths",
        free=True,
        exclusive="h/H/k/B",
    ),
    "pwd": tool("L/logical P/physical"),
    "realpath": tool("e/canonicalize-existing m/canonicalize-missing s q z relative-to=", operands="paths", free=True),
    "readlink": tool("f/canonicalize e m n/no-newline q s v z", operands="paths", free=True),
    "md5sum": tool("b/binary c/check t/text quiet status w/warn", operands="paths", free=True),
    "sha256sum": tool("b/binary c/check t/text quiet status w/warn", operands="paths", free=True),
    "tar": tool(
        "c/create x/extract/get t/list r/append u/update f/file= C/directory= v/verbose z/gzip/gunzip j/bzip2 J/xz "
        "zstd a/auto-compress O/to-stdout p/preserve-permissions P/absolute-names k/keep-old-files h/dereference "
        "exclude= strip-components= transform= T/files-from= X/exclude-from= wildcards overwrite same-owner "
        "no-same-owner W/verify m/touch one-top-level? numeric-owner owner= group=",
        paths="f",
        positional="C exclude",
    ),
    "gzip": tool(
        "c/stdout d/decompress f/force k/keep l/list n/no-name q/quiet r/recursive t/test v/verbose 1/fast 9/best",
        operands="paths",
        free=True,
    ),
    "unzip": tool("l o n q v j t p d= x=", operands="paths", paths="d"),
    "zip": tool("r q v j 9 x= u", keep_dashes=True),
    "rsync": tool(
        "a/archive v/verbose r/recursive z/compress n/dry-run delete exclude= include= P progress e/rsh= h q/quiet "
        "u/update l/links p/perms t/times partial",
        exclusive="exclude/include",
    ),
    "mktemp": tool("d/directory q/quiet p=/tmpdir? t u/dry-run suffix="),
}
