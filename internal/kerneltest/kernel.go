// Package kerneltest runs Toolpark's server side inside a test: the true router and the true worker,
// over a Postgres database and a Temporal task queue of the test's own.
package kerneltest

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"

	"github.com/toolpark/toolpark/api"
	"github.com/toolpark/toolpark/api/apitest"
	"github.com/toolpark/toolpark/internal/devstack/devtest"
	"github.com/toolpark/toolpark/internal/kernel"
	"github.com/toolpark/toolpark/internal/park"
)

const connections = 10

// Kernel is a running API over a database and a task queue. Its worker runs when StartWorker says so.
type Kernel struct {
	*kernel.Kernel
	T        testing.TB
	URL      string
	HTTP     *http.Client // every exchange is held to the OpenAPI document
	Coverage *apitest.Coverage
	Database string
	Queue    string
	Log      *slog.Logger

	config kernel.Config
	api    *api.Server
}

// Start runs an API and a worker.
func Start(t testing.TB) *Kernel {
	t.Helper()
	k := StartAPI(t)
	k.StartWorker()
	return k
}

// StartAPI runs an API without a worker: what is staged waits.
func StartAPI(t testing.TB) *Kernel {
	t.Helper()
	return open(t, kernel.Config{
		DatabaseURL: devtest.Database(t),
		Connections: connections,
		Temporal:    client.Options{HostPort: devtest.Temporal(t)},
		TaskQueue:   devtest.TaskQueue(t),
		Tokens:      park.Tokens{Secret: []byte("a secret of a test of 32 bytes..")},
		Log:         slog.New(slog.NewTextHandler(testLog{t}, &slog.HandlerOptions{Level: slog.LevelWarn})),
	})
}

// Another runs one more API process over the same database and queue, with a changed configuration if
// the test needs one.
func (k *Kernel) Another(t testing.TB, changes ...func(*kernel.Config)) *Kernel {
	t.Helper()
	config := k.config
	for _, change := range changes {
		change(&config)
	}
	return open(t, config)
}

// Drain answers every long poll at once, now and from now on, as when a process shuts down.
func (k *Kernel) Drain() { k.api.Drain() }

func open(t testing.TB, config kernel.Config) *Kernel {
	t.Helper()
	opened, err := kernel.Open(t.Context(), config)
	require.NoError(t, err)
	t.Cleanup(opened.Close)
	k := &Kernel{
		Kernel: opened, T: t, Database: config.DatabaseURL, Queue: config.TaskQueue, Log: config.Log,
		config: config, api: opened.API(),
	}
	k.api.VerdictWait = Patience // a busy machine may take its time; what is to be pending asks an API that drains
	listener := httptest.NewServer(k.api.Handler())
	t.Cleanup(listener.Close)
	t.Cleanup(k.api.Drain)
	k.URL = listener.URL
	base := http.DefaultTransport.(*http.Transport).Clone()
	base.MaxIdleConnsPerHost = 100
	t.Cleanup(base.CloseIdleConnections)
	validator := apitest.NewValidator(t)
	k.Coverage = validator.Coverage
	k.HTTP = &http.Client{Transport: validator.Transport(base)}
	return k
}

// StartWorker runs a worker until the test ends, or until the function it returns is called.
func (k *Kernel) StartWorker() (stop func()) {
	k.T.Helper()
	w := k.Worker()
	return background(k.T, func(ctx context.Context) {
		if err := w.Run(ctx); err != nil {
			k.T.Errorf("worker: %v", err)
		}
	})
}

// background runs something until the test ends or stop is called; both wait for its end.
func background(t testing.TB, run func(context.Context)) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var wait sync.WaitGroup
	wait.Go(func() { run(ctx) })
	stop = func() {
		cancel()
		wait.Wait()
	}
	t.Cleanup(stop)
	return stop
}

type testLog struct{ t testing.TB }

func (l testLog) Write(p []byte) (int, error) {
	l.t.Logf("%s", p)
	return len(p), nil
}
