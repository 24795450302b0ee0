package devstack

import (
	"bytes"
	"fmt"
	"io"
	"os/exec"
	"time"
)

// progressEvery is how often a long command is said to be still going.
const progressEvery = 10 * time.Second

// runSlow runs a command to its end, with a line of progress now and then. Its output is shown
// only when it fails.
func runSlow(cmd *exec.Cmd, what string, progress io.Writer) error {
	var output bytes.Buffer
	cmd.Stdout, cmd.Stderr = &output, &output
	began := time.Now()
	done := make(chan error, 1)
	go func() { done <- cmd.Run() }()
	ticks := time.NewTicker(progressEvery)
	defer ticks.Stop()
	for {
		select {
		case err := <-done:
			if err != nil {
				return fmt.Errorf("%s: %w\n%s", cmd, err, output.Bytes())
			}
			return nil
		case <-ticks.C:
			sayf(progress, "%s (%s)", what, time.Since(began).Round(time.Second))
		}
	}
}
