//go:build !linux

package main

import (
	"os"

	"golang.org/x/sys/unix"
)

// forgetTyped drops what was typed at a terminal and not read yet. Anything else than a terminal stays as it is.
func forgetTyped(terminal *os.File) {
	const input = 1 // FREAD
	_ = unix.IoctlSetPointerInt(int(terminal.Fd()), unix.TIOCFLUSH, input)
}
