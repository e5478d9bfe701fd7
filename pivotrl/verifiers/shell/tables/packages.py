"""Package managers and build tools."""

from pivotrl.verifiers.shell.options import Tool, tool

_pip_install = tool(
    "r/requirement= c/constraint= no-deps pre e/editable= dry-run t/target= user root= prefix= U/upgrade "
    "upgrade-strategy= force-reinstall I/ignore-installed no-build-isolation break-system-packages no-binary= "
    "only-binary= prefer-binary no-cache-dir q/quiet v/verbose i/index-url/pypi-url= extra-index-url= f/find-links= "
    "no-index trusted-host= disable-pip-version-check progress-bar= timeout= retries= root-user-action= src= "
    "config-settings= report= no-warn-script-location no-input",
    paths="r c t",
    unordered=True,
    literal_globs=True,
)
_PIP = tool(
    "q/quiet v/verbose disable-pip-version-check no-input no-cache-dir",
    permute=False,
    shared=True,
    sub={
        "install": _pip_install,
        "uninstall": tool("y/yes r/requirement= q/quiet break-system-packages", unordered=True, paths="r"),
        "list": tool("o/outdated u/uptodate e/editable l/local user format= not-required pre"),
        "show": tool("f/files v/verbose q/quiet"),
        "freeze": tool("l/local user all exclude-editable r/requirement= exclude="),
        "check": tool(),
        "download": tool(
            "d/dest= no-deps r/requirement= no-binary= only-binary= platform= python-version=", paths="d r"
        ),
        "wheel": tool("w/wheel-dir= no-deps r/requirement=", paths="w r"),
        "config": tool(),
        "cache": tool(),
        "index": tool(),
    },
)
_apt_install = tool(
    "y/yes/assume-yes q/quiet no-install-recommends install-recommends f/fix-broken d/download-only s/simulate "
    "reinstall allow-downgrades fix-missing/m o/option= t/target-release= no-upgrade only-upgrade purge "
    "allow-unauthenticated V/verbose-versions",
    unordered=True,
)
_apt_alone = tool(
    "y/yes/assume-yes q/quiet o/option= fix-missing/m allow-releaseinfo-change purge auto-remove/autoremove"
)
_APT = tool(
    "y/yes/assume-yes q/quiet o/option= f/fix-broken",
    permute=False,
    shared=True,
    sub={
        "install": _apt_install,
        "remove": _apt_install,
        "purge": _apt_install,
        "update": _apt_alone,
        "upgrade": _apt_alone,
        "dist-upgrade": _apt_alone,
        "autoremove": _apt_alone,
        "clean": _apt_alone,
        "search": tool("n/names-only f/full"),
        "list": tool("installed upgradable a/all-versions"),
        "show": tool("a/all-versions"),
    },
)
_npm_install = tool(
    "D/save-dev S/save P/save-prod O/save-optional E/save-exact no-save g/global f/force legacy-peer-deps no-audit "
    "no-fund ignore-scripts s/silent prefix= omit= include= production package-lock-only prefer-offline verbose",
    unordered=True,
)
_npm_script = tool("s/silent if-present w/workspace= prefix=", permute=False, keep_dashes=True)
_npm_test = tool("s/silent", permute=False, keep_dashes=True)
_npm_clean = tool("f/force legacy-peer-deps no-audit no-fund ignore-scripts omit= silent")
_npm_uninstall = tool("D/save-dev S/save g/global no-save", unordered=True)

_NPM_NAMES = dict.fromkeys(("i", "add"), "install") | dict.fromkeys(("remove", "rm"), "uninstall")
_NPM_NAMES |= {"clean-install": "ci", "run-script": "run", "t": "test"}

PACKAGES: dict[str, Tool] = {
    "pip": _PIP,
    "pip3": _PIP,
    "apt-get": _APT,
    "apt": _APT,
    "npm": tool(
        "s/silent prefix=",
        permute=False,
        paths="prefix",
        other_names=_NPM_NAMES,
        sub={
            "install": _npm_install,
            "i": _npm_install,
            "add": _npm_install,
            "ci": _npm_clean,
            "clean-install": _npm_clean,
            "uninstall": _npm_uninstall,
            "remove": _npm_uninstall,
            "rm": _npm_uninstall,
            "run": _npm_script,
            "run-script": _npm_script,
            "test": _npm_test,
            "t": _npm_test,
            "start": tool("s/silent", permute=False, keep_dashes=True),
            "init": tool("y/yes f/force", keep_dashes=True),
            "list": tool("depth= a/all g/global json l/long"),
        },
    ),
    "make": tool(
        "B/always-make C/directory= d debug? e/environment-overrides f/file/makefile= i/ignore-errors I/include-dir= "
        "j/jobs# k/keep-going S/stop/no-keep-going l/load-average# n/just-print/dry-run/recon o/old-file= "
        "p/print-data-base q/question r/no-builtin-rules R/no-builtin-variables s/silent/quiet t/touch "
        "w/print-directory no-print-directory W/what-if= O?/output-sync? trace",
        directory="C",
        exclusive="k/S",
    ),
    "cargo": tool(
        "q/quiet v/verbose",
        permute=False,
        sub={
            name: tool(
                "r/release p/package= workspace/all all-targets all-features no-default-features features/F= bin= "
                "bins example= test= lib j/jobs= v/verbose q/quiet target= manifest-path= locked offline no-run "
                "no-fail-fast fix allow-dirty",
                keep_dashes=True,
                permute=name not in ("run", "test", "bench"),
            )
            for name in ("build", "check", "test", "run", "clippy", "bench", "doc", "clean", "fmt", "fetch")
        },
    ),
    "pytest": tool(
        "v/verbose q/quiet s x/exitfirst k= m= maxfail= lf/last-failed ff/failed-first nf/new-first sw/stepwise tb= "
        "l/showlocals r= c= rootdir= p= n/numprocesses= cov? cov-report= durations= co/collect-only "
        "junitxml/junit-xml= W/pythonwarnings= color= capture= no-header no-summary strict-markers ignore= "
        "ignore-glob= deselect= import-mode= o/override-ini= timeout= disable-warnings/disable-pytest-warnings "
        "cache-clear basetemp= continue-on-collection-errors fixtures setup-show pdb trace randomly-seed=",
        operands="paths",
        literal_globs=True,
    ),
}
