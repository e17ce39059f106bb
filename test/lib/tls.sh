# shellcheck shell=bash
#
# An authority of the test's own, certificates of it, and a TLS end before the server (test/fault/tlsproxy). After
# harness.sh. Needs: openssl, make programs.
#
#     tls_pki                       $pki/ca, and below it server and client: a certificate NAME and its key NAME.key
#     tls_certificate NAME SUBJECT [EXTENSIONS]   one more
#     proxy_start [OPTION...]       on a new port $tls_port, before NFS; its process is $proxy_pid
#     proxy_again                   once more with these options on that port, when it has ended
#     proxy_cut                     all connections through it are reset
#     proxy_counted NAME            a number that it counted: clear, in_clear, handshakes, bytes, ...
#     in_tls NAME                   a check: it has seen nothing in clear, and some megabytes

proxy=$BUILD/test/fault/tlsproxy
pki=$T/pki

tls_certificate() {
    openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout "$pki/$1.key" -out "$pki/$1.csr" -subj "/CN=$2" &&
        openssl x509 -req -in "$pki/$1.csr" -CA "$pki/ca" -CAkey "$pki/ca.key" -CAcreateserial -days 2 -out "$pki/$1" \
            -extfile <(echo "${3:-basicConstraints=CA:FALSE}") && chmod 644 "$pki"/*
} >>"$T/log/openssl" 2>&1
tls_pki() {
    mkdir "$pki"
    chmod 755 "$pki"
    openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout "$pki/ca.key" -out "$pki/ca" -days 2 -subj /CN=authority \
        >>"$T/log/openssl" 2>&1
    tls_certificate server nas "subjectAltName=DNS:nas.example,IP:127.0.0.1"
    tls_certificate client client
}

proxy_start() {
    tls_port=$(free_port)
    proxy_options=("$@")
    proxy_again
}
proxy_again() {
    local certificate=$pki/${proxy_certificate:-server}
    rm -f "$T/proxy"
    "$proxy" "$tls_port" "$nfs_port" "$certificate" "$certificate.key" "${proxy_options[@]}" >"$T/proxy" 2>>"$T/log/proxy" &
    proxy_pid=$!
    process_remember $proxy_pid
    wait_for 10 grep -q ready "$T/proxy"
}
proxy_cut() { kill -USR1 "$proxy_pid"; }
proxy_counted() {
    local before
    before=$(wc -l <"$T/proxy")
    kill -USR2 "$proxy_pid"
    wait_for 5 eval "[ \$(wc -l <'$T/proxy') -gt $before ]"
    tail -n 1 "$T/proxy" | grep -o "\<$1=[0-9]*" | cut -d= -f2
}
in_tls() {
    equal "$1: no byte passes in clear" "$(proxy_counted clear) $(proxy_counted in_clear)" "0 0"
    at_least "$1: what was written passed in TLS" "$(proxy_counted bytes)" 4000000
}
