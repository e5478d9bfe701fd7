"""Commands that run, watch or stop programs."""

from pivotrl.verifiers.shell.options import Tool, tool

_docker_run = tool(
    "d/detach i/interactive t/tty rm name= e/env= env-file= p/publish= P/publish-all v/volume= mount= w/workdir= "
    "u/user= network/net= entrypoint= h/hostname= l/label= m/memory= cpus= gpus= restart= privileged platform= init "
    "add-host= link= shm-size= cap-add= cap-drop= read-only pull= log-driver= ipc= ulimit= security-opt= tmpfs= "
    "device=",
    permute=False,
    operands="mode elsewhere",
    exclusive="v/mount",
)
_docker_exec = tool(
    "d/detach i/interactive t/tty e/env= u/user= w/workdir= privileged", permute=False, operands="mode elsewhere"
)
_docker_ps = tool("a/all q/quiet f/filter= n/last= l/latest no-trunc s/size format=")
_docker_images = tool("a/all q/quiet f/filter= no-trunc digests format=")
_docker_rmi = tool("f/force no-prune", unordered=True)
_compose = tool(
    "f/file= p/project-name= profile= env-file= project-directory=",
    permute=False,
    sub={
        "up": tool("d/detach build force-recreate no-deps no-build remove-orphans scale= wait V/renew-anon-volumes"),
        "down": tool("v/volumes remove-orphans rmi= t/timeout="),
        "build": tool("no-cache pull q/quiet build-arg="),
        "ps": tool("a/all q/quiet services format="),
        "logs": tool("f/follow n/tail= t/timestamps no-color since="),
        "restart": tool("t/timeout="),
        "stop": tool("t/timeout="),
    },
)

PROGRAMS: dict[str, Tool] = {
    "sudo": tool(
        "E/preserve-env H/set-home n/non-interactive u/user= g/group= S/stdin k b/background",
        permute=False,
        operands="command",
    ),
    "time": tool("p/portability v/verbose f/format= o/output= a/append", permute=False, operands="command"),
    "nohup": tool(permute=False, operands="command"),
    "setsid": tool("f/fork w/wait c/ctty", permute=False, operands="command"),
    "nice": tool("n/adjustment=", permute=False, operands="command"),
    "ionice": tool("c/class= n/classdata= t/ignore", permute=False, operands="command"),
    "stdbuf": tool("i/input= o/output= e/error=", permute=False, operands="command"),
    "exec": tool("c l a=", permute=False, operands="command"),
    "command": tool("p v V", permute=False, operands="command"),
    "timeout": tool(
        "k/kill-after= s/signal= v/verbose foreground preserve-status",
        permute=False,
        operands="mode command",
        durations=True,
    ),
    "xargs": tool(
        "0/null a/arg-file= d/delimiter= E= I= L= n/max-args= P/max-procs= p/interactive r/no-run-if-empty "
        "s/max-chars= t/verbose x/exit show-limits process-slot-var=",
        permute=False,
        operands="command",
        exclusive="I/L/n",
    ),
    "python": tool("b B d E i I O q s S u v x c= m= W= X=", permute=False, last="c m", operands="program", default="-"),
    "node": tool("e/eval= p/print= r/require= c/check i/interactive", permute=False, last="e p", operands="program"),
    "ps": tool(
        "A/e/every a d f F l j u= p/pid= C= o/format= H/forest N L sort= no-headers ww w x", exclusive="o/f/F/l/j"
    ),
    "pgrep": tool("f/full l/list-name a/list-full u/euid= x/exact n/newest o/oldest c/count d/delimiter= P/parent="),
    "pkill": tool("f/full u/euid= x/exact n/newest o/oldest signal= P/parent="),
    "sleep": tool("", free=True, durations=True),
    "which": tool("a/all", free=True),
    "type": tool("a t p P f", free=True),
    "true": tool("", free=True),
    "false": tool("", free=True),
    "whoami": tool("", free=True),
    "hostname": tool("f/fqdn i I/all-ip-addresses s/short", free=True),
    "uname": tool(
        "a/all s/kernel-name n/nodename r/kernel-release v/kernel-version m/machine p/processor "
        "i/hardware-platform o/operating-system",
        free=True,
    ),
    "id": tool("u/user g/group G/groups n/name r/real", free=True),
    "date": tool("u/utc/universal d/date= I? R/rfc-email r/reference= s/set= iso-8601?", free=True),
    "seq": tool("f/format= s/separator= w/equal-width", permute=False, free=True),
    "env": tool("i/ignore-environment u/unset= 0/null", permute=False, keep_dashes=True),
    "lsof": tool("i? p= u= t n P a"),
    "netstat": tool("a/all t/tcp u/udp l/listening n/numeric p/programs r/route"),
    "ss": tool("a/all t/tcp u/udp l/listening n/numeric p/processes s/summary"),
    "free": tool("b/bytes k/kibi m/mebi g/gibi h/human s/seconds= t/total w/wide", free=True, exclusive="b/k/m/g/h"),
    "systemctl": tool("a/all n/lines= no-pager l/full q/quiet now t/type= state= user system f/force"),
    "journalctl": tool("u/unit= f/follow n/lines= no-pager x e r/reverse b? since/S= until/U= p/priority= k/dmesg"),
    "docker": tool(
        "H/host= D/debug c/context=",
        permute=False,
        sub={
            "run": _docker_run,
            "exec": _docker_exec,
            "ps": _docker_ps,
            "images": _docker_images,
            "rmi": _docker_rmi,
            "build": tool(
                "t/tag= f/file= no-cache pull q/quiet build-arg= target= platform= progress= load push rm network= "
                "label= secret= ssh= cache-from= output/o="
            ),
            "logs": tool("f/follow n/tail= t/timestamps since= until= details"),
            "stop": tool("t/time= s/signal=", unordered=True),
            "start": tool("a/attach i/interactive"),
            "restart": tool("t/time="),
            "kill": tool("s/signal="),
            "rm": tool("f/force v/volumes l/link", unordered=True),
            "pull": tool("a/all-tags q/quiet platform="),
            "push": tool("a/all-tags q/quiet"),
            "inspect": tool("f/format= s/size type="),
            "cp": tool("a/archive L/follow-link q/quiet"),
            "tag": tool(),
            "compose": _compose,
        },
    ),
    "docker-compose": _compose,
}
PROGRAMS["python3"] = PROGRAMS["python"]
PROGRAMS["python2"] = PROGRAMS["python"]
