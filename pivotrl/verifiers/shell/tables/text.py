"""Commands that read text."""

from pivotrl.verifiers.shell.options import Tool, tool

_GREP = (
    "E/extended-regexp F/fixed-strings G/basic-regexp P/perl-regexp e/regexp= f/file= i/y/ignore-case no-ignore-case "
    "v/invert-match w/word-regexp x/line-regexp c/count color/colour? L/files-without-match l/files-with-matches "
    "m/max-count= o/only-matching q/quiet/silent s/no-messages b/byte-offset H/with-filename h/no-filename label= "
    "n/line-number T/initial-tab Z/null A/after-context= B/before-context= C/context= a/text binary-files= D/devices= "
    "d/directories= exclude= exclude-from= exclude-dir= I include= r/recursive R/dereference-recursive line-buffered "
    "U/binary z/null-data"
)

_RIPGREP = (
    "e/regexp= f/file= i/ignore-case S/smart-case s/case-sensitive v/invert-match w/word-regexp x/line-regexp c/count "
    "l/files-with-matches files-without-match m/max-count= o/only-matching q/quiet n/line-number N/no-line-number "
    "H/with-filename I/no-filename A/after-context= B/before-context= C/context= F/fixed-strings g/glob= iglob= "
    "t/type= T/type-not= u/unrestricted uu hidden no-ignore files color= colors= heading no-heading L/follow "
    "max-depth= U/multiline multiline-dotall P/pcre2 r/replace= sort= json vimgrep column z/search-zip a/text "
    "type-list no-messages"
)

TEXT: dict[str, Tool] = {
    "cat": tool(
        "A/show-all b/number-nonblank e E/show-ends n/number s/squeeze-blank t T/show-tabs u v/show-nonprinting",
        operands="paths",
        free=True,
    ),
    "tac": tool("b/before r/regex s/separator=", operands="paths", free=True),
    "nl": tool("b/body-numbering= n/number-format= w/number-width= s/number-separator=", operands="paths", free=True),
    "less": tool("N S R F X i", operands="paths", free=True),
    "more": tool("", operands="paths", free=True),
    "head": tool(
        "n/lines= c/bytes= q/quiet/silent v/verbose z/zero-terminated",
        operands="paths",
        free=True,
        number="n",
        number_first=1000,
        exclusive="n/c q/v",
        defaults={"n": "10"},
    ),
    "tail": tool(
        "n/lines= c/bytes= f/follow? F q/quiet/silent v/verbose s/sleep-interval= pid= retry z/zero-terminated",
        operands="paths",
        free=True,
        number="n",
        number_first=2,
        exclusive="n/c q/v f/F",
        defaults={"n": "10"},
    ),
    "grep": tool(
        _GREP,
        operands="paths",
        free=True,
        default="recursive",
        script="e f",
        paths="f exclude-from",
        number="C",
        spread={"C": ("A", "B")},
        exclusive="E/F/G/P i/no-ignore-case H/h l/L include/exclude r/R/d",
    ),
    "zgrep": tool(
        _GREP,
        operands="paths",
        free=True,
        script="e f",
        paths="f",
        spread={"C": ("A", "B")},
        exclusive="E/F/G/P i/no-ignore-case H/h l/L",
    ),
    "rg": tool(
        _RIPGREP,
        operands="paths",
        default=".",
        free=True,
        script="e f files type-list",
        spread={"C": ("A", "B")},
        exclusive="i/S/s n/N g/iglob t/T u/hidden/no-ignore",
    ),
    "sed": tool(
        "n/quiet/silent e/expression= f/file= E/r/regexp-extended i?/in-place? l/line-length= s/separate u/unbuffered "
        "z/null-data debug posix sandbox follow-symlinks",
        operands="paths",
        free=True,
        script="e f",
        paths="f",
        exclusive="e/f",
    ),
    "awk": tool("F/field-separator= v/assign= f/file=", operands="paths", permute=False, script="f", exclusive="F/v"),
    "sort": tool(
        "b/ignore-leading-blanks d/dictionary-order f/ignore-case g/general-numeric-sort i h/human-numeric-sort "
        "M/month-sort n/numeric-sort R/random-sort r/reverse V/version-sort c/check? C k/key= m/merge o/output= "
        "s/stable S/buffer-size= t/field-separator= T/temporary-directory= u/unique z/zero-terminated parallel= sort=",
        operands="paths",
        free=True,
        paths="o",
    ),
    "uniq": tool(
        "c/count d/repeated D f/skip-fields= i/ignore-case s/skip-chars= u/unique w/check-chars= z/zero-terminated",
        operands="paths",
        free=True,
    ),
    "wc": tool("c/bytes m/chars l/lines L/max-line-length w/words files0-from= total=", operands="paths", free=True),
    "cut": tool(
        "b/bytes= c/characters= d/delimiter= f/fields= n complement s/only-delimited output-delimiter= z",
        operands="paths",
        free=True,
    ),
    "paste": tool("d/delimiters= s/serial z", operands="paths", free=True),
    "tr": tool("c/C/complement d/delete s/squeeze-repeats t/truncate-set1", permute=False, free=True),
    "column": tool("t/table s/separator= c/output-width= x o/output-separator=", operands="paths", free=True),
    "diff": tool(
        "a/text b/ignore-space-change B/ignore-blank-lines brief/q c C=/context? color? E e/ed i/ignore-case n "
        "N/new-file p r/recursive s/report-identical-files side-by-side/y t/expand-tabs u U=/unified? "
        "w/ignore-all-space W/width= x/exclude= X/exclude-from= strip-trailing-cr suppress-common-lines Z",
        operands="paths",
        free=True,
    ),
    "cmp": tool("b/print-bytes l/verbose s/quiet/silent n/bytes= i/ignore-initial=", operands="paths", free=True),
    "comm": tool("1 2 3 z check-order nocheck-order", operands="paths", free=True),
    "tee": tool("a/append i/ignore-interrupts p", operands="paths", unordered=True, free=True),
    "xxd": tool("b c/cols= g= l/len= p/ps r s/seek= u", operands="paths", free=True),
    "jq": tool(
        "r/raw-output c/compact-output s/slurp n/null-input e/exit-status S/sort-keys M/monochrome-output "
        "C/color-output j/join-output R/raw-input f/from-file=",
        script="filter f",
        operands="paths",
        free=True,
    ),
    "echo": tool("n e E", operands="joined", permute=False, free=True, keep_dashes=True, exclusive="e/E"),
    "printf": tool("", permute=False, free=True, keep_dashes=True),
    "strings": tool("a/all n/bytes= t/radix= f", operands="paths", free=True),
}
