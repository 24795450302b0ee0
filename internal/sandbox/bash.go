package sandbox

import (
	"context"
	"encoding/json/jsontext"
	"encoding/json/v2"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/toolpark/toolpark"
	"github.com/toolpark/toolpark/internal/watchdog"
	"github.com/toolpark/toolpark/sdk/runner"
)

const (
	defaultCommandTime = 2 * time.Minute
	maxCommandTime     = time.Hour
	keptOutput         = 16 << 10 // bytes kept of each end of a command's output
	progressEvery      = time.Second
	progressOutput     = 2 << 10         // bytes of output in a progress frame, before escaping
	termGrace          = 2 * time.Second // how long a command may clean up before it is killed
	drainGrace         = time.Second     // how long output may come from what outlived the command
)

var bashEntry = runner.Entry{
	Name:  "bash",
	Title: "Run a command",
	EffectProfile: toolpark.EffectProfile{
		Kind: toolpark.EffectWrite, Destructive: true, EffectScope: toolpark.ScopeOpen,
		Idempotency: toolpark.IdempotentNone, Reconciliation: toolpark.ReconcileNone,
	},
	Description: "Runs a bash command in the working directory and returns its output, stdout and stderr together. " +
		"Each call starts a new shell: the directory and variables of an earlier call are gone, so join steps with &&. " +
		"There is no input to read from. Processes left in the background end with the command; " +
		"only one that leaves its process group (setsid, set -m) outlives it, so stop that yourself. " +
		"Of long output the beginning and the end are kept. " +
		"Prefer read, write, edit, grep and glob for files. Example: {\"command\": \"go test ./... 2>&1 | tail -20\"}",
	InputSchema: schema(`{
		"type": "object",
		"properties": {
			"command": {"type": "string", "minLength": 1, "description": "The command, as bash -c takes it."},
			"timeout_ms": {"type": "integer", "minimum": 1, "maximum": 3600000,
				"description": "The command is killed after this time. Default 120000."}
		},
		"required": ["command"],
		"additionalProperties": false
	}`),
}

type bashInput struct {
	Command   string `json:"command"`
	TimeoutMS int64  `json:"timeout_ms"`
}

func findBash(searchPath string) (string, error) {
	for _, dir := range filepath.SplitList(searchPath) {
		path := filepath.Join(dir, "bash")
		if info, err := os.Stat(path); err == nil && filepath.IsAbs(path) && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return path, nil
		}
	}
	return "", fmt.Errorf("bash is not in the search path %q", searchPath)
}

func (s *Sandbox) runBash(ctx context.Context, in bashInput, call runner.Call) runner.Result {
	if strings.ContainsRune(in.Command, 0) {
		return runner.Errorf("The command holds a NUL character.")
	}
	limit := defaultCommandTime
	if in.TimeoutMS > 0 {
		limit = min(time.Duration(in.TimeoutMS)*time.Millisecond, maxCommandTime)
	}
	timed, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	out := &output{half: keptOutput}
	stop := out.show(call.Progress)
	began := time.Now()
	exit, err := s.execute(timed, in.Command, s.environment(call), out)
	stop()
	text := strings.TrimRight(out.String(), "\n")
	result := runner.Result{Text: text, IsError: exit != 0 || err != nil, Title: in.Command}
	result.Metadata = jsontext.Value(fmt.Sprintf(`{"exit_status":%d,"duration_ms":%d,"output_bytes":%d}`,
		exit, time.Since(began).Milliseconds(), out.size))
	var note string
	switch {
	case ctx.Err() != nil:
		note = "The command was killed because the call was canceled or the runner stopped."
	case timed.Err() != nil:
		note = fmt.Sprintf("The command was killed after %s.", limit)
	case err != nil:
		note = fmt.Sprintf("The command could not run: %v.", err)
	case exit != 0:
		note = fmt.Sprintf("The command ended with exit status %d.", exit)
	case text == "":
		note = "The command succeeded without output."
	default:
		return result
	}
	result.Text = strings.TrimPrefix(text+"\n\n", "\n\n") + note
	return result
}

