package proctest

import (
	"bytes"
	"context"
	"encoding/json/v2"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/toolpark/toolpark/internal/devstack"
)

// startTime is how long an API may take to listen. The machine may be busy.
const startTime = time.Minute

// Process is one process of the toolpark binary. After a kill it can be started again with the same
// settings; its log goes on in the same file. Its methods are not for concurrent use.
type Process struct {
	Name string
	URL  string // where an API answers, once it was started; it stays the same over restarts

	binary  string
	args    []string
	env     []string
	log     string
	listens bool
	child   *devstack.Child
}

// Start starts the process. An API answers afterwards; the others may still be on their way.
func (p *Process) Start(ctx context.Context) error {
	listen := "127.0.0.1:0"
	if p.URL != "" {
		listen = strings.TrimPrefix(p.URL, "http://")
	}
	cmd := exec.Command(p.binary, p.args...)
	cmd.Env = slices.Concat(p.env, []string{"TOOLPARK_LISTEN=" + listen}) // which only an API reads
	before, err := os.ReadFile(p.log)
	if err != nil && !os.IsNotExist(err) {
		return err
	}
	if p.child, err = devstack.StartChild(cmd, p.log, syscall.SIGKILL, nil); err != nil || !p.listens {
		return err
	}
	for end := time.Now().Add(startTime); ; {
		if address := p.address(len(before)); address != "" {
			if p.URL == "" {
				p.URL = "http://" + address
			}
			return nil
		}
		switch {
		case !p.child.Running():
			return p.child.Failure()
		case time.Now().After(end):
			p.Kill()
			return fmt.Errorf("%s does not listen", p.Name)
		}
		select {
		case <-ctx.Done():
			p.Kill()
			return ctx.Err()
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// address is where an API says that it listens, in its log after an offset.
func (p *Process) address(offset int) string {
	text, err := os.ReadFile(p.log)
	if err != nil || len(text) < offset {
		return ""
	}
	for line := range bytes.Lines(text[offset:]) {
		var entry struct {
			Message string `json:"msg"`
			Address string `json:"address"`
		}
		if json.Unmarshal(line, &entry) == nil && entry.Message == "api started" {
			return entry.Address
		}
	}
	return ""
}

// Kill ends the process as a crash would.
func (p *Process) Kill() {
	if p.child != nil {
		p.child.Kill()
	}
}

// Running tells whether the process was started and has not ended.
func (p *Process) Running() bool { return p.child != nil && p.child.Running() }

// Log is the end of what the process logged, without what is only information.
func (p *Process) Log() string {
	const kept = 8 << 10
	text, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	var b bytes.Buffer
	for line := range bytes.Lines(text) {
		if !bytes.Contains(line, []byte(`"level":"INFO"`)) {
			b.Write(line)
		}
	}
	return string(b.Bytes()[max(0, b.Len()-kept):])
}
