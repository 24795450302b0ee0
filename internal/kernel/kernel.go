// Package kernel wires Toolpark's server side: what the API and the worker share, and the two
// themselves. Processes choose which of them they run.
package kernel

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/log"

	"github.com/toolpark/toolpark/api"
	"github.com/toolpark/toolpark/internal/notify"
	"github.com/toolpark/toolpark/internal/park"
	"github.com/toolpark/toolpark/internal/postgres"
	"github.com/toolpark/toolpark/schema"
	"github.com/toolpark/toolpark/worker"
	"github.com/toolpark/toolpark/workflows"
)

// compiledSchemas is how many compiled JSON Schemas one process keeps.
const compiledSchemas = 4096

// Config says what a kernel runs on.
type Config struct {
	DatabaseURL string
	Connections int32          // the size of the database pool
	Temporal    client.Options // where the Temporal server is
	TaskQueue   string         // shared by all API and worker processes
	Tokens      park.Tokens    // only the API needs them
	Log         *slog.Logger
}

// Kernel is the database, the hub that wakes waiters, the park, and the way to Temporal.
type Kernel struct {
	DB       *postgres.DB
	Hub      *notify.Hub
	Park     *park.Park
	Temporal client.Client
	Delivery *workflows.Delivery

	config Config
	stop   func()
}

// Open opens everything without connecting: a process may start before what it depends on.
func Open(ctx context.Context, c Config) (*Kernel, error) {
	if c.Temporal.Namespace == "" {
		c.Temporal.Namespace = client.DefaultNamespace
	}
	c.Temporal.Logger = log.NewStructuredLogger(c.Log)
	// Histories carry ids and states: compressing these small messages costs both ends more than it saves.
	c.Temporal.ConnectionOptions.GrpcCompression = &client.GrpcCompressionNone{}
	temporal, err := client.NewLazyClient(c.Temporal)
	if err != nil {
		return nil, fmt.Errorf("use Temporal's settings: %w", err)
	}
	db, err := postgres.Open(ctx, c.DatabaseURL, c.Connections)
	if err != nil {
		temporal.Close()
		return nil, err
	}
	hub := notify.NewHub(c.Log, db.Recheck)
	listening, stopHub := context.WithCancel(context.WithoutCancel(ctx))
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		if err := hub.Run(listening, db.Pool); err != nil {
			c.Log.Error("the hub stopped; waiters recheck no more", "error", err)
		}
	}()
	k := &Kernel{
		DB: db, Hub: hub, Temporal: temporal, config: c,
		Park:     &park.Park{DB: db, Hub: hub, Schemas: schema.NewCache(compiledSchemas), Tokens: c.Tokens},
		Delivery: workflows.NewDelivery(temporal, c.TaskQueue, db, c.Log),
	}
	k.stop = func() {
		k.Delivery.Close()
		stopHub()
		<-stopped
		db.Close()
		temporal.Close()
	}
	return k, nil
}

// Close waits for what is under way and closes all connections. Stop the API and the worker first.
func (k *Kernel) Close() { k.stop() }

// API is the HTTP API over the kernel.
func (k *Kernel) API() *api.Server {
	metrics := prometheus.NewRegistry()
	metrics.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return &api.Server{
		DB: k.DB, Park: k.Park, Delivery: k.Delivery, Log: k.config.Log, Metrics: metrics,
		Temporal: func(ctx context.Context) error {
			_, err := k.Temporal.CheckHealth(ctx, &client.CheckHealthRequest{})
			return err
		},
	}
}

// Worker is the Temporal worker over the kernel.
func (k *Kernel) Worker() *worker.Worker {
	return &worker.Worker{
		Client: k.Temporal, Namespace: k.config.Temporal.Namespace, Queue: k.config.TaskQueue, Park: k.Park,
		Delivery: k.Delivery, Log: k.config.Log, Connections: int(k.config.Connections),
	}
}