// environment is what a command sees: nothing of the runner's own, and which call it is run for. A script that
// calls a service hands the idempotency key on; one that may have run before, says the redelivery, can look.
func (s *Sandbox) environment(call runner.Call) []string {
	return append(slices.Clone(s.env),
		"TOOLPARK_RUN="+call.Run,
		"TOOLPARK_TASK_KEY="+call.TaskKey,
		"TOOLPARK_GENERATION="+strconv.Itoa(call.Generation),
		"TOOLPARK_REDELIVERY="+strconv.FormatBool(call.Redelivery),
		"TOOLPARK_IDEMPOTENCY_KEY="+call.IdempotencyKey)
}

// gated BASH COMMAND begins a command once it is told to, on file 3, and not at all when whoever was to tell it is
// gone: until its watchdog is there nothing would end it.
const gated = `read -r _ <&3 || exit; exec 3<&-; exec "$0" -c "$1"`

// killGroup PID is for the death of this program: nothing of a command's process group outlives it.
const killGroup = `kill -s KILL -- "-$1"`

// execute runs the command in a session of its own and leaves nothing of its process group behind, not even
// when this program is killed. The exit status of a command that a signal ended is 128 and the signal, as a
// shell has it.
func (s *Sandbox) execute(ctx context.Context, command string, environment []string, out io.Writer) (exit int, err error) {
	// Our own pipe, since exec's would have Wait wait for whatever inherited it.
	read, write, err := os.Pipe()
	if err != nil {
		return -1, err
	}
	defer read.Close()
	gate, open, err := os.Pipe()
	if err != nil {
		_ = write.Close()
		return -1, err
	}
	defer open.Close()
	cmd := exec.CommandContext(ctx, s.bash, "-c", gated, s.bash, command)
	cmd.ExtraFiles = []*os.File{gate}
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = s.dir, environment, write, write
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // the session leads a process group of its own
	cmd.Cancel = func() error {
		if syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) != nil {
			return os.ErrProcessDone
		}
		return nil
	}
	cmd.WaitDelay = termGrace
	err = cmd.Start()
	_, _ = write.Close(), gate.Close()
	if err != nil {
		return -1, err
	}
	callOff, err := watchdog.Start(nil, killGroup, strconv.Itoa(cmd.Process.Pid))
	if err != nil {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		_ = cmd.Wait()
		return -1, err
	}
	_, _ = open.WriteString("\n") // a command that was killed meanwhile is waited for below
	copied := make(chan struct{})
	go func() {
		defer close(copied)
		_, _ = io.Copy(out, read)
	}()
	err = cmd.Wait()
	_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // what the command left behind
	callOff()
	select {
	case <-copied:
	case <-time.After(drainGrace): // something left the group and holds the pipe
		_ = read.Close()
		<-copied
	}
	status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus)
	var failed *exec.ExitError
	switch {
	case ok && status.Signaled():
		return 128 + int(status.Signal()), nil
	case err == nil || errors.As(err, &failed) || ctx.Err() != nil:
		return cmd.ProcessState.ExitCode(), nil
	}
	return -1, err
}

// output collects what a command writes while another goroutine shows the end of it.
type output struct {
	mu sync.Mutex
	headTail
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.headTail.Write(p)
}

// show sends the last lines as a progress frame every second while there is news. The returned function
// ends that.
func (o *output) show(send func(jsontext.Value)) (stop func()) {
	if send == nil {
		return func() {}
	}
	done := make(chan struct{})
	var ended sync.WaitGroup
	ended.Go(func() {
		tick := time.NewTicker(progressEvery)
		defer tick.Stop()
		var shown int64
		for {
			select {
			case <-done:
				return
			case <-tick.C:
			}
			o.mu.Lock()
			size, last := o.size, o.last(progressOutput)
			o.mu.Unlock()
			if size != shown {
				shown = size
				send(frame(last))
			}
		}
	})
	return func() {
		close(done)
		ended.Wait()
	}
}

// frame is {"output": …} with as much of the end of the output as a frame may hold, in whole lines where
// that leaves any.
func frame(last []byte) jsontext.Value {
	text := string(last)
	if len(last) == progressOutput {
		if _, rest, ok := strings.Cut(text, "\n"); ok && rest != "" {
			text = rest
		}
	}
	for {
		b, err := json.Marshal(map[string]string{"output": clean(text)})
		if err == nil && len(b) <= toolpark.MaxProgressFrame {
			return b
		}
		text = text[len(text)/2:]
	}
}
