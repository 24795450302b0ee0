package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/toolpark/toolpark/internal/kerneltest"
)

func TestCommandsDoNotSeeTheRunnersBearer(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("only Linux hides a process from others of the same user")
	}
	account := kerneltest.Start(t).Account()
	box := account.Runner("box")
	dir := t.TempDir() // which a user without rights shall use
	require.NoError(t, os.Chmod(filepath.Dir(dir), 0o755))
	require.NoError(t, os.Chmod(dir, 0o777))
	served := filepath.Join(dir, "served")
	require.NoError(t, os.Mkdir(served, 0o755))

	runner := newCommand(t, []string{"TOOLPARK_URL=" + account.URL, "TOOLPARK_EXECUTOR_TOKEN=" + box.Token},
		"runner", "--dir="+served, "--state="+filepath.Join(dir, "state"))
	if os.Getuid() == 0 { // whose commands may read every process
		binary := filepath.Join(dir, "toolpark")
		require.NoError(t, exec.CommandContext(t.Context(), "cp", runner.Path, binary).Run())
		runner.Path = binary
		runner.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	}
	require.NoError(t, runner.Start())
	t.Cleanup(func() { _ = runner.Wait() }) // it ends with the test's context
	b := &terminal{t: t, dir: served, call: callAs(account, box)}
	announced(account, box)

	out, failed := b.one("bash", `{"command":"tr '\\0' '\\n' < /proc/$PPID/cmdline; cat /proc/$PPID/environ"}`)
	require.ErrorContains(t, failed, "completed with an error")
	require.Contains(t, out, "--dir="+served, "it is the runner that the command looks at")
	require.Contains(t, out, "environ: Permission denied")
	require.NotContains(t, out, box.Token)
}
