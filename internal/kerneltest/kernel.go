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

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/log"

	"github.com/toolpark/toolpark/api"
	"github.com/toolpark/toolpark/api/apitest"
	"github.com/toolpark/toolpark/internal/devstack/devtest"
	"github.com/toolpark/toolpark/internal/notify"
	"github.com/toolpark/toolpark/internal/park"
	"github.com/toolpark/toolpark/internal/postgres"
	"github.com/toolpark/toolpark/schema"
	"github.com/toolpark/toolpark/worker"
	"github.com/toolpark/toolpark/workflows"
)

const connections = 10

// Kernel is a running API over a database and a task queue. Its worker runs when StartWorker says so.
type Kernel struct {
	T        testing.TB
	URL      string
	HTTP     *http.Client // every exchange is held to the OpenAPI document
	DB       *postgres.DB
	Database string
	Hub      *notify.Hub
	Park     *park.Park
	Temporal client.Client
	Queue    string
	Delivery *workflows.Delivery
	Log      *slog.Logger
	Secret   []byte

	API *api.Server
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
	address := devtest.Temporal(t)
	k := &Kernel{
		T: t, Database: devtest.Database(t), Queue: devtest.TaskQueue(t), Secret: []byte("a secret of a test of 32 bytes.."),
		Log: slog.New(slog.NewTextHandler(testLog{t}, &slog.HandlerOptions{Level: slog.LevelWarn})),
	}
	var err error
	k.Temporal, err = client.Dial(client.Options{HostPort: address, Logger: log.NewStructuredLogger(k.Log)})
	require.NoError(t, err)
	t.Cleanup(k.Temporal.Close)
	k.open(t)
	return k
}

// Another runs one more API process over the same database and queue.
func (k *Kernel) Another(t testing.TB) *Kernel {
	t.Helper()
	other := &Kernel{T: t, Database: k.Database, Queue: k.Queue, Secret: k.Secret, Log: k.Log, Temporal: k.Temporal}
	other.open(t)
	return other
}

func (k *Kernel) open(t testing.TB) {
	t.Helper()
	var err error
	k.DB, err = postgres.Open(t.Context(), k.Database, connections)
	require.NoError(t, err)
	t.Cleanup(k.DB.Close)
	k.Hub = notify.NewHub(k.Log, k.DB.Recheck)
	background(t, func(ctx context.Context) { _ = k.Hub.Run(ctx, k.DB.Pool) })
	k.Park = &park.Park{DB: k.DB, Hub: k.Hub, Schemas: schema.NewCache(256), Tokens: park.Tokens{Secret: k.Secret}}
	k.Delivery = workflows.NewDelivery(k.Temporal, k.Queue, k.Log)
	t.Cleanup(k.Delivery.Close)
	k.API = &api.Server{
		DB: k.DB, Park: k.Park, Delivery: k.Delivery, Log: k.Log, Metrics: prometheus.NewRegistry(),
		Temporal: func(ctx context.Context) error {
			_, err := k.Temporal.CheckHealth(ctx, &client.CheckHealthRequest{})
			return err
		},
	}
	listener := httptest.NewServer(k.API.Handler())
	t.Cleanup(listener.Close)
	t.Cleanup(k.API.Drain)
	k.URL = listener.URL
	base := http.DefaultTransport.(*http.Transport).Clone()
	base.MaxIdleConnsPerHost = 100
	t.Cleanup(base.CloseIdleConnections)
	k.HTTP = &http.Client{Transport: apitest.NewValidator(t).Transport(base)}
}

// StartWorker runs a worker until the test ends, or until the function it returns is called.
func (k *Kernel) StartWorker() (stop func()) {
	k.T.Helper()
	w := &worker.Worker{
		Client: k.Temporal, Namespace: client.DefaultNamespace, Queue: k.Queue, Park: k.Park, Delivery: k.Delivery,
		Log: k.Log, Connections: connections,
	}
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
