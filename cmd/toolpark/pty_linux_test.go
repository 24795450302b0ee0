package main

import (
	"bytes"
	"fmt"
	"os"
	"sync"
	"syscall"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/toolpark/toolpark"
)

// openTerminal opens a pseudo-terminal: what is written to keys is typed at it.
func openTerminal(t *testing.T) (keys, tty *os.File) {
	t.Helper()
	keys, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	require.NoError(t, err)
	t.Cleanup(func() { _ = keys.Close() })
	control := func(request uintptr, value *uint32) {
		t.Helper()
		_, _, errno := syscall.Syscall(syscall.SYS_IOCTL, keys.Fd(), request, uintptr(unsafe.Pointer(value)))
		require.Zero(t, errno)
	}
	var unlocked, number uint32
	control(syscall.TIOCSPTLCK, &unlocked)
	control(syscall.TIOCGPTN, &number)
	tty, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|syscall.O_NOCTTY, 0)
	require.NoError(t, err)
	return keys, tty
}

// screen keeps what a terminal shows.
type screen struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (s *screen) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(p)
}

func (s *screen) shows(what string, times int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return bytes.Count(s.text.Bytes(), []byte(what)) >= times
}

func TestApprovalsAtARealTerminal(t *testing.T) {
	t.Parallel()
	o := openOffice(t)
	first, second := o.hold(`{"command":"ls"}`), o.hold(`{"command":"id"}`)
	keys, tty := openTerminal(t)
	command := newCommand(t, []string{
		"TOOLPARK_URL=" + o.URL, "TOOLPARK_TOKEN=" + o.Admin.Token, `EDITOR=sed -i s/ls/pwd/`,
	}, "approvals")
	command.Stdin, command.Stdout, command.Stderr = tty, tty, tty
	require.NoError(t, command.Start())
	require.NoError(t, tty.Close())
	var seen screen
	go func() {
		buffer := make([]byte, 4096)
		for {
			n, err := keys.Read(buffer)
			_, _ = seen.Write(buffer[:n])
			if err != nil {
				return
			}
		}
	}()
	// The second a was typed before the second call was shown, so it is no answer.
	for i, step := range []struct{ shown, typed string }{
		{"[q]uit? ", "e\n"}, {"instead:", ""}, {"[q]uit? ", "a\na\n"}, {"2 of 2", ""}, {"[q]uit? ", "d\n"}, {"if any: ", "no\n"},
	} {
		times := 1
		if step.shown == "[q]uit? " {
			times = i/2 + 1
		}
		o.Eventually("the terminal shows "+step.shown, func() bool { return seen.shows(step.shown, times) })
		_, err := keys.WriteString(step.typed)
		require.NoError(t, err)
	}
	require.NoError(t, command.Wait())
	require.JSONEq(t, `{"command":"pwd"}`, string(o.task(first).ToolInput))
	require.Equal(t, toolpark.Failed, o.task(second).Status)
}
