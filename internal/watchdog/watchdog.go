// Package watchdog cleans up after this program when it dies in a way that leaves it no time to do so.
package watchdog

import (
	"fmt"
	"os"
	"os/exec"
	"syscall"
)

// Start runs a shell script once this program is gone, however it went: the shell waits on a pipe whose
// other end only this program holds. The returned function calls it off. The shell also holds lock, if
// any, so a file lock taken by this program lasts until the script is done. Of this program's environment
// the script gets the search path only: what it may know, other programs of the same user can read.
//
// A pipe works alike on Linux and macOS. PR_SET_PDEATHSIG does not, reaches one process and not what
// that one started, and also fires when the thread that started it ends.
func Start(lock *os.File, script string, args ...string) (cancel func(), err error) {
	read, write, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer read.Close()
	cmd := exec.Command("/bin/sh", append([]string{"-c", "read -r _ <&3\n" + script, "sh"}, args...)...)
	cmd.Dir, cmd.Env = "/", []string{"PATH=" + os.Getenv("PATH")}
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
