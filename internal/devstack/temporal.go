package devstack

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/contrib/envconfig"

	"github.com/toolpark/toolpark/internal/visibility"
	"github.com/toolpark/toolpark/internal/watchdog"
)

// TemporalOptions say what kind of Temporal server to start.
type TemporalOptions struct {
	// Dir keeps workflows in a database file there, over restarts and kills. Empty keeps them
	// in memory, two to three times faster; they are gone when the server ends.
	Dir string
	// WebUI serves Temporal's Web UI too.
	WebUI bool
	// Postgres keeps workflows in databases of this server, as production does, instead of in memory
	// or in a file: Dir and WebUI then have no meaning.
	Postgres *Postgres
	// Progress receives lines about what is being done; nil discards.
	Progress io.Writer
}

// Temporal is a running server with our search attributes registered in its default namespace.
// Its methods are not for concurrent use.
type Temporal struct {
	Address string // host:port of the frontend; it stays the same over restarts
	WebUI   string // the Web UI's URL; empty without one

	program string // the development server or the production one
	args    []string
	bare    bool // it starts without our namespace and search attributes: they are registered when it answers
	dir     string
	cancel  func() // calls off the removal of a temporary dir when we die; nil for a kept one
	lock    *os.File
	usual   *os.File // the right to the usual ports; nil without it
	server  *Child
}

// The ports a server with a Web UI takes when they are free, so that bookmarks and the CLI's
// defaults work.
const (
	usualPort   = 7233
	usualUIPort = 8233
)

// settings are the dynamic configuration of every server started here.
var settings = []struct {
	name  string
	value int
}{
	// One machine is the whole load here: the limits meant to share a cluster only get in the way.
	{"frontend.namespaceRPS", 100_000},
	{"frontend.rps", 100_000},
	{"frontend.namespaceRPS.visibility", 1000},
	{"frontend.namespaceCount", 20_000}, // long polls of many test workers
	// With several partitions a task may wait in one that no worker polls at the moment.
	{"matching.numTaskqueueReadPartitions", 1},
	{"matching.numTaskqueueWritePartitions", 1},
}

// StartTemporal returns a server that answers: the one TEMPORAL_ADDRESS names, else a development
// server of the Temporal CLI, or the production server if it is to work on Postgres.
func StartTemporal(ctx context.Context, options TemporalOptions) (*Temporal, error) {
	if address := os.Getenv("TEMPORAL_ADDRESS"); address != "" {
		sayf(options.Progress, "temporal: using TEMPORAL_ADDRESS %s", address)
		return &Temporal{Address: address}, registerAtNamedServer(ctx)
	}
	t := new(Temporal)
	prepare := t.prepareDevelopment
	if options.Postgres != nil {
		prepare = t.prepareProduction
	}
	if err := prepare(ctx, options); err != nil {
		return nil, errors.Join(fmt.Errorf("temporal: %w", err), t.Stop())
	}
	sayf(options.Progress, "temporal: using %s at %s", t.program, t.Address)
	if err := t.start(ctx); err != nil {
		return nil, errors.Join(err, t.Stop())
	}
	return t, nil
}

// temporaryDir is for what a server leaves while it runs.
func (t *Temporal) temporaryDir() (err error) {
	if t.dir, err = os.MkdirTemp("", "toolpark-"); err != nil {
		return err
	}
	t.cancel, err = watchdog.Start(nil, removeScript, t.dir)
	return err
}

// prepareDevelopment decides where a development server keeps its state, where it listens, and what it is told.
func (t *Temporal) prepareDevelopment(ctx context.Context, options TemporalOptions) (err error) {
	if t.program, err = findTemporalCLI(ctx, options.Progress); err != nil {
		return err
	}
	if options.Dir == "" {
		err = t.temporaryDir()
	} else {
		t.dir = options.Dir
		err = os.MkdirAll(t.dir, 0o700)
	}
	if err != nil {
		return err
	}
	if t.lock, err = lockDir(ctx, t.dir, stopWait, options.Progress); err != nil {
		return err
	}
	if options.WebUI {
		t.usual = lockUsualPorts(ctx)
	}
	port, err := freePort(usualPort, t.usual != nil)
	if err != nil {
		return err
	}
	t.Address = net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	t.args = []string{
		"server", "start-dev", "--ip", "127.0.0.1", "--port", strconv.Itoa(port),
		"--log-level", "warn",
	}
	for _, s := range settings {
		t.args = append(t.args, "--dynamic-config-value", fmt.Sprintf("%s=%d", s.name, s.value))
	}
	for _, attribute := range visibility.Attributes() {
		t.args = append(t.args, "--search-attribute", attribute.GetName()+"="+attribute.GetValueType().String())
	}
	if options.Dir != "" {
		t.args = append(t.args, "--db-filename", filepath.Join(t.dir, "temporal.db"),
			// A killed server loses nothing; a crash of the whole machine may lose the last moments.
			"--sqlite-pragma", "journal_mode=wal", "--sqlite-pragma", "synchronous=normal")
	}
	if !options.WebUI {
		t.args = append(t.args, "--headless")
		return nil
	}
	uiPort, err := freePort(usualUIPort, t.usual != nil)
	if err != nil {
		return err
	}
	t.args = append(t.args, "--ui-port", strconv.Itoa(uiPort))
	t.WebUI = "http://localhost:" + strconv.Itoa(uiPort)
	return nil
}

// Stop ends the server for good. A server that was not started here is left alone.
func (t *Temporal) Stop() error {
	if t.server != nil {
		t.server.Stop(syscall.SIGTERM)
	}
	for _, lock := range []*os.File{t.lock, t.usual} {
		if lock != nil {
			lock.Close()
		}
	}
	if t.cancel == nil {
		return nil
	}
	defer t.cancel()
	return os.RemoveAll(t.dir)
}

