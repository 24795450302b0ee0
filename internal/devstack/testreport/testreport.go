// Package testreport turns the event streams of `go test -json` into something a person reads: a
// line a package, the whole output of what failed, and one count over all streams.
package testreport

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
)

// Report writes what it reads to Out, and counts. Tests and subtests count alike. Streams may be read side by side:
// what is written of one test stays together, as does what is written of one package at its end.
type Report struct {
	Out io.Writer

	Passed  int
	Failed  int
	Skipped int

	mu sync.Mutex // held while an event is taken
}

// streamed is what is known of one stream. Another one may run the same packages in another way.
type streamed struct {
	*Report

	packages map[string]*packageRun
	builds   map[string]*strings.Builder // compiler output by import path
}

// packageRun is what is known of a package that has not ended yet.
type packageRun struct {
	output  strings.Builder             // outside any test
	running map[string]*strings.Builder // output by test
	passed  int
	failed  int
}

// event is one line of `go test -json`; see `go doc test2json`.
type event struct {
	Action      string
	Package     string
	ImportPath  string
	FailedBuild string
	Test        string
	Elapsed     float64
	Output      string
}

// Read consumes one stream to its end. Lines that are no events are passed through.
func (r *Report) Read(stream io.Reader) error {
	s := &streamed{Report: r, packages: make(map[string]*packageRun), builds: make(map[string]*strings.Builder)}
	lines := bufio.NewReader(stream)
	for {
		line, err := lines.ReadBytes('\n')
		if len(line) > 0 {
			s.takeLine(line)
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read test events: %w", err)
		}
	}
}

func (s *streamed) takeLine(line []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var e event
	if json.Unmarshal(line, &e) == nil && e.Action != "" {
		s.take(e)
	} else {
		s.Out.Write(line)
	}
}

// Summary writes the count as "N passed, N failed" on a line of its own.
func (r *Report) Summary() {
	if r.Skipped > 0 {
		fmt.Fprintf(r.Out, "%d skipped\n", r.Skipped)
	}
	fmt.Fprintf(r.Out, "%d passed, %d failed\n", r.Passed, r.Failed)
}

func (s *streamed) take(e event) {
	switch {
	case e.Action == "build-output":
		if s.builds[e.ImportPath] == nil {
			s.builds[e.ImportPath] = new(strings.Builder)
		}
		s.builds[e.ImportPath].WriteString(e.Output)
	case e.Package == "":
		// build-fail: the package that could not be built says so itself.
	case e.Test == "":
		s.takePackage(e)
	default:
		s.takeTest(e)
	}
}

func (s *streamed) takeTest(e event) {
	run := s.run(e.Package)
	output := run.running[e.Test]
	if output == nil {
		output = new(strings.Builder)
		run.running[e.Test] = output
	}
	switch e.Action {
	case "output":
		if !strings.HasPrefix(e.Output, "=== ") { // RUN, PAUSE, CONT, NAME
			output.WriteString(e.Output)
		}
	case "pass":
		run.passed++
		s.Passed++
		delete(run.running, e.Test)
	case "skip":
		s.Skipped++
		delete(run.running, e.Test)
	case "fail":
		s.fail(run, e.Test)
	}
}

func (s *streamed) takePackage(e event) {
	run := s.run(e.Package)
	switch e.Action {
	case "output":
		run.output.WriteString(e.Output)
		return
	case "pass":
		fmt.Fprintf(s.Out, "ok\t%s\t%.1fs\t%d tests\n", e.Package, e.Elapsed, run.passed)
	case "fail":
		// What is still running was cut off by a panic, an exit or the time limit.
		for _, test := range slices.Sorted(maps.Keys(run.running)) {
			s.fail(run, test)
		}
		if build := s.builds[e.FailedBuild]; build != nil {
			io.WriteString(s.Out, build.String())
		}
		io.WriteString(s.Out, run.output.String()) // ends with a line "FAIL" and the package
		if run.failed == 0 {                       // it did not build, or its main function failed
			s.Failed++
		}
	case "skip": // no test files
	default:
		return
	}
	delete(s.packages, e.Package)
}

// fail counts a failed test and shows what it wrote.
func (s *streamed) fail(run *packageRun, test string) {
	run.failed++
	s.Failed++
	io.WriteString(s.Out, run.running[test].String())
	delete(run.running, test)
}

func (s *streamed) run(name string) *packageRun {
	if s.packages[name] == nil {
		s.packages[name] = &packageRun{running: make(map[string]*strings.Builder)}
	}
	return s.packages[name]
}
