package devstack

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"time"

	"github.com/toolpark/toolpark/internal/watchdog"
)

// stopGrace is how long a child may take to end by itself before it is killed.
const stopGrace = 15 * time.Second

// Child is a process that does not outlive this program. It has its own process group, so
// that Ctrl-C in a terminal reaches this program alone and servers stop in order.
type Child struct {
	cmd     *exec.Cmd
	logFile string
	exited  chan struct{}
	err     error // how it exited; set before exited is closed
}

// StartChild starts cmd with its output appended to logFile. When this program dies without
// stopping it, it receives orphanSignal; lock, if any, is held until it is gone.
func StartChild(cmd *exec.Cmd, logFile string, orphanSignal syscall.Signal, lock *os.File) (*Child, error) {
	log, err := os.OpenFile(logFile, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	cmd.Stdout, cmd.Stderr = log, log
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = new(syscall.SysProcAttr)
	}
	cmd.SysProcAttr.Setpgid = true
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", cmd.Path, err)
	}
	cancel, err := watchdog.Start(lock, stopScript,
		strconv.Itoa(cmd.Process.Pid), strconv.Itoa(int(orphanSignal)))
	if err != nil {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		return nil, err
	}
	c := &Child{cmd: cmd, logFile: logFile, exited: make(chan struct{})}
	go func() {
		c.err = cmd.Wait()
		cancel()
		close(c.exited)
	}()
	return c, nil
}

// Signal sends a signal; a child that is gone is no error.
func (c *Child) Signal(s syscall.Signal) {
	_ = c.cmd.Process.Signal(s)
}

// Stop asks the child to end with the given signal and waits until it is gone.
func (c *Child) Stop(s syscall.Signal) {
	c.Signal(s)
	c.Signal(syscall.SIGCONT) // a paused child would not see it
	select {
	case <-c.exited:
	case <-time.After(stopGrace):
		c.Kill()
	}
}

// Kill ends the child as a crash would and waits until it is gone.
func (c *Child) Kill() {
	c.Signal(syscall.SIGKILL)
	<-c.exited
}

// Running tells whether the child has not exited yet.
func (c *Child) Running() bool {
	select {
	case <-c.exited:
		return false
	default:
		return true
	}
}

// Failure describes an exit that nobody asked for, with the last lines of the log.
func (c *Child) Failure() error {
	return fmt.Errorf("%s ended: %w\n%s\n(log: %s)", c.cmd.Path, c.err, tail(c.logFile, 2000), c.logFile)
}

// tail returns at most the last n bytes of a file.
func tail(file string, n int) string {
	b, err := os.ReadFile(file)
	if err != nil {
		return err.Error()
	}
	return string(bytes.TrimSpace(b[max(0, len(b)-n):]))
}
