//go:build !linux

package sandbox

// HideProcess does nothing: this system has no means to hide a process from others of the same user.
func HideProcess() error { return nil }
