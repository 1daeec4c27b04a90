#!/bin/sh
# One prompt for an agent that may change files, and do nothing else:
#
#     sh examples/allow_edits.sh demo 'write `hello` into `hello.txt`'
#
# `dragoman chat --json` prints what happens, one JSON object a line, and takes decisions on its standard input. What the
# agent says goes to standard output, what was asked to standard error. DRAGOMAN is the program, if it is not on the PATH.
set -eu
model=$1 prompt=$2

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
mkfifo "$folder/answers" "$folder/events"

${DRAGOMAN:-dragoman} chat "$model" -p "$prompt" --json <"$folder/answers" >"$folder/events" &
exec 3>"$folder/answers" 4<"$folder/events"

while IFS= read -r event <&4; do
  case $event in
  '{"event":"asked",'*)
    call=$(printf '%s' "$event" | sed 's/^{"event":"asked","callId":"\([^"]*\)".*/\1/')
    tool=$(printf '%s' "$event" | sed 's/^{"event":"asked","callId":"[^"]*","tool":"\([^"]*\)".*/\1/')
    case $tool in
    dragoman-agent-action-edit | write_file)
      echo "allowed: $tool" >&2
      printf '{"callId": "%s", "decision": "allow"}\n' "$call" >&3
      ;;
    *)
      echo "denied: $tool" >&2
      printf '{"callId": "%s", "decision": "deny", "reason": "only edits are allowed here"}\n' "$call" >&3
      ;;
    esac
    ;;
  '{"event":"text",'*)
    printf '%s' "$event" | sed 's/^{"event":"text","text":"\(.*\)"}$/\1/; s/\\n/\
/g'
    ;;
  esac
done
echo
exec 3>&-
wait $!
