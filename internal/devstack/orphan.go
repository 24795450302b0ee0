package devstack

import (
	"fmt"
	"os"
	"os/exec"
	"syscall"
)

// Scripts for whenOrphaned. Each finishes in about ten seconds at worst.
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

// whenOrphaned runs a shell script once this program is gone, however it went: the shell waits on
// a pipe whose other end only this program holds. The returned function calls it off. The shell
// also holds lock, if any, so a file lock taken by this program lasts until the script is done.
//
// A pipe works alike on Linux and macOS, unlike PR_SET_PDEATHSIG, which also fires when the
// thread that started the child ends.
func whenOrphaned(lock *os.File, script string, args ...string) (cancel func(), err error) {
	read, write, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer read.Close()
	cmd := exec.Command("/bin/sh", append([]string{"-c", "read -r _ <&3\n" + script, "sh"}, args...)...)
	cmd.Dir = "/"
	cmd.ExtraFiles = []*os.File{read}
	if lock != nil {
		cmd.ExtraFiles = append(cmd.ExtraFiles, lock)
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // what kills this program's group must spare it
	if err := cmd.Start(); err != nil {
		write.Close()
		return nil, fmt.Errorf("start a watchdog: %w", err)
	}
	return func() {
		_ = cmd.Process.Kill() // before the pipe closes, or the script would run
		_ = cmd.Wait()
		write.Close()
	}, nil
}
