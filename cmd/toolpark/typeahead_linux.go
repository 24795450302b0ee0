package main

import (
	"os"

	"golang.org/x/sys/unix"
)

// forgetTyped drops what was typed at a terminal and not read yet. Anything else than a terminal stays as it is.
func forgetTyped(terminal *os.File) {
	_ = unix.IoctlSetInt(int(terminal.Fd()), unix.TCFLSH, unix.TCIFLUSH)
}
