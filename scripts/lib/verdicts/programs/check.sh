#!/bin/sh
# A readiness command in an instance, which is as a file says. Words: ok, hang, flood (32 MiB), leave (a child that holds
# its output).
case $(cat /tmp/word) in
    hang) exec sleep 600 ;;
    flood) exec head -c 33554432 /dev/zero ;;
    leave) sleep 600 & ;;
esac
exit 0
