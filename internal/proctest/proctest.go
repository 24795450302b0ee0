// Package proctest runs Toolpark as its operators do, as processes of the real binary that can be killed,
// frozen and started again, and audits what is left when the dust has settled. Its tests are the failure
// table of the architecture; package chaos kills at random.
package proctest

import (
	"context"
	"encoding/base64"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
)

// Build builds the toolpark binary of this module into a directory and returns its path.
func Build(ctx context.Context, dir string) (string, error) {
	binary := filepath.Join(dir, "toolpark")
	out, err := exec.CommandContext(ctx, "go", "build", "-o", binary, "github.com/toolpark/toolpark/cmd/toolpark").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("build toolpark: %w\n%s", err, out)
	}
	return binary, nil
}

// Site is one installation: what its processes share.
type Site struct {
	Binary      string // see Build
	Dir         string // logs and state of the processes
	Database    string // URL
	Connections int    // the database pool of each process
	Temporal    string // host:port
	Queue       string // Temporal task queue
}

// API is an API process, to be started. It takes a free port and keeps it.
func (s *Site) API(name string) *Process {
	p := s.process(name, []string{"api"}, "TOOLPARK_CLAIM_SECRET="+base64.StdEncoding.EncodeToString(make([]byte, 32)))
	p.listens = true
	return p
}

// Worker is a worker process, to be started.
func (s *Site) Worker(name string) *Process { return s.process(name, []string{"worker"}) }

// Runner is a `toolpark runner` process, to be started, with a directory of its own. It remembers its
// claims over restarts.
func (s *Site) Runner(name, url, token string, slots int) (*Process, error) {
	dir := filepath.Join(s.Dir, name)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	return s.process(name, []string{"runner", "--dir", dir, "--state", dir + "-state", "--slots", strconv.Itoa(slots)},
		"TOOLPARK_URL="+url, "TOOLPARK_EXECUTOR_TOKEN="+token), nil
}

// process is a process that sees nothing of the caller's environment but the search path.
func (s *Site) process(name string, args []string, env ...string) *Process {
	return &Process{
		Name: name, binary: s.Binary, args: args, log: filepath.Join(s.Dir, name+".log"),
		env: append([]string{
			"PATH=" + os.Getenv("PATH"), "HOME=" + s.Dir, "DATABASE_URL=" + s.Database,
			"TOOLPARK_DATABASE_CONNECTIONS=" + strconv.Itoa(s.Connections),
			"TEMPORAL_ADDRESS=" + s.Temporal, "TOOLPARK_TASK_QUEUE=" + s.Queue,
		}, env...),
	}
}
