#!/usr/bin/env bash
# step.sh NAME COMMAND… runs a command as a named step: says when it begins and ends, so that a hang can be located,
# and appends what it took to the file that $STEP_TIMES names, if any.
set -uo pipefail
name=$1
shift
began=$SECONDS
echo "==> $(date +%T) $name"
"$@"
status=$?
result=ok
[ $status = 0 ] || result="FAILED ($status)"
took=$((SECONDS - began))
echo "<== $(date +%T) $name: $result, $took s"
[ -z "${STEP_TIMES:-}" ] || printf '%6d s  %-40s %s\n' "$took" "$name" "$result" >>"$STEP_TIMES"
exit $status
