"""curl, wget, ssh."""

from pivotrl.verifiers.shell.options import Tool, tool

NETWORK: dict[str, Tool] = {
    "curl": tool(
        "a/append A/user-agent= b/cookie= c/cookie-jar= C/continue-at= compressed connect-timeout= d/data/data-ascii= "
        "data-binary= data-raw= data-urlencode= json= D/dump-header= e/referer= f/fail fail-with-body F/form= G/get "
        "H/header= i/include/show-headers I/head k/insecure L/location m/max-time= N/no-buffer o/output= O/remote-name "
        "J/remote-header-name p/proxytunnel R/remote-time s/silent S/show-error T/upload-file= u/user= v/verbose "
        "w/write-out= x/proxy= X/request= retry= retry-delay= cacert= E/cert= key= max-redirs= http1.1 http2 "
        "progress-bar create-dirs resolve= Z/parallel 4/ipv4 6/ipv6",
        attached=False,
        paths="o",
        exclusive="d/data-binary/data-raw/data-urlencode/json o/O",
    ),
    "wget": tool(
        "q/quiet v/verbose nv/no-verbose b/background c/continue O/output-document= P/directory-prefix= r/recursive "
        "l/level= k/convert-links p/page-requisites N/timestamping S/server-response t/tries= T/timeout= "
        "U/user-agent= header= no-check-certificate post-data= post-file= user= password= nc/no-clobber i/input-file= "
        "progress= show-progress limit-rate= spider m/mirror A/accept= R/reject= content-disposition method= "
        "body-data= max-redirect= e/execute= a/append-output= o/output-file=",
        paths="P O",
    ),
    "ssh": tool("i= p= l= o= v q T t N f L= R= D= A C 4 6", permute=False),
    "ping": tool("c= i= W= w= q n 4 6 s=", free=True),
}
