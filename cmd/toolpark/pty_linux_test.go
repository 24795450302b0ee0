package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/toolpark/toolpark"
	"github.com/toolpark/toolpark/sdk/agent"
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

// step is what a person types once the terminal shows something so many times.
type step struct {
	shown string
	times int
	typed string
}

// atTerminal runs toolpark at a terminal, where a person types, to its end.
func (o *office) atTerminal(env []string, command string, steps ...step) {
	o.t.Helper()
	require.NoError(o.t, o.typing(env, command, steps...).Wait())
}

// typing is toolpark at a terminal after a person typed.
func (o *office) typing(env []string, command string, steps ...step) *exec.Cmd {
	o.t.Helper()
	keys, tty := openTerminal(o.t)
	process := newCommand(o.t, append([]string{"TOOLPARK_URL=" + o.URL, "TOOLPARK_TOKEN=" + o.Admin.Token}, env...), command)
	process.Stdin, process.Stdout, process.Stderr = tty, tty, tty
	require.NoError(o.t, process.Start())
	require.NoError(o.t, tty.Close())
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
	for _, step := range steps {
		o.Eventually("the terminal shows "+step.shown, func() bool { return seen.shows(step.shown, step.times) })
		_, err := keys.WriteString(step.typed)
		require.NoError(o.t, err)
	}
	return process
}

func TestApprovalsAtARealTerminal(t *testing.T) {
	t.Parallel()
	o := openOffice(t)
	first, second := o.hold(`{"command":"ls"}`), o.hold(`{"command":"id"}`)
	// The second a was typed before the second call was shown, so it is no answer.
	o.atTerminal([]string{`EDITOR=sed -i s/ls/pwd/`}, "approvals",
		step{"[q]uit? ", 1, "e\n"}, step{"instead:", 1, ""}, step{"[q]uit? ", 2, "a\na\n"}, step{"2 of 2", 1, ""},
		step{"[q]uit? ", 3, "d\n"}, step{"if any: ", 1, "no\n"},
	)
	require.JSONEq(t, `{"command":"pwd"}`, string(o.task(first).ToolInput))
	require.Equal(t, toolpark.Failed, o.task(second).Status)
}

func TestAnEditorLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	o := openOffice(t)
	w := o.hold(`{"command":"ls"}`)
	for _, signal := range []os.Signal{os.Interrupt, syscall.SIGTERM} {
		temporary, script := t.TempDir(), filepath.Join(t.TempDir(), "editor")
		require.NoError(t, os.WriteFile(script, []byte("#!/bin/sh\ntouch \"$1~\"\necho it edits\nexec sleep 600\n"), 0o700))
		process := o.typing([]string{"EDITOR=" + script, "TMPDIR=" + temporary}, "approvals",
			step{"[q]uit? ", 1, "e\n"}, step{"it edits", 1, ""})
		left, err := filepath.Glob(filepath.Join(temporary, "*", "*"))
		require.NoError(t, err)
		require.Len(t, left, 2)
		require.NoError(t, process.Process.Signal(signal))
		require.Error(t, process.Wait())
		require.Equal(t, exitNoAnswer, process.ProcessState.ExitCode())
		left, err = filepath.Glob(filepath.Join(temporary, "*"))
		require.NoError(t, err)
		require.Empty(t, left)
	}
	require.Equal(t, toolpark.NeedsApproval, o.task(w).Status)
}

func TestAsksAtARealTerminal(t *testing.T) {
	t.Parallel()
	o := openOffice(t)
	first := o.ask(agent.Question{Prompt: "Where?", Options: []string{"staging", "production"}, Strict: true})
	second := o.ask(agent.Question{Prompt: "Why?"})
	// The second 2 was typed before the second question was shown, so it is no answer.
	o.atTerminal(nil, "asks",
		step{"[q]uit: ", 1, "2\n2\n"}, step{"2 of 2", 1, ""}, step{"[q]uit: ", 2, "Because.\n"},
	)
	require.Equal(t, "production", o.task(first).Output)
	require.Equal(t, "Because.", o.task(second).Output)
}
