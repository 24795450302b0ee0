package testreport_test

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/toolpark/toolpark/internal/devstack/testreport"
)

func TestReport(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		source  string // of the package's only test file
		summary string
		says    []string
		hides   []string
	}{
		"subtests count": {
			source: `func TestA(t *testing.T) {
				t.Run("one", func(t *testing.T) {})
				t.Run("two", func(t *testing.T) { t.Log("quiet"); t.Skip() })
			}`,
			summary: "1 skipped\n2 passed, 0 failed",
			says:    []string{"ok\tsample\t", "\t2 tests\n"},
			hides:   []string{"quiet"},
		},
		"a failure shows its own output": {
			source:  `func TestGood(t *testing.T) { t.Log("good") }; func TestBad(t *testing.T) { t.Error("bad") }`,
			summary: "1 passed, 1 failed",
			says:    []string{"--- FAIL: TestBad", "bad", "FAIL\tsample"},
			hides:   []string{"good", "=== RUN"},
		},
		"what a panic cuts off has failed": {
			source:  `func TestGood(t *testing.T) {}; func TestPanic(t *testing.T) { panic("boom") }`,
			summary: "1 passed, 1 failed",
			says:    []string{"boom", "FAIL\tsample"},
		},
		"an exit is a failure": {
			source:  `func TestExit(t *testing.T) { println("leaving"); os.Exit(3) }; var _ = os.Exit`,
			summary: "0 passed, 1 failed",
			says:    []string{"FAIL\tsample"},
		},
		"a package that does not build has failed": {
			source:  `func TestA(t *testing.T) { undefinedName() }`,
			summary: "0 passed, 1 failed",
			says:    []string{"undefined: undefinedName", "FAIL\tsample"},
		},
		"a failing main is a failure": {
			source:  `func TestA(t *testing.T) {}; func TestMain(m *testing.M) { m.Run(); os.Exit(1) }`,
			summary: "1 passed, 1 failed",
			says:    []string{"FAIL\tsample"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			source := "package sample\n\nimport (\"os\"; \"testing\")\n\nvar _ = os.Exit\n\n" + c.source
			require.NoError(t, os.WriteFile(filepath.Join(dir, "go.mod"), []byte("module sample\n"), 0o600))
			require.NoError(t, os.WriteFile(filepath.Join(dir, "sample_test.go"), []byte(source), 0o600))
			cmd := exec.Command("go", "test", "-vet=off", "-json", ".")
			cmd.Dir = dir
			stream, _ := cmd.Output() // it fails where the sample does

			var out strings.Builder
			report := testreport.Report{Out: &out}
			require.NoError(t, report.Read(strings.NewReader(string(stream))))
			report.Summary()
			require.Contains(t, out.String(), "\n"+c.summary+"\n")
			for _, want := range c.says {
				require.Contains(t, out.String(), want)
			}
			for _, unwanted := range c.hides {
				require.NotContains(t, out.String(), unwanted)
			}
		})
	}
}

func TestReportAddsStreams(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	report := testreport.Report{Out: &out}
	for range 2 {
		require.NoError(t, report.Read(strings.NewReader(
			"not an event\n"+`{"Action":"pass","Package":"p","Test":"TestA"}`+"\n"+`{"Action":"pass","Package":"p"}`+"\n")))
	}
	require.Equal(t, 2, report.Passed)
	require.Contains(t, out.String(), "not an event\n")
}

func TestReportKeepsStreamsApart(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	report := testreport.Report{Out: &out}
	var running sync.WaitGroup
	stream := func() *io.PipeWriter {
		r, w := io.Pipe()
		running.Go(func() { _ = report.Read(r) })
		return w
	}
	plain, race := stream(), stream()
	for _, line := range []struct {
		to    io.Writer
		event string
	}{
		{plain, `{"Action":"output","Package":"p","Test":"TestA","Output":"of the plain run\n"}`},
		{race, `{"Action":"output","Package":"p","Test":"TestA","Output":"of the race run\n"}`},
		{plain, `{"Action":"pass","Package":"p","Test":"TestA"}`},
		{plain, `{"Action":"pass","Package":"p"}`},
		{race, `{"Action":"fail","Package":"p","Test":"TestA"}`},
		{race, `{"Action":"fail","Package":"p"}`},
	} {
		_, err := io.WriteString(line.to, line.event+"\n")
		require.NoError(t, err)
	}
	require.NoError(t, errors.Join(plain.Close(), race.Close()))
	running.Wait()
	require.Equal(t, 1, report.Passed)
	require.Equal(t, 1, report.Failed)
	require.Contains(t, out.String(), "of the race run\n")
	require.NotContains(t, out.String(), "of the plain run\n")
	require.Contains(t, out.String(), "ok\tp\t")
}
