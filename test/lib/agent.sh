# shellcheck shell=bash
#
# A program that does what it is told, and its agent. Source it after harness.sh, once $nfstab is written; write_behind_max
# must not be 0.
#
#     start_program      under the library, or by the words in $preload; its process is $program_pid
#     tell WORD...       it does that, and has answered: false if it ended. The words:
#                          put FILE PAGE LETTER   writes a page of $mnt/FILE
#                          sync FILE
#                          warm                   writes a page again and again, until the next line
#                          kill PID...
#                          wait                   $answer: what its wait() says
#     warm_up            from now on it leaves behind what it writes
#     end_program        it ends by itself, or was killed
#     agent COLUMN       of `stat agents`
#     has FILE PAGE LETTER    the server has that page
# shellcheck disable=SC2154 # set by harness.sh

program='import os, signal, sys, threading
files = {}
go_on = threading.Event()
def file(name):
    if name not in files: files[name] = os.open(sys.argv[1] + "/" + name, os.O_RDWR | os.O_CREAT)
    return files[name]
def put(name, page, letter): assert os.pwrite(file(name), letter.encode() * 8192, int(page) * 8192) == 8192
def sync(name): os.fsync(file(name))
def warm():
    go_on.clear()
    def work():
        while not go_on.wait(0.01): put("warm", 0, "w")
    threading.Thread(target=work).start()
def kill(*pids):
    for pid in pids: os.kill(int(pid), signal.SIGKILL)
def wait():
    try: print("a child", os.waitpid(-1, os.WNOHANG), flush=True)
    except ChildProcessError: print("no child", flush=True)
print(os.getpid(), flush=True)
for line in sys.stdin:
    go_on.set()
    words = line.split()
    {"put": put, "sync": sync, "warm": warm, "kill": kill, "wait": wait}[words[0]](*words[1:])
    print("done", flush=True)'
start_program() {
    rm -f "$T/to" "$T/from"
    mkfifo "$T/to" "$T/from"
    ${preload:-under_preload} python3 -c "$program" "$mnt" <"$T/to" >"$T/from" 2>>"$T/log/program" &
    disown $! # no "Killed" message of the shell
    exec 3>"$T/to" 4<"$T/from"
    read -r -t 120 program_pid <&4 || not_ok "start" "the program does not start"
}
tell() {
    local word
    answer=
    echo "$*" >&3
    while read -r -t 120 word <&4; do
        [ "$word" != "done" ] || return 0
        answer=$word
    done
    return 1
}
is_gone() { ! kill -0 "$1" 2>/dev/null; }
end_program() {
    exec 3>&- 4<&-
    wait_for 20 is_gone "$program_pid"
}
agent() { as_user "$directnfs" stat agents --json 2>>"$T/log/stat" | jq -r ".[0].$1"; }
lives() { [ "$(agent state)" = alive ] && kill -0 "$(agent pnum)"; }
watches() { lives && [ "$(agent watched)" -gt 0 ]; }
# What the program has sent so far of what it left behind, in WRITEs.
gathered() {
    as_user "$directnfs" stat stats --json 2>>"$T/log/stat" |
        jq "[.[] | select(.pnum == $program_pid) | .gathered_writes] | add // 0"
}
gathers() { [ "$(gathered)" -gt "$gathered" ]; }
# What it left behind before, maybe to an agent that is no more, is at the server first.
warm_up() {
    tell warm
    wait_for 20 watches || not_ok "warm up" "no agent watches"
    tell sync warm
    gathered=$(gathered)
    tell warm
    wait_for 20 gathers || not_ok "warm up" "no agent lets writes be left behind"
    tell sync warm
}
has() { [ "$(head -c $(($2 * 8192 + 1)) "$mnt/$1" 2>/dev/null | tail -c 1)" = "$3" ]; }
