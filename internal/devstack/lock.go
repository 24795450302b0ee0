package devstack

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// How long to wait for another program to give up a directory.
const (
	// stopWait is for servers that end with their program: a little longer than the scripts in
	// orphan.go may take.
	stopWait = 12 * time.Second
	// buildWait is for another program's build.
	buildWait = 20 * time.Minute
)

// Lock keeps a directory to this program until the file is closed. A program that is just ending is waited
// for; one that goes on is an error.
func Lock(ctx context.Context, dir string, progress io.Writer) (*os.File, error) {
	return lockDir(ctx, dir, stopWait, progress)
}

// lockDir locks a directory against other programs until the file is closed.
func lockDir(ctx context.Context, dir string, wait time.Duration, progress io.Writer) (*os.File, error) {
	file, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithTimeout(ctx, wait)
	defer stop()
	for waited := false; ; waited = true {
		err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return file, nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			file.Close()
			return nil, fmt.Errorf("lock %s: %w", file.Name(), err)
		}
		if !waited {
			sayf(progress, "waiting for the program that uses %s to end", dir)
		}
		select {
		case <-ctx.Done():
			file.Close()
			return nil, fmt.Errorf("another program uses %s: stop it, or choose another directory", dir)
		case <-time.After(100 * time.Millisecond):
		}
	}
}
