"""git's sub-commands. `--` stays where it parts revisions from paths."""

from pivotrl.verifiers.shell.options import Tool, tool

_SHOWN = (
    "p/u/patch s/no-patch U/unified= stat? numstat shortstat name-only name-status summary raw patch-with-stat color? "
    "no-color word-diff? color-words? w/ignore-all-space b/ignore-space-change ignore-blank-lines M?/find-renames? "
    "C?/find-copies? diff-filter= S= G= a/text binary full-index no-renames no-ext-diff relative? z R check minimal "
    "patience histogram inter-hunk-context= W/function-context exit-code quiet diff-algorithm= no-prefix submodule? "
)
_LISTED = (
    "n/max-count= skip= since/after= until/before= author= committer= grep= i/regexp-ignore-case all-match merges "
    "no-merges first-parent all branches? tags? remotes? graph oneline pretty/format? decorate? no-decorate follow L= "
    "reverse date= abbrev-commit no-abbrev-commit abbrev? topo-order date-order left-right cherry-pick cherry m cc c "
    "show-signature walk-reflogs/g E/extended-regexp F/fixed-strings full-history simplify-by-decoration source "
)
_REVISIONS = {"keep_dashes": True, "pathspecs": True}
_PATHS = {"operands": "paths", "unordered": True}

_add = tool(
    "n/dry-run v/verbose f/force i/interactive p/patch e/edit u/update A/all/no-ignore-removal N/intent-to-add refresh "
    "ignore-errors ignore-missing renormalize chmod= no-all",
    **_PATHS,
)
_stash_push = tool(
    "p/patch k/keep-index no-keep-index u/include-untracked a/all q/quiet m/message= S/staged", **_REVISIONS
)
_stash_one = tool("index q/quiet")
_restore = tool(
    "s/source= p/patch W/worktree S/staged q/quiet ours theirs m/merge conflict= progress ignore-unmerged", **_PATHS
)
_commit = tool(
    "a/all p/patch C/reuse-message= c/reedit-message= fixup= squash= F/file= m/message= author= date= s/signoff "
    "no-signoff amend n/no-verify verify allow-empty allow-empty-message no-edit e/edit v/verbose q/quiet dry-run "
    "short porcelain long reset-author S?/gpg-sign? no-gpg-sign o/only i/include trailer= cleanup= t/template= "
    "u?/untracked-files?",
    **_REVISIONS,
)

