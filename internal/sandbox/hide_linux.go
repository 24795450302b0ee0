package sandbox

import (
	"fmt"
	"syscall"
)

// HideProcess keeps what this program holds, like its credential, from the commands that bash runs: as
// processes of the same user they could read its memory and its environment. It leaves its arguments in
// sight. It does not help against commands that run as root, which may read any process, and does nothing
// on systems other than Linux.
func HideProcess() error {
	// A process that may not be dumped may not be traced or read in /proc either. What it starts may.
	if _, _, errno := syscall.Syscall(syscall.SYS_PRCTL, syscall.PR_SET_DUMPABLE, 0, 0); errno != 0 {
		return fmt.Errorf("hide the process from its commands: %w", errno)
	}
	return nil
}