// Kill ends the server as a crash would. Restart brings it back.
func (t *Temporal) Kill() error {
	if t.server == nil {
		return errNotOurs
	}
	t.server.Kill()
	return nil
}

// Restart starts the server again at the same address, after stopping it if it runs.
func (t *Temporal) Restart(ctx context.Context) error {
	if t.server == nil {
		return errNotOurs
	}
	t.server.Stop(syscall.SIGTERM)
	return t.start(ctx)
}

// Pause freezes the server: connections stay open and nothing answers, until Resume.
func (t *Temporal) Pause() error { return t.signal(syscall.SIGSTOP) }

// Resume ends a Pause.
func (t *Temporal) Resume() error { return t.signal(syscall.SIGCONT) }

func (t *Temporal) signal(s syscall.Signal) error {
	if t.server == nil {
		return errNotOurs
	}
	t.server.Signal(s)
	return nil
}

// start runs the server and waits until it knows the search attributes. The server picks more
// ports for itself, which another program may take first: it is then tried again.
func (t *Temporal) start(ctx context.Context) error {
	const attempts = 3
	for attempt := 1; ; attempt++ {
		// Whoever took our port meanwhile would be mistaken for the server.
		if err := awaitFree(ctx, t.Address); err != nil {
			return fmt.Errorf("temporal: %w", err)
		}
		server, err := StartChild(exec.Command(t.program, t.args...), filepath.Join(t.dir, "temporal.log"), syscall.SIGTERM, t.lock)
		if err != nil {
			return fmt.Errorf("temporal: %w", err)
		}
		t.server = server
		err = t.await(ctx)
		if err == nil || server.Running() || attempt == attempts {
			return err
		}
	}
}

// await waits until the server answers with all search attributes, at most a minute.
func (t *Temporal) await(ctx context.Context) error {
	ctx, stop := context.WithTimeout(ctx, time.Minute)
	defer stop()
	for {
		err := t.ready(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-t.server.exited:
			return fmt.Errorf("temporal: %w", t.server.Failure())
		case <-ctx.Done():
			return fmt.Errorf("temporal does not answer: %w\n%s", err, tail(t.server.logFile, 2000))
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// ready tells why the server cannot be used yet.
func (t *Temporal) ready(ctx context.Context) error {
	ctx, stop := context.WithTimeout(ctx, 5*time.Second)
	defer stop()
	c, err := client.DialContext(ctx, client.Options{HostPort: t.Address, Logger: silent{}})
	if err != nil {
		return err
	}
	defer c.Close()
	if t.bare {
		if err := registerNamespace(ctx, c); err != nil {
			return err
		}
	}
	missing, err := visibility.Missing(ctx, c, client.DefaultNamespace)
	if err == nil && len(missing) > 0 {
		err = fmt.Errorf("search attributes are missing: %v", missing)
	}
	return err
}

// registerAtNamedServer registers our search attributes at the server and in the namespace that the
// standard TEMPORAL_… variables name.
func registerAtNamedServer(ctx context.Context) error {
	ctx, stop := context.WithTimeout(ctx, time.Minute)
	defer stop()
	options, err := envconfig.LoadDefaultClientOptions()
	if err != nil {
		return fmt.Errorf("temporal: %w", err)
	}
	options.Logger = silent{}
	c, err := client.DialContext(ctx, options)
	if err != nil {
		return fmt.Errorf("temporal: connect to TEMPORAL_ADDRESS: %w", err)
	}
	defer c.Close()
	return visibility.Register(ctx, c, cmp.Or(options.Namespace, client.DefaultNamespace))
}

// silent drops the client's log: failed connections are expected while a server starts.
type silent struct{}

func (silent) Debug(string, ...any) {}
func (silent) Info(string, ...any)  {}
func (silent) Warn(string, ...any)  {}
func (silent) Error(string, ...any) {}

// lockUsualPorts takes the right to the usual ports, and returns nil if another program has it. Two
// servers that start at once would both find the ports free, and the slower one would be taken for
// the faster.
func lockUsualPorts(ctx context.Context) *os.File {
	dir := filepath.Join(os.TempDir(), "toolpark-ports-"+strconv.Itoa(os.Getuid()))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil
	}
	lock, err := lockDir(ctx, dir, 0, nil)
	if err != nil {
		return nil
	}
	return lock
}

// Ports are taken below those that the system hands out for outgoing connections, which come and go: one
// of them could be taken between finding it free and the server's start, or while the server is down.
const (
	firstPort = 20000
	lastPort  = 32000
)

// freePort returns a port nobody listens on: the usual one, if it is wanted and free, else any.
func freePort(usual int, wantUsual bool) (int, error) {
	if wantUsual && awaitFree(context.Background(), fmt.Sprintf("127.0.0.1:%d", usual)) == nil {
		return usual, nil
	}
	var err error
	for range 100 {
		port := firstPort + rand.N(lastPort-firstPort)
		if err = checkFree(fmt.Sprintf("127.0.0.1:%d", port)); err == nil {
			return port, nil
		}
	}
	return 0, fmt.Errorf("find a free port: %w", err)
}

// awaitFree waits until nobody listens at an address, for two seconds at most. A child that was forked while
// the address was probed holds the probe's listener until it has become another program.
func awaitFree(ctx context.Context, address string) error {
	ctx, stop := context.WithTimeout(ctx, 2*time.Second)
	defer stop()
	for {
		err := checkFree(address)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// checkFree tells whether somebody listens at an address.
func checkFree(address string) error {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	return listener.Close()
}
