# shellcheck shell=bash
#
# Programs that are killed before what they wrote behind is sent, and the agent with them. Source it after harness.sh,
# once $nfstab is written; write_behind_max must not be 0.
#
#     begin NAME...      a program with these files of $mnt open, each of which has what $written_before says and is
#                        synchronised; an agent cares for it, whose process is $agent_pid; the server is stopped
#     killed NAME...     that program, which writes $written_behind to each of them, and is killed with its agent
#     hear WORD          waits until the program says that
#     end                waits for the program, and lets the server go on
#
# Between begin and end a line of 0 to descriptor 3 makes the program write; then it says "written" and waits for a line.
# shellcheck disable=SC2154 # set by harness.sh

written_before='[(0, b"old")]'                                    # of Python: offsets and bytes
written_behind='[(i * 8192, bytes([i]) * 8192) for i in range(100)]'

# Writes pages to FILE.warm until it has a line; then it waits for the number of the agent that is to die with it, or 0.
writer='import os, signal, sys, threading, time
before, behind = eval(sys.argv[1]), eval(sys.argv[2])
files = [os.open(name, os.O_RDWR | os.O_CREAT) for name in sys.argv[3:]]
warm = os.open(sys.argv[3] + ".warm", os.O_RDWR | os.O_CREAT)
for f in files:
    for offset, data in before: os.pwrite(f, data, offset)
    os.fsync(f)
go = threading.Event()
def warming():
    n = 0
    while not go.is_set():
        os.pwrite(warm, b"w" * 8192, n % 64 * 8192)
        n += 1
        time.sleep(0.01)
thread = threading.Thread(target=warming)
thread.start()
print("warming", flush=True)
sys.stdin.readline()
go.set()
thread.join()
os.fsync(warm)
print("warm", flush=True)
victim = int(sys.stdin.readline())
for f in files:
    for offset, data in behind: assert os.pwrite(f, data, offset) == len(data)
if victim:
    os.kill(victim, signal.SIGSTOP) # not killed yet: the next one would be started
    os.kill(os.getpid(), signal.SIGKILL)
print("written", flush=True)
sys.stdin.readline()'
mkfifo "$T/to" "$T/from"
# A server that is not ours cannot be stopped: then all must be quicker than the half second after which data is sent.
server_signal() { [ "${ganesha_pid:-0}" = 0 ] || kill -"$1" "$ganesha_pid"; }
at_end 'server_signal CONT'

# agent COLUMN: of `stat agents`
agent() { as_user "$directnfs" stat agents --json 2>>"$T/log/stat" | jq -r ".[0].$1"; }
# leaves_behind BEFORE: more WRITEs were gathered than before
leaves_behind() { [ "$(counter gathered_writes)" -gt "$1" ] && [ "$(agent state)" = alive ]; }
hear() {
    local word
    read -r -t 120 word <&4 && [ "$word" = "$1" ]
}
# start_writer WORD... -- NAME...: the words start a program with the library
start_writer() {
    local words=()
    while [ "$1" != -- ]; do
        words+=("$1")
        shift
    done
    shift
    "${words[@]}" python3 -c "$writer" "$written_before" "$written_behind" "${@/#/$mnt/}" <"$T/to" >"$T/from" 2>>"$T/log/writer" &
    exec 3>"$T/to" 4<"$T/from"
    hear warming
}
begin() {
    local gathered
    gathered=$(counter gathered_writes)
    start_writer under_preload -- "$@" || not_ok "begin" "the program does not start"
    wait_for 20 leaves_behind "$gathered" || not_ok "begin" "no agent lets writes be left behind"
    agent_pid=$(agent pnum)
    echo >&3
    hear warm
    server_signal STOP
}
end() {
    exec 3>&- 4<&-
    wait $! 2>>"$T/log/writer"
    as_user "$directnfs" stat --last >>"$T/log/stat" 2>&1 # adds up what the killed counted, before others end
    server_signal CONT
}
killed() {
    begin "$@"
    echo "$agent_pid" >&3
    exec 3>&- 4<&-
    wait $! 2>>"$T/log/writer"
    kill -KILL "$agent_pid"
    end
}
