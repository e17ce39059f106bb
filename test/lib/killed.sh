# shellcheck shell=bash
# Programs that are killed with data that no server has. Sourced after harness.sh; the server is nfs-ganesha.

# Says `ready`, and when it has a line writes all its files and kills itself. The server is stopped meanwhile.
writer='import os, signal, sys
files = [os.open(name, os.O_RDWR | os.O_CREAT) for name in sys.argv[1:]]
for f in files:
    os.pwrite(f, b"old", 0)
    os.fsync(f)
print("ready", flush=True)
sys.stdin.readline()
for f in files:
    for i in range(100): assert os.pwrite(f, bytes([i]) * 8192, i * 8192) == 8192
os.kill(os.getpid(), signal.SIGKILL)'
mkfifo "$T/to" "$T/from"
at_end 'kill -CONT "$ganesha_pid"'
# killed_with FILE...: new files of which 800 KiB are written and at no server
killed_with() {
    rm -f "$@"
    under_preload python3 -c "$writer" "$@" <"$T/to" >"$T/from" 2>>"$T/log/writer" &
    exec 3>"$T/to" 4<"$T/from"
    read -r -t 60 _ <&4
    kill -STOP "$ganesha_pid"
    echo >&3
    wait $! 2>>"$T/log/writer"
    exec 3>&- 4<&-
    kill -CONT "$ganesha_pid"
}
python3 -c 'import sys; [sys.stdout.buffer.write(bytes([i]) * 8192) for i in range(100)]' >"$T/expected"
