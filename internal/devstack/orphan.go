package devstack

// Scripts for watchdogs. Each finishes in about ten seconds at worst.
const (
	// stopScript PID SIGNAL: asks a process to end, then insists.
	stopScript = `
		kill -"$2" "$1"; kill -CONT "$1"; n=0
		while kill -0 "$1" && [ $n -lt 100 ]; do sleep 0.1; n=$((n+1)); done
		kill -KILL "$1"`
	// removeScript DIR: removes a directory that dying processes may still be writing to.
	removeScript = `
		n=0
		while ! rm -rf "$1" || [ -e "$1" ] && [ $n -lt 100 ]; do sleep 0.1; n=$((n+1)); done`
)