GIT: dict[str, Tool] = {
    "git": tool(
        "C= c= p/paginate no-pager/P git-dir= work-tree= no-optional-locks literal-pathspecs",
        permute=False,
        directory="C",
        exclusive="p/no-pager",
        other_names={"stage": "add"},
        sub={
            "status": tool(
                "s/short b/branch show-stash porcelain? long v/verbose u?/untracked-files? ignored? z "
                "ignore-submodules? no-renames column?",
                **_REVISIONS,
            ),
            "diff": tool(f"{_SHOWN} cached/staged merge-base no-index", **_REVISIONS),
            "log": tool(f"{_SHOWN} {_LISTED}", **_REVISIONS, number="n"),
            "show": tool(f"{_SHOWN} {_LISTED}", **_REVISIONS, number="n"),
            "rev-list": tool(f"{_LISTED} count objects parents", **_REVISIONS, number="n"),
            "rev-parse": tool(
                "short? abbrev-ref? verify q/quiet show-toplevel git-dir is-inside-work-tree", **_REVISIONS
            ),
            "add": _add,
            "stage": _add,
            "commit": _commit,
            "checkout": tool(
                "q/quiet f/force ours theirs b= B= t/track? no-track l detach/d orphan= m/merge conflict= p/patch "
                "overwrite-ignore guess no-guess",
                **_REVISIONS,
            ),
            "switch": tool(
                "c/create= C/force-create= d/detach guess no-guess f/force/discard-changes m/merge q/quiet t/track? "
                "orphan=",
                **_REVISIONS,
            ),
            "restore": _restore,
            "reset": tool("q/quiet soft mixed hard merge keep p/patch N/intent-to-add", **_REVISIONS),
            "rm": tool("f/force n/dry-run r cached ignore-unmatch q/quiet", **_PATHS),
            "mv": tool("f/force k n/dry-run v/verbose", operands="paths", keep_slash=True),
            "branch": tool(
                "d/delete D m/move M c/copy C l/list a/all r/remotes v/verbose q/quiet f/force t/track? no-track "
                "u/set-upstream-to= unset-upstream show-current contains? no-contains? merged? no-merged? sort= "
                "format= color? no-color",
                **_REVISIONS,
            ),
            "tag": tool("a/annotate s/sign m/message= F/file= d/delete l/list f/force n? sort= points-at= contains?"),
            "stash": tool(
                "p/patch k/keep-index u/include-untracked a/all q/quiet m/message= S/staged",
                permute=False,
                bare="push",
                sub={
                    "push": _stash_push,
                    "pop": _stash_one,
                    "apply": _stash_one,
                    "drop": _stash_one,
                    "list": tool(f"{_LISTED}", number="n"),
                    "show": tool(f"{_SHOWN} include-untracked"),
                    "clear": tool(),
                },
            ),
            "clone": tool(
                "b/branch= depth= q/quiet v/verbose progress n/no-checkout bare mirror o/origin= single-branch "
                "no-single-branch recurse-submodules/recursive? filter= l/local no-hardlinks s/shared c/config= "
                "shallow-since= j/jobs= no-tags"
            ),
            "fetch": tool(
                "all a/append depth= unshallow f/force k/keep p/prune P/prune-tags t/tags n/no-tags q/quiet v/verbose "
                "j/jobs= dry-run recurse-submodules?"
            ),
            "pull": tool(
                "r/rebase? no-rebase ff no-ff ff-only q/quiet v/verbose all t/tags depth= autostash no-commit commit "
                "f/force p/prune"
            ),
            "push": tool(
                "u/set-upstream f/force force-with-lease? d/delete all tags follow-tags n/dry-run q/quiet v/verbose "
                "no-verify prune mirror atomic"
            ),
            "merge": tool(
                "m= no-ff ff ff-only squash no-commit commit abort continue q/quiet v/verbose s/strategy= "
                "X/strategy-option= no-edit e/edit allow-unrelated-histories"
            ),
            "rebase": tool("i/interactive onto= abort continue skip q/quiet autosquash autostash f/force-rebase"),
            "cherry-pick": tool("n/no-commit e/edit x abort continue skip m/mainline= s/signoff"),
            "revert": tool("n/no-commit no-edit e/edit m/mainline= abort continue"),
            "apply": tool(
                "check stat R/reverse 3/3way p= cached index reject whitespace= v/verbose unidiff-zero directory=",
                operands="paths",
            ),
            "blame": tool("L= w M? C? s e/show-email l t date= porcelain p", **_REVISIONS),
            "grep": tool(
                "i/ignore-case n/line-number w/word-regexp l/files-with-matches/name-only c/count E/extended-regexp "
                "F/fixed-strings P/perl-regexp G e= v/invert-match A= B= C= cached untracked o/only-matching q/quiet",
                **_REVISIONS,
                script="e",
                exclusive="E/F/P/G",
                spread={"C": ("A", "B")},
            ),
            "ls-files": tool(
                "c/cached d/deleted m/modified o/others s/stage u/unmerged exclude-standard z", **_REVISIONS
            ),
            "clean": tool("d f/force n/dry-run q/quiet x X e/exclude= i/interactive", **_REVISIONS),
            "init": tool("q/quiet bare b/initial-branch= template= shared?", operands="paths", default="."),
            "remote": tool("v/verbose", permute=False),
            "config": tool(
                "global system local worktree f/file= get get-all add unset unset-all l/list e/edit show-origin"
            ),
            "format-patch": tool("o/output-directory= stdout n/numbered s/signoff k", number="n"),
        },
    ),
}
