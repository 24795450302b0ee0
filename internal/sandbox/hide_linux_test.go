package sandbox_test

import (
	"crypto/rand"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// nobody is a user without rights: root may read every process, hidden or not.
const nobody = 65534

// A command looks for the runner's bearer in every process that it may read: the runner, and whatever the
// runner started.
func TestCommandsCannotReadAHiddenRunner(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		env   string
		found string
	}{
		"hidden":     {runnerHides + "=1", "environments: 0, memory: 0\n"},
		"not hidden": {runnerHides + "=", "environments: 1, memory: 1\n"}, // so the search can find it
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			binary, dir := forNobody(t)
			token := runnerToken + "=" + rand.Text()
			cmd := runnerProcess(t, binary, dir, `
				environments=$(cat /proc/[0-9]*/environ 2>/dev/null | tr '\0' '\n' | grep -cx '`+token+`')
				memory=$(head -c 1 /proc/$PPID/maps 2>/dev/null | wc -c)
				echo "environments: $environments, memory: $memory"`, c.env, token)
			if os.Getuid() == 0 {
				cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
			}
			out, err := cmd.CombinedOutput()
			require.NoError(t, err, string(out))
			require.Contains(t, string(out), c.found)
		})
	}
}

// forNobody is this test binary, and a directory, where a user without rights can use them.
func forNobody(t *testing.T) (binary, dir string) {
	t.Helper()
	dir = t.TempDir()
	require.NoError(t, os.Chmod(filepath.Dir(dir), 0o755))
	require.NoError(t, os.Chmod(dir, 0o777))
	self, err := os.Executable()
	require.NoError(t, err)
	binary = filepath.Join(dir, "runner")
	require.NoError(t, exec.CommandContext(t.Context(), "cp", self, binary).Run())
	return binary, dir
}
