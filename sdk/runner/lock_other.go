//go:build !unix

package runner

import "os"

// lockFile opens the file; this system has no lock that dies with its process.
func lockFile(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
}
